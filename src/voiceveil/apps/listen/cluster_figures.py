"""The figures of the clustering test: group means (Figure 18), densities and cumulative shares (Figure 19).

Conventions: as in :mod:`voiceveil.report.svg`; curves have the classes of the page, in the order of their groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from voiceveil.apps.listen.cluster_effects import GroupMean
from voiceveil.apps.listen.figures import density
from voiceveil.report.svg import Axis, grid, shorten, svg, text

__all__ = ["cumulative_svg", "densities_svg", "means_svg"]

Floats = NDArray[np.float64]
_FRAME = (58.0, 14.0, 408.0, 264.0)
_STEPS = 120


def means_svg(groups: Sequence[GroupMean], title: str, axis: str) -> str:
    """Return the means of groups as diamonds, with their standard errors as vertical lines.

    Parameters
    ----------
    groups
        In the order of the figure. Two groups that differ with p < 0.05 or 0.01 are joined by a line with * or **.
    title, axis
        Description for screen readers, and title of the vertical axis.
    """
    left, top, _, bottom = _FRAME
    column = 84.0 if len(groups) <= 4 else max(46.0, 400.0 / len(groups))
    right = left + column * len(groups) + 6
    ends = [group.mean + sign * group.error for group in groups for sign in (-1, 1)]
    y = _axis(min([*ends, 0.0]), max([*ends, 0.0]), bottom, top + 22)
    parts = list(grid(lambda _: 0.0, y, (left, top, right, bottom), ((), y.ticks()), ("", axis)))
    parts.append(f'<path class="equal" d="M{left:g} {y(0.0):.1f}H{right:g}"/>')
    for number, group in enumerate(groups):
        x, middle = left + column * (number + 0.5) + 3, y(group.mean)
        low, high = y(group.mean - group.error), y(group.mean + group.error)
        tip = f"{group.name}: {group.mean:.3f} ± {group.error:.3f} (standard error), {group.count} evaluators"
        mark = f'<path class="mark k-main" d="M{x:.1f} {middle - 6:.1f}l6 6l-6 6l-6 -6z"/>'
        parts.append(f'<path class="range k-main" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
        parts.append(f"<g><title>{text(tip)}</title>{mark}</g>")
        for line, part in enumerate(group.name.split(", ")):
            label = text(shorten(part, max(4, int(column / 7))))
            parts.append(f'<text x="{x:.1f}" y="{bottom + 18 + 15 * line:g}" text-anchor="middle">{label}</text>')
    p = groups[0].p if len(groups) == 2 else None
    if p is not None and p < 0.05:
        first, second = left + column / 2 + 3, left + 1.5 * column + 3
        parts.append(f'<path class="axis" d="M{first:.1f} {top + 14:g}V{top + 9:g}H{second:.1f}V{top + 14:g}"/>')
        star = "**" if p < 0.01 else "*"
        parts.append(f'<text x="{(first + second) / 2:.1f}" y="{top + 7:g}" text-anchor="middle">{star}</text>')
    lines = max(len(group.name.split(", ")) for group in groups)
    return svg(right + 8, bottom + 12 + 15 * lines, title, parts)


def densities_svg(groups: Mapping[str, Floats], title: str, axis: str) -> str:
    """Return the density of each group's values (n,), from 0 to 1, as a curve."""
    left, top, right, bottom = _FRAME
    at = np.linspace(0.0, 1.0, _STEPS)
    curves = {name: density(values, at) for name, values in groups.items()}
    x = Axis(0.0, 1.0, 0.2, left, right)
    y = _axis(0.0, max(float(curve.max()) for curve in curves.values()), bottom, top)
    parts = list(grid(x, y, _FRAME, (x.ticks(), y.ticks()), (axis, "density")))
    parts += [_curve(name, at, curve, number, (x, y)) for number, (name, curve) in enumerate(curves.items())]
    return svg(right + 12, bottom + 44, title, parts)


def cumulative_svg(groups: Mapping[str, Floats], title: str, axis: str) -> str:
    """Return the share of each group's values (n,), from 0 to 1, that are not above a value."""
    left, top, right, bottom = _FRAME
    x, y = Axis(0.0, 1.0, 0.2, left, right), Axis(0.0, 1.0, 0.2, bottom, top)
    parts = list(grid(x, y, _FRAME, (x.ticks(), y.ticks()), (axis, "share of panels")))
    for number, (name, values) in enumerate(groups.items()):
        ordered = np.sort(values)
        at = np.concatenate([[0.0], np.repeat(ordered, 2), [1.0]])
        share = np.repeat(np.arange(len(ordered) + 1) / len(ordered), 2)
        parts.append(_curve(name, at, share, number, (x, y)))
    return svg(right + 12, bottom + 44, title, parts)


def _curve(name: str, at: Floats, values: Floats, number: int, axes: tuple[Axis, Axis]) -> str:
    x, y = axes
    path = "L".join(f"{x(float(a)):.1f} {y(float(v)):.1f}" for a, v in zip(at, values, strict=True))
    return f'<g><title>{text(name)}</title><path class="curve s{number % 10}" d="M{path}"/></g>'


def _axis(low: float, high: float, start: float, end: float) -> Axis:
    """Return an axis at round numbers, at most eight steps, that holds both values and is at least 0.01 long."""
    high = max(high, low + 0.01)
    step = next(s for k in range(-3, 9) for s in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if (high - low) / s <= 7)
    return Axis(step * np.floor(low / step), step * np.ceil(high / step), step, start, end)
