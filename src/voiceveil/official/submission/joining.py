"""The result files of several evaluations as one: track 2 of 2026 has one evaluation for each language.

Files that only one evaluation has stay as they are. Tables that several have are read, and written again with the rows
of all; where two have the same row (the emotions, which are the same for all languages) the first evaluation counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path, PurePosixPath

from voiceveil.core.errors import InputError
from voiceveil.evaluation.averages import dataset_of
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official import read_results
from voiceveil.official.exp2024 import Table, csv_text
from voiceveil.official.summary2024 import Part, summary_text

__all__ = ["join_files"]

_PARTS: Mapping[str, Part] = {"results_orig.txt": "orig", "results_anon.txt": "anon"}
_TIME = "---- Time: %d-%m-%y_%H:%M ----"


def join_files(evaluations: Sequence[Mapping[str, Path]], folder: Path) -> dict[str, Path]:
    """Return name in the archive -> file, for the files of several evaluations.

    Parameters
    ----------
    evaluations
        Name -> file, of each evaluation.
    folder
        An empty folder, for the tables that are written anew.

    Raises
    ------
    InputError
        If a file of several evaluations is no table.
    """
    sources: dict[str, list[Path]] = {}
    for files in evaluations:
        for name, path in files.items():
            sources.setdefault(name, []).append(path)
    joined = {}
    for name, paths in sources.items():
        joined[name] = paths[0]
        if len(paths) > 1:
            joined[name] = folder / str(len(joined))
            joined[name].write_text(_joined_text(name, paths), encoding="utf-8")
    return joined


def _joined_text(name: str, paths: Sequence[Path]) -> str:
    file = PurePosixPath(name)
    if file.name.startswith("NOTE"):
        return "\n".join(path.read_text(encoding="utf-8") for path in paths)
    results = [read_results(path) for path in paths]
    whole = Results(results[0].system, results[0].protocol, _rows(results))
    if file.suffix == ".csv":
        return csv_text(whole, _table(file))
    if file.name in _PARTS or file.name.startswith("result_for_rank"):
        part = _PARTS.get(file.name, "rank")
        return summary_text(whole, part=part, time=_time(results[0]), asv_condition="aa")
    raise InputError(f"{name} is in several evaluations", where=paths[1], fix="pack evaluations of different languages")


def _rows(results: Sequence[Results]) -> tuple[Figure, ...]:
    """Return the figures of all results; of two for the same row, the first."""
    rows: dict[tuple[str, ...], Figure] = {}
    for figure in (figure for own in results for figure in own.figures):
        rows.setdefault((figure.metric, dataset_of(figure), figure.condition, figure.evaluator), figure)
    return tuple(rows.values())


def _table(file: PurePosixPath) -> Table:
    if file.parent.name == "ser":
        return "ser_folds" if file.name.startswith("results_folds") else "ser"
    return "asr" if file.parent.name == "asr" else "asv"


def _time(results: Results) -> datetime:
    """Return the time in the heading of a summary."""
    with suppress(ValueError, IndexError, TypeError):
        return datetime.strptime(str(results.info["layout"][0]), _TIME)
    raise InputError(f"{results.system}: a summary without its time", fix="evaluate again")
