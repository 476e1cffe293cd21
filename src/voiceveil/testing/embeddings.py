"""Embedding worlds: synthetic x-vectors of many speakers, at the sizes of the legal framework's Common Voice sets.

Conventions: a speaker is a Gaussian vector whose variance falls from dimension to dimension, as that of real encoders
does; an utterance is the speaker times ``strength`` plus noise of the same spectrum. Strength 0 tells nothing about who
speaks. Set A has few utterances of every speaker, set B many of some: those who have most in A.

Vectors are made in blocks of speakers and depend on the seed and the block alone, so that memory is that of the result,
float32, and attackers of different strength meet the same speakers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.metrics.legal import Ints, UtteranceEmbeddings

__all__ = ["EmbeddingWorld"]

_BLOCK = 1024  # speakers


@dataclass(frozen=True)
class EmbeddingWorld:
    """Sizes of the world; the defaults are those of the paper's Table 1."""

    speakers: int = 22_024
    speakers_b: int = 4_949
    utterances: int = 234_945
    utterances_b: int = 996_971
    dimension: int = 192
    decay: float = 24.0  # dimensions over which the variance falls by e
    seed: int = 0

    def names(self) -> tuple[str, ...]:
        """Return the speakers, sorted."""
        return tuple(f"speaker{number:06d}" for number in range(self.speakers))

    def counts(self) -> tuple[Ints, Ints]:
        """Utterances of each speaker in A and in B: at least 6 and 30, a few have very many; B's come first."""
        rng = np.random.default_rng([self.seed, 1])
        in_a = np.sort(_shares(self.speakers, self.utterances, 6, 1.8, rng))[::-1]
        return in_a, _shares(self.speakers_b, self.utterances_b, 30, 1.0, rng)

    def draw(self, strength: float) -> tuple[UtteranceEmbeddings, UtteranceEmbeddings]:
        """Return the sets A and B as an attacker hears them, unit vectors."""
        names = self.names()
        in_a, in_b = self.counts()
        return self._set(names, in_a, strength, 0), self._set(names[: self.speakers_b], in_b, strength, 1)

    def _set(self, names: tuple[str, ...], counts: Ints, strength: float, number: int) -> UtteranceEmbeddings:
        codes = np.repeat(np.arange(len(names)), counts)
        vectors = np.empty((len(codes), self.dimension), dtype=np.float32)
        ends = np.cumsum(counts)
        spectrum = np.exp(-np.arange(self.dimension, dtype=np.float32) / (2 * self.decay))
        for block, start in enumerate(range(0, len(names), _BLOCK)):
            some = slice(ends[start] - counts[start], ends[min(start + _BLOCK, len(names)) - 1])
            speaker_vectors = np.random.default_rng([self.seed, 2, block]).standard_normal(
                (_BLOCK, self.dimension), dtype=np.float32
            )
            noisy = np.random.default_rng([self.seed, 3, number, block]).standard_normal(
                (some.stop - some.start, self.dimension), dtype=np.float32
            )
            noisy += strength * speaker_vectors[codes[some] - start]
            noisy *= spectrum
            vectors[some] = noisy / np.linalg.norm(noisy, axis=1, keepdims=True)
        return UtteranceEmbeddings(names, codes, vectors)


def _shares(parts: int, total: int, least: int, spread: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """``total`` divided into so many parts of at least ``least``; what is beyond is lognormal."""
    weights = rng.lognormal(0.0, spread, parts)
    rest = np.floor(weights / weights.sum() * (total - least * parts)).astype(np.int64)
    rest[: total - least * parts - rest.sum()] += 1
    return np.asarray(least + rest)
