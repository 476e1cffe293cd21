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

__all__ = ["PRIOR", "Fusion", "Logistic"]

Floats = NDArray[np.float64]

#: The effective prior of the challenge's costs: 10 x 0.01 against 1 x 0.99.
PRIOR = 0.1 / (0.1 + 0.99)
_RIDGE = 1e-4
_STEPS = 50


@dataclass(frozen=True, eq=False)
class Logistic:
    """``x @ weights + bias`` is the LLR of scores x."""

    weights: Floats  # (f,)
    bias: float

    @classmethod
    def fit(cls, target: Floats, other: Floats, *, prior: float = PRIOR) -> Logistic:
        """Newton's method on the weighted cross-entropy plus a small ridge on the weights of standardised scores.

        The ridge keeps the weights finite where the classes do not overlap.
        """
        if not len(target) or not len(other):
            raise InputError(
                "nothing to calibrate on", fix="give training speakers with several phrases and recordings"
            )
        x = np.concatenate([target, other]).astype(np.float64)
        mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)
        z = np.column_stack([(x - mean) / scale, np.ones(len(x))])
        y = np.arange(len(x)) < len(target)
        share = np.where(y, prior / len(target), (1 - prior) / len(other))
        offset = np.log(prior / (1 - prior))
        ridge = np.diag([*[_RIDGE] * x.shape[1], 0.0])
        w = np.zeros(z.shape[1])
        for _ in range(_STEPS):
            p = 1.0 / (1.0 + np.exp(-np.clip(z @ w + offset, -50, 50)))
            gradient = z.T @ (share * (p - y)) + ridge @ w
            hessian = (z * (share * p * (1 - p))[:, None]).T @ z + ridge + 1e-12 * np.eye(len(w))
            step = np.linalg.solve(hessian, gradient)
            w = w - step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
            if np.abs(step).max() < 1e-8:
                break
        weights = w[:-1] / scale
        return cls(weights, float(w[-1] - weights @ mean))

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
