"""The figures of a listening test: violins (Figure 16), objective against subjective scores (Figures 20 and 21).

Conventions: as in :mod:`voiceveil.report.svg`. A violin is a Gaussian kernel density (Scott's bandwidth, 0.02 or more),
mirrored, between the smallest and the largest rating; all violins of a figure have the same width at their fullest. The
white dot is the median, the number below the mean; the dotted line is the median of the first system, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.report.svg import Axis, Box, grid, place_names, scale, shorten, svg, text

__all__ = ["ScatterPoint", "density", "scatter_svg", "violins_svg"]

Floats = NDArray[np.float64]
_HEIGHT, _TOP, _BOTTOM, _LEFT = 300.0, 12.0, 232.0, 46.0
_STEPS = 80


def density(values: Floats, at: Floats) -> Floats:
    """Return the Gaussian kernel density of values at ``at``; Scott's bandwidth s n^(-1/5), at least 0.02."""
    width = max(float(values.std(ddof=1)) * len(values) ** -0.2 if len(values) > 1 else 0.0, 0.02)
    apart = (at[:, None] - values[None, :]) / width
    return np.asarray(np.exp(-0.5 * apart**2).sum(axis=1) / (len(values) * width * np.sqrt(2 * np.pi)))


def violins_svg(
    groups: Mapping[str, Floats], title: str, axis: str, *, reference: str | None = None, high: float = 1.0
) -> str:
    """Return a figure with a violin for each group.

    Parameters
    ----------
    groups
        Name -> values (n,) from 0 to ``high``, in the order of the figure.
    title
        Description of the figure for screen readers.
    axis
        Title of the vertical axis.
    reference
        Group whose median is drawn as a dotted line.
    high
        Upper end of the axis.
    """
    column = 74.0 if len(groups) <= 5 else max(44.0, 400.0 / len(groups))
    right = _LEFT + column * len(groups) + 6
    y = Axis(0.0, high, high / 5, _BOTTOM, _TOP)
    frame = (_LEFT, _TOP, right, _BOTTOM)
    parts = list(grid(lambda _: 0.0, y, frame, ((), y.ticks()), ("", axis)))
    if reference in groups:
        line = y(float(np.median(groups[str(reference)])))
        parts.append(f'<path class="equal" d="M{_LEFT:g} {line:.1f}H{right:g}"/>')
    for number, (name, values) in enumerate(groups.items()):
        middle = _LEFT + column * (number + 0.5) + 3
        parts.append(_violin(values, middle, 0.42 * column, y, number))
        label = shorten(name, max(4, int(column / 7)))
        tip = f"{name}: {len(values)} values, median {np.median(values):.2f}, mean {values.mean():.2f}"
        dot = f'<circle class="median" cx="{middle:.1f}" cy="{y(float(np.median(values))):.1f}" r="3.5"/>'
        parts.append(f"<g><title>{text(tip)}</title>{dot}</g>")
        parts.append(f'<text x="{middle:.1f}" y="{_BOTTOM + 18:g}" text-anchor="middle">{text(label)}</text>')
        mean = f"{values.mean():.2f}"
        parts.append(f'<text class="dim" x="{middle:.1f}" y="{_BOTTOM + 35:g}" text-anchor="middle">{mean}</text>')
    return svg(right + 8, _HEIGHT - 24, title, parts)


def _violin(values: Floats, middle: float, half: float, y: Axis, number: int) -> str:
    at = np.linspace(float(values.min()), float(values.max()), _STEPS)
    width = density(values, at)
    width = half * width / width.max()
    right = [f"{middle + w:.1f} {y(float(v)):.1f}" for v, w in zip(at, width, strict=True)]
    left = [f"{middle - w:.1f} {y(float(v)):.1f}" for v, w in zip(at[::-1], width[::-1], strict=True)]
    return f'<path class="violin v{number % 10}" d="M{"L".join(right + left)}z"/>'


@dataclass(frozen=True)
class ScatterPoint:
    """A system: an objective figure across, a subjective one upward, each with its interval or none."""

    name: str
    x: float
    y: float
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    original: bool = False


def scatter_svg(points: Sequence[ScatterPoint], title: str, titles: tuple[str, str]) -> str:
    """Points with their intervals and names; a triangle is original speech. x is a rate, shown in percent."""
    width, height, frame = 420.0, 330.0, (50.0, 12.0, 408.0, 284.0)
    left, top, right, bottom = frame
    across = [100 * value for p in points for value in (p.x, *(p.x_range or ()))]
    x = scale(across, left, right, from_zero=True, most=6)
    y = Axis(0.0, 1.0, 0.2, bottom, top)
    parts = list(grid(x, y, frame, (x.ticks(), y.ticks()), titles))
    named: list[tuple[str, Box]] = []
    for point in points:
        kind = "k-original" if point.original else "k-main"
        cx, cy = x(100 * point.x), y(point.y)
        if point.x_range is not None:
            low, high = (x(100 * end) for end in point.x_range)
            parts.append(f'<path class="range {kind}" d="M{low:.1f} {cy:.1f}H{high:.1f}"/>')
        if point.y_range is not None:
            low, high = (y(end) for end in point.y_range)
            parts.append(f'<path class="range {kind}" d="M{cx:.1f} {low:.1f}V{high:.1f}"/>')
        shape = (
            f"M{cx:.1f} {cy - 6:.1f}l6 12h-12z"
            if point.original
            else f"M{cx - 5:.1f} {cy:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"
        )
        tip = f"{point.name}: {100 * point.x:.1f}%, {point.y:.2f}"
        parts.append(f'<g><title>{text(tip)}</title><path class="mark {kind}" d="{shape}"/></g>')
        named.append((shorten(point.name, 20), (cx - 6, cy - 6, cx + 6, cy + 6)))
    parts += place_names(named, [], frame)
    return svg(width, height, title, parts)
