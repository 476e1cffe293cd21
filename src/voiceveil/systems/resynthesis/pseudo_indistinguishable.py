"""Pseudo-speakers under a privacy budget: voice-indistinguishability (K2 of 2020).

Han et al. ("Voice-Indistinguishability: Protecting Voiceprint in Privacy-Preserving Speech Data Release", 2020) extend
differential privacy to voices: a choice of targets is epsilon-indistinguishable if, whatever the sources x and x' and
the target y,

    P(y | x) <= exp(epsilon d(x, x')) P(y | x'),

where d is the angular distance of embeddings, arccos(cosine) / pi, which lies between 0 and 1. The exponential
mechanism does it: P(y | x) is proportional to exp(-epsilon d(x, y) / 2). (As d is a metric, the exponent changes by at
most epsilon d(x, x') / 2 between two sources, and so does the logarithm of the sum over all targets.)

What that left to us. The choice is made for an utterance from its own embedding; the budget holds for one choice, and a
speaker who is heard k times with independent draws spends k of them. To draw, each voice of the pool gets a number of
Gumbel's distribution, and the largest sum of number and exponent is taken: the same law, and utterances with one
generator agree as often as may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.systems.resynthesis.pool import GENDERS, Embedding, Pool
from voiceveil.systems.resynthesis.pseudo import Gender, PseudoSpeaker, strategies, wanted_gender

__all__ = ["Indistinguishable", "angular_distance"]

Array = NDArray[np.float64]


@strategies.register("k2")
@dataclass(frozen=True)
class Indistinguishable:
    """K2: one speaker of the pool, the nearer the likelier; ``epsilon`` is the budget for voices that are opposite.

    ``gender`` "random": all speakers may be chosen. With "same" and "other" the inequality holds for sources of one
    gender, as the choice then tells it.
    """

    gender: Gender = "random"
    epsilon: float = 100.0

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """A budget, and both genders."""
        if not 0 <= self.epsilon < np.inf:
            raise InputError(f"no budget of privacy: {self.epsilon}", fix="set epsilon to 0 or more")
        if min(len(pool.of_gender(gender)) for gender in GENDERS) == 0:
            raise InputError("the pool has speakers of one gender only", where=pool.where, fix="give another pool")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the exponential mechanism, by Gumbel's numbers."""
        wanted = wanted_gender(self.gender, gender, rng)
        numbers = rng.gumbel(size=len(pool))
        rows = np.arange(len(pool)) if self.gender == "random" else pool.of_gender(wanted)
        row = rows[int(np.argmax(self.exponents(source, pool.embeddings[rows]) + numbers[rows]))]
        return PseudoSpeaker(pool.embeddings[row].copy(), float(pool.log_f0[row]))

    def exponents(self, source: Embedding, targets: NDArray[np.float32]) -> Array:
        """Logarithms of the probabilities of targets (n, d), up to a constant."""
        return -self.epsilon / 2 * angular_distance(targets, source)


def angular_distance(vectors: NDArray[np.float32], other: Embedding) -> Array:
    """Of vectors (n, d) to another (d,): the angle between them, in half turns."""
    rows, one = vectors.astype(np.float64), other.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(one)
    return np.asarray(np.arccos(np.clip(rows @ one / np.maximum(lengths, 1e-30), -1, 1)) / np.pi)
