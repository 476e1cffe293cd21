"""The ledger: the items that a run has finished and every file that it wrote, each with its hash.

A JSON-lines file. The first line holds the settings that the results depend on. A further line is an item (an
utterance and its audio file) or a plain file (``wav.scp``, ``results.json``), and is appended *before* the file gets
its final name. So

* an item is finished if its file has the recorded hash: a killed run goes on, and ends as if nothing had happened;
* a file is the program's own if it has a hash that the ledger records for it. Any other file is the user's, and a file
  that somebody has edited is so too: neither is replaced or removed, unless the user says ``--overwrite``.

When all is done, the lines are sorted: two runs with the same result leave the same ledger, whatever the order of the
work was.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.diskdict import DiskDict
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.files import LONGEST_LINE, bounded_lines, open_file
from voiceveil.run.records import Records, hash_or_none, read_records, sha256_file

__all__ = [
    "CHANGED",
    "NOT_OURS",
    "RUN_AGAIN",
    "Entries",
    "Ledger",
    "LedgerEntry",
    "changed_settings",
    "finished_items",
    "open_ledger",
    "sha256_file",
]  # fmt: skip

#: Said of a file that is not what it was when the run began.
CHANGED = "changed during the run"
RUN_AGAIN = "run the same command again when nobody writes to it"
#: Said of a file that would be replaced, but is not the program's own.
NOT_OURS = "would be replaced, but this run did not write it, or somebody has changed it since"

#: Recorded parameters of a system -> the same under their present names.
Renaming = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class LedgerEntry:
    """A finished item: its id, a digest of what it was made from, its file, and that file's hash and length.

    ``seconds`` is the length of the output. Nothing here may tell somebody without the input about it.
    """

    id: str
    source: str
    file: str
    sha256: str
    seconds: float


class Entries(Mapping[str, LedgerEntry]):
    """Item id -> entry, in flat memory however many there are."""

    def __init__(self) -> None:
        self._lines = DiskDict()

    def __getitem__(self, id: str) -> LedgerEntry:
        return LedgerEntry(**json.loads(self._lines[id]))

    def __contains__(self, id: object) -> bool:
        return id in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def note(self, entry: LedgerEntry) -> None:
        """Add or replace an entry."""
        self._lines[entry.id] = json.dumps(vars(entry))

    def in_order(self) -> Iterator[LedgerEntry]:
        """Yield all entries, sorted by id."""
        return (LedgerEntry(**json.loads(line)) for _, line in self._lines.in_order())


class Ledger:
    """An open ledger, held by this process alone; made by :func:`open_ledger`."""

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any] | None,
        handle: int,
        *,
        start_again: bool = False,
        replace: bool = False,
        renamed: Renaming = dict,
    ) -> None:
        self.path = path
        self._renamed = renamed
        self.settings = dict(settings or {})
        self._any_settings = settings is None
        self._handle = handle
        self._replace = replace  # also what the ledger does not list
        self.entries = Entries()
        self._old = start_again  # the file still holds the lines of the run before
        self._records = read_records(path) if start_again else Records(path.parent)
        if not start_again:
            self._read()

    def has(self, id: str, source: str, file: Path) -> bool:
        """Return whether this item is finished and its file has not changed since."""
        entry = self.entries.get(id)
        return (
            entry is not None
            and entry.source == source
            and entry.file == self._records.name(file)
            and hash_or_none(file) == entry.sha256
        )

    def add(self, id: str, source: str, file: Path, sha256: str, seconds: float) -> None:
        """Record a finished item; one write, so that a kill leaves a whole line or a piece that is ignored."""
        entry = LedgerEntry(id, source, self._records.name(file), sha256, float(seconds))
        self._append(vars(entry))
        self._note(entry)

    def place(self, part: Path, id: str, source: str, file: Path, sha256: str, seconds: float) -> None:
        """Record a finished item, then give its temporary file ``part`` the final name ``file``."""
        self._check_replaceable(file)
        self.add(id, source, file, sha256, seconds)
        part.replace(file)

    def owns(self, file: Path) -> bool:
        """Return whether the file is as this program wrote it; False if there is none."""
        return self._records.owns(file)

    def before_replace(self, part: Path, path: Path) -> None:
        """Record ``part`` as the next content of ``path``; an ``InputError`` if another's file is there."""
        self._check_replaceable(path)
        row = {"file": self._records.name(path), "sha256": sha256_file(part)}
        self._append(row)
        self._records.note(**row)

    def may_replace(self, path: Path) -> bool:
        """Return whether the file is the program's own, or the user lets everything be replaced."""
        return self._replace or self.owns(path)

    def _check_replaceable(self, path: Path) -> None:
        try:
            status = path.lstat()  # raises if the name can be no file's: it must not be recorded
        except FileNotFoundError:
            return
        if stat.S_ISDIR(status.st_mode):
            raise InputError("a folder has the name of an output file", where=path, fix="move it away")
        if not self.may_replace(path):
            raise InputError(NOT_OURS, where=path, fix="move it away, or add --overwrite")

    def others(self, ids: Container[str]) -> list[str]:
        """Return items outside of ``ids`` whose files exist: they are from a run with more input."""
        others = (entry for entry in self.entries.in_order() if entry.id not in ids)
        return [entry.id for entry in others if (self.path.parent / entry.file).is_file()]

    def finish(self, keep: Callable[[str], bool] = lambda id: True) -> None:
        """Rewrite the ledger, sorted, with the items whose ids are to be kept and all other files that are there."""
        with atomic_path(self.path) as part, part.open("wb") as file:
            items = DiskDict()
            file.write(_line(self.settings))
            for entry in self.entries.in_order():
                if keep(entry.id):
                    items[entry.file] = ""
                    file.write(_line(vars(entry)))
            for name, hashes in self._records.in_order():
                if name not in items and (self.path.parent / name).is_file():
                    file.write(_line({"file": name, "sha256": hashes[-1]}))

    def _note(self, entry: LedgerEntry) -> None:
        self.entries.note(entry)
        self._records.note(entry.file, entry.sha256)

    def _append(self, row: Mapping[str, Any]) -> None:
        self.start()
        line = _line(row)
        try:
            if os.write(self._handle, line) != len(line):  # some of it fitted: the next write would say why not all
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror}", where=self.path) from error

    def _read(self) -> None:
        whole = 0  # bytes
        with self.path.open("rb") as file:
            for number, line in enumerate(bounded_lines(file, self.path), 1):
                if not line.endswith(b"\n"):  # cut off by a kill
                    os.ftruncate(self._handle, whole)
                    break
                whole += len(line)
                row = self._parse(number, line)
                if number == 1:
                    self._compare(row)
                elif _types(row) == _ENTRY:
                    self._note(LedgerEntry(**row))
                elif _types(row) == _FILE:
                    self._records.note(**row)
                else:
                    raise self._not_a_line(number)
        if not whole:
            self._append(self.settings)

    def start(self) -> None:
        """Forget the items of the previous run if the run starts again; called before the first line is written."""
        if not self._old:
            return
        self._old = False
        os.ftruncate(self._handle, 0)
        self._append(self.settings)
        for name, hashes in self._records.in_order():
            for sha256 in hashes:
                self._append({"file": name, "sha256": sha256})

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = parse_json(line, surrogates=True)
        except InputError:
            row = None
        if not isinstance(row, dict):
            raise self._not_a_line(number)
        return row

    def _not_a_line(self, number: int) -> InputError:
        return InputError("not a line of a ledger", where=self.path, line=number, fix=_OVERWRITE)

    def _compare(self, before: Mapping[str, Any]) -> None:
        if self._any_settings:
            self.settings = dict(before)
        changes = _differences(before, self.settings, self._renamed)
        if changes:
            raise InputError(f"holds the results of another run: {changes}", where=self.path.parent, fix=_OVERWRITE)


_ENTRY = {"id": str, "source": str, "file": str, "sha256": str, "seconds": float}
_FILE = {"file": str, "sha256": str}
_OVERWRITE = "give another output, or --overwrite to start again"


def _types(row: Mapping[str, Any]) -> dict[str, type]:
    return {key: type(value) for key, value in row.items()}


def _differences(before: Mapping[str, Any], settings: Mapping[str, Any], renamed: Renaming) -> str:
    """Return the settings that changed, e.g. "privacy was 0.5, now 1"; "" if none did."""
    was, now = _flat(before, renamed), _flat(json.loads(_line(settings)), dict)
    changed = [key for key in sorted({*was, *now}) if was.get(key) != now.get(key)]
    return "; ".join(f"{key[1]} was {_shown(was.get(key))}, now {_shown(now.get(key))}" for key in changed)


def _flat(settings: Mapping[str, Any], renamed: Renaming) -> dict[tuple[str, str], Any]:
    """Return (group, name) -> value; parameters and models are groups, and parameters get their present names."""
    flat: dict[tuple[str, str], Any] = {}
    for name, value in settings.items():
        if name == "parameters" and isinstance(value, dict):
            flat |= {(name, key): entry for key, entry in renamed(value).items()}
        elif name == "models" and isinstance(value, dict):
            flat |= {(name, f"model {key}"): entry for key, entry in value.items()}
        else:
            flat["", name] = value
    return flat


def _shown(value: Any) -> str:
    """Return a value as a user would write it."""
    if value is None:
        return "not set"
    if isinstance(value, list):
        return ",".join(f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in value)
    if isinstance(value, str) and len(value) == 64:  # a hash
        return f"{value[:12]}..."
    return f"{value:g}" if isinstance(value, float) else str(value)


def changed_settings(path: Path, settings: Mapping[str, Any], renamed: Renaming = dict) -> str:
    """Return in words which settings differ from those of the ledger at ``path``; "" if none do or there is no ledger.

    ``renamed`` maps parameters of earlier versions to their present names.
    """
    try:
        with open_file(path) as file:
            before = parse_json(file.readline(LONGEST_LINE) or b"null", surrogates=True)
    except (OSError, InputError):  # who opens it to work will say what is wrong
        return ""
    return _differences(before, settings, renamed) if isinstance(before, dict) else ""


def finished_items(path: Path, settings: Mapping[str, Any], renamed: Renaming = dict) -> dict[str, LedgerEntry]:
    """Return the items that a ledger lists, without locking it or checking files; none if the settings differ."""
    try:
        with open_file(path) as file:
            first, *rest = file.read().split(b"\n")
        if _differences(parse_json(first, surrogates=True), settings, renamed):
            return {}
        rows = (parse_json(line, surrogates=True) for line in rest[:-1])
        return {row["id"]: LedgerEntry(**row) for row in rows if "id" in row}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}


@contextmanager
def open_ledger(
    path: Path,
    settings: Mapping[str, Any] | None,
    *,
    overwrite: bool | Literal["changed"] = False,
    renamed: Renaming = dict,
) -> Iterator[Ledger]:
    """Open or create the ledger at ``path``, locked for this process until the block ends.

    Parameters
    ----------
    path
        The file.
    settings
        Settings that the results depend on; None accepts those of the ledger.
    overwrite
        True forgets the items, and allows files to be replaced that the ledger does not list. ``"changed"`` forgets
        the items if the settings differ, and allows only listed files to be replaced.
    renamed
        Maps parameters of earlier versions to their present names.

    Raises
    ------
    InputError
        If another process has the ledger open, or its settings differ.
    """
    if path.parent.is_symlink():
        problem = (
            "a symbolic link: the record of a run is kept in a folder of its own, so that no other file is changed"
        )
        raise InputError(problem, where=path.parent, fix="remove the link, or give another output")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _open(path)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", where=path) from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InputError("not a regular file", where=path, fix="remove it, or give another output")
        _lock(handle, path)
        if os.fstat(handle).st_nlink > 1:  # a copy of the folder by `cp -al` shares it, and must not change
            with atomic_path(path) as part:
                shutil.copyfile(path, part)
            shared, handle = handle, _open(path)
            os.close(shared)
            _lock(handle, path)
        changed = settings is not None and overwrite == "changed" and changed_settings(path, settings, renamed) != ""
        start_again = settings is not None and (overwrite is True or changed)
        ledger = Ledger(path, settings, handle, start_again=start_again, replace=overwrite is True, renamed=renamed)
        yield ledger
        ledger.start()
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else path
        raise OutputError(f"cannot write: {error.strerror or error}", where=where) from error
    finally:
        os.close(handle)  # and with it the lock


def _open(path: Path) -> int:
    """Return a descriptor of the ledger, which is made if need be; a link is not followed."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)


def _lock(handle: int, path: Path) -> None:
    """Lock the ledger against other processes; the file is locked, because NFS cannot lock folders."""
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


def _line(row: Mapping[str, Any]) -> bytes:
    # ASCII: safe on a terminal, and names of files that are not UTF-8, which have surrogates in Python, come back.
    return json.dumps(row, sort_keys=True).encode("ascii") + b"\n"
