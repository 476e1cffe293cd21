"""A store of results by content: what was computed once from the same audio by the same model is not computed again.

One SQLite file. The key of a result is a hash of the model's fingerprint and of the audio's bytes, so that neither a
renamed file nor a new model finds a wrong result. Values are numpy arrays (as .npy, never pickled) or JSON.

The store may hold speaker embeddings, that is biometric data: it lies where the user puts it, never in a hidden place.
"""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.corpus import Utterance
from voiceveil.errors import InputError, OutputError
from voiceveil.run.ledger import sha256_file

__all__ = ["Cache"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, size INTEGER, changed INTEGER, sha256 TEXT) WITHOUT ROWID;
"""


class Cache:
    """Results of models on audio; ``Cache(path)`` opens or makes the file, ``Cache(None)`` keeps them in memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path or ":memory:", timeout=60.0, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            raise OutputError(f"not usable as a cache: {error}", where=path, fix="remove the file") from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def keys(self, fingerprint: str, utterances: Iterable[Utterance]) -> dict[str, bytes]:
        """Utterance id -> key; reads the files whose size or time of change is new."""
        return {
            utterance.id: hashlib.sha256(
                f"{fingerprint}\0{self._digest(utterance.path)}\0{utterance.start}\0{utterance.duration}".encode()
            ).digest()
            for utterance in utterances
        }

    def get(self, key: bytes) -> Any | None:
        """The result, or None."""
        row = self._database.execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
        return None if row is None else _decoded(row[0])

    def put(self, key: bytes, value: Any) -> None:
        """Keep a result; it is safe once this returns."""
        try:
            self._database.execute("INSERT OR REPLACE INTO results VALUES (?, ?)", (key, _encoded(value)))
        except sqlite3.Error as error:
            raise OutputError(f"cannot write: {error}", where=self.path) from error

    def _digest(self, path: Path) -> str:
        try:
            status = path.stat()
        except OSError as error:
            raise InputError("no such audio file", where=path) from error
        name = str(path.resolve())
        known = self._database.execute(
            "SELECT sha256 FROM files WHERE path = ? AND size = ? AND changed = ?",
            (name, status.st_size, status.st_mtime_ns),
        ).fetchone()
        if known is not None:
            return str(known[0])
        digest = sha256_file(path)
        self._database.execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (name, status.st_size, status.st_mtime_ns, digest)
        )
        return digest


def _encoded(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        buffer = io.BytesIO()
        np.save(buffer, value, allow_pickle=False)
        return b"N" + buffer.getvalue()
    return b"J" + json.dumps(value, ensure_ascii=False).encode()


def _decoded(data: bytes) -> Any:
    if data[:1] == b"N":
        return np.load(io.BytesIO(data[1:]), allow_pickle=False)
    return json.loads(data[1:])
