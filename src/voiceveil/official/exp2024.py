"""Files that the scripts of 2024 write below ``exp``: tables of all figures, scores, EERs.

    asv_orig/results<suffix>.csv            dataset split gender enrollment trial EER
    asv_anon<suffix>/results<suffix>.csv    the same, of the semi-informed attacker
    asr/results<suffix>.csv                 dataset split asr WER
    ser/results<suffix>.csv                 dataset split ser UAR ACC_sad ...: means over folds, with two headings
    ser/results_folds<suffix>.csv           dataset split fold ser UAR ACC_sad ...
    asv_*/<enroll set>-<trial set>/scores   <enrolled speaker> <utterance> <score>, in the order of the trials
    asv_*/<enroll set>-<trial set>/EER      the EER as a fraction, without an end of line

Conventions: see :mod:`.rows2024`; the first, nameless column of a CSV is the number of the row. Means over folds are
written with four decimals, as many as the mean of five figures with three decimals has; the official files also carry
the rounding noise of the mean, e.g. ``55.61460000000001``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.corpus.model import Trials
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official.frames import Frame, FrameColumn
from voiceveil.official.rows2024 import KINDS, check_columns, figure_of, figures_by_key, frame_of
from voiceveil.official.source import Line, read_source

__all__ = ["Table", "csv_text", "is_csv", "parse_csv", "read_eer", "write_csv", "write_eer", "write_scores"]

Table = Literal["asv", "asr", "ser", "ser_folds"]
_TITLES: Mapping[str, str] = {"asv": "ASV_eval", "asr": "ASR", "ser": "SER"}
_FOLDS = ("dataset", "split", "fold", "ser", "UAR")
_ORDER = {"oo": 0, "oa": 1, "aa": 2, "o": 0, "a": 1}


def is_csv(line: Line) -> bool:
    """Return whether a file with this first line is one of the tables."""
    return line.text.startswith(",dataset,split,")


def parse_csv(lines: Sequence[Line], system: str) -> Results:
    """Return the results in the lines of a table; EERs are of ``ASV_eval^anon`` in a folder ``asv_anon...``.

    Raises
    ------
    InputError
        If a line is not of the table, with its number.
    """
    lines = [line for line in lines if line.text.strip()]
    rows = [_cells(line) for line in lines]
    columns = rows[0][1:]
    if tuple(columns[: len(_FOLDS)]) == _FOLDS:
        return Results(system, "vpc2024", _of_folds(lines, rows), {})
    folder = lines[0].path.absolute().parent.name
    last = {"asr": "ASR", "ser": "SER"}.get(
        columns[2], "ASV_eval^anon" if folder.startswith("asv_anon") else "ASV_eval"
    )
    kind = KINDS[last]
    emotions = check_columns(kind, columns, lines[0])
    first = 1
    if kind.has_recalls:
        first = 2
        if len(rows) < 2 or rows[1] != ["", *[""] * len(kind.keys), *["mean"] * (1 + len(emotions))]:
            raise lines[min(1, len(lines) - 1)].error(
                "no second heading", fix="the challenge writes `mean` below UAR and below each ACC"
            )
    figures: list[Figure] = []
    for line, cells in zip(lines[first:], rows[first:], strict=True):
        if len(cells) != len(rows[0]):
            raise line.error(f"{len(cells)} cells instead of {len(rows[0])}")
        figure = figure_of(kind, cells[1:], emotions, line)
        if any(_same(figure, other) for other in figures):
            raise line.error(f"{' '.join(cells[1 : 1 + len(kind.keys)])} is there twice")
        figures.append(figure)
    if not figures:
        raise lines[-1].error("a table without rows")
    return Results(system, "vpc2024", tuple(figures), {})


def _cells(line: Line) -> list[str]:
    try:
        rows = list(csv.reader([line.text], strict=True))
    except csv.Error as error:
        raise line.error(f"not a line of CSV: {error}") from error
    return rows[0] if rows else []


def _same(figure: Figure, other: Figure) -> bool:
    return (figure.dataset, figure.gender, figure.subset, figure.condition) == (
        other.dataset,
        other.gender,
        other.subset,
        other.condition,
    )


def _of_folds(lines: Sequence[Line], rows: Sequence[list[str]]) -> tuple[Figure, ...]:
    """Return one figure for the folds of each set: their mean, with each fold in ``detail["folds"]``."""
    kind = KINDS["SER"]
    emotions = check_columns(kind, rows[0][1:3] + rows[0][4:], lines[0])
    groups: dict[tuple[str, str], dict[str, Figure]] = {}
    for line, cells in zip(lines[1:], rows[1:], strict=True):
        if len(cells) != len(rows[0]):
            raise line.error(f"{len(cells)} cells instead of {len(rows[0])}")
        present = [e for e, text in zip(emotions, cells[6:], strict=True) if text]  # an emotion that a fold lacks
        numbers = [cells[5], *(text for text in cells[6:] if text)]
        figure = figure_of(kind, [cells[1], cells[2], cells[4], *numbers], present, line)
        folds = groups.setdefault((figure.dataset, figure.condition), {})
        if cells[3] in folds:
            raise line.error(f"fold {cells[3]} is there twice")
        folds[cells[3]] = figure
    if not groups:
        raise lines[-1].error("a table without rows")
    return tuple(_mean(folds, emotions) for folds in groups.values())


def _mean(folds: Mapping[str, Figure], emotions: Sequence[str]) -> Figure:
    first = next(iter(folds.values()))
    recalls = {}
    for emotion in emotions:
        values = [f.detail["recalls"][emotion] for f in folds.values() if emotion in f.detail.get("recalls", {})]
        if values:
            recalls[emotion] = math.fsum(values) / len(values)
    value = math.fsum(figure.value for figure in folds.values()) / len(folds)
    parts = {fold: {"uar": f.value, "recalls": f.detail.get("recalls", {})} for fold, f in folds.items()}
    return Figure(
        "uar",
        value,
        first.dataset,
        split=first.split,
        condition=first.condition,
        model=first.model,
        detail={"recalls": recalls, "folds": parts},
    )


def csv_text(results: Results, table: Table, *, attacker: str | None = None) -> str:
    """Return a table as ``DataFrame.to_csv`` writes it, in the order of the challenge's scripts.

    Parameters
    ----------
    results : Results
        The figures.
    table : {"asv", "asr", "ser", "ser_folds"}
        Which table.
    attacker : str, optional
        Attacker whose EERs are written, needed if there are several.

    Raises
    ------
    InputError
        If there are no figures for the table, or several attackers.
    """
    if table == "ser_folds":
        return _folds_frame(results).to_csv()
    if table not in _TITLES:
        raise InputError(f"unknown table {table!r}", fix=f"known: {', '.join((*_TITLES, 'ser_folds'))}")
    kind = KINDS[_TITLES[table]]
    chosen = figures_by_key(results.figures, kind, attacker)
    if not chosen:
        raise InputError(f"{results.system}: no {kind.heading} to write")
    order = sorted(chosen, key=lambda key: _place(table, key, chosen[key]))
    figures = [chosen[key] for key in order]
    emotions = list(figures[0].detail.get("recalls", {})) if kind.has_recalls else []
    return frame_of(kind, range(len(order)), order, figures, emotions).to_csv()


def _place(table: str, key: tuple[str, ...], figure: Figure) -> tuple[Any, ...]:
    """Return the sort key of a row: EERs by trial set, then condition; WERs of all original sets first."""
    if table == "asr":
        return (_ORDER[figure.condition], key[0] == "IEMOCAP", *key[:2])
    return key if table == "ser" else (*key[:3], _ORDER[figure.condition])


def _folds_frame(results: Results) -> Frame:
    figures = [f for f in results.find("uar") if isinstance(f.detail.get("folds"), Mapping)]
    if not figures:
        raise InputError(f"{results.system}: no UAR of single folds", fix='they stand in detail["folds"] of a UAR')
    figures.sort(key=lambda f: (f.condition != "o", f.dataset))
    rows = [(f, fold, part) for f in figures for fold, part in f.detail["folds"].items()]
    corpora = [f.dataset.removesuffix(f"_{f.split}") for f, _, _ in rows]
    emotions = list(dict.fromkeys(emotion for _, _, part in rows for emotion in part["recalls"]))
    columns = [
        FrameColumn("dataset", corpora),
        FrameColumn("split", [f.split for f, _, _ in rows]),
        FrameColumn("fold", [fold for _, fold, _ in rows]),
        FrameColumn("ser", ["anon" if f.condition == "a" else "original" for f, _, _ in rows]),
        FrameColumn("UAR", [round(100 * part["uar"], 3) for _, _, part in rows]),
    ]
    for emotion in emotions:
        shares = [part["recalls"].get(emotion) for _, _, part in rows]
        columns.append(FrameColumn(f"ACC_{emotion}", ["" if s is None else repr(round(100 * s, 3)) for s in shares]))
    return Frame(range(len(rows)), columns)


def write_csv(results: Results, path: Path, table: Table, *, attacker: str | None = None) -> None:
    """Write :func:`csv_text` to a file, atomically."""
    text = csv_text(results, table, attacker=attacker)
    with atomic_path(path) as file:
        file.write_text(text)


def write_scores(path: Path, trials: Trials, scores: ArrayLike) -> None:
    """Write an official score file: the trials in their order, each with its score, shape (n,)."""
    import numpy as np

    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(trials),) or np.isnan(values).any():
        raise InputError(
            f"scores of shape {values.shape} for {len(trials)} trials", where=path, fix="give one number per trial"
        )
    pairs = zip(trials.enroll.tolist(), trials.utterance.tolist(), values.tolist(), strict=True)
    text = "".join(f"{speaker} {utterance} {score!r}\n" for speaker, utterance, score in pairs)
    with atomic_path(path) as file:
        file.write_text(text)


def read_eer(path: Path) -> float:
    """Return the EER in an official ``EER`` file, as a fraction."""
    lines = [line for line in read_source(path) if line.text.strip()]
    if len(lines) != 1:
        raise lines[1].error("more than one line", fix="an EER file holds one number")
    return lines[0].value(lines[0].text.strip(), "the EER", least=0.0, most=1.0)


def write_eer(path: Path, eer: float) -> None:
    """Write an official ``EER`` file: the shortest decimal that is the same fraction, without an end of line."""
    if not 0.0 <= eer <= 1.0:
        raise InputError(f"the EER is {eer}", where=path, fix="give a fraction in [0, 1]")
    with atomic_path(path) as file:
        file.write_text(str(float(eer)))
