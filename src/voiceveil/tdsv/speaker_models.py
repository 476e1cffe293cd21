"""Who speaks: embeddings compared with each other and with the voices of the training speakers.

Conventions: d dimensions of an embedding, c training speakers. A voice is *placed* once, by itself: where it stands in
the space where angles are compared, and how it scores against the cohort of training speakers. Two placed voices give
a score: their cosine, in standard deviations above each one's highest scores with the cohort (adaptive symmetric
normalisation, Matejka et al. 2017). No other model or test has a part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.backends import Backend, Centered, Cosine, Lda, Linear, Wccn
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = ["BACKENDS", "Placed", "VoiceSpace"]

Floats = NDArray[np.float64]

#: Name -> what is learned from the training speakers before angles are compared.
BACKENDS: dict[str, Backend] = {
    "cosine": Cosine(),
    "centered": Centered(),
    "wccn": Wccn(0.5),
    "lda": Lda(100, 0.5),
}


@dataclass(frozen=True, eq=False, slots=True)
class Placed:
    """A voice: its direction (k,), and mean and deviation of its highest scores with the cohort."""

    direction: Floats
    mean: float
    spread: float


@dataclass(frozen=True, eq=False)
class VoiceSpace:
    """A fitted back-end, the directions of the training speakers (c, k) and how many of them count, ``top``."""

    linear: Linear
    cohort: Floats
    top: int

    @classmethod
    def fit(cls, embeddings: Floats, speakers: Sequence[str], backend: str, top: int = 20) -> VoiceSpace:
        """Learn from embeddings (n, d) of the training speakers (n,)."""
        if backend not in BACKENDS:
            raise InputError(f"unknown back-end {backend!r}", fix=did_you_mean(backend, list(BACKENDS)))
        names, codes = np.unique(np.asarray(speakers), return_inverse=True)
        linear = BACKENDS[backend].fit(embeddings, codes)
        if not isinstance(linear, Linear):
            raise InputError(f"the back-end {backend} gives no angles")
        means = np.stack([embeddings[codes == c].mean(axis=0) for c in range(len(names))])
        return cls(linear, linear.project(means), min(top, len(names)))

    def place(self, embeddings: Floats) -> Placed:
        """The voice of one or several recordings (n, d) of one person: their unweighted mean."""
        direction = self.linear.project(embeddings.mean(axis=0))
        highest = np.sort(self.cohort @ direction)[-self.top :]
        return Placed(direction, float(highest.mean()), float(highest.std()) + 1e-9)

    @staticmethod
    def score(one: Placed, other: Placed) -> float:
        """The higher, the more alike; the order does not matter."""
        cosine = float(one.direction @ other.direction)
        return 0.5 * ((cosine - one.mean) / one.spread + (cosine - other.mean) / other.spread)
