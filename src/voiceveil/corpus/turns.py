"""Who speaks when: turns of speakers in a recording, and the files that list them (RTTM, CSV, UEM).

Conventions: times are in seconds from the beginning of the recording. Turns of different speakers may overlap; those of
one speaker do not, and are sorted by their beginning.

RTTM is the format of the NIST evaluations, a line a turn: ``SPEAKER file channel start duration <NA> <NA> name <NA>
<NA>``; lines of other types are passed over. A CSV file has a header with the columns ``speaker``, ``start`` and
``end`` (or ``duration``), and optionally ``recording``; its times may be written as ``1:02:03.5`` too.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text
from voiceveil.core.registry import did_you_mean
from voiceveil.corpus.lines import write_lines

__all__ = ["Turn", "merge_turns", "read_regions", "read_turns", "speakers_of", "write_rttm"]

_LARGEST = 64 << 20  # bytes of a file of turns
_MOST_TURNS = 1_000_000
_LATEST = 48 * 3600.0  # seconds
_ROUNDING = 0.02  # seconds by which turns of one speaker may overlap: times in files are rounded
_COLUMNS = ("speaker", "start", "end", "duration", "recording")


class Turn(NamedTuple):
    """A stretch of speech of one speaker, from ``start`` to ``end`` in seconds."""

    speaker: str
    start: float
    end: float

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.end - self.start


class _Row(NamedTuple):
    line: int
    recording: str
    turn: Turn


def read_turns(path: Path, recording: str | None = None) -> list[Turn]:
    """Read the turns of one recording from an RTTM or CSV file.

    Parameters
    ----------
    path
        File whose name ends in ``.rttm`` or ``.csv``.
    recording
        Name of the recording. If the file lists several recordings, its turns are those of this name.

    Returns
    -------
    list of Turn
        Sorted by start; never empty.

    Raises
    ------
    InputError
        If the file cannot be read, a time is negative, not a number or beyond 48 hours, two turns of one speaker
        overlap, or there are no turns of this recording.
    """
    readers: dict[str, Callable[[Path, str], Iterator[_Row]]] = {".rttm": _rttm_rows, ".csv": _csv_rows}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError("turns are read from .rttm and .csv files", where=path, fix="rename it to what it is")
    rows = []
    for row in reader(path, read_text(path, at_most=_LARGEST)):
        rows.append(row)
        if len(rows) > _MOST_TURNS:
            raise InputError(f"more than {_MOST_TURNS} turns", where=path, line=row.line)
    recordings = sorted({row.recording for row in rows})
    if len(recordings) > 1:
        if recording not in recordings:
            fix = did_you_mean(recording or "", recordings)
            raise InputError(f"no turns of {recording!r}, but of {len(recordings)} others", where=path, fix=fix)
        rows = [row for row in rows if row.recording == recording]
    if not rows:
        raise InputError("there are no turns in this file", where=path, fix="list at least one: speaker, start, end")
    _refuse_self_overlap(rows, path)
    return sorted((row.turn for row in rows), key=lambda turn: (turn.start, turn.end, turn.speaker))


def _rttm_rows(path: Path, text: str) -> Iterator[_Row]:
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split()
        if not fields or line.startswith(";;") or fields[0] != "SPEAKER":
            if fields and not line.startswith(";;") and not fields[0].isupper():
                fix = "write `SPEAKER file 1 START DURATION <NA> <NA> NAME <NA> <NA>`"
                raise InputError(f"not a line of RTTM: {line[:40]!r}", where=path, line=number, fix=fix)
            continue
        if len(fields) < 8:
            problem = f"{len(fields)} fields, where a turn has 8 to 10"
            fix = "write `SPEAKER file 1 START DURATION <NA> <NA> NAME <NA> <NA>`"
            raise InputError(problem, where=path, line=number, fix=fix)
        start, duration = (_seconds(value, path, number) for value in fields[3:5])
        yield _Row(number, fields[1], _turn(fields[7], start, start + duration, path, number))


def _csv_rows(path: Path, text: str) -> Iterator[_Row]:
    lines = text.splitlines()
    header = lines[0] if lines else ""
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        columns = _columns(next(reader, []), path)
        for row in filter(any, reader):
            number = reader.line_num
            if len(row) != len(columns):
                raise InputError(f"{len(row)} cells, but {len(columns)} columns", where=path, line=number)
            cells = {name: cell.strip() for name, cell in zip(columns, row, strict=True)}
            start = _seconds(cells["start"], path, number)
            end = _seconds(cells.get("end") or cells.get("duration", ""), path, number)
            end = end if cells.get("end") else start + end
            yield _Row(number, cells.get("recording", ""), _turn(cells["speaker"], start, end, path, number))
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", where=path, line=reader.line_num) from error


def _columns(header: Sequence[str], path: Path) -> list[str]:
    """Return the names of the columns; an ``InputError`` if they do not describe turns."""
    columns = [name.strip().lower() for name in header]
    for name in columns:
        if name not in _COLUMNS:
            raise InputError(f"unknown column {name!r}", where=path, line=1, fix=did_you_mean(name, list(_COLUMNS)))
    if len(set(columns)) < len(columns):
        raise InputError("a column is there twice", where=path, line=1)
    if not {"speaker", "start"} <= set(columns) or not {"end", "duration"} & set(columns):
        fix = "the first line names the columns: speaker,start,end"
        raise InputError("columns are missing", where=path, line=1, fix=fix)
    return columns


def _seconds(text: str, path: Path, line: int) -> float:
    """Return a time that is written in seconds, or as h:mm:ss or m:ss."""
    seconds = 0.0
    try:
        parts = [float(part) for part in text.split(":")]
    except ValueError:
        raise InputError(f"{text[:40]!r} is not a time in seconds", where=path, line=line) from None
    for part in parts:
        seconds = 60 * seconds + part
    if len(parts) > 3 or not all(0 <= part <= _LATEST for part in parts) or not seconds <= _LATEST:
        problem = f"{text[:40]!r} is not a time between 0 and 48 hours"
        raise InputError(problem, where=path, line=line, fix="write seconds from the beginning of the recording")
    return seconds


def _turn(speaker: str, start: float, end: float, path: Path, line: int) -> Turn:
    if not speaker or not speaker.isprintable() or len(speaker) > 200:
        raise InputError(f"{speaker[:40]!r} is not a name of a speaker", where=path, line=line)
    if not end > start:
        problem = f"a turn that ends at {end:g} s and begins at {start:g} s"
        raise InputError(problem, where=path, line=line, fix="the end must come after the start")
    return Turn(speaker, start, end)


def _refuse_self_overlap(rows: Iterable[_Row], path: Path) -> None:
    ordered = sorted(rows, key=lambda row: (row.turn.speaker, row.turn.start))
    for before, after in pairwise(ordered):
        overlap = before.turn.end - after.turn.start
        if before.turn.speaker == after.turn.speaker and overlap > _ROUNDING:
            problem = f"{after.turn.speaker} speaks already, since line {before.line}: two turns overlap"
            fix = "merge them; in RTTM the fifth field is the duration of a turn, not its end"
            raise InputError(problem, where=path, line=after.line, fix=fix)


def read_regions(path: Path, recording: str) -> list[tuple[float, float]]:
    """Return the annotated parts (start, end) of a recording from a UEM file: ``file channel start end`` a line."""
    regions = []
    for number, line in enumerate(read_text(path, at_most=_LARGEST).splitlines(), start=1):
        fields = line.split()
        if not fields or fields[0].startswith(";;"):
            continue
        if len(fields) != 4:
            raise InputError(f"{len(fields)} fields, not four", where=path, line=number, fix="file channel start end")
        start, end = (_seconds(value, path, number) for value in fields[2:])
        if fields[0] == recording:
            regions.append((start, end))
    if not regions:
        raise InputError(f"no annotated part of {recording!r}", where=path)
    return regions


def write_rttm(
    path: Path,
    turns: Iterable[Turn],
    recording: str,
    *,
    kinds: Mapping[str, str] = MappingProxyType({}),
    channels: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Write turns as RTTM, atomically, to a millisecond.

    Parameters
    ----------
    path
        The file.
    turns
        The turns, in their order.
    recording
        Name of the recording, in the second field; blanks become underscores.
    kinds
        Speaker -> word for the seventh field, the type of the speaker (default: ``<NA>``).
    channels
        Speaker -> channel, counted from 1 (default: 1).
    """
    name = "_".join(recording.split()) or "recording"
    lines = []
    for speaker, start, end in turns:
        kind, channel, label = kinds.get(speaker, "<NA>"), channels.get(speaker, 1), "_".join(speaker.split())
        lines.append(f"SPEAKER {name} {channel} {start:.3f} {end - start:.3f} <NA> {kind} {label} <NA> <NA>")
    write_lines(path, lines)


def merge_turns(turns: Iterable[Turn], gap: float = 0.0) -> list[Turn]:
    """Return turns in which pauses of one speaker of up to ``gap`` seconds are filled, sorted by start."""
    merged: list[Turn] = []
    for turn in sorted(turns, key=lambda turn: (turn.speaker, turn.start)):
        if merged and merged[-1].speaker == turn.speaker and turn.start - merged[-1].end <= gap:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, turn.end))
        else:
            merged.append(turn)
    return sorted(merged, key=lambda turn: (turn.start, turn.end, turn.speaker))


def speakers_of(turns: Iterable[Turn]) -> dict[str, float]:
    """Return speaker -> seconds of speech, in the order of their first turns."""
    seconds: dict[str, float] = {}
    for turn in sorted(turns, key=lambda turn: turn.start):
        seconds[turn.speaker] = math.fsum((seconds.get(turn.speaker, 0.0), turn.duration))
    return seconds
