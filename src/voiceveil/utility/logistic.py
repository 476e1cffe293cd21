"""A linear classifier: multinomial logistic regression with an L2 penalty, classes weighted to count alike.

Conventions: ``features`` are floats of shape (n, d), NaN where unknown; ``labels`` and ``groups`` are strings, shape
(n,). A group (a speaker, a session) is never on both sides of a split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.metrics.emotion import uar

__all__ = ["PENALTIES", "LinearClassifier", "choose_penalty", "fit", "standard"]

Array = NDArray[np.float64]

#: Candidates for the weight of the penalty, the strongest first.
PENALTIES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
#: Parts of the training data in the search for the penalty.
_PARTS = 5


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """``labels[argmax(x @ weights + bias)]`` of standardised features x; unknown ones count as the training mean."""

    labels: tuple[str, ...]
    mean: Array
    scale: Array
    weights: Array  # (d, classes)
    bias: Array  # (classes,)

    def scores(self, features: ArrayLike) -> Array:
        """Logits, shape (n, classes)."""
        standard = np.nan_to_num((np.asarray(features, dtype=np.float64) - self.mean) / self.scale)
        result: Array = standard @ self.weights + self.bias
        return result

    def predict(self, features: ArrayLike) -> list[str]:
        """The likeliest label of each row."""
        return [self.labels[k] for k in self.scores(features).argmax(axis=1)]


def fit(
    features: ArrayLike, labels: Sequence[str], penalty: float, *, start: LinearClassifier | None = None
) -> LinearClassifier:
    """Minimise the cross-entropy, each class weighing alike, plus ``penalty / 2`` times the squared weights.

    ``start`` is a solution for the same data and another penalty, from which it is quicker.
    """
    from scipy.optimize import minimize

    x = np.asarray(features, dtype=np.float64)
    mean, scale = standard(x)
    x = np.nan_to_num((x - mean) / scale)
    names, klass = np.unique(np.asarray(labels), return_inverse=True)
    target = klass[:, None] == np.arange(len(names))
    share = (target / target.sum(axis=0) / len(names)).sum(axis=1, keepdims=True)  # of each item in the loss
    d, classes = x.shape[1], len(names)

    def loss(flat: Array) -> tuple[float, Array]:
        weights, bias = flat[: d * classes].reshape(d, classes), flat[d * classes :]
        logits = x @ weights + bias
        logits -= logits.max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        error = share * (np.exp(log_p) - target)
        gradient = np.concatenate([(x.T @ error + penalty * weights).ravel(), error.sum(axis=0)])
        return float(-(share * log_p)[target].sum() + penalty / 2 * (weights**2).sum()), gradient

    first = np.zeros((d + 1) * classes) if start is None else np.concatenate([start.weights.ravel(), start.bias])
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-5}).x
    return LinearClassifier(
        tuple(names.tolist()), mean, scale, found[: d * classes].reshape(d, classes), found[d * classes :]
    )


def choose_penalty(features: ArrayLike, labels: Sequence[str], groups: Sequence[str]) -> float:
    """The penalty with the best UAR in a cross-validation over (at most five sets of) groups; ties: the strongest.

    One group cannot be validated on another: then it is the middle one of :data:`PENALTIES`.
    """
    if len(set(groups)) < 2:
        return PENALTIES[len(PENALTIES) // 2]
    x, y, group = np.asarray(features, dtype=np.float64), np.asarray(labels), np.asarray(groups)
    part = np.unique(group, return_inverse=True)[1].reshape(-1) % _PARTS
    hyps = np.empty((len(PENALTIES), len(y)), dtype=object)
    for p in np.unique(part):
        train, test = part != p, part == p
        model = None
        for row, penalty in enumerate(PENALTIES):
            model = fit(x[train], y[train].tolist(), penalty, start=model)
            hyps[row, test] = model.predict(x[test])
    values = [uar(y.tolist(), list(row)).value for row in hyps]
    return PENALTIES[int(np.argmax(values))]


def standard(x: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of the known values of each column; 0 and 1 where there are none."""
    known = np.isfinite(x)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0.0).sum(axis=0) / count
    scale = np.sqrt(np.where(known, (x - mean) ** 2, 0.0).sum(axis=0) / count)
    return mean, np.where(scale > 1e-9 * np.maximum(np.abs(mean), 1e-9), scale, 1.0)
