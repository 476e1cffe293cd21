"""Recordings through pipes: ``-`` for the standard input and output."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voiceveil.audio import info, usual_suffix
from voiceveil.cli.parser import UsageError
from voiceveil.core.errors import InputError

__all__ = ["PIPE", "piped"]

PIPE = "-"


@contextmanager
def piped(inputs: list[str], out: Path, format: str | None) -> Iterator[tuple[list[str], Path]]:
    """Yield the inputs and the output with files in the place of ``-``; at the end, write the result to stdout.

    Parameters
    ----------
    inputs
        Paths; ``-`` is the only one.
    out
        Path, or ``-``.
    format
        Format of what goes to stdout, a suffix without its dot (default: that of the input).

    Raises
    ------
    InputError
        If the standard input is no recording, or the standard output is a terminal.
    """
    reads, writes = PIPE in inputs, str(out) == PIPE
    if not (reads or writes):
        yield inputs, out
        return
    if len(inputs) > 1:
        raise UsageError("- stands for one recording, and there are several inputs", fix="give one input")
    if writes and sys.stdout.isatty():
        raise InputError("a recording cannot be shown in a terminal", fix="redirect it: > FILE, or give -o FILE")
    with tempfile.TemporaryDirectory(prefix="voiceveil-") as folder:
        source = _received(Path(folder)) if reads else Path(inputs[0])
        if not writes:
            yield [str(source)], out
            return
        if not source.is_file():
            raise InputError("one recording can be written to the standard output", where=source, fix="give -o OUT")
        result = Path(folder) / f"result{f'.{format}' if format else usual_suffix(info(source))}"
        yield [str(source)], result
        if result.is_file():
            with result.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def _received(folder: Path) -> Path:
    """Store the standard input in a file whose suffix is that of its format."""
    received = folder / "stdin"
    with received.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    try:
        suffix = usual_suffix(info(received))
    except InputError as error:
        raise InputError(error.what, where="standard input", fix=error.fix) from error
    return received.rename(received.with_suffix(suffix))
