"""A comparison of systems under one protocol, in the measures that the overview of VoicePrivacy 2020 plots.

Conventions: rates are fractions, G_VD is in dB. A row holds plain means over the sets of the split: EER of the ignorant
(oa), the lazy-informed and the semi-informed attacker (both aa), WER of anonymized speech by the recognizer of original
speech, and by one of anonymized speech alone, DeID and G_VD; each with a 95% interval over speakers. Rows of one
corpus, LibriSpeech or VCTK, are means over its sets. The row of a system that could not be run says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.checks import Check
from voiceveil.core.tables import Table
from voiceveil.evaluation.averages import Average, counting_figures, dataset_of
from voiceveil.evaluation.protocol import find_protocol
from voiceveil.evaluation.protocol_checks import known_metric
from voiceveil.evaluation.results import Figure, Results
from voiceveil.report.summary import mean_of
from voiceveil.report.summary import shown as shown_figure

__all__ = ["COLUMNS", "ORIGINAL", "AttackPoint", "Comparison", "ComparisonRow", "compare", "measures_table"]

#: Column -> its heading.
COLUMNS = {
    "eer_oa": "EER oa",
    "eer_aa": "EER aa",
    "eer_semi": "EER aa, semi-informed",
    "wer": "WER",
    "wer_anon": "WER, trained on anonymized",
    "deid": "DeID",
    "gvd": "G_VD (dB)",
}
_OPTIONAL = ("eer_semi", "wer_anon")  # columns that are left out if no system has them
_CORPORA = {"libri": "LibriSpeech", "vctk": "VCTK"}
ORIGINAL = "original"
_FORMAT = "voiceveil comparison 1"


@dataclass(frozen=True)
class ComparisonRow:
    """A system with the mean of each column, or the reason why it was not measured."""

    system: str
    values: Mapping[str, Average] = field(default_factory=dict)
    fault: str = ""
    checks: tuple[Check, ...] = ()  # failed checks: the figures may be false
    genders: Mapping[str, Mapping[str, Average]] = field(default_factory=dict)  # "f", "m" -> column -> mean of EERs

    @property
    def name(self) -> str:
        """The system, with a mark if a check failed."""
        return f"{self.system} (!)" if self.checks else self.system


@dataclass(frozen=True)
class AttackPoint:
    """EER and minimum Cllr of an attacker on one data set of any split."""

    system: str
    data: str  # e.g. "vctk_dev common f"
    column: str  # of the EER: "eer_oa", "eer_aa" or "eer_semi"
    eer: float
    min_cllr: float


@dataclass(frozen=True)
class Comparison:
    """The rows of all systems, the original speech first, and the data and encoder that they were measured with."""

    protocol: str
    split: str
    sets: tuple[str, ...]
    encoder: str
    rows: tuple[ComparisonRow, ...]
    corpora: Mapping[str, tuple[ComparisonRow, ...]] = field(default_factory=dict)  # if there are several
    points: tuple[AttackPoint, ...] = ()

    @property
    def columns(self) -> dict[str, str]:
        """Column -> its heading, without optional ones that no system has."""
        known = {name for row in self.rows for name in row.values}
        return {name: title for name, title in COLUMNS.items() if name in known or name not in _OPTIONAL}

    def save(self, path: Path) -> None:
        """Write JSON, atomically."""
        with atomic_path(path) as part:
            part.write_text(json.dumps({"format": _FORMAT, **asdict(self)}, indent=1) + "\n", encoding="utf-8")

    def table(self) -> list[tuple[str, ...]]:
        """Return cells of text: the headings, then a line for each system."""
        columns = self.columns
        lines = [("system", *columns.values())]
        for row in self.rows:
            lines.append(
                (row.system, f"not measured: {row.fault}")
                if row.fault
                else (row.name, *(shown(name, row.values.get(name)) for name in columns))
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
    attackers = [f.attacker for results in measured for f in _eer(results, split, "eer_oa")]
    originals = [_original(results, split) for results in measured[:1]]
    present = [by_system[name] for name in order if name in by_system]
    return Comparison(
        protocol,
        split,
        tuple(sets),
        attackers[0] if attackers else "",
        (*originals, *rows),
        _by_corpus(present, split),
        tuple(point for results in present for point in _points(results)),
    )


def _by_corpus(measured: Sequence[Results], split: str) -> dict[str, tuple[ComparisonRow, ...]]:
    """Return the rows of each corpus, e.g. ``LibriSpeech``, if there are several."""
    datasets = [f.dataset for results in measured for f in results.find("eer", split=split)]
    names = sorted({dataset.removesuffix(f"_{split}") for dataset in datasets})
    corpora = {}
    for name in names if len(names) > 1 else ():
        chosen = [
            replace(results, figures=tuple(f for f in results.figures if f.dataset == f"{name}_{split}"))
            for results in measured
        ]
        rows = (*(_original(results, split) for results in chosen[:1]), *(_row(results, split) for results in chosen))
        corpora[_CORPORA.get(name, name)] = rows
    return corpora


def _points(results: Results) -> Iterator[AttackPoint]:
    """Yield EER and minimum Cllr of each attack on anonymized speech, in all splits."""
    for column in _ATTACKS:
        for eer in _eer(results, None, column):
            same = {key: getattr(eer, key) for key in ("dataset", "subset", "gender", "condition", "attacker")}
            for cllr in results.find("min_cllr", **same)[:1]:
                yield AttackPoint(results.system, dataset_of(eer), column, eer.value, cllr.value)


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


#: Column -> condition and knowledge of the attacker.
_ATTACKS = {
    "eer_oa": ("oa", "ignorant"),
    "eer_aa": ("aa", "lazy-informed"),
    "eer_semi": ("aa", "semi-informed"),
}


def _row(results: Results, split: str) -> ComparisonRow:
    eers = {column: _eer(results, split, column) for column in _ATTACKS}
    original = {figure.model for figure in results.find("wer", condition="o")}
    figures: dict[str, Sequence[Figure]] = {
        **eers,
        "wer": _wer(results, split, "a", lambda model: not original or model in original),
        "wer_anon": _wer(results, split, "a", lambda model: bool(original) and model not in original),
        "deid": results.find("deid", split=split),
        "gvd": results.find("gvd", split=split),
    }
    row = _means(results.system, figures)
    return replace(row, checks=results.checks, genders=_by_gender(eers))


def _original(results: Results, split: str) -> ComparisonRow:
    """Return the row of the original speech, where all attackers coincide and G_VD and DeID are 0 by definition."""
    eer = _chosen(results.find("eer", condition="oo", knowledge="unprotected"), split)
    known = [column for column in _ATTACKS if column not in _OPTIONAL or _eer(results, split, column)]
    eers = dict.fromkeys(known, eer)
    row = _means(ORIGINAL, {**eers, "wer": _wer(results, split, "o")})
    values = {**row.values, "deid": Average(0.0), "gvd": Average(0.0)}
    return ComparisonRow(ORIGINAL, values, genders=_by_gender(eers))


def _eer(results: Results, split: str | None, column: str) -> tuple[Figure, ...]:
    """Return the EERs of a column, of one attacker; None: of all splits."""
    condition, knowledge = _ATTACKS[column]
    return _chosen(results.find("eer", condition=condition, knowledge=knowledge), split)


def _chosen(figures: Sequence[Figure], split: str | None) -> tuple[Figure, ...]:
    """Return the figures of a split by the first attacker."""
    return tuple(f for f in figures if f.attacker == figures[0].attacker and split in (None, f.split))


def _wer(
    results: Results, split: str, condition: str, wanted: Callable[[str], bool] = lambda model: True
) -> tuple[Figure, ...]:
    """Return the WERs that count, of the first wanted recognizer."""
    figures = tuple(f for f in results.figures if f.metric != "wer" or wanted(f.model))
    chosen = replace(results, figures=figures)
    return counting_figures(chosen, "wer", find_protocol(results), split=split, condition=condition)


def _by_gender(columns: Mapping[str, Sequence[Figure]]) -> dict[str, Mapping[str, Average]]:
    genders = {
        gender: _means("", {name: [f for f in figures if f.gender == gender] for name, figures in columns.items()})
        for gender in ("f", "m")
    }
    return {gender: row.values for gender, row in genders.items() if row.values}


def _means(system: str, columns: Mapping[str, Sequence[Figure]]) -> ComparisonRow:
    return ComparisonRow(system, {name: mean_of(tuple(figures)) for name, figures in columns.items() if figures})
