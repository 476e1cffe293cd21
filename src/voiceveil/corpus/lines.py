"""Read and write text files of lines; every fault is reported with its line.

Conventions: UTF-8, one record a line, fields separated by blanks; lines count from 1. An id is a non-empty string
without blanks or control characters. Whatever bytes a file holds, the only exception is what ``report`` raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.files import LONGEST_LINE, bounded_lines, open_file
from voiceveil.corpus.faults import Fault, Report

__all__ = ["LineTable", "gender_of", "is_id", "read_lines", "read_table", "write_lines", "write_table"]

_BLANKS = " \t\r"
_ID = r"[^\s\x00-\x1f\x7f\ud800-\udfff]+"
_RECORD = re.compile(rf"({_ID})(?:[ \t]+(.*)|)\Z", re.DOTALL)
_IS_ID = re.compile(_ID).fullmatch
# The last two are those of Common Voice from version 17 on.
_GENDERS = {"f": "f", "female": "f", "m": "m", "male": "m", "female_feminine": "f", "male_masculine": "m"}


@dataclass
class LineTable:
    """The parsed lines ``<key> <value>`` of a file: key -> value and key -> line number, in file order."""

    path: Path
    values: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)


def is_id(text: str) -> bool:
    """Return whether ``text`` can be one field of a line: not empty, without blanks and control characters."""
    return _IS_ID(text) is not None


def gender_of(text: str) -> str | None:
    """Return ``"f"`` or ``"m"`` for the ways in which corpora write it (``F``, ``female``), None for anything else."""
    return _GENDERS.get(text.strip().lower())


def read_lines(path: Path, report: Report, *, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """Yield number and text, without trailing blanks, of each line that is not blank.

    Faults go to ``report``. A line of more than ``longest`` bytes ends the reading.
    """
    for number, data in enumerate(_raw_lines(path, report, longest), start=1):
        line = _decode(data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data)
        if line is None:
            report(Fault(path, number, "not UTF-8", fix="convert the file, e.g. `iconv -f latin1 -t utf-8`"))
        elif stripped := line.rstrip(_BLANKS):
            yield number, stripped
        elif line:
            report(Fault(path, number, "a line of blanks", fix="remove it", note=True))


def _raw_lines(path: Path, report: Report, longest: int) -> Iterator[bytes]:
    """Yield the lines as they are read, in flat memory."""
    try:
        with open_file(path) as file:
            for line in bounded_lines(file, path, longest=longest):
                yield line.removesuffix(b"\n")
    except InputError as error:
        report(Fault(path, error.line, error.what, error.fix))
    except OSError as error:
        report(Fault(path, None, f"cannot read this file: {error.strerror or error}"))


def _decode(line: bytes) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


def read_table(path: Path, report: Report, *, empty_values: bool = False, longest: int = LONGEST_LINE) -> LineTable:
    """Read ``<key> <value>`` lines; everything after the first blanks is the value.

    Faults: a line that starts with a blank, a key that occurs twice (the first one stays), a key without value
    unless ``empty_values``. Keys that are not sorted are a note.
    """
    table = LineTable(path)
    values, lines = table.values, table.lines
    previous = ""
    unsorted = 0
    for number, line in read_lines(path, report, longest=longest):
        match = _RECORD.match(line)
        if match is None:
            report(_no_record(path, number, line))
            continue
        key, value = match.groups()
        if key in values:
            report(Fault(path, number, f"{key} occurs twice, first on line {lines[key]}", fix="keep one"))
        elif not value and not empty_values:
            report(Fault(path, number, f"{key} has no value", fix="write `<id> <value>`"))
        else:
            values[key] = value or ""
            lines[key] = number
            if key < previous and not unsorted:
                unsorted = number
            previous = key
    if unsorted:
        report(Fault(path, unsorted, "not sorted", fix="`LC_ALL=C sort` it if Kaldi tools will read it", note=True))
    return table


def _no_record(path: Path, number: int, line: str) -> Fault:
    if line[0] in _BLANKS:
        return Fault(path, number, "the line starts with a blank: its id is empty", fix="start it with the id")
    return Fault(path, number, f"an id with unprintable characters: {line[:40]!r}", fix="rename it")


def write_lines(path: Path, lines: list[str]) -> None:
    """Write the lines as UTF-8, atomically."""
    text = "".join(f"{line}\n" for line in lines)
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        bad = text[max(0, error.start - 20) : error.end]
        raise InputError(f"not writable as UTF-8: {bad!r}", where=path, fix="rename it") from error
    with atomic_path(path) as part:
        part.write_bytes(data)


def write_table(path: Path, values: Mapping[str, str]) -> None:
    """Write ``<key> <value>`` lines, sorted by key as ``LC_ALL=C sort`` does."""
    for key in values:
        if not is_id(key):
            raise InputError(f"{key!r} cannot stand in a line of {path.name}", where=path, fix="use ids without blanks")
    write_lines(path, [f"{key} {values[key]}".rstrip(" ") for key in sorted(values)])
