"""Strategies of pseudo-speakers: who a voice becomes.

A strategy is a small frozen dataclass with ``check(pool)`` and ``draw(source, gender, pool, rng)``; a new one is a
class with the decorator ``@strategies.register("name")``. Its fields are read from the parameters of the system that
have the same names, and from what a user writes behind the name: ``o1c1:dissimilarity=0.9,components=3``.

Speaker level. The generator is bound to the speaker, so that all utterances of a speaker draw the same numbers; but
the embedding of the source is the utterance's own, and with it the list of candidates. Therefore the draw is an order
of the whole pool, which does not depend on the source: of the candidates, those that come first in it are taken. That
is a uniform draw without replacement from the candidates, and two lists that differ in few speakers give nearly the
same pseudo-speaker.
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
    "Learned",
    "OwnVoice",
    "PoolFarthest",
    "PoolNearest",
    "PoolRandom",
    "PseudoSpeaker",
    "Strategy",
    "make_strategy",
    "mean_of",
    "strategies",
    "wanted_gender",
]

Distance = Literal["plda", "cosine"]
#: Of the pseudo-speaker: seen from the source's, or whatever that is.
Gender = Literal["same", "other", "random", "f", "m"]


class PseudoSpeaker(NamedTuple):
    """An embedding (d,), and the mean logarithm of F0 in Hz of the voices that it is made of.

    ``source`` is the embedding of whom it stands for, if that was heard; ``steady`` the voice that is to be taken where
    a feeling is to be heard, if that is another.
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
    """What draws pseudo-speakers."""

    @property
    def needs_source_embedding(self) -> bool:
        """Whether the source matters; if not, its embedding is zeros, its gender "", and no encoder has to run."""
        ...

    def check(self, pool: Pool) -> None:
        """Raise an ``InputError`` if the pool will not do."""
        ...

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """The pseudo-speaker of a source with this embedding and gender ("f" or "m"), drawn from ``rng`` alone."""
        ...


@runtime_checkable
class Learned(Protocol):
    """A strategy with weights of its own."""

    def files(self) -> dict[str, Path]:
        """Name -> file of weights that a pseudo-speaker depends on."""
        ...


strategies: Registry[type[Strategy]] = Registry(
    "pseudo-speaker strategy",
    group="voiceveil.strategies",
    modules=(
        "voiceveil.systems.resynthesis.pseudo_autoencoded",
        "voiceveil.systems.resynthesis.pseudo_indistinguishable",
        "voiceveil.systems.resynthesis.pseudo_regression",
        "voiceveil.systems.resynthesis.pseudo_sampled",
        "voiceveil.systems.resynthesis.pseudo_singular",
    ),
)


def make_strategy(spec: str, given: Mapping[str, Any]) -> Strategy:
    """The strategy of a name, with what is ``given`` for its fields, or written behind it: ``o1:variance=0.9``."""
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
    """B1: of the ``candidates`` farthest speakers of the pool, ``averaged`` are drawn, and their plain mean is taken.

    N = 200 and N* = 100 in the challenges (Srivastava et al. 2020). The mean is not brought to any length.
    """

    distance: Distance = "plda"
    gender: Gender = "same"
    candidates: int = 200
    averaged: int = 100

    needs_source_embedding: ClassVar[bool] = True
    _nearest_first: ClassVar[bool] = False

    def check(self, pool: Pool) -> None:
        """Refuse a pool with fewer speakers of a gender than candidates. (The official code then averages zeros.)"""
        if not 1 <= self.averaged <= self.candidates:
            what = f"cannot average {self.averaged} of {self.candidates} candidates"
            raise InputError(what, fix="set averaged to at most candidates")
        for gender in GENDERS:
            count = len(pool.of_gender(gender))
            if count < self.candidates:
                raise InputError(
                    f"the pool has {count} speakers of gender {gender}, and {self.candidates} candidates are asked for",
                    where=pool.where,
                    fix=f"give a larger pool (voiceveil train pool), or at most --set candidates={count}",
                )

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the mean of those candidates that come first in a random order of the pool."""
        wanted = wanted_gender(self.gender, gender, rng)
        place = rng.permutation(len(pool))
        candidates = self.ranked(source, wanted, pool)
        return mean_of(candidates[np.argsort(place[candidates])[: self.averaged]], pool)

    def ranked(self, source: Embedding, gender: str, pool: Pool) -> NDArray[np.int64]:
        """Return the rows of the candidates of a gender, the farthest from the source first."""
        rows = pool.of_gender(gender)
        affinity = _affinity(self.distance, source, pool, rows)
        order = np.argsort(-affinity if self._nearest_first else affinity, kind="stable")
        return np.asarray(rows[order[: self.candidates]])


@strategies.register("pool-nearest")
@dataclass(frozen=True)
class PoolNearest(PoolFarthest):
    """The same with the nearest speakers: an option of the official code, and a weak protection."""

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
        """Its gender alone."""
        return self.gender in ("same", "other")

    def check(self, pool: Pool) -> None:
        """Both genders are there."""
        if min(len(pool.of_gender(gender)) for gender in GENDERS) == 0:
            raise InputError("the pool has speakers of one gender only", where=pool.where, fix="give another pool")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the speakers of the gender that come first in a random order of the pool, and their mean."""
        rows = pool.best(wanted_gender(self.gender, gender, rng), self.best)
        order = rows[np.argsort(rng.permutation(len(pool))[rows])]
        steady = mean_of(order[: self.steady_voices], pool) if self.steady_voices else None
        return mean_of(order[: self.voices], pool)._replace(steady=steady)


@strategies.register("source")
@dataclass(frozen=True)
class OwnVoice:
    """The source itself: copy-synthesis, which shows what the way through the networks alone does to a voice."""

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Any will do."""

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return its embedding, and the F0 of the pool's speaker of its gender that is nearest."""
        rows = pool.of_gender(gender)
        nearest = rows[int(np.argmax(_affinity("cosine", source, pool, rows)))]
        return PseudoSpeaker(source.copy(), float(pool.log_f0[nearest]))


def mean_of(rows: NDArray[np.int64], pool: Pool) -> PseudoSpeaker:
    """Return the plain mean of some speakers of a pool, in double precision."""
    embedding = pool.embeddings[rows].mean(axis=0, dtype=np.float64)
    return PseudoSpeaker(np.asarray(embedding, dtype=np.float32), float(pool.log_f0[rows].mean()))


def wanted_gender(choice: Gender, gender: str, rng: np.random.Generator) -> str:
    """Return the pseudo-speaker's gender; one number is drawn, whatever the choice is."""
    drawn = GENDERS[int(rng.integers(2))]
    if choice == "other":
        return GENDERS[1 - GENDERS.index(gender)]
    return {"same": gender, "random": drawn}.get(choice, choice)


def _affinity(distance: Distance, source: Embedding, pool: Pool, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """How near speakers of the pool are to a source: cosine, or PLDA's log likelihood ratio, one utterance each."""
    vectors = pool.embeddings[rows].astype(np.float64)
    one = source.astype(np.float64)
    if distance == "cosine":
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(one)
        return np.asarray(vectors @ one / np.maximum(lengths, 1e-30))
    return np.asarray(pool.plda(vectors, np.ones(len(rows), dtype=np.int64), one[None])[:, 0])


def official_picks(seed: int, candidates: int = 200, averaged: int = 100) -> Iterator[NDArray[np.int64]]:
    """Places in the list of candidates, as the official code of 2020 and 2022 draws them for one data set.

    It seeds Python's generator with the number of the data set, written as a string; a new draw is made for every
    speaker, or for every utterance, in the order of the lists.
    """
    generator = random.Random(str(seed))
    while True:
        yield np.array(generator.sample(range(candidates), averaged))
