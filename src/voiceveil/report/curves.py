"""DET curves: misses against false alarms of each attacker, on axes where normal scores give straight lines.

Conventions: both axes are the probit of a rate, by default from 0.5% to 85%. A curve near the lower left belongs to an
attacker that recognizes people; the descending diagonal through 50% belongs to one that guesses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from voiceveil import metrics
from voiceveil.report.report_data import Scored
from voiceveil.report.svg import grid, svg

__all__ = ["det_figure", "det_svg"]

_WIDTH, _HEIGHT, _FRAME = 380.0, 378.0, (50.0, 12.0, 368.0, 330.0)
_TICKS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
_LOW, _HIGH = 0.005, 0.85


_TITLES = ("false alarms (%): another person accepted", "misses (%): the person not recognized")


def det_svg(scored: Sequence[tuple[int, Scored]], title: str) -> str:
    """Return the DET curves of one set; ``scored`` holds the line style (a number) and the trials of each curve."""
    curves = [(style, metrics.det_curve(*entry.trials.classes()), entry.figure.value) for style, entry in scored]
    return det_figure(curves, title, _TITLES)


def det_figure(
    curves: Sequence[tuple[int, metrics.DetCurve, float]],
    title: str,
    titles: tuple[str, str] = _TITLES,
    low: float = _LOW,
) -> str:
    """Return a figure of DET curves.

    Parameters
    ----------
    curves
        Line style (a number), curve, and EER of each.
    title
        Description of the figure for screen readers.
    titles
        Of the axes: false alarms, misses.
    low
        The rate at which both axes begin.
    """
    left, top, right, bottom = _FRAME
    ends = ndtri(np.array([low, _HIGH]))

    def share(rate: float) -> float:
        return float((ndtri(min(max(rate, low), _HIGH)) - ends[0]) / (ends[1] - ends[0]))

    def x(rate: float) -> float:
        return left + share(rate) * (right - left)

    def y(rate: float) -> float:
        return bottom - share(rate) * (bottom - top)

    ticks = [tick for tick in _TICKS if tick > low]
    parts = list(grid(x, y, _FRAME, (ticks, ticks), titles, lambda rate: f"{100 * rate:g}"))
    parts.append(f'<path class="equal" d="M{x(low):.1f} {y(low):.1f}L{x(_HIGH):.1f} {y(_HIGH):.1f}"/>')
    for style, curve, rate in curves:
        parts.append(f'<path class="curve s{style}" d="{_path(curve.p_fa, curve.p_miss, _FRAME, ends)}"/>')
        parts.append(f'<circle class="eer s{style}" cx="{x(rate):.1f}" cy="{y(rate):.1f}" r="3.5"/>')
    return svg(_WIDTH, _HEIGHT, title, parts)


def _path(p_fa: np.ndarray, p_miss: np.ndarray, frame: tuple[float, float, float, float], ends: np.ndarray) -> str:
    """Return the SVG path of the visible part of a curve, with at most one vertex for each pixel."""
    low = float(ndtr(ends[0])) * (1 - 1e-9)
    inside = (p_fa >= low) & (p_fa <= _HIGH) & (p_miss >= low) & (p_miss <= _HIGH)
    if not inside.any():
        return ""
    left, top, right, bottom = frame
    across, up = ((ndtri(rate[inside]) - ends[0]) / (ends[1] - ends[0]) for rate in (p_fa, p_miss))
    pixels = np.stack([left + across * (right - left), bottom - up * (bottom - top)], axis=1).round()
    keep = np.concatenate([[True], np.abs(np.diff(pixels, axis=0)).sum(axis=1) > 0])
    return "M" + "L".join(f"{a:g} {b:g}" for a, b in pixels[keep])
