"""Speaking style: mean F0, F0 range and vocal effort, and whether they are due to the speaker or to an emotion.

All three identify a speaker: some people have a high voice, some a lively one, and some a microphone that makes them
sound as if they raised it. Emotions change the three together: anger and joy raise all of them, sadness lowers all of
them. Between speakers of LibriSpeech the three hardly correlate (0.1 to 0.3). A recording in which all three are
unusual in the same direction is therefore taken as emotional; any other deviation is taken as the speaker's own.

Conventions: F0 (T,) in Hz with 0 for unvoiced; styles are z-scores, that is, standard deviations between speakers from
the mean of all speakers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DEVIATION_SPREAD",
    "TYPICAL_DEVIATION",
    "F0Population",
    "F0Statistics",
    "SpeakingStyle",
    "blend",
    "f0_statistics",
]

#: Standard deviation of ln F0 that all recordings get if F0 is leveled: the mean over LibriSpeech train-clean-5.
TYPICAL_DEVIATION = 0.2
#: Standard deviation, between recordings of different speakers, of the logarithm of that deviation.
DEVIATION_SPREAD = 0.3

#: The emotion weight rises from 0 to 1 while arousal goes from 1 - _MARGIN to 1 + _MARGIN times the threshold.
_MARGIN = 0.1


class SpeakingStyle(NamedTuple):
    """Z-scores of mean ln F0, of the log standard deviation of ln F0, and of vocal effort; None: not measured."""

    mean_f0: float | None = None
    f0_range: float | None = None
    effort: float | None = None

    @property
    def arousal(self) -> float:
        """Return the joint deviation from the mean: the absolute sum of the z-scores, scaled to unit variance."""
        scores = [score for score in self if score is not None]
        return abs(sum(scores)) / math.sqrt(max(1, len(scores)))

    def emotion_weight(self, arousal_threshold: float) -> float:
        """Return the weight of emotion, 0 (arousal well below the threshold) to 1 (well above)."""
        if arousal_threshold == 0:
            return 1.0
        return min(max((self.arousal / arousal_threshold - (1 - _MARGIN)) / (2 * _MARGIN), 0.0), 1.0)


class F0Population(NamedTuple):
    """Mean and standard deviation, over speakers of one gender, of their mean ln F0."""

    mean: float
    deviation: float

    def z_score(self, log_f0: float) -> float:
        """Return the z-score of a mean ln F0."""
        return (log_f0 - self.mean) / self.deviation

    def from_z_score(self, score: float) -> float:
        """Return the mean ln F0 that has this z-score."""
        return self.mean + score * self.deviation


class F0Statistics(NamedTuple):
    """Mean and standard deviation of ln F0 over the voiced frames of a recording."""

    mean: float
    deviation: float

    @property
    def f0_range(self) -> float:
        """Return the deviation, at least a quarter of the typical one, so that a monotone voice stays monotone."""
        return max(self.deviation, TYPICAL_DEVIATION / 4)

    def style(self, population: F0Population | None, effort: float | None) -> SpeakingStyle:
        """Return the style of a recording with these statistics.

        Parameters
        ----------
        population
            Speakers of the same gender; None leaves ``mean_f0`` out.
        effort
            Vocal effort as a z-score, if it is known.
        """
        mean_f0 = None if population is None else population.z_score(self.mean)
        return SpeakingStyle(mean_f0, math.log(self.f0_range / TYPICAL_DEVIATION) / DEVIATION_SPREAD, effort)


def f0_statistics(f0: NDArray[np.float32]) -> F0Statistics | None:
    """Return the statistics of an F0 contour, or None if no frame is voiced."""
    log_f0 = np.log(f0[f0 > 0])
    return F0Statistics(float(log_f0.mean()), float(log_f0.std())) if log_f0.size else None


def blend(own: float | None, other: float, weight: float) -> float:
    """Return ``weight`` times ``own`` plus the rest of ``other``; ``other`` if ``own`` is None."""
    return other if own is None else weight * own + (1 - weight) * other
