"""An example system: a random spectral tilt. It changes the timbre and protects nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.signal import lfilter

from voiceveil.audio import Samples
from voiceveil.systems import Anonymizer, Range, parameter, register


@register("tilt")
@dataclass(frozen=True)
class Tilt(Anonymizer):
    """A first-order filter with a random coefficient."""

    source: ClassVar[str] = "CONTRIBUTING.md"
    is_control: ClassVar[bool] = True  # it protects nobody: without this line the checks say so
    coefficient: Range = parameter((-0.6, 0.6), "drawn uniformly from this range", low=-0.9, high=0.9)

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Filter, and keep the peak within full scale."""
        tilted = lfilter([1.0, rng.uniform(*self.coefficient)], [1.0], samples)
        return (tilted / max(1.0, float(np.abs(tilted).max()))).astype(np.float32)
