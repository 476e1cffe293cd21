"""Fusion of two scores into one log-likelihood ratio.

Conventions: scores have shape (n, 2): voice, wording. LLRs are natural logarithms; a logistic regression with classes
weighted to a prior gives log-odds, from which the log-odds of the prior are subtracted.

Nontarget trials are of two kinds, and no straight line separates both from the targets: the right speaker with wrong
words has a high voice score, an impostor with the right words a high wording score. Each kind has a regression of its
own on both scores, and the likelihood ratio against their mixture is exactly

    1 / (1/2 p(x | IC) / p(x | TC) + 1/2 p(x | TW) / p(x | TC)),

a soft minimum of the two. (An impostor with wrong words has low scores in both.)
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
    """Logistic regression: ``x @ weights + bias`` is the LLR of scores x."""

    weights: Floats  # (f,)
    bias: float

    @classmethod
    def fit(cls, target: Floats, other: Floats, *, prior: float = PRIOR) -> Logistic:
        """Fit to scores of target trials and of others, (n, f) each, with a small ridge on standardized scores.

        The ridge keeps the weights finite where the classes do not overlap.
        """
        if not len(target) or not len(other):
            raise InputError(
                "no trials to calibrate on", fix="give training speakers with several phrases and recordings"
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
        """Return LLRs (n,) of scores (n, f), or the LLR of scores (f,)."""
        return np.asarray(scores @ self.weights + self.bias)


@dataclass(frozen=True, eq=False)
class Fusion:
    """Regressions of TC against IC and of TC against TW."""

    impostor: Logistic
    wrong: Logistic

    @classmethod
    def fit(cls, scores: Floats, types: NDArray[np.str_]) -> Fusion:
        """Fit to scores (n, 2) of trials of training speakers and their types (n,)."""
        right = scores[types == "TC"]
        return cls(Logistic.fit(right, scores[types == "IC"]), Logistic.fit(right, scores[types == "TW"]))

    def __call__(self, voice: float, wording: float) -> float:
        """Return the LLR of one trial."""
        i, w = self.impostor, self.wrong
        against_impostor = voice * i.weights[0] + wording * i.weights[1] + i.bias
        against_wrong = voice * w.weights[0] + wording * w.weights[1] + w.bias
        return float(np.log(2.0) - np.logaddexp(-against_impostor, -against_wrong))
