"""The page of a comparison: the objective figures (7 to 12, 14, 15) of the overview of VoicePrivacy 2020.

Conventions: see :mod:`voiceveil.report.comparison`; rates are shown in percent. One file, no script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.evaluation.averages import Average
from voiceveil.report.comparison import COLUMNS, ORIGINAL, AttackPoint, Comparison, ComparisonRow, shown
from voiceveil.report.html import environment, style_and_policy
from voiceveil.report.plots import Dot, dots_svg, grouped_dots_svg
from voiceveil.report.svg import Axis, Box, grid, place_names, scale, svg, text

__all__ = ["write_comparison"]

_FRAME: Box = (56.0, 12.0, 608.0, 360.0)
_SIZE = 4.5
_LARGEST = 1e5  # percent or dB on an axis
_TITLES = {
    "eer_oa": "EER of the ignorant attacker (%)",
    "eer_aa": "EER of the lazy-informed attacker (%), higher is more private",
    "eer_semi": "EER of the semi-informed attacker (%), higher is more private",
    "wer": "WER (%), lower is better",
    "wer_anon": "WER by a recognizer trained on anonymized speech (%)",
    "deid": "DeID (%), higher is more private",
    "gvd": "G_VD (dB), higher: voices stay distinct",
}


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Write the page to ``path`` and return it."""
    measured = [row for row in comparison.rows if row.values]
    style, policy = style_and_policy()
    html = (
        environment("voiceveil.report")
        .get_template("comparison.html")
        .render(
            policy=policy,
            style=style,
            title=f"{len(measured)} conditions under {comparison.protocol}",
            comparison=comparison,
            columns=comparison.columns,
            shown=shown,
            figures=_figures(comparison, measured),
        )
    )
    with atomic_path(path) as part:
        part.write_text(html, encoding="utf-8")
    return path


@dataclass(frozen=True)
class PageFigure:
    """A drawing with its caption, and its series: name -> CSS class of their marks."""

    caption: str
    drawing: str
    series: Mapping[str, str] = field(default_factory=dict)


def _figures(comparison: Comparison, rows: Sequence[ComparisonRow]) -> list[PageFigure]:
    """Return the figures that there are values for, in the order of the overview."""
    figures = [_dots(rows, "eer_oa", "7"), _dots(rows, "eer_aa", "7"), _cllr_figure(comparison.points)]
    figures += [_gender_figure(rows, column) for column in _ATTACKERS]
    parts: dict[str, Sequence[ComparisonRow]] = {
        f", {name}": corpus for name, corpus in comparison.corpora.items()
    } or {"": rows}
    figures += [_dots(part, "wer", "10", name) for name, part in parts.items()]
    figures.append(_series_figure(rows, _ATTACKERS, "11", "EER against all attackers (%)"))
    for name, part in parts.items():
        figures.append(_series_figure(part, _RECOGNIZERS, "12", f"WER by recognizers of both kinds{name} (%)"))
    for x, y, number in (("deid", "gvd", "14"), ("eer_aa", "wer", "15")):
        figures += [_scatter(part, (x, y), number, name) for name, part in parts.items()]
    return [figure for figure in figures if figure is not None]


#: Series of Figures 11 and 12: column -> its name and the CSS class of its marks, the strongest last.
_ATTACKERS = {
    "eer_oa": ("ignorant", "k-published"),
    "eer_aa": ("lazy-informed", "k-other"),
    "eer_semi": ("semi-informed", "k-main"),
}
_RECOGNIZERS = {
    "wer": ("trained on original speech", "k-other"),
    "wer_anon": ("trained on anonymized speech", "k-main"),
}


def _dot(row: ComparisonRow, average: Average, style: str = "") -> Dot:
    return Dot(row.system, average.value, average.low, average.high, style or _kind(row))


def _dots(rows: Sequence[ComparisonRow], column: str, number: str, part: str = "") -> PageFigure | None:
    dots = [_dot(row, average) for row in rows if (average := row.values.get(column)) is not None]
    if not dots:
        return None
    title = f"{_TITLES[column]}{part}"
    return PageFigure(f"As Figure {number}: {title}", dots_svg(dots, title, _TITLES[column]))


def _series_figure(
    rows: Sequence[ComparisonRow], columns: Mapping[str, tuple[str, str]], number: str, title: str
) -> PageFigure | None:
    """Return several columns in one figure; None unless a system has the last of them, the one of anonymized speech."""
    last = list(columns)[-1]
    shown_rows = [row for row in rows if last in row.values or row.system == ORIGINAL]
    if not any(last in row.values for row in shown_rows if row.system != ORIGINAL):
        return None
    groups = {
        row.system: [
            _dot(row, row.values[column], style) for column, (_, style) in columns.items() if column in row.values
        ]
        for row in shown_rows
    }
    drawing = grouped_dots_svg(groups, title, title)
    return PageFigure(f"As Figure {number}: {title}", drawing, dict(columns.values()))


def _gender_figure(rows: Sequence[ComparisonRow], column: str) -> PageFigure | None:
    """Return the EERs of female and male speakers under one attacker."""
    series = {"f": ("female", "k-main"), "m": ("male", "k-other")}
    groups = {
        row.system: [
            _dot(row, row.genders[gender][column], style)
            for gender, (_, style) in series.items()
            if column in row.genders.get(gender, {})
        ]
        for row in rows
    }
    groups = {name: dots for name, dots in groups.items() if dots}
    if not any(name != ORIGINAL for name in groups):
        return None
    title = f"EER of the {_ATTACKERS[column][0]} attacker for women and men (%)"
    return PageFigure(f"As Figure 9: {title}", grouped_dots_svg(groups, title, title), dict(series.values()))


def _cllr_figure(points: Sequence[AttackPoint]) -> PageFigure | None:
    """Return EER against minimum Cllr, a point for each system and data set."""
    if not points:
        return None
    left, top, right, bottom = _FRAME
    across = scale([100 * point.eer for point in points], left, right, from_zero=True)
    up = Axis(0.0, 1.0, 0.2, bottom, top)
    titles = ("EER (%)", "minimum Cllr (bit), higher is more private")
    parts = list(grid(across, up, _FRAME, (across.ticks(), up.ticks()), titles))
    for point in points:
        name, style = _ATTACKERS[point.column]
        tip = f"{point.system}, {point.data}, {name}: EER {100 * point.eer:.1f}%, minimum Cllr {point.min_cllr:.3f}"
        x, y = across(100 * point.eer), up(point.min_cllr)
        mark = f'<circle class="mark {style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        parts.append(f"<g><title>{text(tip)}</title>{mark}</g>")
    used = {point.column for point in points}
    series = {name: style for column, (name, style) in _ATTACKERS.items() if column in used}
    title = f"EER and minimum Cllr of {len(points)} attacks, each on one data set"
    return PageFigure(f"As Figure 8: {title}", svg(right + 16, bottom + 48, title, parts), series)


def _scatter(rows: Sequence[ComparisonRow], columns: tuple[str, str], number: str, part: str) -> PageFigure | None:
    x, y = columns
    points = [row for row in rows if x in row.values and y in row.values]
    if not points:
        return None
    return PageFigure(f"As Figure {number}{part}: {COLUMNS[y]} against {COLUMNS[x]}", scatter_svg(points, x, y))


def scatter_svg(rows: Sequence[ComparisonRow], x: str, y: str) -> str:
    """Return a scatter plot: each system as a point with the intervals of columns ``x`` and ``y``, and its name."""
    left, top, right, bottom = _FRAME
    across, up = _axis(rows, x, left, right), _axis(rows, y, bottom, top)
    parts = list(grid(across, up, _FRAME, (across.ticks(), up.ticks()), (_TITLES[x], _TITLES[y])))
    named: list[tuple[str, Box]] = []
    lines: list[Box] = []
    for row in rows:
        at, height = across(_scaled(x, row.values[x].value)), up(_scaled(y, row.values[y].value))
        x1, x2 = (across(end) for end in _ends(x, row.values[x]))
        y2, y1 = (up(end) for end in _ends(y, row.values[y]))
        parts.append(
            f'<path class="range {_kind(row)}" d="M{x1:.1f} {height:.1f}H{x2:.1f}M{at:.1f} {y1:.1f}V{y2:.1f}"/>'
        )
        tip = f"{row.system}: {COLUMNS[x]} {shown(x, row.values[x])}, {COLUMNS[y]} {shown(y, row.values[y])}"
        mark = f'<circle class="mark {_kind(row)}" cx="{at:.1f}" cy="{height:.1f}" r="{_SIZE:g}"/>'
        parts.append(f"<g><title>{text(tip)}</title>{mark}</g>")
        lines += [(x1, height, x2, height), (at, y1, at, y2)]
        named.append((row.system, (at - _SIZE, height - _SIZE, at + _SIZE, height + _SIZE)))
    parts += place_names(named, lines if len(rows) < 8 else [], _FRAME)
    return svg(right + 16, bottom + 48, f"{COLUMNS[y]} against {COLUMNS[x]} of {len(rows)} systems", parts)


def _kind(row: ComparisonRow) -> str:
    return "k-original" if row.system == ORIGINAL else "k-main"


def _scaled(column: str, value: float) -> float:
    return value if column == "gvd" else 100 * value


def _ends(column: str, average: Average) -> tuple[float, float]:
    ends = (average.value if end is None or end != end else end for end in (average.low, average.high))
    low, high = (_scaled(column, end) for end in ends)
    return low, high


def _axis(rows: Sequence[ComparisonRow], column: str, start: float, end: float) -> Axis:
    ends = [end for row in rows for end in _ends(column, row.values[column])]
    values = [min(max(end, -_LARGEST), _LARGEST) for end in ends]
    low, high = min([*values, 0.0]), max([*values, 0.0])
    if low >= 0:
        return scale(values, start, end, from_zero=True)
    step = next(s for k in range(-2, 6) for s in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if (high - low) / s <= 8)
    first, last = step * (low // step), step * -(-high // step)
    return Axis(first, last, step, start, end)
