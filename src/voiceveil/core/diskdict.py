"""A dictionary on disk, for what is as long as a corpus: memory stays flat from a thousand entries to millions.

It lies in a private temporary file of SQLite (in SQLITE_TMPDIR or TMPDIR), which is made when the entries outgrow a
few megabytes and is gone with the process, however that ends. Keys and values are text; surrogates, from file names
that are not UTF-8, are taken. The order is that of insertion, as in a ``dict``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, MutableMapping

__all__ = ["DiskDict"]

_MEMORY = 2_000  # KiB of pages


class DiskDict(MutableMapping[str, str]):
    """``dict[str, str]`` in flat memory; of one thread."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        for pragma in ("journal_mode=OFF", "synchronous=OFF", f"cache_size=-{_MEMORY}"):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.execute("CREATE TABLE items (number INTEGER PRIMARY KEY, key BLOB UNIQUE, value BLOB)")
        self._database.execute("BEGIN")  # and never an end: else every change would be written out at once

    def __getitem__(self, key: str) -> str:
        row = self._database.execute("SELECT value FROM items WHERE key = ?", (_bytes(key),)).fetchone()
        if row is None:
            raise KeyError(key)
        return _text(row[0])

    def __setitem__(self, key: str, value: str) -> None:
        self._database.execute(
            "INSERT INTO items (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (_bytes(key), _bytes(value)),
        )

    def __delitem__(self, key: str) -> None:
        if self._database.execute("DELETE FROM items WHERE key = ?", (_bytes(key),)).rowcount == 0:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        return self._database.execute("SELECT 1 FROM items WHERE key = ?", (_bytes(key),)).fetchone() is not None

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM items").fetchone()[0])

    def __iter__(self) -> Iterator[str]:
        return (_text(key) for (key,) in self._database.execute("SELECT key FROM items ORDER BY number"))

    def in_order(self) -> Iterator[tuple[str, str]]:
        """Keys and values, sorted by key as ``sorted`` does: the bytes of UTF-8 have the order of the characters."""
        rows = self._database.execute("SELECT key, value FROM items ORDER BY key")
        return ((_text(key), _text(value)) for key, value in rows)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
