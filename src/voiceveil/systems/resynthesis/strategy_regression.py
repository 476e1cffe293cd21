"""Pseudo-speakers by variability-driven decomposition and two regression models (A1 of 2020).

As published (overview of VoicePrivacy 2020, section 3.2, on Mawalim et al. 2020): the x-vector is decomposed into a
part of high and a part of low variability, which two different regression models modify; speaker-specific information
is said to be mostly in the part of low variability, on which anonymization must focus. Table 5 calls it ensemble
regression. It does not say what the models learn.

Our decisions: variability is the variance of a dimension over the pool's speakers of a gender. The dimensions with the
largest variance, which hold the fraction ``variability`` of the total, are the high part, the others the low part. The
models are trained on a random half of these speakers, so that the source does not determine the result. The pseudo-
target of a speaker is, as in A2, the least similar centroid of ``clusters`` clusters of this half. For the high part
the model is ridge regression from the high part of a voice to that of its pseudo-target; for the low part, which is to
change most, it is the mean of the pseudo-targets of the ``neighbors`` speakers whose low parts are nearest (an
ensemble). The source's own parts keep the weight 1 - ``strength``. Mean F0 is that of the pseudo-targets' clusters.

Models that predict one part of a voice from its other part, without pseudo-targets, return the source: dimensions of
embeddings depend on each other. See `docs/reference/vpc2020.md`.
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
from voiceveil.systems.resynthesis.strategy_singular_values import k_means

__all__ = ["Decomposition", "Regression", "decompose", "fit_ridge"]

Array = NDArray[np.float64]
#: Ridge penalty, in mean variances of the predictors times the number of speakers.
_RIDGE = 1.0


class Decomposition(NamedTuple):
    """Decomposition of the L2-normalized embeddings of a gender's n speakers.

    ``voices`` (n, d): the embeddings; ``high`` (h,), ``low`` (l,): dimensions of the two parts.
    """

    voices: Array
    high: NDArray[np.int64]
    low: NDArray[np.int64]


@strategies.register("a1")
@dataclass(frozen=True)
class Regression:
    """A1: each part of the embedding as a regression model of distant pseudo-targets predicts it."""

    gender: Gender = "same"
    variability: float = 0.5
    clusters: int = 10
    neighbors: int = 10
    strength: float = 1.0

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Refuse parameters out of range, and a pool whose halves have too few speakers."""
        least = min(self.neighbors, self.clusters - 1)
        if not (0 < self.variability < 1 and 0 <= self.strength <= 1 and least >= 1):
            problem = (
                f"out of range: variability {self.variability}, strength {self.strength}, clusters {self.clusters}, "
                f"neighbors {self.neighbors}"
            )
            fix = "set variability between 0 and 1, strength from 0 to 1, clusters to 2 or more, neighbors to 1 or more"
            raise InputError(problem, fix=fix)
        for gender in GENDERS:
            count = len(pool.of_gender(gender))
            if count < 2 * max(self.neighbors, self.clusters):
                problem = (
                    f"the pool has {count} speakers of gender {gender}, too few for {self.clusters} clusters and "
                    f"{self.neighbors} neighbors in half of them"
                )
                raise InputError(problem, where=pool.where, fix="give a larger pool (voiceveil train pool), or fewer")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the predicted embedding; the models are trained on a random half of the pool."""
        target = target_gender(self.gender, gender, rng)
        model = decompose(pool, target, self.variability)
        half = rng.permutation(len(model.voices))[: (len(model.voices) + 1) // 2]
        voices, voice = model.voices[half], l2_normalized(source).astype(np.float64)
        centroids, cluster = k_means(voices, voices[: self.clusters])
        directions = centroids / np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), 1e-30)
        chosen = np.argmin(voices @ directions.T, axis=1)  # the cluster that is the pseudo-target of each voice
        targets = centroids[chosen]
        coefficients = fit_ridge(voices[:, model.high], targets[:, model.high])
        nearest = np.argsort(((voices[:, model.low] - voice[model.low]) ** 2).sum(axis=1), kind="stable")
        nearest = nearest[: self.neighbors]
        predicted = np.empty_like(voice)
        difference = voice[model.high] - voices[:, model.high].mean(axis=0)
        predicted[model.high] = targets[:, model.high].mean(axis=0) + difference @ coefficients
        predicted[model.low] = targets[nearest][:, model.low].mean(axis=0)
        embedding = (1 - self.strength) * voice + self.strength * predicted
        log_f0 = pool.log_f0[pool.of_gender(target)[half]]
        means = [log_f0[cluster == chosen[row]].mean() for row in nearest]
        return PseudoSpeaker(embedding.astype(np.float32), float(np.mean(means)))


def fit_ridge(inputs: Array, outputs: Array) -> Array:
    """Return coefficients (p, q) that predict centered outputs (n, q) from centered inputs (n, p), with a penalty."""
    x, y = inputs - inputs.mean(axis=0), outputs - outputs.mean(axis=0)
    penalty = _RIDGE * float(x.var(axis=0).mean()) * len(x)
    return np.asarray(np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y))


@lru_cache(maxsize=8)
def decompose(pool: Pool, gender: str, variability: float) -> Decomposition:
    """Return the decomposition of the pool's speakers of a gender, computed once for a pool."""
    voices = np.array([l2_normalized(vector) for vector in pool.embeddings[pool.of_gender(gender)]], dtype=np.float64)
    variance = voices.var(axis=0)
    order = np.argsort(-variance, kind="stable")
    count = int(np.searchsorted(np.cumsum(variance[order]) / variance.sum(), variability - 1e-9)) + 1
    return Decomposition(voices, np.sort(order[:count]), np.sort(order[count:]))
