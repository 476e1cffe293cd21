"""One log-likelihood ratio out of two scores.

Conventions: scores have shape (n, 2): voice, wording. LLRs are natural logarithms; a logistic regression with classes
weighted to a prior gives log-odds, from which the log-odds of the prior are subtracted.

What is not to be accepted is of two kinds, and one straight line parts neither well from the rest: the right person
with wrong words has a high voice score, an impostor with the right words a high wording score. So there is a regression
for each kind, both on both scores, and the likelihood ratio against their mixture is exactly

    1 / (1/2 p(x | IC) / p(x | TC) + 1/2 p(x | TW) / p(x | TC)),

a soft minimum of the two. (An impostor with wrong words is worse in both, and rejected all the more.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.stats.logistic import minimize_cross_entropy

__all__ = ["PRIOR", "Fusion", "Logistic"]

Floats = NDArray[np.float64]

#: The effective prior of the challenge's costs: 10 x 0.01 against 1 x 0.99.
PRIOR = 0.1 / (0.1 + 0.99)
_RIDGE = 1e-4


@dataclass(frozen=True, eq=False)
class Logistic:
    """``x @ weights + bias`` is the LLR of scores x."""

    weights: Floats  # (f,)
    bias: float

    @classmethod
    def fit(cls, target: Floats, other: Floats, *, prior: float = PRIOR) -> Logistic:
        """Fit to scores of target trials and of others, (n, f) each, with a small ridge on standardized scores.

        The ridge keeps the weights finite where the classes do not overlap.
        """
        if not len(target) or not len(other):
            raise InputError(
                "nothing to calibrate on", fix="give training speakers with several phrases and recordings"
            )
        x = np.concatenate([target, other]).astype(np.float64)
        mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
        is_target = (np.arange(len(x)) < len(target)).astype(np.int64)
        item_weights = np.where(is_target, prior / len(target), (1 - prior) / len(other))
        # Two classes have opposite weights, half of the difference each, so that the ridge counts half
        w = minimize_cross_entropy((x - mean) / scale, is_target, item_weights, 2 * _RIDGE, tolerance=1e-8)
        weights = (w[:-1, 1] - w[:-1, 0]) / scale
        log_odds = float(w[-1, 1] - w[-1, 0])
        return cls(weights, log_odds - float(np.log(prior / (1 - prior))) - float(weights @ mean))

    def __call__(self, scores: Floats) -> Floats:
        """LLRs (n,) of scores (n, f), or one of (f,)."""
        return np.asarray(scores @ self.weights + self.bias)


@dataclass(frozen=True, eq=False)
class Fusion:
    """The regressions of TC against IC and of TC against TW."""

    impostor: Logistic
    wrong: Logistic

    @classmethod
    def fit(cls, scores: Floats, types: NDArray[np.str_]) -> Fusion:
        """Learn from scores (n, 2) of trials of training speakers and their types (n,)."""
        right = scores[types == "TC"]
        return cls(Logistic.fit(right, scores[types == "IC"]), Logistic.fit(right, scores[types == "TW"]))

    def __call__(self, voice: float, wording: float) -> float:
        """The LLR of one trial."""
        i, w = self.impostor, self.wrong
        against_impostor = voice * i.weights[0] + wording * i.weights[1] + i.bias
        against_wrong = voice * w.weights[0] + wording * w.weights[1] + w.bias
        return float(np.log(2.0) - np.logaddexp(-against_impostor, -against_wrong))
