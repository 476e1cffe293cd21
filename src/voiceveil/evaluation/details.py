"""What lies behind the figures of an evaluation, utterance by utterance: small plain files for the report and for you.

Beside ``results.json`` and ``scores/`` (see :mod:`voiceveil.attack.pipeline`) an evaluation writes

    details/<set>.tsv               one row an utterance: who speaks, where the audio is, what was heard, its pitch
    details/<set>.similarity.json   the speakers of a set of trials and its three voice similarity matrices

Conventions: a table has a heading and tabs between its cells, as the module :mod:`csv` writes them ("excel-tab"); an
empty cell was not measured. ``f0_*`` is the mean of the voiced frames in Hz. Words are normalised as for the WER. Paths
are relative to the folder of the results if the audio lies within it. The tables hold names and words of the speakers:
they are as personal as the corpus.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import build, read_json
from voiceveil.core.errors import InputError
from voiceveil.core.files import bounded_lines, open_file

__all__ = ["Details", "Heard", "Similarity", "read_details", "write_details"]

_LARGEST_TABLE, _LARGEST_MATRICES = 256 << 20, 64 << 20  # bytes
_LARGEST_NUMBER = 1e6  # seconds, Hz, similarities
_FIX = "evaluate again"


@dataclass(frozen=True)
class Heard:
    """One utterance; what was not measured is None."""

    utterance: str
    speaker: str = ""
    gender: str = ""
    original: str = ""  # path of the audio
    anonymized: str = ""
    start: float = 0.0  # of the utterance in the original audio, seconds
    duration: float | None = None  # None: to the end
    reference: str | None = None  # words
    heard_original: str | None = None
    heard_anonymized: str | None = None
    f0_original: float | None = None  # Hz
    f0_anonymized: float | None = None
    pitch_correlation: float | None = None


@dataclass(frozen=True)
class Similarity:
    """Voice similarity of the speakers of a set: matrices of shape (N, N), original then anonymized."""

    speakers: tuple[str, ...]
    oo: tuple[tuple[float, ...], ...]
    oa: tuple[tuple[float, ...], ...]
    aa: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Details:
    """Set -> its utterances; set -> its similarity matrices. Empty where an evaluation has kept none."""

    utterances: Mapping[str, tuple[Heard, ...]]
    similarity: Mapping[str, Similarity]


def write_details(details: Details, out: Path) -> None:
    """Write ``details/`` into the folder of the results."""
    folder = out / "details"
    folder.mkdir(parents=True, exist_ok=True)
    names = [field.name for field in fields(Heard)]
    for name, rows in details.utterances.items():
        with atomic_path(folder / f"{name}.tsv") as part, part.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, "excel-tab", lineterminator="\n")
            writer.writerow(names)
            stored = (_with_stored_paths(row, out) for row in rows)
            writer.writerows([_cell(getattr(row, key)) for key in names] for row in stored)
    for name, one in details.similarity.items():
        with atomic_path(folder / f"{name}.similarity.json") as part:
            part.write_text(json.dumps(vars(one)) + "\n")


def _with_stored_paths(row: Heard, out: Path) -> Heard:
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
    """Read ``details/`` of a folder of results; nothing is there if an evaluation has kept none."""
    folder = out / "details"
    tables = {path.name.removesuffix(".tsv"): _table(path) for path in sorted(folder.glob("*.tsv"))}
    similar = sorted(folder.glob("*.similarity.json"))
    return Details(tables, {path.name.removesuffix(".similarity.json"): _matrices(path) for path in similar})


def _table(path: Path) -> tuple[Heard, ...]:
    known = {field.name: str(field.type) for field in fields(Heard)}
    try:
        if path.stat().st_size > _LARGEST_TABLE:
            raise InputError(f"more than {_LARGEST_TABLE} bytes", where=path, fix=_FIX)
        with io.TextIOWrapper(open_file(path), newline="", encoding="utf-8") as stream:
            reader = csv.reader(bounded_lines(stream, path), "excel-tab", strict=True)
            heading = next(reader, [])
            strange = [name for name in heading if name not in known]
            if strange or "utterance" not in heading:
                raise InputError("not a table of utterances", where=path, line=1, fix=_FIX)
            return tuple(_row(dict(zip(heading, cells, strict=True)), known) for cells in reader)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=path) from error
    except (ValueError, csv.Error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a row is not of the right form: {error}", where=path, fix=_FIX) from error


def _row(cells: Mapping[str, str], known: Mapping[str, str]) -> Heard:
    values: dict[str, Any] = {}
    for name, text in cells.items():
        if text or known[name] == "str":
            values[name] = _number(name, text) if known[name].startswith("float") else text
    if values.get("reference") is not None:  # a recogniser that heard nothing: measured, and empty
        values.setdefault("heard_original", "")
        values.setdefault("heard_anonymized", "")
    return Heard(**values)


def _number(name: str, text: str) -> float:
    """Return the number in a cell; a ``ValueError`` if the column cannot have it."""
    least, most = (-1.0 - 1e-6, 1.0 + 1e-6) if name == "pitch_correlation" else (0.0, _LARGEST_NUMBER)
    value = float(text)
    if not least <= value <= most:
        raise ValueError(f"{name} is {text[:40]}")
    return value


def _matrices(path: Path) -> Similarity:
    found = build(Similarity, read_json(path, largest=_LARGEST_MATRICES, fix=_FIX), where=path, fix=_FIX)
    size = len(found.speakers)
    for matrix in (found.oo, found.oa, found.aa):
        if not size or len(matrix) != size or any(len(row) != size for row in matrix):
            what = f"not similarity matrices: a matrix is not of {size} rows and columns"
            raise InputError(what, where=path, fix=_FIX)
        if any(abs(value) > _LARGEST_NUMBER for row in matrix for value in row):
            raise InputError("not similarity matrices: a value is too large", where=path, fix=_FIX)
    return found
