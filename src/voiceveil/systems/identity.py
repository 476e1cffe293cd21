"""The control: changes nothing, so that whatever an evaluation shows beside it is the system's doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceveil.audio import Samples
from voiceveil.systems.contract import Anonymizer, Stream, register

__all__ = ["Identity"]


@register("identity")
@dataclass(frozen=True)
class Identity(Anonymizer):
    """Control: the original speech, unprotected."""

    source = "control condition"
    is_control: ClassVar[bool] = True

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Return a copy."""
        return samples.copy()

    def stream(self, rng: np.random.Generator) -> Stream:
        """Pass blocks through."""
        return _Passing()

    def latency(self) -> float:
        """None at all."""
        return 0.0


class _Passing:
    def push(self, samples: Samples) -> Samples:
        return samples

    def close(self) -> Samples:
        return np.zeros(0, dtype=np.float32)

    def finish(self, samples: Samples, peak: float) -> Samples:
        return samples
