"""Let one process at a time work in a folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voiceveil.core.errors import InputError, OutputError

__all__ = ["exclusive_lock"]


@contextmanager
def exclusive_lock(folder: Path, what: str) -> Iterator[None]:
    """Create the folder if needed, and lock it for this process until the block ends, or the process does.

    Parameters
    ----------
    folder
        The folder; its lock is the file ``.lock``.
    what
        The other process in the error message, e.g. "another evaluation".

    Raises
    ------
    InputError
        If another process holds the lock.
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
            raise InputError(f"{what} is running here", where=folder, fix="wait, or use another folder") from error
        yield
    finally:
        os.close(handle)
