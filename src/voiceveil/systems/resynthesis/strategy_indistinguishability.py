"""Pseudo-speakers under a privacy budget: voice-indistinguishability (K2 of 2020).

Han et al. ("Voice-Indistinguishability: Protecting Voiceprint in Privacy-Preserving Speech Data Release", 2020) extend
differential privacy to voices: a choice of targets is epsilon-indistinguishable if, whatever the sources x and x' and
the target y,

    P(y | x) <= exp(epsilon d(x, x')) P(y | x'),

where d is the angular distance of embeddings, arccos(cosine) / pi, which lies between 0 and 1. The exponential
mechanism satisfies it: P(y | x) is proportional to exp(-epsilon d(x, y) / 2). (As d is a metric, the exponent changes
by at most epsilon d(x, x') / 2 between two sources, and so does the logarithm of the sum over all targets.)

Our decisions: the target is chosen for each utterance from its own embedding; the budget holds for one choice, so that
a speaker with k independently anonymized utterances spends k budgets. The choice uses the Gumbel-max trick: every voice
of the pool gets a Gumbel-distributed number, and the largest sum of number and exponent wins. This has the same
distribution, and utterances that share a generator agree as often as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.systems.resynthesis.pool import GENDERS, Embedding, Pool
from voiceveil.systems.resynthesis.strategies import Gender, PseudoSpeaker, cosines, strategies, target_gender

__all__ = ["Indistinguishable", "angular_distance"]

Array = NDArray[np.float64]


@strategies.register("k2")
@dataclass(frozen=True)
class Indistinguishable:
    """K2: one speaker of the pool, nearer ones with higher probability.

    ``epsilon`` is the privacy budget for two sources in opposite directions (distance 1). With ``gender`` "random" all
    speakers may be chosen; with "same" and "other" the inequality holds only between sources of one gender, as the
    choice reveals it.
    """

    gender: Gender = "random"
    epsilon: float = 100.0

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Refuse a negative or infinite budget, and a pool of one gender."""
        if not 0 <= self.epsilon < np.inf:
            raise InputError(f"epsilon = {self.epsilon} is not a privacy budget", fix="set epsilon to 0 or more")
        if min(len(pool.of_gender(gender)) for gender in GENDERS) == 0:
            raise InputError("the pool has speakers of one gender only", where=pool.where, fix="give another pool")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Draw a speaker by the exponential mechanism."""
        target = target_gender(self.gender, gender, rng)
        numbers = rng.gumbel(size=len(pool))
        rows = np.arange(len(pool)) if self.gender == "random" else pool.of_gender(target)
        row = rows[int(np.argmax(self.exponents(source, pool.embeddings[rows]) + numbers[rows]))]
        return PseudoSpeaker(pool.embeddings[row].copy(), float(pool.log_f0[row]))

    def exponents(self, source: Embedding, targets: NDArray[np.float32]) -> Array:
        """Return the log probability of each target (n, d), up to a constant."""
        return -self.epsilon / 2 * angular_distance(targets, source)


def angular_distance(vectors: NDArray[np.float32], other: Embedding) -> Array:
    """Return the angle between each of the vectors (n, d) and another (d,), divided by pi."""
    return np.asarray(np.arccos(np.clip(cosines(vectors, other), -1, 1)) / np.pi)
