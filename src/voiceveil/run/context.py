"""RunContext: the cache, the processes and the device that every model run over a corpus uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from voiceveil.corpus import Utterance
from voiceveil.run.cache import Cache
from voiceveil.run.device import requested_device, use_device
from voiceveil.run.executor import Jobs
from voiceveil.run.extract import Evaluator, extract

__all__ = ["RunContext"]

Value = TypeVar("Value")


@dataclass(frozen=True)
class RunContext:
    """The cache, the processes, the device and the progress display of model runs over corpora.

    Parameters
    ----------
    cache : Cache
        Keeps the result of each model on each utterance; ``Cache(None)`` keeps them in memory.
    jobs : int or Executor
        Number of processes, or an executor such as a cluster.
    device : str
        Device that networks run on, see :mod:`voiceveil.run.device` (default: that of the surrounding ``use_device``).
    progress : bool
        Show progress on the standard error output.
    """

    cache: Cache = field(default_factory=lambda: Cache(None))
    jobs: Jobs = 1
    device: str = field(default_factory=requested_device)
    progress: bool = False

    def extract(self, utterances: Iterable[Utterance], evaluator: Evaluator[Value]) -> dict[str, Value]:
        """Return utterance id -> result of the evaluator, in the order of the utterances."""
        with use_device(self.device):
            return extract(utterances, evaluator, cache=self.cache, jobs=self.jobs, quiet=not self.progress)
