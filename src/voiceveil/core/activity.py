"""What a program is doing while somebody waits: told from below, shown by whoever watches.

Code deep inside a computation has no progress bar at hand. It says :func:`report_status` ("loading models") and
:func:`report_fraction` (of the current item); the innermost watcher, such as :class:`voiceveil.run.progress.Progress`,
shows it. Without a watcher, as in worker processes, nothing happens.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

__all__ = ["Watcher", "report_fraction", "report_status", "watch"]


class Watcher(Protocol):
    """Shows what is being done."""

    def status(self, text: str) -> None:
        """Show what is being done before the next item can be finished."""
        ...

    def within(self, fraction: float) -> None:
        """Show how much of the current item is done, 0 to 1."""
        ...


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watch(watcher: Watcher | None) -> Watcher | None:
    """Let ``watcher`` show what is being done from now on; return the one before, to be restored."""
    before = _watcher.get()
    _watcher.set(watcher)
    return before


def report_status(text: str) -> None:
    """Tell what is being done before the next item can be finished, such as "loading models"."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.status(text)


def report_fraction(fraction: float) -> None:
    """Tell how much of the current item is done, 0 to 1."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.within(fraction)
