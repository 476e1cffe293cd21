"""Where a reader reports what is wrong: one parser, two ways to listen to it.

``open_corpus`` listens with :func:`strict`, which raises the first fault; ``check`` collects them all.
A note is worth telling but stops nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from voiceveil.core.errors import InputError

__all__ = ["Fault", "Report", "strict"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: ``file`` and ``line`` (from 1), ``what`` it is, how to ``fix`` it."""

    file: Path | None
    line: int | None
    what: str
    fix: str = ""
    note: bool = False

    def error(self) -> InputError:
        """The fault as the exception that stops a reader."""
        return InputError(self.what, where=self.file, line=self.line, fix=self.fix)

    def __str__(self) -> str:
        return str(self.error())


#: What a reader calls for each fault; it goes on if the call returns.
Report = Callable[[Fault], None]


def strict(fault: Fault) -> None:
    """Raise an ``InputError`` for anything but a note."""
    if not fault.note:
        raise fault.error()
