"""The privacy-utility plane as SVG: Figure 1 of the evaluation plans of 2022 and 2024.

Conventions: EER to the right, WER or UAR upward, both in percent; a band for each EER condition; in each circle the
place of the system within its condition. Baselines are grey, the original speech is black (white on a dark page), and
each team has a colour: a team is what stands before the first ``/`` of a system's name, or else the whole name.
Thin lines are 95 % intervals; ``=`` after a place says that the system is tied.

The SVG is one string without scripts, fonts or links, fit to stand in a file or inside a page, where it follows the
reader's choice of a light or dark scheme.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from voiceveil.challenges.ranking import Average, Ranking, Standing
from voiceveil.metrics.challenge import CONDITIONS

__all__ = ["is_baseline", "privacy_utility_svg"]

_WIDTH, _PANEL = 760.0, 300.0  # of the figure, and the height of a panel, pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 20.0, 46.0, 48.0
_RADIUS = 11.0
_GLYPH = 6.6  # the width of a letter of 12 pixels, roughly
_LONGEST = 22  # letters of a name that are shown
_TEAMS = ("#0b62a4", "#b8480a", "#0a7d5a", "#a8487f", "#8a5a00", "#5a4fbf")
_TITLES = {"wer": "WER (%), lower is better", "uar": "UAR (%), higher is better"}
_STYLE = """
.vv-plane text{fill:#1b1f24}.vv-plane .dim{fill:#57606a}.vv-plane .grid{stroke:#d0d7de;stroke-width:1}
.vv-plane .axis{stroke:#57606a;stroke-width:1}.vv-plane .band{fill:#1b1f24;fill-opacity:.045}
.vv-plane .range{stroke-width:1.5;stroke-opacity:.55}.vv-plane .place{fill:#fff;font-weight:600;font-size:11px}
.vv-plane circle{stroke:#fff;stroke-width:1.5}.vv-plane .base{fill:#6e7781;stroke:#6e7781}
.vv-plane .orig{fill:#1b1f24;stroke:#1b1f24}
@media (prefers-color-scheme:dark){
.vv-plane text{fill:#e6edf3}.vv-plane .dim{fill:#9da7b1}.vv-plane .grid{stroke:#30363d}.vv-plane .axis{stroke:#9da7b1}
.vv-plane .band{fill:#e6edf3;fill-opacity:.06}.vv-plane .place{fill:#fff}.vv-plane circle{stroke:#0d1117}
.vv-plane .orig{fill:#f0f3f6;stroke:#f0f3f6}}
"""


def is_baseline(system: str) -> bool:
    """Whether a name is that of a baseline of the challenges: B1 to B6, B1.a and so on."""
    return re.fullmatch(r"b[1-6](\.?[a-c])?", system, re.IGNORECASE) is not None


_Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels


@dataclass(frozen=True)
class _Axis:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``, with ticks every ``step``."""

    low: float
    high: float
    step: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        return [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]


@dataclass(frozen=True)
class _Point:
    """A circle: where it stands, in percent, what stands in it and beside it, and its colour."""

    name: str
    x: Average
    y: Average
    text: str
    style: str


def privacy_utility_svg(ranking: Ranking, *, baselines: Sequence[str] | None = None) -> str:
    """The figure of a ranking, a panel for each utility metric.

    ``baselines`` names the systems that are drawn in grey; by default those that are called like one.
    """
    metrics = list(ranking.places)
    height = len(metrics) * (_PANEL + _TOP + _BOTTOM)
    title = f"Privacy and utility of {len(ranking.standings)} systems, VoicePrivacy {ranking.edition}, {ranking.split}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="vv-plane" role="img" viewBox="0 0 {_WIDTH:g} {height:g}" '
        f'width="{_WIDTH:g}" height="{height:g}" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" '
        'font-size="12">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
    ]
    for number, metric in enumerate(metrics):
        points = list(_points(ranking, metric, baselines))
        parts += _panel(ranking, metric, points, number * (_PANEL + _TOP + _BOTTOM) + _TOP)
    return "\n".join([*parts, "</svg>\n"])


def _points(ranking: Ranking, metric: str, baselines: Sequence[str] | None) -> Iterator[_Point]:
    """The circles of a panel, the original speech first, so that systems are drawn over it."""
    if ranking.original is not None:
        yield _Point("original", ranking.original.eer, ranking.original.utility[metric], "", 'class="orig"')
    teams = list(dict.fromkeys(s.system.split("/")[0] for s in ranking.standings if not _grey(s, baselines)))
    for standing in ranking.standings:
        if metric in standing.utility:
            colour = (
                _TEAMS[teams.index(standing.system.split("/")[0]) % len(_TEAMS)]
                if not _grey(standing, baselines)
                else ""
            )
            style = f'fill="{colour}" stroke="{colour}"' if colour else 'class="base"'
            text = _place(ranking, metric, standing.system)
            yield _Point(standing.system, standing.eer, standing.utility[metric], text, style)


def _grey(standing: Standing, baselines: Sequence[str] | None) -> bool:
    return is_baseline(standing.system) if baselines is None else standing.system in baselines


def _place(ranking: Ranking, metric: str, system: str) -> str:
    """The place of a system in the most private condition that it takes part in, "–" if it is in none."""
    for placings in reversed(list(ranking.places[metric].values())):
        for placing in placings:
            if placing.system == system:
                return f"{placing.place}{'=' if placing.tied_with else ''}"
    return "–"


def _panel(ranking: Ranking, metric: str, points: Sequence[_Point], top: float) -> Iterator[str]:
    """One plane: bands, grid and axes, then the circles with their intervals and names."""
    most = max([50.0, *(100 * _end(p.x, "high") for p in points)])
    x = _Axis(0.0, 10 * math.ceil(most / 10), 10.0, _LEFT, _WIDTH - _RIGHT)
    y = _scale([100 * _end(p.y, end) for p in points for end in ("low", "high")], top + _PANEL, top, metric == "wer")
    yield from _bands(ranking, x, top)
    yield from _grid(metric, x, y, top)
    for point in points:
        yield from _ranges(point, x, y)
    for point in points:
        yield _circle(point, x, y)
    yield from _labels(points, x, y, top)


def _end(average: Average, end: str) -> float:
    limit = average.low if end == "low" else average.high
    return average.value if limit is None else limit


def _scale(values: Sequence[float], start: float, end: float, from_zero: bool) -> _Axis:
    """An axis with 4 to 9 ticks at round numbers that holds all values."""
    low, high = (0.0 if from_zero else min(values, default=0.0)), max(values, default=1.0)
    room = max(high - low, 1.0) * 0.06
    low, high = (0.0 if from_zero else max(0.0, low - room)), high + room
    step = next(s for k in range(-2, 9) for s in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if (high - low) / s <= 8)
    return _Axis(step * math.floor(low / step), step * math.ceil(high / step), step, start, end)


def _bands(ranking: Ranking, x: _Axis, top: float) -> Iterator[str]:
    """A band for each condition, every other one tinted, with its limits above it."""
    minima = [100 * minimum for minimum in CONDITIONS[ranking.edition]]
    for number, (low, high) in enumerate(zip(minima, [*minima[1:], x.high], strict=True)):
        left, right = x(low), x(high)
        if number % 2 == 0:
            yield f'<rect class="band" x="{left:.1f}" y="{top:g}" width="{right - left:.1f}" height="{_PANEL:g}"/>'
        label = (
            f"EER ≥ {low:g} %"
            if ranking.membership == "minimum" or number == len(minima) - 1
            else f"{low:g}–{high:g} %"
        )
        yield f'<text class="dim" x="{(left + right) / 2:.1f}" y="{top - 8:g}" text-anchor="middle">{label}</text>'
        yield f'<line class="grid" x1="{left:.1f}" x2="{left:.1f}" y1="{top:g}" y2="{top + _PANEL:g}"/>'


def _grid(metric: str, x: _Axis, y: _Axis, top: float) -> Iterator[str]:
    bottom = top + _PANEL
    for tick in y.ticks():
        yield f'<line class="grid" x1="{x.start:g}" x2="{x.end:g}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        yield f'<text class="dim" x="{x.start - 8:g}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
    for tick in x.ticks():
        yield f'<text class="dim" x="{x(tick):.1f}" y="{bottom + 18:g}" text-anchor="middle">{tick:g}</text>'
    yield f'<line class="axis" x1="{x.start:g}" x2="{x.end:g}" y1="{bottom:g}" y2="{bottom:g}"/>'
    yield f'<line class="axis" x1="{x.start:g}" x2="{x.start:g}" y1="{top:g}" y2="{bottom:g}"/>'
    middle = (x.start + x.end) / 2
    yield f'<text x="{middle:g}" y="{bottom + 38:g}" text-anchor="middle">EER (%), higher is more private</text>'
    centre = top + _PANEL / 2
    yield f'<text transform="translate(18 {centre:g}) rotate(-90)" text-anchor="middle">{_TITLES[metric]}</text>'


def _ranges(point: _Point, x: _Axis, y: _Axis) -> Iterator[str]:
    """The intervals as lines through the point."""
    for x1, y1, x2, y2 in _whiskers(point, x, y):
        line = f'<line class="range" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'
        yield f"<g {point.style}>{line}</g>"


def _whiskers(point: _Point, x: _Axis, y: _Axis) -> list[_Box]:
    """The ends of the intervals of EER and utility, left and top first."""
    across, up = x(100 * point.x.value), y(100 * point.y.value)
    left, right = (x(100 * _end(point.x, end)) for end in ("low", "high"))
    bottom, top = (y(100 * _end(point.y, end)) for end in ("low", "high"))
    return [(left, up, right, up)] * (left < right) + [(across, top, across, bottom)] * (top < bottom)


def _circle(point: _Point, x: _Axis, y: _Axis) -> str:
    across, up = x(100 * point.x.value), y(100 * point.y.value)
    tip = f"{point.name}: EER {100 * point.x.value:.2f} %, {100 * point.y.value:.2f} %"
    circle = f'<g {point.style}><circle cx="{across:.1f}" cy="{up:.1f}" r="{_RADIUS:g}"/></g>'
    text = f'<text class="place" x="{across:.1f}" y="{up + 4:.1f}" text-anchor="middle">{point.text}</text>'
    return f"<g><title>{_text(tip)}</title>{circle}{text}</g>"


def _labels(points: Sequence[_Point], x: _Axis, y: _Axis, top: float) -> Iterator[str]:
    """The names, each on the first side of its circle where it is in nobody's way."""
    circles: list[_Box] = []
    for point in points:
        across, up = x(100 * point.x.value), y(100 * point.y.value)
        circles.append((across - _RADIUS, up - _RADIUS, across + _RADIUS, up + _RADIUS))
    taken = circles + [line for point in points for line in _whiskers(point, x, y)]
    for point, circle in zip(points, circles, strict=True):
        name = point.name if len(point.name) <= _LONGEST else f"{point.name[: _LONGEST - 1]}…"
        beside = _beside(circle, _GLYPH * len(name))
        inside = [
            box for box in beside if x.start < box[0] and box[2] < x.end and top < box[1] and box[3] < top + _PANEL
        ]
        free = [box for box in inside if not any(_overlap(box, other) for other in taken)]
        box = (free or inside or beside)[0]
        taken.append(box)
        yield from _name(name, box, circle)


def _name(name: str, box: _Box, circle: _Box) -> Iterator[str]:
    """A name, and a line to its circle if it stands away from it."""
    gap = max(circle[1] - box[3], box[1] - circle[3])
    if gap > 6:
        x1, y1 = (circle[0] + circle[2]) / 2, circle[1] if box[3] < circle[1] else circle[3]
        x2, y2 = min(max(x1, box[0]), box[2]), box[3] if box[3] < circle[1] else box[1]
        yield f'<line class="axis" stroke-opacity=".6" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'
    yield f'<text x="{box[0]:.1f}" y="{box[1] + 12:.1f}">{_text(name)}</text>'


def _beside(circle: _Box, width: float) -> list[_Box]:
    """Where the name of a circle may stand, the best place first: at its sides, then ever farther above and below."""
    left, above, right, below = circle
    centred = (left + right - width) / 2
    corners = [(right + 4, above + 3), (left - 4 - width, above + 3)]
    for step in range(12):
        for across in (centred, right - 6, left + 6 - width):
            corners += [(across, above - 17 - 9 * step), (across, below + 1 + 9 * step)]
    return [(a, b, a + width, b + 16) for a, b in corners]


def _text(text: str) -> str:
    """Text that may stand in XML: escaped, and without control characters, which may not."""
    return escape("".join(letter if letter.isprintable() else "\ufffd" for letter in text))


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]
