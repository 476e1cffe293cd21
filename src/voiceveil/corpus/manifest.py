"""Manifests: one utterance a row, in CSV (with a header) or JSON lines.

The columns are the fields of an :class:`~voiceveil.corpus.model.Utterance`; only ``path`` is needed. A relative path
starts from the manifest's folder or from the working directory; one that is two different files is refused
(:mod:`.paths`). Without ``id`` the id is the path as written, without its suffix. An empty CSV field is None. Trials
stand beside ``name.csv`` in ``name.trials.csv`` (columns ``enroll``, ``utterance``, ``target``: 1 or 0).
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path, clear_path
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError
from voiceveil.core.files import bounded_lines, open_file
from voiceveil.core.registry import did_you_mean
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.lines import gender_of, read_lines
from voiceveil.corpus.model import Corpus, Trials, Utterance, UtteranceSource, paused_collector
from voiceveil.corpus.paths import PathFinder, relative_below
from voiceveil.corpus.readers import corpora

__all__ = ["listed", "read_manifest", "read_rows", "read_trials", "twice", "write_manifest", "write_trials"]

COLUMNS = [field.name for field in fields(Utterance)]
NUMBERS = ("start", "duration", "seconds")
ROLES = ("", "enroll", "trial", "train")
Row = dict[str, Any]


@corpora.register("manifest")
def read_manifest(path: Path, report: Report = strict) -> Corpus:
    """Read a ``.csv`` or ``.jsonl`` manifest."""
    return read_rows(path, report)[0]


def read_rows(path: Path, report: Report) -> tuple[Corpus, dict[str, int]]:
    """Return the corpus, and utterance -> the line on which it ends."""
    with paused_collector():
        utterances, lines = _utterances(path, report)
    trials = path.with_suffix(".trials.csv")
    trial_list = read_trials(trials, report) if os.path.lexists(trials) else None
    return Corpus(path.stem, utterances, trial_list, "manifest", path.parent), lines


def _utterances(path: Path, report: Report) -> tuple[tuple[Utterance, ...], dict[str, int]]:
    utterances: dict[str, Utterance] = {}
    lines: dict[str, int] = {}
    for line, utterance in listed(path, report):
        if utterance.id in utterances:
            report(twice(path, line, utterance, lines[utterance.id]))
            continue
        utterances[utterance.id] = utterance
        lines[utterance.id] = line
    return tuple(utterances.values()), lines


def listed(path: Path, report: Report) -> Iterator[tuple[int, Utterance]]:
    """Yield line and utterance of each valid row as it is read; ids may occur twice."""
    rows = _json_rows(path, report) if path.suffix.lower() == ".jsonl" else _csv_rows(path, report)
    find = PathFinder([path.parent, Path()])
    for line, row in rows:
        try:
            yield line, _utterance(row, find)
        except InputError as error:
            report(Fault(path, line, error.what, error.fix))


def twice(path: Path, line: int, utterance: Utterance, first: int) -> Fault:
    """Return the fault of an id that occurred before."""
    problem = f"{utterance.id} occurs twice, first on line {first}"
    return Fault(path, line, problem, fix="give each utterance its own id")


def _csv_rows(path: Path, report: Report) -> Iterator[tuple[int, Row]]:
    """Yield line number and fields of each row of a CSV file."""
    try:
        _check_encoding(path)
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as file:
            yield from _csv_rows_of(csv.reader(bounded_lines(file, path), strict=True), path, report)
    except InputError as error:
        report(Fault(path, error.line, error.what, error.fix))
    except OSError as error:
        report(Fault(path, None, f"cannot read this file: {error.strerror or error}"))


def _check_encoding(path: Path) -> None:
    """Refuse a file that is not UTF-8, before its first row is used, with the position in the whole file."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    position = 0  # bytes
    with open_file(path) as file:
        data = b"..."
        try:
            while data:
                data = file.read(1 << 20)
                decoder.decode(data, final=not data)
                position += len(data)
        except UnicodeDecodeError as error:
            # What the decoder had kept of the block before counts in its position.
            at = position + error.start - (len(error.object) - len(data))
            problem = f"cannot read this file as UTF-8: {error.reason} at byte {at}"
            raise InputError(problem, where=path, fix="convert it to UTF-8") from error


def _csv_rows_of(reader: Any, path: Path, report: Report) -> Iterator[tuple[int, Row]]:
    header: list[str] | None = None
    try:
        for values in reader:
            if header is None:
                header = values
                if not _header_is_good(header, path, report):
                    return
            elif len(values) != len(header):
                if values:
                    problem = f"{len(values)} fields under {len(header)} columns"
                    report(Fault(path, reader.line_num, problem, fix="quote fields that hold a comma"))
            else:
                yield reader.line_num, {key: value for key, value in zip(header, values, strict=True) if value != ""}
    except csv.Error as error:
        report(Fault(path, reader.line_num, f"not CSV: {error}", fix="check the quotes"))
    if header is None:
        report(Fault(path, None, "an empty file", fix=f"write a header with some of {','.join(COLUMNS)}"))


def _header_is_good(header: list[str], path: Path, report: Report) -> bool:
    if len(set(header)) != len(header):
        report(Fault(path, 1, "a column occurs twice", fix="give each column its own name"))
        return False
    for name in header:
        if name not in COLUMNS:
            report(Fault(path, 1, f"unknown column {name!r} is ignored", fix=did_you_mean(name, COLUMNS), note=True))
    if "path" not in header and "enroll" not in header:
        report(Fault(path, 1, "no column `path`", fix=f"name the columns in the first line: {','.join(COLUMNS)}"))
        return False
    return True


def _json_rows(path: Path, report: Report) -> Iterator[tuple[int, Row]]:
    """Yield line number and object of each line of a JSON-lines file."""
    for number, line in read_lines(path, report):
        try:
            row = parse_json(line, surrogates=True)
        except InputError as error:
            report(Fault(path, number, error.what, fix="write one object a line"))
            continue
        if isinstance(row, dict):
            yield number, {key: value for key, value in row.items() if value is not None}
        else:
            report(Fault(path, number, "not a JSON object", fix='write {"id": ..., "path": ...}'))


def _utterance(row: Row, find: PathFinder) -> Utterance:
    """Return the utterance of a row; raise an ``InputError`` if a field is invalid."""
    values = {name: _value(name, row[name]) for name in COLUMNS if name in row}
    path = values.get("path")
    if not path or "\0" in path:
        raise InputError("no path", fix="each row needs the path of an audio file")
    if "id" not in values:
        values["id"] = Path(path).with_suffix("").as_posix() if Path(path).name else ""
    if values["id"] == "":
        raise InputError("an empty id", fix="give each utterance an id")
    if values.get("role", "") not in ROLES:
        raise InputError(f"role is {values['role']!r}", fix="write enroll, trial, train, or nothing")
    return Utterance(**{**values, "path": find(path)})


def _value(name: str, value: object) -> Any:
    """Return a field with the type that an utterance needs."""
    if name in NUMBERS:
        number = _number(value)
        if number is None:
            raise InputError(f"{name} is {value!r}", fix="write seconds, not negative")
        return number
    if not (isinstance(value, str) and _is_text(value)):
        raise InputError(f"{name} is {value!r}", fix="write text")
    if name == "gender" and gender_of(value) is None:
        raise InputError(f"gender is {value!r}", fix="write f or m")
    return gender_of(value) if name == "gender" else value


def _number(value: object) -> float | None:
    """Return a finite number that is not negative, or None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _is_text(value: str) -> bool:
    """Return whether text can be written as UTF-8 (JSON can hold half a surrogate pair)."""
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def read_trials(path: Path, report: Report) -> Trials:
    """Read a CSV file with the columns enroll, utterance, target."""
    enroll, utterance, target = [], [], []
    for line, row in _csv_rows(path, report):
        if row.get("target") not in ("0", "1") or "enroll" not in row or "utterance" not in row:
            report(Fault(path, line, "not a trial", fix="the columns are enroll,utterance,target; target is 1 or 0"))
            continue
        enroll.append(row["enroll"])
        utterance.append(row["utterance"])
        target.append(row["target"] == "1")
    return Trials(enroll, utterance, target)  # type: ignore[arg-type]  # lists become arrays


def manifest_files(path: Path) -> tuple[Path, ...]:
    """Return the files that :func:`write_manifest` writes: the manifest and, if there are trials, their list."""
    return path, path.with_suffix(".trials.csv")


def write_manifest(corpus: UtteranceSource, path: Path) -> None:
    """Write a ``.csv`` or ``.jsonl`` manifest (by the suffix), atomically, with the trials beside it.

    Paths below the manifest's folder are written relative to it, others absolute. A CSV file has the columns that
    hold something.
    """
    path = Path(path)
    if path.suffix.lower() == ".jsonl":
        rows = (_row(utterance, path.parent) for utterance in corpus)
        lines: Iterator[str] = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    elif path.suffix.lower() == ".csv":
        used = {key for utterance in corpus for key in _row(utterance, path.parent)}
        columns = [name for name in COLUMNS if name in used or name in ("id", "path")]
        rows = (_row(utterance, path.parent) for utterance in corpus)
        lines = _csv(columns, ([row.get(name, "") for name in columns] for row in rows))
    else:
        raise InputError("a manifest is a .csv or a .jsonl file", where=path)
    trials = path.with_suffix(".trials.csv")
    if corpus.trials is None:
        if not clear_path(trials):
            problem = "the corpus has no trials, and this file would be taken for its trial list"
            raise InputError(problem, where=trials, fix="remove it, or give the manifest another name")
    else:
        write_trials(corpus.trials, trials)
    _write(path, lines)


def write_trials(trials: Trials, path: Path) -> None:
    """Write a CSV file with the columns enroll, utterance, target (1 or 0), in the order of the trials."""
    rows = zip(trials.enroll.tolist(), trials.utterance.tolist(), trials.target.astype(int).tolist(), strict=True)
    _write(path, _csv(["enroll", "utterance", "target"], rows))


def _row(utterance: Utterance, folder: Path) -> Row:
    """Return the fields that differ from their default."""
    row = {
        field.name: getattr(utterance, field.name)
        for field in fields(Utterance)
        if getattr(utterance, field.name) != field.default
    }
    row["path"] = relative_below(utterance.path, folder)
    return row


def _csv(columns: list[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """Return CSV with plain newlines; a lone carriage return is quoted, which the csv module leaves out."""
    return (",".join(map(_quoted, row)) + "\n" for row in chain([columns], rows))


def _quoted(value: object) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_path(path) as part, part.open("wb") as file:
        for line in lines:
            try:
                file.write(line.encode("utf-8"))
            except UnicodeEncodeError as error:
                raise InputError(f"not writable as UTF-8: {line[error.start : error.end]!r}", where=path) from error
