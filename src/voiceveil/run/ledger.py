"""The ledger: which items of a run are finished, so that a killed run goes on and ends as if nothing had happened.

A JSON-lines file. The first line holds the settings that the results depend on; each further line is one finished
item. A line is appended only after the item's file has its final name, and counts only if that file still has the
recorded hash. When all is done, the lines are sorted: two runs with the same result leave the same ledger, whatever
the order of the work was.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from voiceveil.audio import atomic_path
from voiceveil.errors import InputError, OutputError
from voiceveil.files import file_stamp, open_file
from voiceveil.ondisk import DiskDict

__all__ = [
    "CHANGED", "RUN_AGAIN", "Entries", "Entry", "Ledger", "changed_settings", "finished_items", "open_ledger",
    "recording_hash", "sha256_file",
]  # fmt: skip

#: Said of a file that is not what it was when the run began.
CHANGED = "changed during the run"
RUN_AGAIN = "run the same command again when nobody writes to it"


@dataclass(frozen=True)
class Entry:
    """A finished item: its id, a digest of what it was made from, its file, and that file's hash and length.

    ``seconds`` is the length of the output. Nothing here may tell somebody without the input about it.
    """

    id: str
    source: str
    file: str
    sha256: str
    seconds: float


class Entries(Mapping[str, Entry]):
    """Item id -> entry, in flat memory however many there are."""

    def __init__(self) -> None:
        self._lines = DiskDict()

    def __getitem__(self, id: str) -> Entry:
        return Entry(**json.loads(self._lines[id]))

    def __contains__(self, id: object) -> bool:
        return id in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def note(self, entry: Entry) -> None:
        """Add or replace one."""
        self._lines[entry.id] = json.dumps(vars(entry))

    def in_order(self) -> Iterator[Entry]:
        """All, by id."""
        return (Entry(**json.loads(line)) for _, line in self._lines.in_order())


class Ledger:
    """An open ledger, held by this process alone; made by :func:`open_ledger`."""

    def __init__(self, path: Path, settings: Mapping[str, Any], handle: int) -> None:
        self.path = path
        self.settings = dict(settings)
        self._handle = handle
        self.entries = Entries()
        self._read()

    def has(self, id: str, source: str, file: Path) -> bool:
        """Whether this very item is finished and its file is still what was written."""
        entry = self.entries.get(id)
        return (
            entry is not None
            and entry.source == source
            and entry.file == self._relative(file)
            and _hash_or_none(file) == entry.sha256
        )

    def add(self, id: str, source: str, file: Path, sha256: str, seconds: float) -> None:
        """Record a finished item; one write, so that a kill leaves a whole line or a piece that is ignored."""
        entry = Entry(id, source, self._relative(file), sha256, float(seconds))
        self._append(vars(entry))
        self.entries.note(entry)

    def others(self, ids: Container[str]) -> list[str]:
        """Items that are not of ``ids`` and whose files are still there: left by a run with more input."""
        others = (entry for entry in self.entries.in_order() if entry.id not in ids)
        return [entry.id for entry in others if (self.path.parent / entry.file).is_file()]

    def finish(self, keep: Callable[[str], bool]) -> None:
        """Rewrite the ledger, sorted, with the items whose ids are to be kept."""
        with atomic_path(self.path) as part, part.open("wb") as file:
            file.write(_line(self.settings))
            file.writelines(_line(vars(entry)) for entry in self.entries.in_order() if keep(entry.id))

    def _relative(self, file: Path) -> str:
        return Path(os.path.relpath(file, self.path.parent)).as_posix()

    def _append(self, row: Mapping[str, Any]) -> None:
        line = _line(row)
        try:
            if os.write(self._handle, line) != len(line):  # some of it fitted: the next write would say why not all
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror}", where=self.path) from error

    def _read(self) -> None:
        whole = 0  # bytes
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):  # cut off by a kill
                    os.ftruncate(self._handle, whole)
                    break
                whole += len(line)
                row = self._parse(number, line)
                if number == 1:
                    self._compare(row)
                elif {key: type(value) for key, value in row.items()} != _ENTRY:
                    raise self._not_a_line(number)
                else:
                    self.entries.note(Entry(**row))
        if not whole:
            self._append(self.settings)

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise self._not_a_line(number)
        return row

    def _not_a_line(self, number: int) -> InputError:
        return InputError("not a line of a ledger", where=self.path, line=number, fix=_OVERWRITE)

    def _compare(self, before: Mapping[str, Any]) -> None:
        what = _differences(before, self.settings)
        if what:
            raise InputError(f"holds the results of another run: {what}", where=self.path.parent, fix=_OVERWRITE)


_ENTRY = {"id": str, "source": str, "file": str, "sha256": str, "seconds": float}
_OVERWRITE = "give another output, or --overwrite to start again"


def _differences(before: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """What is not as it was, in words."""
    now = json.loads(_line(settings))
    changed = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    return "; ".join(f"{key} was {before.get(key)!r} and is now {now.get(key)!r}" for key in changed)


def changed_settings(path: Path, settings: Mapping[str, Any]) -> str:
    """What is not as in the ledger at ``path``, in words; "" if all is, or if nothing is there yet."""
    try:
        with path.open("rb") as file:
            before = json.loads(file.readline() or b"null")
    except (OSError, ValueError, RecursionError):  # who opens it to work will say what is wrong
        return ""
    return _differences(before, settings) if isinstance(before, dict) else ""


def finished_items(path: Path, settings: Mapping[str, Any]) -> dict[str, Entry]:
    """What a ledger lists, for plans: without a lock, and without a look at the files. Empty if settings differ."""
    try:
        first, *rest = path.read_bytes().split(b"\n")
        if _differences(json.loads(first), settings):
            return {}
        return {row["id"]: Entry(**row) for row in map(json.loads, rest[:-1])}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}


@contextmanager
def open_ledger(
    path: Path, settings: Mapping[str, Any], *, overwrite: bool | Literal["changed"] = False
) -> Iterator[Ledger]:
    """Open or make the ledger at ``path``; an ``InputError`` if another process has it or its settings differ.

    ``overwrite`` empties it first; ``"changed"`` does so if its settings differ.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", where=path) from error
    try:
        _lock(handle, path)
        if overwrite is True or (overwrite == "changed" and changed_settings(path, settings)):
            os.ftruncate(handle, 0)
        yield Ledger(path, settings, handle)
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else path
        raise OutputError(f"cannot write: {error.strerror or error}", where=where) from error
    finally:
        os.close(handle)  # and with it the lock


def _lock(handle: int, path: Path) -> None:
    """Make sure that no other process has the ledger. It is the file that is locked: NFS cannot lock folders."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another run may have finished, and put a new file here, between our opening and our locking.
        free = os.path.samestat(os.fstat(handle), path.stat())
    except (BlockingIOError, FileNotFoundError):
        free = False
    except OSError as error:
        raise OutputError(f"cannot lock: {error.strerror}", where=path) from error
    if not free:
        raise InputError("another run is writing here", where=path.parent, fix="wait for it to end")


def sha256_file(path: Path) -> str:
    """Return the sha256 of a regular file, read in blocks; what cannot be opened is an ``InputError``."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recording_hash(path: Path) -> str:
    """:func:`sha256_file`, but read once for all the segments of a recording, as long as nobody writes to it."""
    return _recording_hash(path, file_stamp(path.stat()))


@lru_cache(maxsize=64)
def _recording_hash(path: Path, stamp: str) -> str:
    return sha256_file(path)


def _hash_or_none(path: Path) -> str | None:
    try:
        return sha256_file(path)
    except (InputError, OSError):  # gone, a folder, or not ours to read
        return None


def _line(row: Mapping[str, Any]) -> bytes:
    # Names of files that are not UTF-8 have surrogates in Python; json.loads takes them back.
    return json.dumps(row, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass") + b"\n"
