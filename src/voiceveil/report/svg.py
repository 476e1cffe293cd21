"""Building blocks of all drawings: axes at round numbers, labels that do not overlap, escaped text.

Conventions: pixels, y downward; a box is (left, top, right, bottom). A figure is one string of SVG without scripts,
fonts or links. All text from outside passes through :func:`text`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["GLYPH", "Axis", "Box", "grid", "place_names", "scale", "shorten", "svg", "text"]

Box = tuple[float, float, float, float]
_LARGEST = 1e8  # value on an axis
GLYPH = 6.6  # the width of a letter of 12 pixels, roughly


@dataclass(frozen=True)
class Axis:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``, with ticks every ``step``."""

    low: float
    high: float
    step: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; values beyond an end of the axis are placed at this end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the values at the ticks."""
        return [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]


def scale(values: Sequence[float], start: float, end: float, *, from_zero: bool, most: int = 8) -> Axis:
    """Return an axis with at most ``most`` + 1 ticks at round numbers that holds all values up to 10^8.

    Values beyond that, or infinite ones, stand at its ends.
    """
    values = [min(max(value, -_LARGEST), _LARGEST) for value in values]
    low, high = (0.0 if from_zero else min(values, default=0.0)), max(values, default=1.0)
    room = max(high - low, 1.0) * 0.06
    low, high = (0.0 if from_zero else max(0.0, low - room)), high + room
    step = next(s for k in range(-2, 9) for s in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if (high - low) / s <= most)
    return Axis(step * math.floor(low / step), step * math.ceil(high / step), step, start, end)


def svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """Return a figure that shrinks with the page; ``title`` is its description for screen readers."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:g} {height:g}" width="{width:g}">'
        f"<title>{text(title)}</title>{''.join(parts)}</svg>"
    )


def grid(
    x: Callable[[float], float],
    y: Callable[[float], float],
    frame: Box,
    ticks: tuple[Sequence[float], Sequence[float]],
    titles: tuple[str, str],
    shown: Callable[[float], str] = "{:g}".format,
) -> Iterator[str]:
    """Yield grid lines, ticks and the titles of both axes around a frame.

    Parameters
    ----------
    x, y
        Map a value to a pixel.
    frame
        The plotting area.
    ticks
        Values at the ticks of the horizontal and of the vertical axis.
    titles
        Of the horizontal and of the vertical axis.
    shown
        Format of a tick's value.
    """
    left, top, right, bottom = frame
    for tick in ticks[1]:
        yield f'<line class="grid" x1="{left:g}" x2="{right:g}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        yield f'<text class="dim" x="{left - 6:g}" y="{y(tick) + 4:.1f}" text-anchor="end">{shown(tick)}</text>'
    for tick in ticks[0]:
        yield f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top:g}" y2="{bottom:g}"/>'
        yield f'<text class="dim" x="{x(tick):.1f}" y="{bottom + 16:g}" text-anchor="middle">{shown(tick)}</text>'
    yield f'<path class="axis" d="M{left:g} {top:g}V{bottom:g}H{right:g}"/>'
    yield f'<text x="{(left + right) / 2:g}" y="{bottom + 36:g}" text-anchor="middle">{text(titles[0])}</text>'
    center = (top + bottom) / 2
    yield f'<text transform="translate(13 {center:g}) rotate(-90)" text-anchor="middle">{text(titles[1])}</text>'


def place_names(
    names: Sequence[tuple[str, Box]], taken: Sequence[Box], frame: Box, glyph: float = GLYPH
) -> Iterator[str]:
    """Yield labels, each at the first place beside its box that is free and inside the frame.

    Parameters
    ----------
    names
        Text of each label, and the box of the mark that it names.
    taken
        Boxes that labels should not cover, in addition to the marks.
    frame
        The plotting area.
    glyph
        Width of a letter in pixels.
    """
    occupied = [*taken, *(box for _, box in names)]
    for name, own in names:
        beside = _beside(own, glyph * len(name))
        inside = [b for b in beside if frame[0] < b[0] and b[2] < frame[2] and frame[1] < b[1] and b[3] < frame[3]]
        free = [box for box in inside if not any(_overlap(box, other) for other in occupied)]
        box = (free or inside or beside)[0]
        occupied.append(box)
        yield from _name(name, box, own)


def _name(name: str, box: Box, own: Box) -> Iterator[str]:
    """Yield a label, and a line to its mark if they are more than 6 pixels apart."""
    gap = max(own[1] - box[3], box[1] - own[3])
    if gap > 6:
        x1, y1 = (own[0] + own[2]) / 2, own[1] if box[3] < own[1] else own[3]
        x2, y2 = min(max(x1, box[0]), box[2]), box[3] if box[3] < own[1] else box[1]
        yield f'<line class="axis" stroke-opacity=".6" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'
    yield f'<text x="{box[0]:.1f}" y="{box[1] + 12:.1f}">{text(name)}</text>'


def _beside(own: Box, width: float) -> list[Box]:
    """Return places for a label, the best first: at the sides, then ever farther above and below."""
    left, above, right, below = own
    centered, middle = (left + right - width) / 2, (above + below) / 2 - 8
    corners = [(right + 4, middle), (left - 4 - width, middle)]
    for step in range(12):
        for across in (centered, right - 6, left + 6 - width):
            corners += [(across, above - 17 - 9 * step), (across, below + 1 + 9 * step)]
    return [(a, b, a + width, b + 16) for a, b in corners]


def _overlap(first: Box, second: Box) -> bool:
    return first[0] <= second[2] and second[0] <= first[2] and first[1] <= second[3] and second[1] <= first[3]


def shorten(name: str, longest: int) -> str:
    """Return a name cut to at most ``longest`` characters."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def text(raw: str) -> str:
    """Escape text for XML; control characters, which XML forbids, become the replacement character."""
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in raw))
