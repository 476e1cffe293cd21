"""Probabilistic linear discriminant analysis: the two-covariance model, as Kaldi and the 2020 challenge use it.

Conventions: as in :mod:`voiceveil.models.speaker.covariances`. An embedding is ``mean + y + e`` with the speaker's own
``y ~ N(0, between)`` and the utterance's ``e ~ N(0, within)`` (Brümmer and de Villiers 2010; Ioffe 2006). Before that,
embeddings are centered, optionally reduced by LDA, and length-normalized (Garcia-Romero and Espy-Wilson 2011).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.models.speaker.covariances import Codes, Floats, length_norm, scatter

__all__ = ["Plda", "PldaScorer", "TwoCovariance", "fit_two_covariance"]


@dataclass(frozen=True, eq=False)
class TwoCovariance:
    """Parameters of the model: ``mean`` (d,), ``between`` and ``within`` (d, d)."""

    mean: Floats
    between: Floats
    within: Floats

    @cached_property
    def diagonal(self) -> tuple[Floats, Floats]:
        """Transform (d, d) that makes ``within`` the identity, and the diagonal (d,) of the transformed ``between``."""
        from scipy.linalg import eigh

        psi, vectors = eigh(self.between, self.within)
        return vectors, np.maximum(psi, 0.0)


def fit_two_covariance(embeddings: Floats, speaker: Codes, iterations: int = 10) -> TwoCovariance:
    """Return the maximum likelihood estimate by EM; speakers with a single utterance count too.

    Parameters
    ----------
    embeddings
        (n, d).
    speaker
        Integer of each utterance's speaker (n,).
    iterations
        Of EM.
    """
    start = scatter(embeddings, speaker)
    d = embeddings.shape[1]
    floor = 1e-6 * np.trace(start.within) / d * np.eye(d)
    within, between = start.within + floor, start.between + floor
    _, codes, counts = np.unique(speaker, return_inverse=True, return_counts=True)
    means = np.zeros((len(counts), d))
    np.add.at(means, codes, embeddings - start.mean)
    means /= counts[:, None]
    residuals = embeddings - start.mean - means[codes]
    residual_scatter = residuals.T @ residuals
    for _ in range(iterations):
        new_between, new_within = np.zeros((d, d)), residual_scatter.copy()
        for n in np.unique(counts):
            n_means = means[counts == n]  # of the speakers with n utterances
            # Posterior of y given the mean of n utterances: N(gain @ mean, covariance)
            gain = between @ np.linalg.inv(between + within / n)
            covariance = between - gain @ between
            y = n_means @ gain.T
            new_between += y.T @ y + len(n_means) * covariance
            new_within += n * ((n_means - y).T @ (n_means - y) + len(n_means) * covariance)
        between, within = new_between / len(counts) + floor, new_within / len(embeddings) + floor
    return TwoCovariance(start.mean, between, within)


@dataclass(frozen=True, eq=False)
class PldaScorer:
    """Log likelihood ratios of "one speaker" against "two speakers"."""

    mean: Floats  # (d,)
    lda: Floats | None  # (d, k)
    model: TwoCovariance  # of k dimensions
    by_count: bool = True
    offset: Floats | float = 0.0  # (k,), added after the LDA

    def prepare(self, embeddings: Floats) -> Floats:
        """Return embeddings (n, k), centered, reduced and scaled to length sqrt(k), that of a white vector."""
        centered = embeddings - self.mean
        reduced = (centered if self.lda is None else centered @ self.lda) + self.offset
        return np.asarray(length_norm(reduced) * np.sqrt(reduced.shape[1]))

    def white(self, embeddings: Floats, counts: Floats) -> Floats:
        """Return embeddings (n, k) in the space where ``within`` is I and ``between`` diag(psi), length-normalized.

        Each is the mean of ``counts`` (n, 1) utterances. As with Kaldi's ``--normalize-length``: a mean of n utterances
        has variances psi + 1 / n, and the sum of its squares divided by these is made k.
        """
        transform, psi = self.model.diagonal
        x = (self.prepare(embeddings) - self.model.mean) @ transform
        energy = (x**2 / (psi + 1.0 / counts)).sum(axis=1, keepdims=True)
        return np.asarray(x * np.sqrt(len(psi) / np.where(energy > 0.0, energy, 1.0)))

    def __call__(self, enroll: Floats, counts: Codes, test: Floats) -> Floats:
        """Return the scores (models, tests) of mean enrollment embeddings against test embeddings.

        As in Kaldi's ivector-plda: log N(x; n psi / (n psi + 1) m, 1 + psi / (n psi + 1)) - log N(x; 0, 1 + psi), in
        the space where ``within`` is I and ``between`` diag(psi).

        Parameters
        ----------
        enroll
            Mean embedding m of each speaker model (models, d).
        counts
            Number n of enrollment utterances of each model; taken as 1 unless ``by_count``.
        test
            Embeddings x (tests, d).
        """
        n = np.asarray(counts, dtype=np.float64)[:, None] if self.by_count else np.ones((len(enroll), 1))
        return self.compare(self.white(enroll, n), n, self.white(test, np.ones((len(test), 1))))

    def compare(self, means: Floats, n: Floats, x: Floats) -> Floats:
        """Return the scores (models, tests) of what :meth:`white` returned: means of ``n`` (models, 1), and tests."""
        psi = self.model.diagonal[1]
        center = n * psi / (n * psi + 1.0) * means
        variance = 1.0 + psi / (n * psi + 1.0)
        same = (x**2) @ (1.0 / variance).T - 2.0 * x @ (center / variance).T + (center**2 / variance).sum(axis=1)
        other = (x**2 / (1.0 + psi)).sum(axis=1)[:, None] + np.log((1.0 + psi) / variance).sum(axis=1)
        return np.asarray(0.5 * (other - same).T)


@dataclass(frozen=True)
class Plda:
    """PLDA after an LDA to ``size`` dimensions (0: no LDA); ``by_count``: a mean of n utterances counts as n."""

    size: int = 0
    shrinkage: float = 0.1
    by_count: bool = True
    iterations: int = 10
    learns: ClassVar[bool] = True
    llr: ClassVar[bool] = True
    affine: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name and settings."""
        return f"plda{self.size or ''}{'' if self.by_count else '-single'}"

    def fit(self, embeddings: Floats, speaker: Codes) -> PldaScorer:
        """Return the scorer trained on labeled embeddings (n, d)."""
        if self.size < 0:
            raise InputError(f"LDA to {self.size} dimensions is impossible", fix="use 1 or more, or 0 for no LDA")
        statistics = scatter(embeddings, speaker)
        lda = statistics.directions(self.size, self.shrinkage) if self.size else None
        untrained = PldaScorer(statistics.mean, lda, TwoCovariance(*(np.zeros(0),) * 3), self.by_count)
        model = fit_two_covariance(untrained.prepare(embeddings), speaker, self.iterations)
        return replace(untrained, model=model)
