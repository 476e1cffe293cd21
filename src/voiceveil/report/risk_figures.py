"""Figure 1 of the legal paper: a rate against the number of speakers, a curve for each attacker.

Conventions: pixels, y downward; N is logarithmic. Bands are 95% intervals, the dashed gray line is chance, thin dotted
lines beyond the last point are extrapolations. Whiskers show the interval of each point as well, as a curve may have
one point only. Faint lines are the paper's own curves, of other data, clipped to the measured range. Each curve can be
told by its color alone and by its dash pattern alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from voiceveil.report.svg import Axis, grid, svg, text
from voiceveil.risk.curves import Curve
from voiceveil.risk.extrapolation import Extrapolation
from voiceveil.risk.paper_points import PaperCurve, paper_curves

__all__ = ["STYLES", "risk_svg"]

_WIDTH, _HEIGHT, _FRAME = 330.0, 268.0, (46.0, 10.0, 320.0, 222.0)

#: Attacker -> number of the line style.
STYLES = {"original": 1, "informed": 3, "semi-informed": 2, "ignorant": 4}


def risk_svg(curves: Sequence[Curve], growth: Sequence[Extrapolation], title: str) -> str:
    """Return one panel as SVG.

    Parameters
    ----------
    curves
        Curves of one metric and one conversation length.
    growth
        Extrapolations of these curves to more speakers.
    title
        Description of the figure for screen readers.
    """
    left, top, right, bottom = _FRAME
    sizes = [size for curve in curves for size in curve.sizes] + [point.speakers for point in growth]
    low, high = math.log10(min(sizes)), math.log10(max(sizes))
    if high - low < 0.2:
        low, high = low - 0.1, high + 0.1
    across = Axis(low, high, 1.0, left, right)
    y = Axis(0.0, 100.0, 20.0, bottom, top)

    def x(size: float) -> float:
        return across(math.log10(size))

    name = "test speakers N" if curves[0].metric == "singling_out" else "enrolled speakers N'"
    titles = (name, "%")
    parts = list(grid(x, y, _FRAME, (_ticks(low, high, sizes), y.ticks()), titles, _count))
    # Chance of Singling Out is that of each attacker's own scores: the highest is what an attack must beat.
    highest = [max(float(c.chance[at]) for c in curves) for at in range(len(curves[0].sizes))]
    parts.append(_path("equal", [(x(n), y(100 * c)) for n, c in zip(curves[0].sizes, highest, strict=True)]))
    for published in paper_curves():
        same_panel = (published.metric, published.length) == (curves[0].metric, curves[0].length)
        if same_panel and (line := _clipped(published, min(sizes), max(sizes))):
            style = STYLES[published.attacker]
            parts.append(_path(f"curve paper s{style}", [(x(n), y(100 * v)) for n, v in line]))
    for curve in curves:
        parts.append(_band(curve, x, y))
    for curve in curves:
        style = STYLES.get(curve.attacker, 5)
        points = [(x(n), y(100 * v)) for n, v in zip(curve.sizes, curve.value, strict=True)]
        parts.append(_path(f"curve s{style}", points))
        for (a, b), n, v, low_, high_ in zip(points, curve.sizes, curve.value, curve.low, curve.high, strict=True):
            parts.append(f'<path class="whisker s{style}" d="M{a:.1f} {y(100 * low_):.1f}V{y(100 * high_):.1f}"/>')
            tip = f"{curve.attacker}, N = {n:,}: {100 * v:.1f}% [{100 * low_:.1f}, {100 * high_:.1f}]"
            parts.append(
                f'<circle class="eer s{style}" cx="{a:.1f}" cy="{b:.1f}" r="3"><title>{text(tip)}</title></circle>'
            )
        beyond = [(x(point.speakers), y(100 * point.value)) for point in growth if point.attacker == curve.attacker]
        if beyond:
            parts.append(_path(f"ahead s{style}", [points[-1], *beyond]))
    return svg(_WIDTH, _HEIGHT, title, parts)


def _clipped(curve: PaperCurve, low: int, high: int) -> list[tuple[float, float]]:
    """Return the points (N, rate) from ``low`` to ``high``, with interpolated ends; none if the curve is elsewhere."""
    first, last = max(low, curve.sizes[0]), min(high, curve.sizes[-1])
    if first >= last:
        return []
    inner = [float(size) for size in curve.sizes if first < size < last]
    sizes = np.array([first, *inner, last], dtype=np.float64)
    rates = np.interp(np.log(sizes), np.log(curve.sizes), curve.value)
    return list(zip(sizes.tolist(), rates.tolist(), strict=True))


def _count(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _ticks(low: float, high: float, sizes: Sequence[int]) -> list[float]:
    """Return at most six round numbers of speakers; if fewer than three fit, the measured numbers."""
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [
            float(step * 10**power)
            for power in range(math.floor(low), math.ceil(high) + 1)
            for step in steps
            if low - 1e-9 <= math.log10(step * 10**power) <= high + 1e-9
        ]
        if len(ticks) <= 6:
            break
    return ticks if len(ticks) > 2 else [float(size) for size in sorted(set(sizes))]


def _path(style: str, points: Sequence[tuple[float, float]]) -> str:
    return f'<path class="{style}" d="M' + "L".join(f"{a:.1f} {b:.1f}" for a, b in points) + '"/>'


def _band(curve: Curve, place: Callable[[float], float], y: Axis) -> str:
    upper = [(place(n), y(100 * v)) for n, v in zip(curve.sizes, curve.high, strict=True)]
    lower = [(place(n), y(100 * v)) for n, v in zip(curve.sizes, curve.low, strict=True)]
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in [*upper, *reversed(lower)]) + "z"
    return f'<path class="band b{STYLES.get(curve.attacker, 5)}" d="{path}"/>'
