"""The page of a comparison: Figures 7, 10, 14 and 15 of the overview of VoicePrivacy 2020 for the compared systems.

Conventions: see :mod:`voiceveil.report.comparison`; rates are shown in percent. One file, no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.evaluation.averages import Average
from voiceveil.report.comparison import COLUMNS, ORIGINAL, Comparison, ComparisonRow, shown
from voiceveil.report.html import environment, style_and_policy
from voiceveil.report.plots import Dot, dots_svg
from voiceveil.report.svg import Axis, Box, grid, place_names, scale, svg, text

__all__ = ["write_comparison"]

_FRAME: Box = (56.0, 12.0, 608.0, 360.0)
_SIZE = 4.5
_LARGEST = 1e5  # percent or dB on an axis
_TITLES = {
    "eer_oa": "EER of the ignorant attacker (%)",
    "eer_aa": "EER of the lazy-informed attacker (%), higher is more private",
    "wer": "WER (%), lower is better",
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
            columns=COLUMNS,
            shown=shown,
            figures=list(_figures(measured)),
        )
    )
    with atomic_path(path) as part:
        part.write_text(html, encoding="utf-8")
    return path


def _figures(rows: Sequence[ComparisonRow]) -> list[tuple[str, str]]:
    """Return (caption, SVG) of each figure that there are values for."""
    figures = []
    for column, number in (("eer_oa", "7"), ("eer_aa", "7"), ("wer", "10")):
        dots = [
            Dot(r.system, a.value, a.low, a.high, _kind(r)) for r in rows if (a := r.values.get(column)) is not None
        ]
        if dots:
            figures.append((f"As Figure {number}: {_TITLES[column]}", dots_svg(dots, _TITLES[column], _TITLES[column])))
    for x, y, number in (("deid", "gvd", "14"), ("eer_aa", "wer", "15")):
        points = [row for row in rows if x in row.values and y in row.values]
        if points:
            figures.append((f"As Figure {number}: {COLUMNS[y]} against {COLUMNS[x]}", scatter_svg(points, x, y)))
    return figures


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
