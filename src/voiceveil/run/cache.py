"""A cache of results by content: a result of the same model on the same audio is computed once.

One SQLite file. The key of a result is a hash of the model's fingerprint and of the audio's bytes, so that neither a
renamed file nor a new model finds a wrong result. Values are numpy arrays (as .npy, never pickled) or JSON.

The store may hold speaker embeddings, that is biometric data: it lies where the user puts it, never in a hidden place.
"""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.core.atomic_files import PART_PREFIX, atomic_path
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.files import file_stamp
from voiceveil.corpus import Utterance
from voiceveil.run.ledger import sha256_file

__all__ = ["Cache", "put_in_inbox", "result_key"]

_TABLES = (
    "results (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "paces (name TEXT PRIMARY KEY, audio REAL, seconds REAL) WITHOUT ROWID",
    "digests (path TEXT PRIMARY KEY, stamp TEXT, sha256 TEXT) WITHOUT ROWID",
)
#: A table of an earlier version, which is removed.
_OLD_TABLE = "files (path TEXT PRIMARY KEY, size INTEGER, changed INTEGER, sha256 TEXT) WITHOUT ROWID"

#: Seconds of audio below which it is the start that takes the time, and a pace says nothing.
_LONG_ENOUGH = 60.0
#: Seconds after which a temporary file in the inbox is one of a worker that died.
_STALE = 86_400.0
_REMOVE = "delete the file and run again"
#: Hexadecimal digits of a key, which are the name of a result in the inbox.
_KEY_DIGITS = 2 * hashlib.sha256().digest_size


class Cache:
    """Results of models on audio.

    Parameters
    ----------
    path
        The file, created if missing; None keeps the results in memory.
    readonly
        Write nothing; a missing file is an empty cache and is not created.
    """

    def __init__(self, path: Path | None, *, readonly: bool = False) -> None:
        self._readonly = readonly and path is not None and path.exists()
        self.path = None if readonly and not self._readonly else path
        try:
            if self.path is not None and not self._readonly:
                _refuse_place_in_data(self.path)
                self.path.parent.mkdir(parents=True, exist_ok=True)
            mode = "ro" if self._readonly else "rwc"
            address = ":memory:" if self.path is None else f"{self.path.resolve().as_uri()}?mode={mode}"
            self._database = sqlite3.connect(address, timeout=60.0, isolation_level=None, uri=True)
        except (sqlite3.Error, OSError, RuntimeError) as error:  # RuntimeError: links that lead back to themselves
            raise _unusable(error, path) from error
        try:
            self._begin()
        except sqlite3.Error as error:
            self._database.close()  # or it may keep a lock, for which the next to open the file waits a minute
            raise _unusable(error, path) from error

    def _begin(self) -> None:
        if self._readonly:
            self._database.execute("BEGIN")  # one transaction for all that is read: each alone takes a lock
            self._database.execute("SELECT 1 FROM results LIMIT 1")
            return
        # Tables with our names may be the user's: only a file with nothing but tables of our own is a cache.
        tables = {sql for (sql,) in self._database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if not tables <= {f"CREATE TABLE {table}" for table in (*_TABLES, _OLD_TABLE)}:
            raise sqlite3.DatabaseError("a database of something else")
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        for table in _TABLES:
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {table}")
        self._database.execute("DROP TABLE IF EXISTS files")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def keys(self, fingerprint: str, utterances: Iterable[Utterance]) -> dict[str, bytes]:
        """Return utterance id -> key; files that are new or have changed are read."""
        return {u.id: result_key(fingerprint, self.digest(u.path), u.start, u.duration) for u in utterances}

    def has(self, key: bytes) -> bool:
        """Return whether there is a result."""
        return self._row("SELECT 1 FROM results WHERE key = ?", key) is not None

    def empty(self) -> bool:
        """Return whether there is no result at all."""
        return self._row("SELECT 1 FROM results LIMIT 1") is None

    def get(self, key: bytes) -> Any | None:
        """Return the result, or None."""
        row = self._row("SELECT value FROM results WHERE key = ?", key)
        try:
            return None if row is None else _decoded(row[0])
        except InputError:
            raise
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError("cache entry is corrupt", where=self.path, fix=_REMOVE) from error

    def get_all(self, keys: Mapping[str, bytes]) -> dict[str, Any | None]:
        """Return name -> its result or None, in one transaction, which saves a lock for each."""
        if self._database.in_transaction:
            return {name: self.get(key) for name, key in keys.items()}
        self._database.execute("BEGIN")
        try:
            return {name: self.get(key) for name, key in keys.items()}
        finally:
            self._database.execute("COMMIT")

    def put(self, key: bytes, value: Any) -> None:
        """Keep a result; it is safe once this returns."""
        self._write("INSERT OR REPLACE INTO results VALUES (?, ?)", (key, _encoded(value)))

    @property
    def inbox(self) -> Path | None:
        """Folder beside the file for results of workers on other machines; None for a cache in memory."""
        return None if self.path is None else self.path.absolute().with_name(f"{self.path.name}.inbox")

    def collect(self) -> None:
        """Take in all results in the inbox, also those of workers of a killed run."""
        if self.inbox is None:
            return
        for file in sorted(self.inbox.glob("[0-9a-f]" * _KEY_DIGITS)):  # another name is none that `put_in_inbox` gives
            with suppress(FileNotFoundError):  # another run has taken it in
                self._take(bytes.fromhex(file.name), file)
        with suppress(OSError):  # not there, or somebody works in it
            for part in self.inbox.glob(f"{PART_PREFIX}*"):
                if time.time() - part.stat().st_mtime > _STALE:
                    part.unlink()
            self.inbox.rmdir()

    def take_from_inbox(self, key: bytes) -> Any:
        """Take in the result that a worker has left in the inbox, and return it."""
        assert self.inbox is not None  # noqa: S101 -- or where would it be
        with suppress(FileNotFoundError):  # another run has taken it in
            self._take(key, self.inbox / key.hex())
        return self.get(key)

    def _take(self, key: bytes, file: Path) -> None:
        self._write("INSERT OR REPLACE INTO results VALUES (?, ?)", (key, file.read_bytes()))
        file.unlink(missing_ok=True)

    def _row(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        try:
            row: tuple[Any, ...] | None = self._database.execute(sql, values).fetchone()
        except sqlite3.Error as error:
            raise InputError(f"the cache cannot be read: {error}", where=self.path, fix=_REMOVE) from error
        return row

    def _write(self, sql: str, values: tuple[object, ...]) -> None:
        try:
            self._database.execute(sql, values)
        except sqlite3.Error as error:
            raise OutputError(f"cannot write: {error}", where=self.path) from error

    def remember(self, what: str, inputs: Iterable[Any], compute: Callable[[], Any]) -> Any:
        """Return the result of a long computation, kept by its name (and version) and the content of its inputs.

        ``inputs``: arrays; anything else counts by its ``repr``.
        """
        content = hashlib.sha256(what.encode())
        for value in inputs:
            array = isinstance(value, np.ndarray)
            content.update(f"\0{value.dtype} {value.shape} ".encode() if array else f"\0{value!r}".encode())
            content.update(np.ascontiguousarray(value).tobytes() if array else b"")
        known = self.get(content.digest())
        if known is None:
            known = compute()
            self.put(content.digest(), known)
        return known

    def pace(self, name: str) -> float | None:
        """Return processor seconds for a second of audio, as measured before; None if never measured."""
        try:
            row = self._database.execute("SELECT seconds / audio FROM paces WHERE name = ?", (name,)).fetchone()
            return None if row is None else float(row[0])
        except (sqlite3.Error, ValueError, TypeError):  # written before there were paces, or damaged
            return None

    def note_pace(self, name: str, audio: float, seconds: float) -> None:
        """Store that all processes together took ``seconds`` for ``audio`` seconds of audio."""
        if audio > _LONG_ENOUGH:
            self._write("INSERT OR REPLACE INTO paces VALUES (?, ?, ?)", (name, audio, seconds))

    def digest(self, path: Path) -> str:
        """Return the sha256 of a file, which is read only if its :func:`~voiceveil.core.files.file_stamp` is new."""
        try:
            before = file_stamp(path.stat())
        except OSError as error:
            raise InputError("no such audio file", where=path) from error
        name = f"{_resolved(path.parent.absolute())}/{path.name}"
        known = self._digest_of(name, before)
        if known is not None:
            return known
        digest = sha256_file(path)
        if not self._readonly and file_stamp(path.stat()) == before:  # or somebody wrote to it meanwhile
            self._write("INSERT OR REPLACE INTO digests VALUES (?, ?, ?)", (name, before, digest))
        return digest

    def _digest_of(self, name: str, stamp: str) -> str | None:
        """Return the digest of a file that has not changed since it was read; None if it has, or was not read."""
        try:
            row = self._row("SELECT sha256 FROM digests WHERE path = ? AND stamp = ?", name, stamp)
        except InputError:
            if self._readonly:  # the cache of an older version has no such table, and none can be added
                return None
            raise
        return None if row is None else str(row[0])


def put_in_inbox(value: Any, inbox: Path, key: bytes) -> None:
    """Write a result as a file of its own: SQLite databases must not be shared between machines."""
    with atomic_path(inbox / key.hex()) as part:
        part.write_bytes(_encoded(value))


def result_key(fingerprint: str, sha256: str, start: float, duration: float | None) -> bytes:
    """Return the key of a model's result on a file, or a part of it, with this content."""
    return hashlib.sha256(f"{fingerprint}\0{sha256}\0{start}\0{duration}".encode()).digest()


@lru_cache(maxsize=1024)
def _resolved(folder: Path) -> Path:
    """Return the resolved folder, remembered: resolving the path of every file would dominate the time."""
    return folder.resolve()


def _refuse_place_in_data(path: Path) -> None:
    """Raise ``InputError`` if a cache would lie in a Kaldi directory: biometric data does not belong among the data."""
    data = next((folder for folder in path.resolve().parents if (folder / "wav.scp").is_file()), None)
    if data is not None:
        fix = "give a file outside of it"
        raise InputError(f"a cache would lie inside the data directory {data}", where=path, fix=fix)


def _unusable(error: Exception, path: Path | None) -> OutputError:
    return OutputError(f"not usable as a cache: {error}", where=path, fix="name another file for the cache")


def _encoded(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(value), allow_pickle=False)
        return b"N" + buffer.getvalue()
    return b"J" + json.dumps(value, ensure_ascii=False).encode()


def _decoded(data: bytes) -> Any:
    if data[:1] != b"N":
        return parse_json(data[1:], nan=True, surrogates=True)
    # .npy, version 1: six bytes of magic, two of version, two that say how long the heading is, the heading, the values
    start = 11 + int.from_bytes(data[9:11], "little")
    dtype, shape = _heading(data[1:start])
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()


@lru_cache(maxsize=4096)
def _heading(npy: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return type and shape of an ``.npy`` header, remembered: parsing it takes longer than reading the values."""
    stream = io.BytesIO(npy)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise InputError("the cache was written by another version", fix=_REMOVE)
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or (fortran and len(shape) > 1):
        raise InputError("cache entry is corrupt", fix=_REMOVE)
    return dtype, shape
