"""One process at a time in a folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voiceveil.core.errors import InputError, OutputError

__all__ = ["alone_in"]


@contextmanager
def alone_in(folder: Path, what: str) -> Iterator[None]:
    """Make the folder, and be the only one who is at work in it; ``what`` is at work if another is.

    The lock goes with the process, however that ends.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", where=folder) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{what} is at work here", where=folder, fix="wait, or use another folder") from error
        yield
    finally:
        os.close(handle)
