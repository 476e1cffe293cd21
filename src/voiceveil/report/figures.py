"""The privacy-utility plot of a ranking as SVG: Figure 1 of the evaluation plans of 2022 and 2024.

Conventions: EER on the horizontal axis, WER or UAR on the vertical one, both in percent; a band for each EER condition;
in each circle the rank of the system within its condition. Baselines are gray, the original speech is black (white on a
dark page), and each team has a color: the team is the part of a system's name before the first ``/``, or the whole
name. Thin lines are 95% intervals; ``=`` after a rank marks a tie.

The SVG is one string without scripts, fonts or links; it may be a file or a part of a page, where it follows the
reader's light or dark color scheme.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from voiceveil.evaluation.averages import Average
from voiceveil.evaluation.ranking import Ranking, Standing, team_of
from voiceveil.report.svg import Axis, Box, place_names, scale, shorten, text

__all__ = ["is_baseline", "privacy_utility_svg"]

_WIDTH, _PANEL = 760.0, 300.0  # of the figure, and the height of a panel, pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 20.0, 46.0, 48.0
_RADIUS = 11.0
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
    """Return True for the name of a baseline of the challenges: B1 to B6, B1.a and so on."""
    return re.fullmatch(r"b[1-6](\.?[a-c])?", system, re.IGNORECASE) is not None


@dataclass(frozen=True)
class _Point:
    """A circle: its name, its averages, the text inside of it, and its color as SVG attributes."""

    name: str
    x: Average
    y: Average
    text: str
    style: str


def privacy_utility_svg(ranking: Ranking, *, baselines: Sequence[str] | None = None) -> str:
    """Return the figure of a ranking, with a panel for each utility metric.

    Parameters
    ----------
    ranking
        The ranked systems.
    baselines
        Systems that are drawn in gray; by default those with the name of a baseline of the challenges.
    """
    metrics = list(ranking.places)
    height = len(metrics) * (_PANEL + _TOP + _BOTTOM)
    title = f"Privacy and utility of {len(ranking.standings)} systems, {ranking.protocol.title}, {ranking.split}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="vv-plane" role="img" viewBox="0 0 {_WIDTH:g} {height:g}" '
        f'width="{_WIDTH:g}" height="{height:g}" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" '
        'font-size="12">',
        f"<title>{text(title)}</title><style>{_STYLE}</style>",
    ]
    for number, metric in enumerate(metrics):
        points = list(_points(ranking, metric, baselines))
        parts += _panel(ranking, metric, points, number * (_PANEL + _TOP + _BOTTOM) + _TOP)
    return "\n".join([*parts, "</svg>\n"])


def _points(ranking: Ranking, metric: str, baselines: Sequence[str] | None) -> Iterator[_Point]:
    """Yield the circles of a panel, the original speech first, so that systems are drawn over it."""
    if ranking.original is not None:
        yield _Point("original", ranking.original.eer, ranking.original.utility[metric], "", 'class="orig"')
    teams = list(dict.fromkeys(team_of(s.system) for s in ranking.standings if not _is_gray(s, baselines)))
    for standing in ranking.standings:
        if metric in standing.utility:
            if _is_gray(standing, baselines):
                style = 'class="base"'
            else:
                color = _TEAMS[teams.index(team_of(standing.system)) % len(_TEAMS)]
                style = f'fill="{color}" stroke="{color}"'
            text = _place(ranking, metric, standing.system)
            yield _Point(standing.system, standing.eer, standing.utility[metric], text, style)


def _is_gray(standing: Standing, baselines: Sequence[str] | None) -> bool:
    return is_baseline(standing.system) if baselines is None else standing.system in baselines


def _place(ranking: Ranking, metric: str, system: str) -> str:
    """Return the rank of a system in the most private condition that it takes part in, "–" if it is in none."""
    for placings in reversed(list(ranking.places[metric].values())):
        for placing in placings:
            if placing.system == system:
                return f"{placing.place}{'=' if placing.tied_with else ''}"
    return "–"


def _panel(ranking: Ranking, metric: str, points: Sequence[_Point], top: float) -> Iterator[str]:
    """Yield one panel: bands, grid and axes, then the circles with their intervals and names."""
    most = max([50.0, *(100 * _end(p.x, "high") for p in points)])
    x = Axis(0.0, 10 * math.ceil(most / 10), 10.0, _LEFT, _WIDTH - _RIGHT)
    y = scale(
        [100 * _end(p.y, end) for p in points for end in ("low", "high")], top + _PANEL, top, from_zero=metric == "wer"
    )
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


def _bands(ranking: Ranking, x: Axis, top: float) -> Iterator[str]:
    """Yield a band for each condition, every other one tinted, with its limits above it."""
    minima = [100 * minimum for minimum in ranking.minimum_eer]
    for number, (low, high) in enumerate(zip(minima, [*minima[1:], x.high], strict=True)):
        left, right = x(low), x(high)
        if number % 2 == 0:
            yield f'<rect class="band" x="{left:.1f}" y="{top:g}" width="{right - left:.1f}" height="{_PANEL:g}"/>'
        label = (
            f"EER ≥ {low:g}%" if ranking.membership == "minimum" or number == len(minima) - 1 else f"{low:g}–{high:g}%"
        )
        yield f'<text class="dim" x="{(left + right) / 2:.1f}" y="{top - 8:g}" text-anchor="middle">{label}</text>'
        yield f'<line class="grid" x1="{left:.1f}" x2="{left:.1f}" y1="{top:g}" y2="{top + _PANEL:g}"/>'


def _grid(metric: str, x: Axis, y: Axis, top: float) -> Iterator[str]:
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
    center = top + _PANEL / 2
    yield f'<text transform="translate(18 {center:g}) rotate(-90)" text-anchor="middle">{_TITLES[metric]}</text>'


def _ranges(point: _Point, x: Axis, y: Axis) -> Iterator[str]:
    """Yield the intervals as lines through the point."""
    for x1, y1, x2, y2 in _whiskers(point, x, y):
        line = f'<line class="range" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'
        yield f"<g {point.style}>{line}</g>"


def _whiskers(point: _Point, x: Axis, y: Axis) -> list[Box]:
    """Return the intervals of EER and utility as lines (x1, y1, x2, y2), left and top first."""
    across, up = x(100 * point.x.value), y(100 * point.y.value)
    left, right = (x(100 * _end(point.x, end)) for end in ("low", "high"))
    bottom, top = (y(100 * _end(point.y, end)) for end in ("low", "high"))
    return [(left, up, right, up)] * (left < right) + [(across, top, across, bottom)] * (top < bottom)


def _circle(point: _Point, x: Axis, y: Axis) -> str:
    across, up = x(100 * point.x.value), y(100 * point.y.value)
    tip = f"{point.name}: EER {100 * point.x.value:.2f}%, {100 * point.y.value:.2f}%"
    circle = f'<g {point.style}><circle cx="{across:.1f}" cy="{up:.1f}" r="{_RADIUS:g}"/></g>'
    place = f'<text class="place" x="{across:.1f}" y="{up + 4:.1f}" text-anchor="middle">{point.text}</text>'
    return f"<g><title>{text(tip)}</title>{circle}{place}</g>"


def _labels(points: Sequence[_Point], x: Axis, y: Axis, top: float) -> Iterator[str]:
    """Yield the names beside their circles, where they do not cover intervals."""
    named: list[tuple[str, Box]] = []
    for point in points:
        across, up = x(100 * point.x.value), y(100 * point.y.value)
        box = (across - _RADIUS, up - _RADIUS, across + _RADIUS, up + _RADIUS)
        named.append((shorten(point.name, _LONGEST), box))
    lines = [line for point in points for line in _whiskers(point, x, y)]
    yield from place_names(named, lines, (x.start, top, x.end, top + _PANEL))
