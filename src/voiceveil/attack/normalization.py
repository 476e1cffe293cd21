"""Score normalisation: how a score compares with those of other people (adaptive s-norm, Matejka et al. 2017).

Conventions: as in :mod:`voiceveil.attack.backends`. Some voices score high against everybody, and one threshold for
all trials then errs. The cohort is the training speakers, each by their mean embedding; nothing is learned from trials.
Normalised scores are no likelihood ratios, whatever they were before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voiceveil.attack.backends import Backend, Scorer
from voiceveil.models.speaker.covariances import Codes, Floats

__all__ = ["NormedScorer", "SNorm"]


@dataclass(frozen=True, eq=False)
class NormedScorer:
    """Scores in standard deviations above the ``top`` scores with the cohort: means (c, d) of ``counts`` utterances."""

    scorer: Scorer
    cohort: Floats
    counts: Codes
    top: int

    def __call__(self, enroll: Floats, counts: Codes, test: Floats) -> Floats:
        """The mean of the two: from the enrolled speaker's point of view (z) and from the utterance's (t)."""
        scores = self.scorer(enroll, counts, test)
        z_mean, z_spread = self._nearest(self.scorer(enroll, counts, self.cohort))
        t_mean, t_spread = self._nearest(self.scorer(self.cohort, self.counts, test).T)
        z = (scores - z_mean[:, None]) / z_spread[:, None]
        return np.asarray(0.5 * (z + (scores - t_mean) / t_spread))

    def _nearest(self, scores: Floats) -> tuple[Floats, Floats]:
        """Mean and deviation of the highest scores in each row of (n, c)."""
        highest = np.sort(scores, axis=1)[:, -self.top :]
        return highest.mean(axis=1), highest.std(axis=1) + 1e-9


@dataclass(frozen=True)
class SNorm:
    """A back-end with normalised scores; of the cohort the ``top`` that score highest count: similar voices."""

    backend: Backend
    top: int = 100

    @property
    def name(self) -> str:
        """What the tables call it."""
        return f"{self.backend.name} s-norm"

    def fit(self, embeddings: Floats, speaker: Codes) -> NormedScorer:
        """Fit the back-end, and keep the speakers' means."""
        labels, codes, counts = np.unique(speaker, return_inverse=True, return_counts=True)
        means = np.zeros((len(labels), embeddings.shape[1]))
        np.add.at(means, codes, embeddings)
        return NormedScorer(self.backend.fit(embeddings, speaker), means / counts[:, None], counts, self.top)
