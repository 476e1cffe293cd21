"""Pseudo-speakers that are nobody: sampled from the distribution of the pool's embeddings (O1 and O1c1 of 2020).

B1's averages of a hundred speakers lie close together, whoever the sources are; an attacker can use that. Turner et al.
("Speaker Anonymization with Distribution-Preserving X-Vector Generation", 2020) sample instead, so that two
pseudo-speakers differ as two speakers do: the embeddings of a gender are brought by PCA to the coordinates that hold
most of their variance, a Gaussian mixture is fitted there, and a sample of it is brought back.

What the paper left to us. The mixture has two components with diagonal covariances, the default of the authors' code,
and begins from halves along the first coordinate, not from k-means with a seed: one pool has one model everywhere.
The variances are then corrected for the small number of speakers (`_as_varied`). A sample has no F0 of its own: it gets
that of the pool's nearest speaker. Embeddings are brought to length 1 first, as synthesizers know them.

Conventions: n speakers, d dimensions of an embedding, k coordinates, c components.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.systems.resynthesis.pool import GENDERS, Embedding, Pool
from voiceveil.systems.resynthesis.pseudo import Gender, PseudoSpeaker, strategies, wanted_gender

__all__ = ["Mixture", "Sampled", "SampledFar", "Voices", "fit_mixture", "voices_of"]

Array = NDArray[np.float64]
#: Of the variance of all coordinates: no component is narrower, so that none can collapse on one speaker.
_FLOOR = 1e-3
#: Samples that O1c1 tries, as in the authors' code.
_TRIES = 1000


class Mixture(NamedTuple):
    """A Gaussian mixture: weights (c,), means (c, k), variances (c, k)."""

    weights: Array
    means: Array
    variances: Array

    def sample(self, rng: np.random.Generator) -> Array:
        """Return one point (k,); 1 + k numbers are drawn."""
        component = int(np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(), side="right"))
        deviation = np.sqrt(self.variances[component])
        return np.asarray(self.means[component] + deviation * rng.standard_normal(len(deviation)))

    def log_joint(self, points: Array) -> Array:
        """Logarithm of the density of every component times its weight, at points (n, k): (n, c)."""
        squares = (points[:, None] - self.means) ** 2 / self.variances + np.log(2 * np.pi * self.variances)
        return np.asarray(np.log(self.weights) - squares.sum(axis=2) / 2)


class Voices(NamedTuple):
    """The model of a gender: mean (d,), axes (k, d) with orthonormal rows, and the mixture of the coordinates."""

    mean: Array
    axes: Array
    mixture: Mixture

    def sample(self, rng: np.random.Generator) -> Embedding:
        """Return a new voice (d,), of about the length that speakers' embeddings have: 1."""
        return np.asarray(self.mean + self.mixture.sample(rng) @ self.axes, dtype=np.float32)


@strategies.register("o1")
@dataclass(frozen=True)
class Sampled:
    """O1: a voice sampled from a Gaussian mixture in the principal coordinates of the pool's speakers of a gender.

    ``variance`` is the fraction of the speakers' variance that the coordinates hold; samples get the rest back as
    length. The authors' code keeps 0.9 of x-vectors with 512 dimensions; of the embeddings with 192 that the pool which
    ships has, so few coordinates are left that cosine distances spread a little more than those of speakers.
    """

    gender: Gender = "same"
    variance: float = 0.95
    components: int = 2

    @property
    def needs_source_embedding(self) -> bool:
        """Its gender alone."""
        return self.gender in ("same", "other")

    def check(self, pool: Pool) -> None:
        """Enough speakers of both genders: ten a component, or its variances would mean nothing."""
        if not 0 < self.variance <= 1 or self.components < 1:
            what = f"no mixture of {self.components} components in coordinates with {self.variance} of the variance"
            raise InputError(what, fix="set components to 1 or more, and variance above 0, at most 1")
        for gender in GENDERS:
            count = len(pool.of_gender(gender))
            if count < 10 * self.components:
                what = f"the pool has {count} speakers of gender {gender}, too few for {self.components} components"
                fix = f"give a pool with at least {10 * self.components} of each (voiceveil train pool)"
                raise InputError(what, where=pool.where, fix=fix)

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return one sample; all utterances of a speaker get the same, as the source is not looked at."""
        wanted = wanted_gender(self.gender, gender, rng)
        return _with_f0(self.voices(wanted, pool).sample(rng), wanted, pool)

    def voices(self, gender: str, pool: Pool) -> Voices:
        """Return the model of a gender."""
        return voices_of(pool, gender, self.variance, self.components)


@strategies.register("o1c1")
@dataclass(frozen=True)
class SampledFar(Sampled):
    """O1c1: as O1, but a sample whose cosine distance to the source is below ``dissimilarity`` is drawn again.

    All utterances of a speaker try the same samples in the same order, and take the first that is far enough from each:
    one voice, unless a sample lies so near the threshold that utterances disagree. The authors' code compares with the
    mean of a speaker, and after 1000 samples takes the farthest, near as it may be; here that is an error.
    """

    dissimilarity: float = 0.7

    @property
    def needs_source_embedding(self) -> bool:
        """Always."""
        return True

    def check(self, pool: Pool) -> None:
        """And a threshold that a cosine distance can reach."""
        super().check(pool)
        if not 0 <= self.dissimilarity <= 2:
            raise InputError(f"no cosine distance is {self.dissimilarity}", fix="set dissimilarity between 0 and 2")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the first of the samples that is far enough."""
        wanted = wanted_gender(self.gender, gender, rng)
        voices = self.voices(wanted, pool)
        for _ in range(_TRIES):
            sample = voices.sample(rng)
            if 1 - _cosine(sample, source) >= self.dissimilarity:
                return _with_f0(sample, wanted, pool)
        what = f"none of {_TRIES} pseudo-speakers has a cosine distance of {self.dissimilarity} or more to the source"
        raise InputError(what, fix="set a smaller dissimilarity")


@lru_cache(maxsize=8)
def voices_of(pool: Pool, gender: str, variance: float, components: int) -> Voices:
    """PCA and mixture of the speakers of a gender, fitted once for a pool."""
    vectors = np.array([l2_normalized(vector) for vector in pool.embeddings[pool.of_gender(gender)]], dtype=np.float64)
    mean = vectors.mean(axis=0)
    _, singular, axes = np.linalg.svd(vectors - mean, full_matrices=False)
    held = np.cumsum(singular**2) / np.sum(singular**2)
    axes = axes[: int(np.searchsorted(held, variance - 1e-9)) + 1]
    # The signs are LAPACK's whim: without a rule, the same generator would give other voices on another machine.
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    points = (vectors - mean) @ axes.T
    mixture = _as_varied(fit_mixture(points, components), vectors - mean)
    # The mean of n speakers is too long, by their variance / n in its square: samples would be too near to each other.
    square, spread = float(mean @ mean), float(((vectors - mean) ** 2).sum()) / (len(vectors) - 1)
    return Voices(mean * np.sqrt(max(0.0, 1 - spread / len(vectors) / square)), axes, mixture)


def _as_varied(mixture: Mixture, centered: Array) -> Mixture:
    """Return the mixture, with variances such that samples differ from each other as the speakers (n, d), centered, do.

    Two moments are brought to what the speakers have: the mean square of their lengths, of which PCA left a part out;
    and the mean square of the inner product of two, on which the spread of the cosine distances depends. For points
    with the second moments M, these are tr(M) and tr(M^2). But the empirical tr(M^2) of n speakers is too large by
    about tr(M)^2 / n, as principal coordinates exaggerate what is great (Ledoit and Wolf 2004), and samples would vary
    more than speakers. So the variances of a component are drawn to their mean, as far as it takes.
    """
    products = centered @ centered.T
    length = float(np.trace(products)) / (len(products) - 1)
    product = float((products**2).sum() - (np.diag(products) ** 2).sum()) / (len(products) * (len(products) - 1))
    between = np.einsum("c,ci,cj->ij", mixture.weights, mixture.means, mixture.means)
    level = np.broadcast_to(mixture.variances.mean(axis=1, keepdims=True), mixture.variances.shape)
    scale = (length - np.trace(between)) / float(mixture.weights @ mixture.variances.sum(axis=1))

    def drawn(towards: float) -> Array:
        return np.asarray(scale * ((1 - towards) * mixture.variances + towards * level))

    def excess(towards: float) -> float:
        return float(np.sum((between + np.diag(mixture.weights @ drawn(towards))) ** 2)) - product

    low, high = 0.0, 1.0  # the excess falls from one to the other
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return mixture._replace(variances=drawn(high))


def fit_mixture(points: Array, components: int, *, rounds: int = 200, tolerance: float = 1e-8) -> Mixture:
    """Expectation-maximization on points (n, k), from equal parts along the first coordinate.

    It stops when the mean log likelihood of a point rises by less than ``tolerance``.
    """
    share = np.zeros((len(points), components))
    for component, rows in enumerate(np.array_split(np.argsort(points[:, 0], kind="stable"), components)):
        share[rows, component] = 1
    floor, before = _FLOOR * float(points.var(axis=0).mean()), -np.inf
    mixture = _maximized(points, share, floor)
    for _ in range(rounds):
        joint = mixture.log_joint(points)
        total = np.logaddexp.reduce(joint, axis=1)
        if total.mean() - before < tolerance:
            break
        before = total.mean()
        mixture = _maximized(points, np.exp(joint - total[:, None]), floor)
    return mixture


def _maximized(points: Array, share: Array, floor: float) -> Mixture:
    """Return the mixture whose components have these shares (n, c) in the points."""
    counts = np.maximum(share.sum(axis=0), 1e-10)  # a component that lost all points stays, with hardly any weight
    means = share.T @ points / counts[:, None]
    variances = np.einsum("nc,nck->ck", share, (points[:, None] - means) ** 2) / counts[:, None]
    return Mixture(counts / counts.sum(), means, np.maximum(variances, floor))


def _cosine(vectors: NDArray[np.float32], other: Embedding) -> Array:
    """Of vectors (n, d) or (d,) and another (d,)."""
    rows, one = vectors.astype(np.float64), other.astype(np.float64)
    return np.asarray(rows @ one / np.maximum(np.linalg.norm(rows, axis=-1) * np.linalg.norm(one), 1e-30))


def _with_f0(embedding: Embedding, gender: str, pool: Pool) -> PseudoSpeaker:
    """Return a new voice with the F0 of the nearest speaker of its gender."""
    rows = pool.of_gender(gender)
    nearest = rows[int(np.argmax(_cosine(pool.embeddings[rows], embedding)))]
    return PseudoSpeaker(embedding, float(pool.log_f0[nearest]))
