"""Executors: they apply one function to many items, in processes of this machine or on a Ray cluster.

Functions that go through a corpus take ``jobs``: a number of local processes, or an :class:`Executor`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from voiceveil.core.errors import InputError
from voiceveil.run.local import run_items

__all__ = ["Executor", "Jobs", "Local", "check_jobs", "default_jobs", "executor_of"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """Applies a function to items; results do not depend on the executor."""

    @property
    def workers(self) -> int:
        """Number of items at work at once."""
        ...

    @property
    def distant(self) -> bool:
        """True if workers may be on other machines, whose results come through files."""
        ...

    def run(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        folder: Path,
        seconds: Callable[[Item], float],
        preload: tuple[str, ...] = (),
    ) -> Generator[tuple[Item, Result | Exception], None, None]:
        """Yield ``(item, result or exception)`` for each item, once, in the order of completion.

        ``folder``: where workers write; it is there already. ``seconds``: how much audio an item holds, about.
        ``preload``: modules that local workers share.
        """
        ...


@dataclass(frozen=True)
class Local:
    """Processes of this machine, see :mod:`voiceveil.run.local`."""

    workers: int = 1
    distant: bool = False

    def run(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        folder: Path,
        seconds: Callable[[Item], float],
        preload: tuple[str, ...] = (),
    ) -> Generator[tuple[Item, Result | Exception], None, None]:
        """Yield results as they come; ``folder`` and ``seconds`` are not used."""
        return run_items(function, items, jobs=self.workers, preload=preload)


#: Local processes, or an executor.
Jobs = int | Executor


def default_jobs() -> int:
    """Return one process for each core that this process may use, eight at most."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(8, cores)


def check_jobs(jobs: Jobs) -> None:
    """Raise ``InputError`` unless ``jobs`` is 1 or more, or an executor."""
    if jobs < 1 if isinstance(jobs, int) else not hasattr(jobs, "run"):
        raise InputError(f"jobs is {jobs!r}: at least one job is needed", fix="give 1 or more")


def executor_of(jobs: Jobs, *, at_most: int | None = None) -> Executor:
    """Return the executor; at most ``at_most`` local processes."""
    if not isinstance(jobs, int):
        return jobs
    return Local(jobs if at_most is None else min(jobs, max(at_most, 1)))
