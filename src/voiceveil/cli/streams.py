"""Standard streams that may be closed, full or without a reader: they must not end a command in the middle."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any

__all__ = ["prepare_streams", "silence_stdout"]


class _Tolerant(io.FileIO):
    """A file whose writes never fail: a message that is lost must not cost the work of a run."""

    def write(self, data: Any) -> int:
        """Write the bytes, or drop them if that fails."""
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def prepare_streams() -> None:
    """Open closed streams on the null device, and let writes to stderr never raise an exception.

    The next file that is opened would get a closed descriptor below 3, and the messages of a library would then go into
    the user's data.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free descriptor
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    if sys.stderr is None or sys.stderr is sys.__stderr__:  # a replaced stream stays
        encoding = None if sys.stderr is None else sys.stderr.encoding
        sys.stderr = io.TextIOWrapper(_Tolerant(2, "w", closefd=False), encoding, write_through=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names may hold bytes that are no text
            stream.reconfigure(errors="backslashreplace")


def silence_stdout() -> None:
    """Redirect stdout to the null device, so that Python ends without an error about what is still to be written."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stdout.flush()
