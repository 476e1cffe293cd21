"""Strategies that choose a pseudo-speaker for a source speaker; here those that average speakers of the pool.

A strategy is a small frozen dataclass with ``check(pool)`` and ``draw(source, gender, pool, rng)``, registered with
``@strategies.register("name")``. Its fields are set from the parameters of the system that have the same names, and
from the text after the name: ``o1c1:dissimilarity=0.9,components=3``.

Speaker level: the generator belongs to the speaker, so that all utterances of a speaker draw the same numbers; but
every utterance has its own source embedding, and hence its own list of candidates. The strategies therefore draw a
random order of the whole pool, independent of the source, and take the candidates that come first in it. That is a
uniform draw without replacement from the candidates, and lists that differ in few speakers give nearly the same
pseudo-speaker.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry, did_you_mean
from voiceveil.systems.parameters import parse_settings
from voiceveil.systems.resynthesis.pool import GENDERS, Embedding, Pool

__all__ = [
    "Distance",
    "Gender",
    "HasWeights",
    "PoolFarthest",
    "PoolNearest",
    "PoolRandom",
    "PseudoSpeaker",
    "SourceVoice",
    "Strategy",
    "average_speakers",
    "cosines",
    "make_strategy",
    "official_candidate_indices",
    "strategies",
    "target_gender",
]

Distance = Literal["plda", "cosine"]
#: Gender of the pseudo-speaker: relative to the source, random, or fixed.
Gender = Literal["same", "other", "random", "f", "m"]

#: N of the challenges; N* is half of it.
_PUBLISHED_CANDIDATES = 200


class PseudoSpeaker(NamedTuple):
    """The voice that replaces the source's.

    ``embedding`` (d,); ``log_f0``: mean ln F0 of the speakers that it is made of; ``source``: embedding of the source
    speaker, if it was extracted; ``steady``: the voice for emotional speech, if that is another one.
    """

    embedding: Embedding
    log_f0: float
    source: Embedding | None = None
    steady: PseudoSpeaker | None = None

    def blend_towards_steady(self, weight: float) -> PseudoSpeaker:
        """Blend towards the steadier voice: weight 0 keeps this one, 1 returns ``steady``."""
        if self.steady is None:
            return self
        embedding = weight * self.steady.embedding + (1 - weight) * self.embedding
        log_f0 = weight * self.steady.log_f0 + (1 - weight) * self.log_f0
        return PseudoSpeaker(embedding.astype(np.float32), log_f0, self.source)


class Strategy(Protocol):
    """Draws pseudo-speakers."""

    @property
    def needs_source_embedding(self) -> bool:
        """Return whether a draw depends on the source; if not, ``draw`` gets an embedding of zeros and gender ""."""
        ...

    def check(self, pool: Pool) -> None:
        """Raise an ``InputError`` if the pool or a parameter cannot be used."""
        ...

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the pseudo-speaker of a source.

        Parameters
        ----------
        source
            Speaker embedding of the source (d,).
        gender
            Gender of the source, "f" or "m".
        pool
            Speakers to choose from.
        rng
            The only source of randomness.
        """
        ...


@runtime_checkable
class HasWeights(Protocol):
    """A strategy with weights of its own."""

    def files(self) -> dict[str, Path]:
        """Return name -> file of the weights."""
        ...


strategies: Registry[type[Strategy]] = Registry(
    "pseudo-speaker strategy",
    group="voiceveil.strategies",
    modules=(
        "voiceveil.systems.resynthesis.strategy_autoencoder",
        "voiceveil.systems.resynthesis.strategy_indistinguishability",
        "voiceveil.systems.resynthesis.strategy_regression",
        "voiceveil.systems.resynthesis.strategy_sampling",
        "voiceveil.systems.resynthesis.strategy_singular_values",
    ),
)


def make_strategy(spec: str, given: Mapping[str, Any]) -> Strategy:
    """Return a strategy.

    Parameters
    ----------
    spec
        Name, optionally with parameters: ``o1:variance=0.9``.
    given
        Values for its fields, which ``spec`` overrides; other names are ignored.
    """
    name, _, text = spec.partition(":")
    cls = strategies[name]
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    settings = [setting for setting in text.split(",") if setting]
    for key in (setting.partition("=")[0].strip() for setting in settings):
        if key not in known:
            raise InputError(f"strategy {name} has no parameter {key!r}", fix=did_you_mean(key, known))
    own = {key: value for key, value in given.items() if key in known}
    return cls(**{**own, **parse_settings(cls, name, settings)})


@strategies.register("pool-farthest")
@dataclass(frozen=True)
class PoolFarthest:
    """B1: the mean of ``averaged`` speakers drawn from the ``candidates`` farthest ones of the pool.

    N = 200 and N* = 100 in the challenges (Srivastava et al. 2020). 0 stands for these numbers where the pool has 200
    speakers of each gender; in a smaller one for 8/13 of its speakers of the rarer gender, and for half of the
    candidates (80 and 40 in the pool that ships). The mean is not normalized.
    """

    distance: Distance = "plda"
    gender: Gender = "same"
    candidates: int = 0
    averaged: int = 0

    needs_source_embedding: ClassVar[bool] = True
    _nearest_first: ClassVar[bool] = False

    def check(self, pool: Pool) -> None:
        """Refuse a pool with fewer speakers of a gender than candidates (the official code then averages zeros)."""
        candidates, averaged = self.counts(pool)
        if not 1 <= averaged <= candidates:
            problem = f"cannot average {averaged} of {candidates} candidates"
            raise InputError(problem, fix="set averaged to at most candidates")
        for gender in GENDERS:
            count = len(pool.of_gender(gender))
            if count < candidates:
                raise InputError(
                    f"the pool has {count} speakers of gender {gender}, and {candidates} candidates are asked for",
                    where=pool.where,
                    fix=f"give a larger pool (voiceveil train pool), or at most --set candidates={count}",
                )

    def counts(self, pool: Pool) -> tuple[int, int]:
        """Return N and N*: those that were given, or those of the challenges if the pool has enough speakers."""
        fewest = min(len(pool.of_gender(gender)) for gender in GENDERS)
        own = _PUBLISHED_CANDIDATES if fewest >= _PUBLISHED_CANDIDATES else max(1, fewest * 8 // 13)
        candidates = self.candidates or own
        return candidates, self.averaged or max(1, candidates // 2)

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the mean of the candidates that come first in a random order of the pool."""
        target = target_gender(self.gender, gender, rng)
        position = rng.permutation(len(pool))
        candidates = self.ranked(source, target, pool)
        return average_speakers(candidates[np.argsort(position[candidates])[: self.counts(pool)[1]]], pool)

    def ranked(self, source: Embedding, gender: str, pool: Pool) -> NDArray[np.int64]:
        """Return the rows of the candidates of a gender, the farthest from the source first."""
        rows = pool.of_gender(gender)
        similarity = _similarity(self.distance, source, pool, rows)
        order = np.argsort(-similarity if self._nearest_first else similarity, kind="stable")
        return np.asarray(rows[order[: self.counts(pool)[0]]])


@strategies.register("pool-nearest")
@dataclass(frozen=True)
class PoolNearest(PoolFarthest):
    """Variant of pool-farthest with the nearest speakers: an option of the official code, and a weak protection."""

    _nearest_first: ClassVar[bool] = True


@strategies.register("pool-random")
@dataclass(frozen=True)
class PoolRandom:
    """Random speakers of the pool, independent of the source: one, or the mean of several.

    Parameters
    ----------
    gender
        Gender of the pseudo-speaker, relative to the source or fixed.
    best
        Fraction of the speakers of each gender to draw from, the most natural voices first.
    voices
        Number of speakers averaged; the more, the more alike are pseudo-speakers.
    steady_voices
        Number of speakers averaged for emotional speech, the same ones first; 0: as ``voices``.
    """

    gender: Gender = "same"
    best: float = 1.0
    voices: int = 1
    steady_voices: int = 0

    @property
    def needs_source_embedding(self) -> bool:
        """Return whether the source's gender is needed, which is estimated from the embedding."""
        return self.gender in ("same", "other")

    def check(self, pool: Pool) -> None:
        """Refuse a pool of one gender."""
        if min(len(pool.of_gender(gender)) for gender in GENDERS) == 0:
            raise InputError("the pool has speakers of one gender only", where=pool.where, fix="give another pool")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the mean of the speakers of the gender that come first in a random order of the pool."""
        rows = pool.best(target_gender(self.gender, gender, rng), self.best)
        order = rows[np.argsort(rng.permutation(len(pool))[rows])]
        steady = average_speakers(order[: self.steady_voices], pool) if self.steady_voices else None
        return average_speakers(order[: self.voices], pool)._replace(steady=steady)


@strategies.register("source")
@dataclass(frozen=True)
class SourceVoice:
    """The source's own voice: copy-synthesis, which shows what the networks alone change."""

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Accept any pool."""

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the source's embedding, with the mean F0 of the nearest speaker of its gender."""
        rows = pool.of_gender(gender)
        nearest = rows[int(np.argmax(_similarity("cosine", source, pool, rows)))]
        return PseudoSpeaker(source.copy(), float(pool.log_f0[nearest]))


def average_speakers(rows: NDArray[np.int64], pool: Pool) -> PseudoSpeaker:
    """Return the mean of the speakers in ``rows``, computed in double precision, not normalized."""
    embedding = pool.embeddings[rows].mean(axis=0, dtype=np.float64)
    return PseudoSpeaker(np.asarray(embedding, dtype=np.float32), float(pool.log_f0[rows].mean()))


def target_gender(choice: Gender, gender: str, rng: np.random.Generator) -> str:
    """Return the pseudo-speaker's gender for a source of ``gender``; always draws one number."""
    drawn = GENDERS[int(rng.integers(2))]
    if choice == "other":
        return GENDERS[1 - GENDERS.index(gender)]
    return {"same": gender, "random": drawn}.get(choice, choice)


def cosines(vectors: NDArray[np.float32], other: Embedding) -> NDArray[np.float64]:
    """Return the cosine of each of the vectors (n, d), or of one (d,), with another (d,), in double precision."""
    rows, column = vectors.astype(np.float64), other.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=-1) * np.linalg.norm(column)
    return np.asarray(rows @ column / np.maximum(lengths, 1e-30))


def _similarity(distance: Distance, source: Embedding, pool: Pool, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cosine, or the PLDA log likelihood ratio of one utterance each, of the source with pool speakers."""
    if distance == "cosine":
        return cosines(pool.embeddings[rows], source)
    vectors = pool.embeddings[rows].astype(np.float64)
    return np.asarray(pool.plda(vectors, np.ones(len(rows), dtype=np.int64), source.astype(np.float64)[None])[:, 0])


def official_candidate_indices(seed: int, candidates: int = 200, averaged: int = 100) -> Iterator[NDArray[np.int64]]:
    """Yield indices into the list of candidates, as the official code of 2020 and 2022 draws them for a data set.

    Each item is for the next speaker (or utterance) in the order of the official lists. The official code seeds
    Python's generator with the number of the data set as a string.
    """
    generator = random.Random(str(seed))
    while True:
        yield np.array(generator.sample(range(candidates), averaged))
