"""Covariances of embeddings within and between speakers, which LDA, WCCN and PLDA are based on.

Conventions: n utterances, d dimensions. Embeddings have shape (n, d); speakers are integers (n,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError

__all__ = ["Codes", "Floats", "Scatter", "length_norm", "scatter"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def length_norm(embeddings: Floats) -> Floats:
    """Return embeddings (..., d) scaled to length 1; zero vectors stay zero."""
    length = np.linalg.norm(embeddings, axis=-1, keepdims=True)
    return np.asarray(embeddings / np.where(length > 0.0, length, 1.0))


@dataclass(frozen=True, eq=False)
class Scatter:
    """Mean and covariances of labeled embeddings."""

    mean: Floats  # (d,), of the speakers' means
    within: Floats  # (d, d), covariance within speakers
    between: Floats  # (d, d), covariance between speakers
    speakers: int  # with two utterances or more

    def shrunk_within(self, shrinkage: float) -> Floats:
        """Return ``within`` (d, d), interpolated with the identity times its mean variance; ``shrinkage`` 0 to 1."""
        d = len(self.mean)
        return np.asarray((1 - shrinkage) * self.within + shrinkage * np.trace(self.within) / d * np.eye(d))

    def directions(self, size: int, shrinkage: float) -> Floats:
        """Return the ``size`` LDA directions (d, size) of largest variance between, relative to within, speakers."""
        from scipy.linalg import eigh

        size = min(size, len(self.mean), self.speakers - 1)
        d = len(self.mean)
        vectors = eigh(self.between, self.shrunk_within(shrinkage), subset_by_index=(d - size, d - 1))[1]
        return np.asarray(vectors[:, ::-1])


def scatter(embeddings: Floats, speaker: Codes) -> Scatter:
    """Return mean and covariances of labeled embeddings; speakers with one utterance enter only the mean.

    Parameters
    ----------
    embeddings
        (n, d).
    speaker
        Integer of each utterance's speaker (n,).

    Raises
    ------
    InputError
        With fewer than three speakers, or fewer than two that have several utterances.
    """
    labels, codes, counts = np.unique(speaker, return_inverse=True, return_counts=True)
    several = counts > 1
    if len(labels) < 3 or several.sum() < 2:
        problem = f"{len(labels)} training speaker(s), {int(several.sum())} of them with two utterances"
        raise InputError(problem, fix="an attacker cannot learn from so few: give more training data")
    sums = np.zeros((len(labels), embeddings.shape[1]))
    np.add.at(sums, codes, embeddings)
    means = sums / counts[:, None]
    used = several[codes]
    residuals = (embeddings - means[codes])[used]
    within = residuals.T @ residuals / (used.sum() - several.sum())
    deviations = means[several] - means[several].mean(axis=0)
    between = deviations.T @ deviations / (several.sum() - 1)
    return Scatter(means.mean(axis=0), within, between, int(several.sum()))
