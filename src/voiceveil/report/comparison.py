"""A comparison of systems under one protocol, in the measures that the overview of VoicePrivacy 2020 plots.

Conventions: rates are fractions, G_VD is in dB. A row holds plain means over the sets of the split: EER of the ignorant
(oa) and of the lazy-informed attacker (aa), both with an encoder trained on original speech, WER of anonymized speech,
DeID and G_VD; each with a 95% interval over speakers. The row of a system that could not be run says why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.checks import Check
from voiceveil.core.tables import Table
from voiceveil.evaluation.averages import Average, counting_figures
from voiceveil.evaluation.protocol import find_protocol
from voiceveil.evaluation.protocol_checks import known_metric
from voiceveil.evaluation.results import Figure, Results
from voiceveil.report.summary import mean_of
from voiceveil.report.summary import shown as shown_figure

__all__ = ["COLUMNS", "ORIGINAL", "Comparison", "ComparisonRow", "compare", "measures_table"]

#: Column -> its heading.
COLUMNS = {"eer_oa": "EER oa", "eer_aa": "EER aa", "wer": "WER", "deid": "DeID", "gvd": "G_VD (dB)"}
ORIGINAL = "original"
_FORMAT = "voiceveil comparison 1"


@dataclass(frozen=True)
class ComparisonRow:
    """A system with the mean of each column, or the reason why it was not measured."""

    system: str
    values: Mapping[str, Average] = field(default_factory=dict)
    fault: str = ""
    checks: tuple[Check, ...] = ()  # failed checks: the figures may be false

    @property
    def name(self) -> str:
        """The system, with a mark if a check failed."""
        return f"{self.system} (!)" if self.checks else self.system


@dataclass(frozen=True)
class Comparison:
    """The rows of all systems, the original speech first, and the data and encoder that they were measured with."""

    protocol: str
    split: str
    sets: tuple[str, ...]
    encoder: str
    rows: tuple[ComparisonRow, ...]

    def save(self, path: Path) -> None:
        """Write JSON, atomically."""
        with atomic_path(path) as part:
            part.write_text(json.dumps({"format": _FORMAT, **asdict(self)}, indent=1) + "\n", encoding="utf-8")

    def table(self) -> list[tuple[str, ...]]:
        """Return cells of text: the headings, then a line for each system."""
        lines = [("system", *COLUMNS.values())]
        for row in self.rows:
            lines.append(
                (row.system, f"not measured: {row.fault}")
                if row.fault
                else (row.name, *(shown(name, row.values.get(name)) for name in COLUMNS))
            )
        return lines


def shown(column: str, average: Average | None) -> str:
    """Return the text of a cell: percent, or dB, with the interval."""
    if average is None:
        return "–"
    scale, digits = (1.0, 2) if column == "gvd" else (100.0, 1)
    text = f"{scale * average.value:.{digits}f}"
    if average.low is None or average.high is None:
        return text
    return f"{text} [{scale * average.low:.{digits}f}, {scale * average.high:.{digits}f}]"


def compare(protocol: str, measured: Sequence[Results], faults: Mapping[str, str], order: Sequence[str]) -> Comparison:
    """Compare systems on the test sets, or on the development sets if no result has test sets.

    Parameters
    ----------
    protocol
        Name of the protocol.
    measured
        Results of the systems that could be evaluated.
    faults
        System -> why it could not be evaluated.
    order
        Systems, in the order of the rows.
    """
    by_system = {results.system: results for results in measured}
    splits = {figure.split for results in measured for figure in results.figures}
    split = "test" if "test" in splits else "dev"
    rows = [
        _row(by_system[name], split) if name in by_system else ComparisonRow(name, fault=faults.get(name, "not run"))
        for name in order
    ]
    sets = sorted({f.dataset for results in measured for f in results.find("eer", split=split)})
    attackers = [f.attacker for results in measured for f in _eer(results, split, "oa", "ignorant")]
    originals = [_original(results, split) for results in measured[:1]]
    return Comparison(protocol, split, tuple(sets), attackers[0] if attackers else "", (*originals, *rows))


def measures_table(measured: Sequence[Results]) -> Table:
    """Return all figures of several systems in one table: a row for each measure, a column for each system.

    A row is a metric of an attacker or model; a cell holds the values of its datasets, genders in their order, with
    95% intervals. Figures of original speech, from the first results, are in a column of their own.
    """
    columns = [ORIGINAL, *(results.system for results in measured)]
    cells: dict[str, dict[str, list[str]]] = {}
    for number, results in enumerate(measured):
        for figure in results.figures:
            is_original = set(figure.condition) == {"o"}
            if is_original and number:
                continue
            by = figure.evaluator if len(figure.condition) != 2 or figure.attacker else ""
            measure = ", ".join(filter(None, [_title(figure), by, figure.subset, figure.split]))
            column = ORIGINAL if is_original else results.system
            cells.setdefault(measure, {}).setdefault(column, []).append(_cell(figure))
        speed = results.info.get("real_time_factor")
        if speed:
            cells.setdefault("processor seconds for a second of speech", {})[results.system] = [f"{speed:.3g}"]
    rows = tuple((name, *(" / ".join(row.get(column, [])) for column in columns)) for name, row in cells.items())
    return Table(("measure", *columns), rows, ("Brackets are 95% intervals over speakers.",))


def _title(figure: Figure) -> str:
    info = known_metric(figure.metric)
    return figure.metric if info is None else info.title


def _cell(figure: Figure) -> str:
    return shown_figure(figure).replace("\N{NO-BREAK SPACE}", " ")


def _row(results: Results, split: str) -> ComparisonRow:
    row = _means(
        results.system,
        {
            "eer_oa": _eer(results, split, "oa", "ignorant"),
            "eer_aa": _eer(results, split, "aa", "lazy-informed"),
            "wer": _wer(results, split, "a"),
            "deid": results.find("deid", split=split),
            "gvd": results.find("gvd", split=split),
        },
    )
    return replace(row, checks=results.checks)


def _original(results: Results, split: str) -> ComparisonRow:
    """Return the row of the original speech, where both attackers coincide and G_VD and DeID are 0 by definition."""
    eer = _eer(results, split, "oo", "unprotected")
    row = _means(ORIGINAL, {"eer_oa": eer, "eer_aa": eer, "wer": _wer(results, split, "o")})
    return ComparisonRow(ORIGINAL, {**row.values, "deid": Average(0.0), "gvd": Average(0.0)})


def _eer(results: Results, split: str, condition: str, knowledge: str) -> tuple[Figure, ...]:
    """Return the EERs of the first attacker with this knowledge."""
    figures = results.find("eer", split=split, condition=condition, knowledge=knowledge)
    return tuple(figure for figure in figures if figure.attacker == figures[0].attacker)


def _wer(results: Results, split: str, condition: str) -> tuple[Figure, ...]:
    return counting_figures(results, "wer", find_protocol(results), split=split, condition=condition)


def _means(system: str, columns: Mapping[str, Sequence[Any]]) -> ComparisonRow:
    return ComparisonRow(system, {name: mean_of(tuple(figures)) for name, figures in columns.items() if figures})
