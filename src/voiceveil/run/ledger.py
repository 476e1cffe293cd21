"""The ledger: which items of a run are finished, so that a killed run goes on and ends as if nothing had happened.

A JSON-lines file. The first line holds the settings that the results depend on; each further line is one finished
item. A line is appended only after the item's file has its final name, and counts only if that file still has the
recorded hash. When all is done, the lines are sorted: two runs with the same result leave the same ledger, whatever
the order of the work was.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voiceveil.audio import atomic_path
from voiceveil.errors import InputError, OutputError

__all__ = ["Entry", "Ledger", "open_ledger", "sha256_file"]


@dataclass(frozen=True)
class Entry:
    """A finished item: its id, what it was made from (a digest), its file and that file's hash, audio seconds."""

    id: str
    source: str
    file: str
    sha256: str
    seconds: float


class Ledger:
    """An open ledger, held by this process alone; made by :func:`open_ledger`."""

    def __init__(self, path: Path, settings: Mapping[str, Any], handle: int) -> None:
        self.path = path
        self.settings = dict(settings)
        self._handle = handle
        self.entries: dict[str, Entry] = {}
        self._read()

    def has(self, id: str, source: str, file: Path) -> bool:
        """Whether this very item is finished and its file is still what was written."""
        entry = self.entries.get(id)
        return (
            entry is not None
            and entry.source == source
            and entry.file == self._relative(file)
            and file.is_file()
            and sha256_file(file) == entry.sha256
        )

    def add(self, id: str, source: str, file: Path, sha256: str, seconds: float) -> None:
        """Record a finished item; one write, so that a kill leaves a whole line or a piece that is ignored."""
        entry = Entry(id, source, self._relative(file), sha256, seconds)
        self.entries[id] = entry
        try:
            os.write(self._handle, _line(asdict(entry)))
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror}", where=self.path) from error

    def finish(self, ids: set[str]) -> None:
        """Rewrite the ledger, sorted, with the items of ``ids`` alone."""
        lines = [_line(asdict(self.entries[id])) for id in sorted(self.entries) if id in ids]
        with atomic_path(self.path) as part:
            part.write_bytes(b"".join([_line(self.settings), *lines]))

    def _relative(self, file: Path) -> str:
        return Path(os.path.relpath(file, self.path.parent)).as_posix()

    def _read(self) -> None:
        lines = self.path.read_bytes().split(b"\n")
        if lines == [b""]:
            os.write(self._handle, _line(self.settings))
            return
        whole = lines[:-1]  # what follows the last line end was cut off by a kill
        os.ftruncate(self._handle, sum(len(line) + 1 for line in whole))
        rows = [self._parse(number, line) for number, line in enumerate(whole, 1)]
        if not rows:
            os.write(self._handle, _line(self.settings))
            return
        self._compare(rows[0])
        for number, row in enumerate(rows[1:], 2):
            try:
                entry = Entry(**row)
            except TypeError as error:
                raise InputError("not a line of a ledger", where=self.path, line=number, fix=_OVERWRITE) from error
            self.entries[entry.id] = entry

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise InputError("not a line of a ledger", where=self.path, line=number, fix=_OVERWRITE)
        return row

    def _compare(self, before: Mapping[str, Any]) -> None:
        now = json.loads(_line(self.settings))
        changed = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
        if changed:
            what = "; ".join(f"{key} was {before.get(key)!r} and is now {now.get(key)!r}" for key in changed)
            raise InputError(f"holds the results of another run: {what}", where=self.path.parent, fix=_OVERWRITE)


_OVERWRITE = "give another output, or --overwrite to start again"


@contextmanager
def open_ledger(path: Path, settings: Mapping[str, Any], *, overwrite: bool = False) -> Iterator[Ledger]:
    """Open or make the ledger at ``path``; an ``InputError`` if another process has it or its settings differ."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", where=path.parent) from error
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError("another run is writing here", where=path.parent, fix="wait for it to end") from error
        if overwrite:
            path.unlink(missing_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            yield Ledger(path, settings, handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", where=path) from error
    finally:
        os.close(folder)  # and with it the lock


def sha256_file(path: Path) -> str:
    """Hash of a file's content, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, sort_keys=True).encode() + b"\n"
