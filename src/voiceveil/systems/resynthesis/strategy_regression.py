"""Pseudo-speakers by variability-driven decomposition and two regression models (A1 of 2020).

As published (overview of VoicePrivacy 2020, section 3.2, on Mawalim et al. 2020): the x-vector is decomposed into a
part of high and a part of low variability, which two different regression models modify; speaker-specific information
is said to be mostly in the part of low variability, on which anonymization must focus. Table 5 calls it ensemble
regression.

Our decisions: variability is the variance of a dimension over the pool's speakers of a gender. The dimensions with the
largest variance, which hold the fraction ``variability`` of the total, are the high part, the others the low part. Each
model, fitted to the pool, predicts one part from the other, so that the result is that of a typical voice with this
other part. For the high part the model is ridge regression; for the low part, which is to change most, it is the mean
over the ``neighbors`` pool speakers whose high parts are nearest (an ensemble). The source's own parts keep the weight
1 - ``strength``. Neighbors are taken from a random half of the pool, so that the source does not determine the result.
Mean F0 is that of the neighbors.
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
from voiceveil.systems.resynthesis.strategies import Gender, PseudoSpeaker, strategies, target_gender

__all__ = ["Decomposition", "Regression", "decompose"]

Array = NDArray[np.float64]
#: Ridge penalty, in mean variances of the predictors times the number of speakers.
_RIDGE = 1.0


class Decomposition(NamedTuple):
    """Decomposition of the L2-normalized embeddings of a gender's n speakers.

    ``voices`` (n, d): embeddings minus their ``mean`` (d,); ``high`` (h,), ``low`` (l,): dimensions of the two parts;
    ``ridge`` (l, h): coefficients that predict the high part from the low part.
    """

    voices: Array
    mean: Array
    high: NDArray[np.int64]
    low: NDArray[np.int64]
    ridge: Array


@strategies.register("a1")
@dataclass(frozen=True)
class Regression:
    """A1: both parts of the embedding as regression models predict them from each other."""

    gender: Gender = "same"
    variability: float = 0.5
    neighbors: int = 10
    strength: float = 1.0

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Refuse parameters out of range, and a pool whose halves have too few speakers."""
        if not (0 < self.variability < 1 and 0 <= self.strength <= 1 and self.neighbors >= 1):
            problem = (
                f"out of range: variability {self.variability}, strength {self.strength}, neighbors {self.neighbors}"
            )
            fix = "set variability between 0 and 1, strength from 0 to 1, neighbors to 1 or more"
            raise InputError(problem, fix=fix)
        for gender in GENDERS:
            count = len(pool.of_gender(gender))
            if count < max(4, 2 * self.neighbors):
                problem = f"the pool has {count} speakers of gender {gender}, too few for {self.neighbors} neighbors"
                raise InputError(problem, where=pool.where, fix="give a larger pool (voiceveil train pool), or fewer")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the predicted embedding; neighbors are from a random half of the pool."""
        target = target_gender(self.gender, gender, rng)
        model = decompose(pool, target, self.variability)
        half = rng.permutation(len(model.voices))[: (len(model.voices) + 1) // 2]
        centered = l2_normalized(source) - model.mean
        others = model.voices[half]
        distances = ((others[:, model.high] - centered[model.high]) ** 2).sum(axis=1)
        nearest = np.argsort(distances, kind="stable")[: self.neighbors]
        predicted = np.empty_like(centered)
        predicted[model.high] = centered[model.low] @ model.ridge
        predicted[model.low] = others[nearest][:, model.low].mean(axis=0)
        embedding = model.mean + (1 - self.strength) * centered + self.strength * predicted
        log_f0 = pool.log_f0[pool.of_gender(target)[half[nearest]]].mean()
        return PseudoSpeaker(embedding.astype(np.float32), float(log_f0))


@lru_cache(maxsize=8)
def decompose(pool: Pool, gender: str, variability: float) -> Decomposition:
    """Return the decomposition of the pool's speakers of a gender, fitted once for a pool."""
    voices = np.array([l2_normalized(vector) for vector in pool.embeddings[pool.of_gender(gender)]], dtype=np.float64)
    mean = voices.mean(axis=0)
    centered = voices - mean
    variance = centered.var(axis=0)
    order = np.argsort(-variance, kind="stable")
    count = int(np.searchsorted(np.cumsum(variance[order]) / variance.sum(), variability - 1e-9)) + 1
    high, low = np.sort(order[:count]), np.sort(order[count:])
    predictors, targets = centered[:, low], centered[:, high]
    penalty = _RIDGE * float(predictors.var(axis=0).mean()) * len(voices)
    ridge = np.linalg.solve(predictors.T @ predictors + penalty * np.eye(len(low)), predictors.T @ targets)
    return Decomposition(centered, mean, high, low, ridge)
