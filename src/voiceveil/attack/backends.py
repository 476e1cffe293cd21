"""Back-ends: from embeddings to scores, with what can be learned from labelled embeddings of other speakers.

Conventions: n utterances, d dimensions, s enrolled speakers. Embeddings have shape (n, d), speakers are numbers (n,).
A back-end is fitted to embeddings of training speakers and gives a :class:`Scorer`, which compares the mean of a
speaker's enrollment embeddings with single embeddings; a higher score says "the same speaker".

* :class:`Cosine`    the angle, nothing to learn (what the challenges do with ECAPA)
* :class:`Centered`  the angle around the mean of the training data
* :class:`Wccn`      the angle after whitening what varies within speakers (Hatch, Kajarekar and Stolcke 2006)
* :class:`Lda`       the angle in the directions that tell speakers apart, whitened in the same way
* :class:`Scaled`    any of these, on dimensions that are brought to one scale
* :class:`~voiceveil.models.speaker.plda.Plda`  a likelihood ratio
* :class:`~voiceveil.attack.normalization.SNorm`  any of these, compared with the scores of other people
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from voiceveil.models.speaker.covariances import Codes, Floats, length_norm, scatter

__all__ = [
    "Backend",
    "Centered",
    "Cosine",
    "Lda",
    "Linear",
    "Scaled",
    "Scorer",
    "Wccn",
]


class Scorer(Protocol):
    """A fitted back-end."""

    def __call__(self, enroll: Floats, counts: Codes, test: Floats) -> Floats:
        """Scores (s, n) of speakers' mean embeddings (s, d), each of ``counts`` (s,) utterances, and others (n, d)."""
        ...


class Backend(Protocol):
    """What can be fitted."""

    @property
    def name(self) -> str:
        """What the tables call it."""
        ...

    def fit(self, embeddings: Floats, speaker: Codes) -> Scorer:
        """Learn from embeddings (n, d) of the speakers (n,)."""
        ...


@dataclass(frozen=True, eq=False)
class Linear:
    """Cosine of ``(x - mean) @ matrix``; without a matrix of ``x - mean``."""

    mean: Floats  # (d,)
    matrix: Floats | None = None  # (d, k)

    def project(self, embeddings: Floats) -> Floats:
        """Embeddings in the space where angles are compared, of length 1."""
        centred = embeddings - self.mean
        return length_norm(centred if self.matrix is None else centred @ self.matrix)

    def __call__(self, enroll: Floats, counts: Codes, test: Floats) -> Floats:
        """Cosines."""
        return np.asarray(self.project(enroll) @ self.project(test).T)


@dataclass(frozen=True)
class Cosine:
    """The angle between raw embeddings."""

    name: str = "cosine"

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Nothing to learn."""
        return Linear(np.zeros(embeddings.shape[1]))


@dataclass(frozen=True)
class Centered:
    """The angle around the training mean: anonymized voices share a direction, which tells nothing."""

    name: str = "centered"

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Learn the mean."""
        return Linear(scatter(embeddings, speaker).mean)


@dataclass(frozen=True)
class Wccn:
    """Within-class covariance normalisation; ``shrinkage`` pulls the covariance towards a multiple of the identity."""

    shrinkage: float = 0.1

    @property
    def name(self) -> str:
        """With its setting."""
        return f"wccn-{self.shrinkage:g}"

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Learn mean and whitening."""
        found = scatter(embeddings, speaker)
        return Linear(found.mean, np.linalg.cholesky(np.linalg.inv(found.shrunk(self.shrinkage))))


@dataclass(frozen=True)
class Lda:
    """Linear discriminant analysis to ``size`` dimensions, in which the within-speaker covariance is white."""

    size: int = 100
    shrinkage: float = 0.1

    @property
    def name(self) -> str:
        """With its settings."""
        return f"lda{self.size}-{self.shrinkage:g}"

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Learn mean and directions; there are at most as many as training speakers, less one."""
        found = scatter(embeddings, speaker)
        return Linear(found.mean, found.directions(self.size, self.shrinkage))


@dataclass(frozen=True)
class Scaled:
    """Another back-end on dimensions of mean 0 and deviation 1: for embeddings that are not of one kind."""

    backend: Backend

    @property
    def name(self) -> str:
        """That of the other one, and what is done before."""
        return f"{self.backend.name} scaled"

    def fit(self, embeddings: Floats, speaker: Codes) -> Scorer:
        """Learn scales, and what the other one learns."""
        mean, deviation = embeddings.mean(axis=0), np.maximum(embeddings.std(axis=0), 1e-9)
        scorer = self.backend.fit((embeddings - mean) / deviation, speaker)
        return lambda enroll, counts, test: scorer((enroll - mean) / deviation, counts, (test - mean) / deviation)
