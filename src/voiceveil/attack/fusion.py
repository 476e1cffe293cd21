"""Fusion of attackers: a weighted sum of their scores, with weights from trials among training speakers.

The weights are those of a logistic regression with weights of at least zero (an attacker that helps is believed, one
that does not is left out; a negative weight would only fit noise) and an L2 penalty. They are learned from scores of
held-out training speakers (:class:`~voiceveil.attack.validation.HeldOutScores`), never from the attacked trials. The
penalty, or equal weights instead, is chosen by cross-validation over the same folds, that is over speakers.

Conventions: m attackers, n trials. Scores have shape (m, n); a higher one says "the same speaker".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.validation import HeldOutScores
from voiceveil.models.speaker.covariances import Codes, Floats
from voiceveil.stats.logistic import one_blas_thread

__all__ = ["Fusion", "fit_weights", "learn_fusion"]

#: Weights of the squared coefficients in the loss, per trial of mean weight 1.
PENALTIES = (0.001, 0.01, 0.1, 1.0)
_EQUAL = "equal weights"


@dataclass(frozen=True, eq=False)
class Fusion:
    """A weighted sum of standardized scores.

    Parameters
    ----------
    mean, scale, weight : array of shape (m,)
        Mean and standard deviation of each attacker's scores, and its weight.
    choice : str
        How the weights were found.
    validation : tuple of (str, float)
        All ways that were tried, and their EERs in the cross-validation, best first.
    alone : tuple of (str, float)
        The attackers, and their EERs on the same trials, best first.
    """

    mean: Floats
    scale: Floats
    weight: Floats
    choice: str
    validation: tuple[tuple[str, float], ...] = ()
    alone: tuple[tuple[str, float], ...] = ()

    def __call__(self, scores: Floats) -> Floats:
        """Return the fused scores (n,) of scores (m, n)."""
        return np.asarray(self.weight @ ((scores - self.mean[:, None]) / self.scale[:, None]))


def learn_fusion(members: Sequence[HeldOutScores], names: Sequence[str]) -> Fusion:
    """Return the fusion of some attackers.

    Parameters
    ----------
    members
        The scores of each attacker on the same trials among held-out training speakers.
    names
        Names of the attackers.
    """
    trials = members[0]
    scores = np.array([member.score for member in members])
    ways = [_EQUAL, *(f"penalty {penalty:g}" for penalty in PENALTIES)]
    fused = np.zeros((len(ways), scores.shape[1]))
    for number in np.unique(trials.fold):
        inside = trials.fold == number
        for way, fusion in enumerate(_fit_all(scores[:, ~inside], trials.target[~inside], trials.group[~inside])):
            fused[way, inside] = fusion(scores[:, inside])
    rates = [trials.eer(row) for row in fused]
    best = int(np.argmin(rates))  # the first one of equals
    chosen = _fit_all(scores, trials.target, trials.group)[best]
    alone = _ranked(names, [member.eer() for member in members])
    return Fusion(chosen.mean, chosen.scale, chosen.weight, ways[best], _ranked(ways, rates), alone)


def _ranked(names: Sequence[str], rates: Sequence[float]) -> tuple[tuple[str, float], ...]:
    """Return names with their rates, the lowest first."""
    return tuple((names[i], rates[i]) for i in np.argsort(rates, kind="stable").tolist())


def _fit_all(scores: Floats, target: NDArray[np.bool_], group: Codes) -> list[Fusion]:
    """Return the fusions of all ways, fitted to scores (m, n)."""
    mean, scale = scores.mean(axis=1), np.maximum(scores.std(axis=1), 1e-12)
    x = (scores - mean[:, None]) / scale[:, None]
    weights = [np.ones(len(x)), *(fit_weights(x, target, group, penalty) for penalty in PENALTIES)]
    return [Fusion(mean, scale, weight, "") for weight in weights]


def fit_weights(x: Floats, target: NDArray[np.bool_], group: Codes, penalty: float) -> Floats:
    """Return the weights (m,), at least zero, of a logistic regression on standardized scores.

    Targets and nontargets of each group have the same total weight. The bias does not matter for a ranking of trials,
    and each group has its own.

    Parameters
    ----------
    x
        Scores (m, n).
    target, group
        Whether each trial is a target trial, and its group, (n,).
    penalty
        Of half the squared weights.
    """
    from scipy.optimize import minimize

    names, codes = np.unique(group, return_inverse=True)
    codes = codes.reshape(-1)
    cell = 2 * codes + target
    item = 1.0 / (2 * len(names) * np.bincount(cell, minlength=2 * len(names))[cell])
    sign = np.where(target, 1.0, -1.0)
    m = len(x)

    def loss(flat: Floats) -> tuple[float, Floats]:
        margin = sign * (flat[:m] @ x + flat[m:][codes])
        value = item @ np.logaddexp(0.0, -margin) + 0.5 * penalty * flat[:m] @ flat[:m]
        slope = -item * sign * _sigmoid(-margin)
        return float(value), np.concatenate(
            [x @ slope + penalty * flat[:m], np.bincount(codes, slope, minlength=len(names))]
        )

    bounds = [(0.0, None)] * m + [(None, None)] * len(names)
    start = np.concatenate([np.full(m, 0.1), np.zeros(len(names))])
    options: Any = {"ftol": 1e-12, "gtol": 1e-7}
    with one_blas_thread():
        solution = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(solution.x[:m])


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values, -500.0, 500.0))))
