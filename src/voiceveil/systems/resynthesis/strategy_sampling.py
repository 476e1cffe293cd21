"""Pseudo-speakers sampled from the distribution of the pool's embeddings (O1 and O1c1 of 2020).

B1's averages of a hundred speakers are all similar, whoever the source is, which helps an attacker. Turner et al.
("Speaker Anonymization with Distribution-Preserving X-Vector Generation", 2020) sample instead, so that two
pseudo-speakers differ as two speakers do: PCA reduces the embeddings of a gender to the coordinates that hold most of
their variance, a Gaussian mixture is fitted there, and a sample of it is transformed back.

Our decisions: the mixture has two components with diagonal covariances, the default of the authors' code. Its fit
starts from halves along the first coordinate instead of a seeded k-means, so that a pool has the same model on every
machine. The variances are then corrected for the small number of speakers (`_match_variability`). A sample gets the
mean F0 of the pool's nearest speaker. Embeddings are L2-normalized first, as in the training of the synthesizers.

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
from voiceveil.systems.resynthesis.strategies import Gender, PseudoSpeaker, cosines, strategies, target_gender

__all__ = ["Mixture", "Sampled", "SampledFar", "SpeakerDistribution", "fit_mixture", "fit_speaker_distribution"]

Array = NDArray[np.float64]
#: Smallest variance of a component, in mean variances of the coordinates, so that none collapses on one speaker.
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
        """Return the log of weight times density of every component (n, c) at points (n, k)."""
        squares = (points[:, None] - self.means) ** 2 / self.variances + np.log(2 * np.pi * self.variances)
        return np.asarray(np.log(self.weights) - squares.sum(axis=2) / 2)


class SpeakerDistribution(NamedTuple):
    """Distribution of a gender's embeddings: mean (d,), orthonormal axes (k, d), mixture of the k coordinates."""

    mean: Array
    axes: Array
    mixture: Mixture

    def sample(self, rng: np.random.Generator) -> Embedding:
        """Return a sampled embedding (d,), of norm about 1."""
        return np.asarray(self.mean + self.mixture.sample(rng) @ self.axes, dtype=np.float32)


@strategies.register("o1")
@dataclass(frozen=True)
class Sampled:
    """O1: a voice sampled from a Gaussian mixture in the principal coordinates of a gender's speakers.

    ``variance`` is the fraction of the speakers' variance that the coordinates hold; samples are scaled to make up for
    the rest. The authors' code keeps 0.9 for x-vectors of 512 dimensions; with the 192 dimensions of the shipped pool,
    that leaves so few coordinates that cosine distances spread a little more than between speakers.
    """

    gender: Gender = "same"
    variance: float = 0.95
    components: int = 2

    @property
    def needs_source_embedding(self) -> bool:
        """Return whether the source's gender is needed, which is estimated from the embedding."""
        return self.gender in ("same", "other")

    def check(self, pool: Pool) -> None:
        """Refuse parameters out of range, and fewer than ten speakers of a gender for each component."""
        if not 0 < self.variance <= 1 or self.components < 1:
            problem = f"components = {self.components} or variance = {self.variance} is out of range"
            raise InputError(problem, fix="set components to 1 or more, and variance above 0, at most 1")
        for gender in GENDERS:
            count = len(pool.of_gender(gender))
            if count < 10 * self.components:
                problem = f"the pool has {count} speakers of gender {gender}, too few for {self.components} components"
                fix = f"give a pool with at least {10 * self.components} of each (voiceveil train pool)"
                raise InputError(problem, where=pool.where, fix=fix)

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return a sample, which does not depend on the source: all utterances of a speaker get the same."""
        target = target_gender(self.gender, gender, rng)
        return _with_f0(self.distribution(target, pool).sample(rng), target, pool)

    def distribution(self, gender: str, pool: Pool) -> SpeakerDistribution:
        """Return the distribution of a gender."""
        return fit_speaker_distribution(pool, gender, self.variance, self.components)


@strategies.register("o1c1")
@dataclass(frozen=True)
class SampledFar(Sampled):
    """O1c1: as O1, but a sample whose cosine distance to the source is below ``dissimilarity`` is drawn again.

    All utterances of a speaker try the same samples in the same order, and get the same voice unless a sample is so
    near the threshold that utterances disagree. The authors' code compares with the mean of a speaker's embeddings,
    and after 1000 samples takes the farthest; here that is an error.
    """

    dissimilarity: float = 0.7

    @property
    def needs_source_embedding(self) -> bool:
        """Always True."""
        return True

    def check(self, pool: Pool) -> None:
        """Refuse as O1 does, and a threshold that no cosine distance reaches."""
        super().check(pool)
        if not 0 <= self.dissimilarity <= 2:
            problem = f"dissimilarity = {self.dissimilarity} is not a cosine distance"
            raise InputError(problem, fix="set dissimilarity between 0 and 2")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the first sample that is far enough from the source."""
        target = target_gender(self.gender, gender, rng)
        distribution = self.distribution(target, pool)
        for _ in range(_TRIES):
            sample = distribution.sample(rng)
            if 1 - cosines(sample, source) >= self.dissimilarity:
                return _with_f0(sample, target, pool)
        problem = (
            f"none of {_TRIES} pseudo-speakers has a cosine distance of {self.dissimilarity} or more to the source"
        )
        raise InputError(problem, fix="set a smaller dissimilarity")


@lru_cache(maxsize=8)
def fit_speaker_distribution(pool: Pool, gender: str, variance: float, components: int) -> SpeakerDistribution:
    """Fit PCA and mixture to the speakers of a gender, once for a pool."""
    vectors = np.array([l2_normalized(vector) for vector in pool.embeddings[pool.of_gender(gender)]], dtype=np.float64)
    mean = vectors.mean(axis=0)
    _, singular, axes = np.linalg.svd(vectors - mean, full_matrices=False)
    explained = np.cumsum(singular**2) / np.sum(singular**2)
    axes = axes[: int(np.searchsorted(explained, variance - 1e-9)) + 1]
    # LAPACK leaves the signs open: fix them, so that a generator gives the same voices on every machine.
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    points = (vectors - mean) @ axes.T
    mixture = _match_variability(fit_mixture(points, components), vectors - mean)
    # The squared norm of a mean of n speakers is too large by their variance / n: samples would be too similar.
    square, spread = float(mean @ mean), float(((vectors - mean) ** 2).sum()) / (len(vectors) - 1)
    return SpeakerDistribution(mean * np.sqrt(max(0.0, 1 - spread / len(vectors) / square)), axes, mixture)


def _match_variability(mixture: Mixture, centered: Array) -> Mixture:
    """Return the mixture with variances such that samples differ from each other as the speakers do.

    Two moments are matched to the centered embeddings (n, d) of the speakers: the mean squared norm, of which PCA left
    a part out, and the mean squared inner product of two, which determines the spread of cosine distances. For points
    with second-moment matrix M these are tr(M) and tr(M^2). The empirical tr(M^2) of n speakers is too large by about
    tr(M)^2 / n, since the largest principal variances are overestimated (Ledoit and Wolf 2004). Therefore the variances
    of each component are shrunk towards their mean until the second moment fits.
    """
    products = centered @ centered.T
    squared_norm = float(np.trace(products)) / (len(products) - 1)
    n = len(products)
    squared_product = float((products**2).sum() - (np.diag(products) ** 2).sum()) / (n * (n - 1))
    between = np.einsum("c,ci,cj->ij", mixture.weights, mixture.means, mixture.means)
    level = np.broadcast_to(mixture.variances.mean(axis=1, keepdims=True), mixture.variances.shape)
    scale = (squared_norm - np.trace(between)) / float(mixture.weights @ mixture.variances.sum(axis=1))

    def shrunk(shrinkage: float) -> Array:
        return np.asarray(scale * ((1 - shrinkage) * mixture.variances + shrinkage * level))

    def excess(shrinkage: float) -> float:
        return float(np.sum((between + np.diag(mixture.weights @ shrunk(shrinkage))) ** 2)) - squared_product

    low, high = 0.0, 1.0  # bisection: the excess decreases with the shrinkage
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return mixture._replace(variances=shrunk(high))


def fit_mixture(points: Array, components: int, *, rounds: int = 200, tolerance: float = 1e-8) -> Mixture:
    """Fit a Gaussian mixture with diagonal covariances by expectation-maximization.

    Parameters
    ----------
    points
        (n, k); the fit starts from equal parts along the first coordinate.
    components
        Number of components.
    rounds
        Largest number of iterations.
    tolerance
        The fit stops when the mean log likelihood of a point rises by less.
    """
    posterior = np.zeros((len(points), components))
    for component, rows in enumerate(np.array_split(np.argsort(points[:, 0], kind="stable"), components)):
        posterior[rows, component] = 1
    floor, before = _FLOOR * float(points.var(axis=0).mean()), -np.inf
    mixture = _maximize(points, posterior, floor)
    for _ in range(rounds):
        joint = mixture.log_joint(points)
        total = np.logaddexp.reduce(joint, axis=1)
        if total.mean() - before < tolerance:
            break
        before = total.mean()
        mixture = _maximize(points, np.exp(joint - total[:, None]), floor)
    return mixture


def _maximize(points: Array, posterior: Array, floor: float) -> Mixture:
    """Return the mixture of the maximization step, given the posterior probabilities (n, c) of the components."""
    counts = np.maximum(posterior.sum(axis=0), 1e-10)  # a component without points stays, with hardly any weight
    means = posterior.T @ points / counts[:, None]
    variances = np.einsum("nc,nck->ck", posterior, (points[:, None] - means) ** 2) / counts[:, None]
    return Mixture(counts / counts.sum(), means, np.maximum(variances, floor))


def _with_f0(embedding: Embedding, gender: str, pool: Pool) -> PseudoSpeaker:
    """Return the voice with the mean F0 of the nearest speaker of its gender."""
    rows = pool.of_gender(gender)
    nearest = rows[int(np.argmax(cosines(pool.embeddings[rows], embedding)))]
    return PseudoSpeaker(embedding, float(pool.log_f0[nearest]))
