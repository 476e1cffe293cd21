"""RunContext: the cache and the processes that every model run over a corpus uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from voiceveil.corpus import Utterance
from voiceveil.run.cache import Cache
from voiceveil.run.executor import Jobs
from voiceveil.run.extract import Evaluator, extract

__all__ = ["RunContext"]

Value = TypeVar("Value")


@dataclass(frozen=True)
class RunContext:
    """Where results are cached and how many processes compute them.

    Parameters
    ----------
    cache : Cache
        Keeps the result of each model on each utterance; ``Cache(None)`` keeps them in memory.
    jobs : int or Executor
        Number of processes, or an executor such as a cluster.
    quiet : bool
        Show no progress.
    """

    cache: Cache
    jobs: Jobs = 1
    quiet: bool = True

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments ``cache``, ``jobs`` and ``quiet`` of functions that run over a corpus."""
        return {"cache": self.cache, "jobs": self.jobs, "quiet": self.quiet}

    def extract(self, utterances: Iterable[Utterance], evaluator: Evaluator[Value]) -> dict[str, Value]:
        """Return utterance id -> result of the evaluator, in the order of the utterances."""
        return extract(utterances, evaluator, cache=self.cache, jobs=self.jobs, quiet=self.quiet)
