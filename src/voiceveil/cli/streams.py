"""Standard streams that may be closed, full or without a reader: no command ends in the middle because of them."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any

__all__ = ["prepare_streams", "silence_stdout"]


class _Tolerant(io.FileIO):
    """A file whose writes never fail: what cannot be said on stderr is not worth the work of a run."""

    def write(self, data: Any) -> int:
        """Write the bytes, or lose them."""
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def prepare_streams() -> None:
    """Open closed streams on the null device, and have nothing that is written to stderr raise an exception.

    A descriptor below 3 that stays closed would be given to the next file that is opened: what a library prints would
    go into the user's data.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest descriptor that is free
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    if sys.stderr is None or sys.stderr is sys.__stderr__:  # one that somebody put there instead stays
        encoding = None if sys.stderr is None else sys.stderr.encoding
        sys.stderr = io.TextIOWrapper(_Tolerant(2, "w", closefd=False), encoding, write_through=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names need not be text
            stream.reconfigure(errors="backslashreplace")


def silence_stdout() -> None:
    """Send what is still to be written to stdout to the null device, so that Python can end without an error."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stdout.flush()
