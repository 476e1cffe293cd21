"""How somebody speaks: how high, how lively, with how much effort; and whether that is a speaker's or a feeling's.

Everybody has a manner of speaking, and is known by it: one has a high voice, another a lively one, a third a microphone
that makes it sound raised. But who is angry or glad speaks higher, livelier and with more effort at once, and who is
sad with less of all three. Over the speakers of LibriSpeech the three hardly go together (correlations of 0.1 to 0.3);
over emotions they do. So a manner that is out of the ordinary in all three together is a feeling's, and any other is
the speaker's.

Conventions: F0 (T,) in Hz with 0 for unvoiced; a manner is in deviations between speakers from what is usual, 0 for
the usual itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SPREAD", "TYPICAL", "Heights", "Manner", "Register", "mixed", "register_of"]

#: Deviation of ln F0 that all recordings get where it is leveled: the mean over LibriSpeech train-clean-5.
TYPICAL = 0.2
#: Deviation of the logarithm of that between recordings of different speakers.
SPREAD = 0.3

#: Of what is ordinary: so far below it nothing of a manner stays, so far above it all.
_MARGIN = 0.1


class Manner(NamedTuple):
    """Height (mean of ln F0), reach (logarithm of the deviation of ln F0) and vocal effort; None: it was not heard."""

    height: float | None = None
    reach: float | None = None
    effort: float | None = None

    @property
    def arousal(self) -> float:
        """How far from the usual what was heard is together, as one deviation: the length along their diagonal."""
        heard = [value for value in self if value is not None]
        return abs(sum(heard)) / math.sqrt(max(1, len(heard)))

    def emotion_weight(self, arousal_threshold: float) -> float:
        """Return the weight of emotion, 0 (arousal well below the threshold) to 1 (well above)."""
        if arousal_threshold == 0:
            return 1.0
        return min(max((self.arousal / arousal_threshold - (1 - _MARGIN)) / (2 * _MARGIN), 0.0), 1.0)


class Heights(NamedTuple):
    """Mean and deviation of the means of ln F0 of speakers of one gender."""

    usual: float
    deviation: float

    def deviations(self, mean: float) -> float:
        """How far a mean of ln F0 is from the usual."""
        return (mean - self.usual) / self.deviation

    def at(self, deviations: float) -> float:
        """Return the mean of ln F0 that is so far from the usual."""
        return self.usual + deviations * self.deviation


class Register(NamedTuple):
    """Mean and deviation of ln F0 over the voiced frames of a recording."""

    mean: float
    deviation: float

    @property
    def reach(self) -> float:
        """The deviation, at least a quarter of the typical one: a monotone voice does not become a lively one."""
        return max(self.deviation, TYPICAL / 4)

    def manner(self, heights: Heights | None, effort: float | None) -> Manner:
        """How somebody speaks with this register, among ``heights`` that are usual for the gender."""
        height = None if heights is None else heights.deviations(self.mean)
        return Manner(height, math.log(self.reach / TYPICAL) / SPREAD, effort)


def register_of(f0: NDArray[np.float32]) -> Register | None:
    """None: nothing is voiced."""
    logarithm = np.log(f0[f0 > 0])
    return Register(float(logarithm.mean()), float(logarithm.std())) if logarithm.size else None


def mixed(own: float | None, other: float, share: float) -> float:
    """A value of one's own manner to a share, of another's to the rest; of the other's alone, if none was heard."""
    return other if own is None else share * own + (1 - share) * other
