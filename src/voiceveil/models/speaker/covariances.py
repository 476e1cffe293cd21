"""Covariances of embeddings within and between speakers, on which LDA, WCCN and PLDA stand.

Conventions: n utterances, d dimensions. Embeddings have shape (n, d), speakers are numbers (n,).
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
    """Embeddings of length 1; a zero stays zero."""
    length = np.linalg.norm(embeddings, axis=-1, keepdims=True)
    return np.asarray(embeddings / np.where(length > 0.0, length, 1.0))


@dataclass(frozen=True, eq=False)
class Scatter:
    """The mean of the speakers (d,), the covariance ``within`` and ``between`` them (d, d), and how many (2+) spoke."""

    mean: Floats
    within: Floats
    between: Floats
    speakers: int

    def shrunk(self, shrinkage: float) -> Floats:
        """Return the covariance within speakers, pulled towards the identity times its mean variance."""
        d = len(self.mean)
        return np.asarray((1 - shrinkage) * self.within + shrinkage * np.trace(self.within) / d * np.eye(d))

    def directions(self, size: int, shrinkage: float) -> Floats:
        """Return the ``size`` directions (d, size) with most variance between speakers for that within."""
        from scipy.linalg import eigh

        size = min(size, len(self.mean), self.speakers - 1)
        d = len(self.mean)
        vectors = eigh(self.between, self.shrunk(shrinkage), subset_by_index=(d - size, d - 1))[1]
        return np.asarray(vectors[:, ::-1])


def scatter(embeddings: Floats, speaker: Codes) -> Scatter:
    """Mean and covariances of labeled embeddings; speakers with one utterance count for the mean alone."""
    labels, codes, counts = np.unique(speaker, return_inverse=True, return_counts=True)
    if len(labels) < 3 or (counts > 1).sum() < 2:
        what = f"{len(labels)} training speaker(s), {int((counts > 1).sum())} of them with two utterances"
        raise InputError(what, fix="an attacker cannot learn from so few: give more training data")
    sums = np.zeros((len(labels), embeddings.shape[1]))
    np.add.at(sums, codes, embeddings)
    means = sums / counts[:, None]
    several = counts > 1
    chosen = several[codes]
    rest = (embeddings - means[codes])[chosen]
    within = rest.T @ rest / (chosen.sum() - several.sum())
    spread = means[several] - means[several].mean(axis=0)
    return Scatter(means.mean(axis=0), within, spread.T @ spread / (several.sum() - 1), int(several.sum()))
