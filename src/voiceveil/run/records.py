"""Which files below a folder the program has written, each with its hash, so that it can tell its own from others'."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from voiceveil.core.diskdict import DiskDict
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError
from voiceveil.core.files import bounded_lines, file_stamp, open_file

__all__ = ["Records", "hash_or_none", "read_records", "recording_hash", "sha256_file"]


class Records:
    """File, as a path relative to ``folder`` -> the hashes that were recorded for it; in flat memory.

    A file may have several: one is recorded before a file gets its name, so that after a kill an earlier one counts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hashes = DiskDict()  # file -> hashes, the last one last

    def name(self, path: Path) -> str:
        """Return how a file is called here: relative to the folder."""
        return Path(os.path.relpath(path, self.folder)).as_posix()

    def note(self, file: str, sha256: str) -> None:
        """Record that the file is, or is about to be, of this content."""
        known = self._hashes.get(file, "")
        if sha256 and known.split()[-1:] != [sha256]:
            self._hashes[file] = f"{known} {sha256}" if known else sha256

    def lists(self, path: Path) -> bool:
        """Return whether the file was written at some time; it may have been changed since."""
        return self.name(path) in self._hashes

    def owns(self, path: Path) -> bool:
        """Return whether the file is as this program wrote it; False if there is none, or a link."""
        known = self._hashes.get(self.name(path), "")
        if known == "" or os.path.islink(path):  # noqa: PTH114 -- Path.is_symlink raises if the name is too long
            return False
        return hash_or_none(path) in known.split()

    def files(self) -> Iterator[Path]:
        """Yield all files that are listed, whether they exist or not."""
        return (self.folder / name for name in self._hashes)

    def in_order(self) -> Iterator[tuple[str, list[str]]]:
        """Yield files and their hashes, sorted by file."""
        return ((file, hashes.split()) for file, hashes in self._hashes.in_order())


def read_records(ledger: Path) -> Records:
    """Return what the ledger at this path lists, without locking it; lines that are none are left out."""
    records = Records(ledger.parent)
    with suppress(InputError), open_file(ledger) as file:
        for line in bounded_lines(file, ledger):
            with suppress(InputError):
                row: Any = parse_json(line, surrogates=True)
                if isinstance(row, dict) and isinstance(row.get("file"), str) and isinstance(row.get("sha256"), str):
                    records.note(row["file"], row["sha256"])
    return records


def sha256_file(path: Path) -> str:
    """Return the sha256 of a regular file, read in blocks; what cannot be opened is an ``InputError``."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recording_hash(path: Path) -> str:
    """Return :func:`sha256_file`, computed once for all segments of a recording as long as it does not change."""
    return _recording_hash(path, file_stamp(path.stat()))


@lru_cache(maxsize=64)
def _recording_hash(path: Path, stamp: str) -> str:
    return sha256_file(path)


def hash_or_none(path: Path) -> str | None:
    """Return the sha256 of a file; None if it is gone, a folder, or cannot be read."""
    try:
        return sha256_file(path)
    except (InputError, OSError):
        return None
