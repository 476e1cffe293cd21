"""Report the current activity from deep inside a computation to the progress display.

Such code has no progress bar at hand. It calls :func:`report_status` ("loading models") and
:func:`report_fraction` (of the current item); the innermost watcher, such as :class:`voiceveil.run.progress.Progress`,
shows it. Without a watcher, as in worker processes, nothing happens.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

__all__ = ["Watcher", "report_fraction", "report_status", "watch"]


class Watcher(Protocol):
    """Displays the current activity."""

    def status(self, text: str) -> None:
        """Display the activity before the next item."""
        ...

    def within(self, fraction: float) -> None:
        """Display the finished share of the current item, from 0 to 1."""
        ...


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watch(watcher: Watcher | None) -> Watcher | None:
    """Make ``watcher`` display the activity from now on; return the previous one, to be restored."""
    before = _watcher.get()
    _watcher.set(watcher)
    return before


def report_status(text: str) -> None:
    """Report the activity before the next item, such as "loading models"."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.status(text)


def report_fraction(fraction: float) -> None:
    """Report the finished share of the current item, from 0 to 1."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.within(fraction)
