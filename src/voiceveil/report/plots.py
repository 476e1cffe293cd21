"""The smaller figures: rates with intervals as dots, similarity matrices, pitch before and after.

Conventions: rates are fractions and shown in percent. Colors and line styles are classes of the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from voiceveil.evaluation.details import Similarity
from voiceveil.report.svg import Axis, grid, scale, shorten, svg, text

__all__ = ["Dot", "correlation_svg", "dots_svg", "pitch_svg", "similarity_svg"]

_LEVELS = 12  # shades of a similarity matrix


@dataclass(frozen=True)
class Dot:
    """A row of a dot plot: a rate, its interval if there is one, and the CSS class of its mark."""

    name: str
    value: float
    low: float | None
    high: float | None
    style: str = "k-main"


def dots_svg(dots: Sequence[Dot], title: str, axis: str) -> str:
    """Return a dot plot of rates, one row each in the given order, with an axis from 0 to at least 50%.

    Parameters
    ----------
    dots
        The rows.
    title
        Description of the figure for screen readers.
    axis
        Title of the horizontal axis.
    """
    return _rows_svg([(dot.name, [dot]) for dot in dots], 19.0, title, axis)


def grouped_dots_svg(groups: Mapping[str, Sequence[Dot]], title: str, axis: str) -> str:
    """Return a dot plot with several dots for each row, below each other, as :func:`dots_svg`.

    Parameters
    ----------
    groups
        Name of a row -> its dots, told apart by their style.
    title, axis
        As of :func:`dots_svg`.
    """
    most = max(len(dots) for dots in groups.values())
    return _rows_svg(list(groups.items()), 11.0 * most + 8, title, axis)


def _rows_svg(rows: Sequence[tuple[str, Sequence[Dot]]], height: float, title: str, axis: str) -> str:
    """Return rows of dots, each ``height`` pixels high."""
    left, right, top = 118.0, 446.0, 8.0
    bottom = top + height * len(rows)
    most = max([50.0, *(100 * _end(dot.high, dot.value) for _, dots in rows for dot in dots)])
    x = Axis(0.0, 10 * math.ceil(most / 10), 10.0, left, right)
    parts = [
        f'<path class="grid" d="M{x(tick):.1f} {top:g}V{bottom:g}"/>'
        f'<text class="dim" x="{x(tick):.1f}" y="{bottom + 16:g}" text-anchor="middle">{tick:g}</text>'
        for tick in x.ticks()
    ]
    parts.append(f'<path class="equal" d="M{x(50):.1f} {top:g}V{bottom:g}"/>')
    parts.append(f'<text x="{(left + right) / 2:g}" y="{bottom + 36:g}" text-anchor="middle">{text(axis)}</text>')
    for number, (name, dots) in enumerate(rows):
        middle = top + height * (number + 0.5)
        parts.append(f'<text x="{left - 8:g}" y="{middle + 4:.1f}" text-anchor="end">{text(shorten(name, 17))}</text>')
        for place, dot in enumerate(dots):
            parts += _dot_parts(dot, x, middle + 11.0 * (place - (len(dots) - 1) / 2))
    return svg(460.0, bottom + 44, title, parts)


def _dot_parts(dot: Dot, x: Axis, y: float) -> Iterator[str]:
    """Yield the interval and the mark of a dot."""
    if dot.low is not None and dot.high is not None and not math.isnan(dot.low):
        ends = f"M{x(100 * dot.low):.1f} {y:.1f}H{x(100 * dot.high):.1f}"
        yield f'<path class="range {dot.style}" d="{ends}"/>'
    tip = f"{dot.name}: {100 * dot.value:.1f}%"
    mark = f'<circle class="mark {dot.style}" cx="{x(100 * dot.value):.1f}" cy="{y:.1f}" r="4.5"/>'
    yield f"<g><title>{text(tip)}</title>{mark}</g>"


def _end(end: float | None, value: float) -> float:
    return value if end is None or math.isnan(end) else end


def similarity_svg(similarity: Similarity, title: str) -> str:
    """Return the composed similarity matrix: M_oo and M_oa above, M_oa transposed and M_aa below.

    As in Figure 13 of the findings of the 2020 challenge. Darker is more similar; shades go from the smallest to the
    largest value of all three matrices.
    """
    oo, oa, aa = (np.array(side) for side in (similarity.oo, similarity.oa, similarity.aa))
    whole = np.block([[oo, oa], [oa.T, aa]])
    low, high = float(whole.min()), float(whole.max())
    shade = np.clip(((whole - low) / max(high - low, 1e-12) * _LEVELS).astype(int), 0, _LEVELS - 1)
    size, start = len(whole), 26.0
    cell = 300.0 / size
    parts = []
    for level in range(_LEVELS):
        cells = np.argwhere(shade == level)
        path = "".join(f"M{column} {row}h1v1h-1z" for row, column in cells.tolist())
        if path:
            transform = f"translate({start:g} {start:g}) scale({cell:.5g})"
            parts.append(
                f'<path class="shade" fill-opacity="{level / (_LEVELS - 1):.2f}" transform="{transform}" d="{path}"/>'
            )
    middle, end = start + 150, start + 300
    parts.append(f'<path class="axis" d="M{middle:g} {start:g}V{end:g}M{start:g} {middle:g}H{end:g}"/>')
    parts.append(f'<rect class="frame" x="{start:g}" y="{start:g}" width="300" height="300"/>')
    for at, word in ((start + 75, "original"), (start + 225, "anonymized")):
        parts.append(f'<text x="{at:g}" y="18" text-anchor="middle">{word}</text>')
        parts.append(f'<text transform="translate(18 {at:g}) rotate(-90)" text-anchor="middle">{word}</text>')
    return svg(334.0, 334.0, title, parts)


def pitch_svg(pairs: Sequence[tuple[float, float]], title: str) -> str:
    """Draw the mean F0 in Hz of each utterance before and after; the diagonal marks unchanged pitch."""
    frame = (50.0, 12.0, 356.0, 318.0)
    values = [value for pair in pairs for value in pair]
    x = scale(values, frame[0], frame[2], from_zero=False, most=6)
    y = Axis(x.low, x.high, x.step, frame[3], frame[1])
    titles = ("mean F0 of the original (Hz)", "mean F0 of the anonymized speech (Hz)")
    parts = list(grid(x, y, frame, (x.ticks(), y.ticks()), titles))
    parts.append(f'<path class="equal" d="M{frame[0]:g} {frame[3]:g}L{frame[2]:g} {frame[1]:g}"/>')
    dots = "".join(f"M{x(a):.0f} {y(b):.0f}h0" for a, b in pairs)
    parts.append(f'<path class="points" d="{dots}"/>')
    return svg(368.0, 362.0, title, parts)


def correlation_svg(correlations: Sequence[float], mean: float, title: str) -> str:
    """Draw a histogram of pitch correlations; a line at their mean, another at 0.3 (the rule of 2022)."""
    frame = (50.0, 24.0, 356.0, 318.0)
    values = np.asarray(correlations)
    low = -1.0 if values.min() < 0 else 0.0
    counts, edges = np.histogram(values, bins=20, range=(low, 1.0))
    x = Axis(low, 1.0, 0.5 if low < 0 else 0.2, frame[0], frame[2])
    y = scale([float(counts.max())], frame[3], frame[1], from_zero=True, most=6)
    titles = ("pitch correlation of an utterance", "utterances")
    parts = list(grid(x, y, frame, (x.ticks(), y.ticks()), titles))
    for count, left, right in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        box = f"M{x(left) + 1:.1f} {frame[3]:g}V{y(count):.1f}H{x(right) - 1:.1f}V{frame[3]:g}z"
        parts.append(f'<path class="bar" d="{box}"/>' if count else "")
    for at, style, name in ((mean, "k-main", f"mean {mean:.2f}"), (0.3, "k-published", "0.3")):
        anchor = "end" if x(at) > frame[2] - 60 else "middle"
        parts.append(f'<path class="range {style}" d="M{x(at):.1f} {frame[1]:g}V{frame[3]:g}"/>')
        if at == mean or abs(x(at) - x(mean)) > 70:
            parts.append(f'<text x="{x(at):.1f}" y="{frame[1] - 6:g}" text-anchor="{anchor}">{text(name)}</text>')
    return svg(368.0, 362.0, title, parts)
