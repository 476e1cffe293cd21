"""Details of an evaluation, utterance by utterance: small plain files for the report and for the user.

Beside ``results.json`` and ``scores/`` an evaluation writes

    details/<set>.tsv               one row an utterance: speaker, audio files, and the columns of the tasks
    details/<set>.similarity.json   the speakers of a trial set and its three voice similarity matrices

Conventions: a table has a heading and tabs between its cells, as the module :mod:`csv` writes them ("excel-tab"); an
empty cell was not measured. ``f0_*`` is the mean of the voiced frames in Hz. Words are normalized as for the WER. Paths
are relative to the folder of the results if the audio lies within it. The tables hold names and words of the speakers:
they are as personal as the corpus.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import build, read_json
from voiceveil.core.errors import InputError
from voiceveil.core.files import bounded_lines, open_file
from voiceveil.corpus import Utterance

__all__ = ["Column", "Details", "Similarity", "UtteranceRecord", "read_details", "utterance_record", "write_details"]

_LARGEST_TABLE, _LARGEST_MATRICES = 256 << 20, 64 << 20  # bytes
_LARGEST_NUMBER = 1e6  # seconds, Hz, similarities
_FIX = "evaluate again"


@dataclass(frozen=True)
class Column:
    """A column of a task: text, or numbers from ``low`` to ``high`` if one of them is given."""

    name: str
    low: float | None = None
    high: float | None = None

    @property
    def is_number(self) -> bool:
        """True if cells are numbers."""
        return self.low is not None or self.high is not None


@dataclass(frozen=True)
class UtteranceRecord:
    """One utterance: its speaker, its audio, and ``measured``: column of a task -> words or a number."""

    utterance: str
    speaker: str = ""
    gender: str = ""
    original: str = ""  # path of the audio
    anonymized: str = ""
    start: float = 0.0  # of the utterance in the original audio, seconds
    duration: float | None = None  # None: to the end
    measured: Mapping[str, str | float] = field(default_factory=dict)

    def text(self, column: str) -> str:
        """Return the words in a column; "" if there are none."""
        return str(self.measured.get(column, ""))

    def number(self, column: str) -> float | None:
        """Return the number in a column; None if it was not measured."""
        value = self.measured.get(column)
        return None if value is None else float(value)


@dataclass(frozen=True)
class Similarity:
    """Voice similarity of the speakers of a set: matrices of shape (N, N), original then anonymized."""

    speakers: tuple[str, ...]
    oo: tuple[tuple[float, ...], ...]
    oa: tuple[tuple[float, ...], ...]
    aa: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Details:
    """Set -> its utterances; set -> its similarity matrices. Empty if an evaluation has kept none."""

    utterances: Mapping[str, tuple[UtteranceRecord, ...]]
    similarity: Mapping[str, Similarity]


def utterance_record(original: Utterance, anonymized: Utterance, measured: Mapping[str, Any]) -> UtteranceRecord:
    """Return the row of an utterance; what is None in ``measured`` was not measured."""
    return UtteranceRecord(
        original.id,
        original.speaker or "",
        original.gender or "",
        str(original.path),
        str(anonymized.path),
        original.start,
        original.duration,
        {name: value for name, value in measured.items() if value is not None},
    )


def task_columns() -> dict[str, Column]:
    """Return the columns of all tasks, in their order."""
    from voiceveil.evaluation.tasks import all_tasks  # here: the tasks use this module

    return {column.name: column for task in all_tasks() for column in task.columns}


_OWN = {entry.name: str(entry.type) for entry in fields(UtteranceRecord) if entry.name != "measured"}


def write_details(details: Details, out: Path) -> None:
    """Write ``details/`` into the folder of the results."""
    folder = out / "details"
    folder.mkdir(parents=True, exist_ok=True)
    known = task_columns()
    for name, rows in details.utterances.items():
        used = {column for row in rows for column in row.measured}
        columns = [column for column in known if column in used]
        with atomic_path(folder / f"{name}.tsv") as part, part.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, "excel-tab", lineterminator="\n")
            writer.writerow([*_OWN, *columns])
            for row in (_with_stored_paths(row, out) for row in rows):
                cells = [getattr(row, key) for key in _OWN] + [row.measured.get(column) for column in columns]
                writer.writerow([_cell(value) for value in cells])
    for name, similarity in details.similarity.items():
        with atomic_path(folder / f"{name}.similarity.json") as part:
            part.write_text(json.dumps(vars(similarity)) + "\n")


def _with_stored_paths(row: UtteranceRecord, out: Path) -> UtteranceRecord:
    """Return the row with paths relative to ``out`` where the audio lies within it, and absolute ones elsewhere."""
    return replace(row, original=_stored_path(row.original, out), anonymized=_stored_path(row.anonymized, out))


def _stored_path(path: str, out: Path) -> str:
    if not path:
        return ""
    place, folder = Path(path).absolute(), out.absolute()
    return str(place.relative_to(folder) if place.is_relative_to(folder) else place)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read_details(out: Path) -> Details:
    """Read ``details/`` of a folder of results; empty if an evaluation has kept none.

    Raises
    ------
    InputError
        If a file is not of the right form.
    """
    folder = out / "details"
    tables = {path.name.removesuffix(".tsv"): _read_table(path) for path in sorted(folder.glob("*.tsv"))}
    similar = sorted(folder.glob("*.similarity.json"))
    return Details(tables, {path.name.removesuffix(".similarity.json"): _read_matrices(path) for path in similar})


def _read_table(path: Path) -> tuple[UtteranceRecord, ...]:
    known = task_columns()
    try:
        if path.stat().st_size > _LARGEST_TABLE:
            raise InputError(f"more than {_LARGEST_TABLE} bytes", where=path, fix=_FIX)
        with io.TextIOWrapper(open_file(path), newline="", encoding="utf-8") as stream:
            reader = csv.reader(bounded_lines(stream, path), "excel-tab", strict=True)
            heading = next(reader, [])
            unknown = [name for name in heading if name not in known and name not in _OWN]
            if unknown or "utterance" not in heading:
                raise InputError("not a table of utterances", where=path, line=1, fix=_FIX)
            return tuple(_read_row(zip(heading, cells, strict=True), known) for cells in reader)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=path) from error
    except (ValueError, csv.Error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a row is not of the right form: {error}", where=path, fix=_FIX) from error


def _read_row(cells: Iterable[tuple[str, str]], known: Mapping[str, Column]) -> UtteranceRecord:
    own: dict[str, Any] = {}
    measured: dict[str, str | float] = {}
    for name, text in cells:
        if name in known:
            column = known[name]
            if text:
                measured[name] = _number(text, column) if column.is_number else text
        elif text or _OWN[name] == "str":
            own[name] = _number(text, Column(name, low=0.0)) if _OWN[name].startswith("float") else text
    return UtteranceRecord(**own, measured=measured)


def _number(text: str, column: Column) -> float:
    """Return the number in a cell; a ``ValueError`` if the column cannot have it."""
    low = -_LARGEST_NUMBER if column.low is None else column.low
    high = _LARGEST_NUMBER if column.high is None else column.high
    value = float(text)
    if not low - 1e-6 <= value <= high + 1e-6:
        raise ValueError(f"{column.name} is {text[:40]}")
    return value


def _read_matrices(path: Path) -> Similarity:
    similarity = build(Similarity, read_json(path, largest=_LARGEST_MATRICES, fix=_FIX), where=path, fix=_FIX)
    size = len(similarity.speakers)
    for matrix in (similarity.oo, similarity.oa, similarity.aa):
        if not size or len(matrix) != size or any(len(row) != size for row in matrix):
            problem = f"not similarity matrices: a matrix is not of {size} rows and columns"
            raise InputError(problem, where=path, fix=_FIX)
        if any(abs(value) > _LARGEST_NUMBER for row in matrix for value in row):
            raise InputError("not similarity matrices: a value is too large", where=path, fix=_FIX)
    return similarity
