"""Pseudo-speakers by variability-driven decomposition and two regression models (A1 of 2020).

The overview of VoicePrivacy 2020 (section 3.2) on Mawalim et al. (2020): the x-vector is decomposed into a part of high
and a part of low variability, which two different regression models modify; what is specific of a speaker is said to be
mostly in the part of low variability, on which anonymization must focus. Table 5 calls it ensemble regression.

What that left to us. Variability is the variance of a dimension over the pool's speakers of a gender: the dimensions
with the largest, which hold the fraction ``variability`` of it, are the high part, the others the low part. Each model
predicts one part from the other, as the pool teaches it: what comes out is what a usual voice with that other part
would have, and not what this one has. For the high part that is ridge regression; for the low part, which is to lose
most, the mean over the ``neighbors`` speakers of the pool whose high parts are nearest: an ensemble. The source's own
parts stay with the weight 1 - ``strength``. Neighbors are sought in a half of the pool that the generator draws, so
that there is no one answer. F0 is that of the neighbors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.systems.resynthesis.pool import GENDERS, Embedding, Pool
from voiceveil.systems.resynthesis.pseudo import Gender, PseudoSpeaker, strategies, wanted_gender

__all__ = ["Decomposition", "Regressed", "decomposed"]

Array = NDArray[np.float64]
#: Of the mean variance of the predictors, times the number of speakers: ridge.
_RIDGE = 1.0


class Decomposition(NamedTuple):
    """Speakers of a gender (n, d) of length 1, less their mean (d,); the dimensions of the high and of the low part.

    ``ridge`` (l, h) predicts the high part from the low part.
    """

    voices: Array
    mean: Array
    high: NDArray[np.int64]
    low: NDArray[np.int64]
    ridge: Array


@strategies.register("a1")
@dataclass(frozen=True)
class Regressed:
    """A1: both parts of an embedding as regression models expect them of others."""

    gender: Gender = "same"
    variability: float = 0.5
    neighbors: int = 10
    strength: float = 1.0

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Numbers that mean something, and enough speakers of both genders to draw half of them."""
        if not (0 < self.variability < 1 and 0 <= self.strength <= 1 and self.neighbors >= 1):
            what = f"no decomposition with variability {self.variability}, strength {self.strength}"
            fix = "set variability between 0 and 1, strength from 0 to 1, neighbors to 1 or more"
            raise InputError(what, fix=fix)
        for gender in GENDERS:
            count = len(pool.of_gender(gender))
            if count < max(4, 2 * self.neighbors):
                what = f"the pool has {count} speakers of gender {gender}, too few for {self.neighbors} neighbors"
                raise InputError(what, where=pool.where, fix="give a larger pool (voiceveil train pool), or fewer")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the two models; half of the pool, drawn, is where neighbors may be from."""
        wanted = wanted_gender(self.gender, gender, rng)
        model = decomposed(pool, wanted, self.variability)
        half = rng.permutation(len(model.voices))[: (len(model.voices) + 1) // 2]
        centered = l2_normalized(source) - model.mean
        others = model.voices[half]
        distances = ((others[:, model.high] - centered[model.high]) ** 2).sum(axis=1)
        nearest = np.argsort(distances, kind="stable")[: self.neighbors]
        expected = np.empty_like(centered)
        expected[model.high] = centered[model.low] @ model.ridge
        expected[model.low] = others[nearest][:, model.low].mean(axis=0)
        made = model.mean + (1 - self.strength) * centered + self.strength * expected
        log_f0 = pool.log_f0[pool.of_gender(wanted)[half[nearest]]].mean()
        return PseudoSpeaker(made.astype(np.float32), float(log_f0))


@lru_cache(maxsize=8)
def decomposed(pool: Pool, gender: str, variability: float) -> Decomposition:
    """Return the decomposition of the pool's speakers of a gender, and the regression from its low to its high part."""
    voices = np.array([l2_normalized(vector) for vector in pool.embeddings[pool.of_gender(gender)]], dtype=np.float64)
    mean = voices.mean(axis=0)
    centered = voices - mean
    variance = centered.var(axis=0)
    order = np.argsort(-variance, kind="stable")
    count = int(np.searchsorted(np.cumsum(variance[order]) / variance.sum(), variability - 1e-9)) + 1
    high, low = np.sort(order[:count]), np.sort(order[count:])
    known, wanted = centered[:, low], centered[:, high]
    penalty = _RIDGE * float(known.var(axis=0).mean()) * len(voices)
    ridge = np.linalg.solve(known.T @ known + penalty * np.eye(len(low)), known.T @ wanted)
    return Decomposition(centered, mean, high, low, ridge)
