"""The control condition: original speech, with which an evaluation compares a system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceveil.audio import Samples
from voiceveil.systems.contract import Anonymizer, Stream, register
from voiceveil.systems.resources import Resource

__all__ = ["Identity"]


@register("identity")
@dataclass(frozen=True)
class Identity(Anonymizer):
    """Control: the original speech, unprotected."""

    source = "control condition"
    is_control: ClassVar[bool] = True

    def resources(self) -> tuple[Resource, ...]:
        """Return nothing: no part of the system is trained."""
        return ()

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Return a copy."""
        return samples.copy()

    def stream(self, rng: np.random.Generator) -> Stream:
        """Return a stream that passes blocks through."""
        return _PassThrough()

    def latency(self) -> float:
        """Return 0: there is no delay."""
        return 0.0


class _PassThrough:
    def push(self, samples: Samples) -> Samples:
        return samples

    def close(self) -> Samples:
        return np.zeros(0, dtype=np.float32)

    def finish(self, samples: Samples, peak: float) -> Samples:
        return samples
