"""Logistic regression: multinomial, with an L2 penalty and weights of the items; and a classifier that stands on it.

Conventions: ``features`` are floats of shape (n, d), NaN where unknown; ``labels`` and ``groups`` are strings, shape
(n,). A group (a speaker, a session) is never on both sides of a split.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "PENALTIES",
    "LinearClassifier",
    "choose_penalty",
    "fit",
    "minimize_cross_entropy",
    "one_blas_thread",
    "standard",
]

Array = NDArray[np.float64]

#: Candidates for the weight of the penalty, the strongest first.
PENALTIES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
#: Parts of the training data in the search for the penalty.
_PARTS = 5
_ITERATIONS, _TOLERANCE = 500, 1e-5


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """``labels[argmax(x @ weights + bias)]`` of standardized features x; unknown ones count as the training mean."""

    labels: tuple[str, ...]
    mean: Array
    scale: Array
    weights: Array  # (d, classes)
    bias: Array  # (classes,)

    def scores(self, features: ArrayLike) -> Array:
        """Return logits, shape (n, classes)."""
        standardized = np.nan_to_num((np.asarray(features, dtype=np.float64) - self.mean) / self.scale)
        result: Array = standardized @ self.weights + self.bias
        return result

    def predict(self, features: ArrayLike) -> list[str]:
        """Return the likeliest label of each row."""
        return [self.labels[k] for k in self.scores(features).argmax(axis=1)]


def fit(
    features: ArrayLike, labels: Sequence[str], penalty: float, *, start: LinearClassifier | None = None
) -> LinearClassifier:
    """Fit a classifier to standardized features, all classes with the same total weight.

    Parameters
    ----------
    features, labels
        Training data.
    penalty
        Weight of half the squared coefficients in the loss.
    start
        Solution for the same data and another penalty, to begin from; faster.
    """
    x = np.asarray(features, dtype=np.float64)
    mean, scale = standard(x)
    x = np.nan_to_num((x - mean) / scale)
    names, classes = np.unique(np.asarray(labels), return_inverse=True)
    classes = classes.reshape(-1)
    item_weights = 1 / (len(names) * np.bincount(classes)[classes])
    first = None if start is None else np.vstack([start.weights, start.bias])
    weights = minimize_cross_entropy(x, classes, item_weights, penalty, start=first)
    return LinearClassifier(tuple(names.tolist()), mean, scale, weights[:-1], weights[-1])


def minimize_cross_entropy(
    x: Array,
    classes: NDArray[np.int64],
    item_weights: Array,
    penalty: float,
    *,
    start: Array | None = None,
    tolerance: float = _TOLERANCE,
) -> Array:
    """Return the weights (d + 1, classes) of a multinomial logistic regression; the last row is the bias.

    The loss is the sum over items of ``item_weights`` times the cross-entropy, plus ``penalty / 2`` times the squared
    weights without the bias; it is minimized by L-BFGS of scipy.

    Parameters
    ----------
    x
        Features, shape (n, d).
    classes
        Class of each item, shape (n,).
    item_weights
        Shape (n,).
    penalty
        Of the squared weights.
    start
        Initial weights; zeros by default.
    tolerance
        Largest component of the gradient at the end.
    """
    from scipy.optimize import minimize

    design = np.column_stack([x, np.ones(len(x))])
    shape = (design.shape[1], int(classes.max()) + 1)
    target = np.eye(shape[1])[classes]
    penalized = np.append(np.full(x.shape[1], penalty), 0.0)[:, None]

    def loss(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(shape)
        logits = design @ weights
        logits -= logits.max(axis=1, keepdims=True)
        exponentials = np.exp(logits)
        total = exponentials.sum(axis=1)
        value = item_weights @ (np.log(total) - (logits * target).sum(axis=1)) + 0.5 * (penalized * weights**2).sum()
        residual = item_weights[:, None] * (exponentials / total[:, None] - target)
        return float(value), (design.T @ residual + penalized * weights).reshape(-1)

    first = np.zeros(shape) if start is None else start
    options: Any = {"maxiter": _ITERATIONS, "maxfun": 10 * _ITERATIONS, "gtol": tolerance, "ftol": 0.0}
    with one_blas_thread():
        solution = minimize(loss, first.reshape(-1), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(solution.x).reshape(shape)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS uses one thread: 25 times as fast as two on matrices as small as these."""
    context: AbstractContextManager[Any] = _threads().limit(limits=1, user_api="blas")
    return context


@lru_cache(maxsize=1)
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def choose_penalty(features: ArrayLike, labels: Sequence[str], groups: Sequence[str]) -> float:
    """Return the penalty with the best UAR in a cross-validation over groups (at most five sets); ties: the strongest.

    With a single group there is nothing to validate on: the middle one of :data:`PENALTIES` is returned.
    """
    if len(set(groups)) < 2:
        return PENALTIES[len(PENALTIES) // 2]
    x, y, group = np.asarray(features, dtype=np.float64), np.asarray(labels), np.asarray(groups)
    part = np.unique(group, return_inverse=True)[1].reshape(-1) % _PARTS
    predictions = np.empty((len(PENALTIES), len(y)), dtype=object)
    for held_out in np.unique(part):
        train, test = part != held_out, part == held_out
        model = None
        for row, penalty in enumerate(PENALTIES):
            model = fit(x[train], y[train].tolist(), penalty, start=model)
            predictions[row, test] = model.predict(x[test])
    recalls = [np.mean([(row[y == name] == name).mean() for name in np.unique(y)]) for row in predictions]
    return PENALTIES[int(np.argmax(recalls))]


def standard(x: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of the known values of each column; 0 and 1 where there are none."""
    known = np.isfinite(x)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0.0).sum(axis=0) / count
    scale = np.sqrt(np.where(known, (x - mean) ** 2, 0.0).sum(axis=0) / count)
    return mean, np.where(scale > 1e-9 * np.maximum(np.abs(mean), 1e-9), scale, 1.0)
