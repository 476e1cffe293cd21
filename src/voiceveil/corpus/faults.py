"""Faults of a corpus: each reader reports them, and the caller decides whether to stop.

``open_corpus`` passes :func:`strict`, which raises the first fault; ``check`` collects all. A note is shown to the user
and stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from voiceveil.core.errors import InputError

__all__ = ["Fault", "Report", "strict"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a corpus.

    Parameters
    ----------
    file, line
        The place; lines count from 1. None if it is unknown.
    what, fix
        The problem, and how to fix it.
    note
        True for a remark that stops nothing.
    """

    file: Path | None
    line: int | None
    what: str
    fix: str = ""
    note: bool = False

    def error(self) -> InputError:
        """Return the fault as an exception."""
        return InputError(self.what, where=self.file, line=self.line, fix=self.fix)

    def __str__(self) -> str:
        return str(self.error())


#: Called by a reader for each fault; the reader continues if the call returns.
Report = Callable[[Fault], None]


def strict(fault: Fault) -> None:
    """Raise an ``InputError`` for anything but a note."""
    if not fault.note:
        raise fault.error()
