"""A linear classifier: multinomial logistic regression with an L2 penalty, classes weighted to count alike.

Conventions: ``features`` are floats of shape (n, d), NaN where unknown; ``labels`` and ``groups`` are strings, shape
(n,). A group (a speaker, a session) is never on both sides of a split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.compiled import njit
from voiceveil.metrics.emotion import uar

__all__ = ["PENALTIES", "LinearClassifier", "choose_penalty", "fit", "standard"]

Array = NDArray[np.float64]

#: Candidates for the weight of the penalty, the strongest first.
PENALTIES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
#: Parts of the training data in the search for the penalty.
_PARTS = 5
#: Of the minimisation: steps remembered, steps at most, largest gradient at its end.
MEMORY, ITERATIONS, TOLERANCE = 10, 500, 1e-5


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
    x = np.asarray(features, dtype=np.float64)
    mean, scale = standard(x)
    x = np.nan_to_num((x - mean) / scale)
    names, klass = np.unique(np.asarray(labels), return_inverse=True)
    klass = klass.reshape(-1)
    share = 1 / (len(names) * np.bincount(klass)[klass])  # of each item in the loss
    shape = (x.shape[1] + 1, len(names))
    first = np.zeros(shape) if start is None else np.vstack([start.weights, start.bias])

    found = _minimise(first, x, klass, share, penalty)
    return LinearClassifier(tuple(names.tolist()), mean, scale, found[:-1], found[-1])


@njit(cache=True)
def _loss(weights: Array, x: Array, klass: NDArray[np.int64], share: Array, penalty: float) -> tuple[float, Array]:
    """The loss and its gradient; the last row of ``weights`` (d + 1, classes) is the bias, which has no penalty."""
    d, classes = x.shape[1], weights.shape[1]
    gradient = np.zeros_like(weights)
    value = 0.0
    p = np.empty(classes)
    for i in range(x.shape[0]):
        p[:] = weights[d]
        for j in range(d):
            for c in range(classes):
                p[c] += x[i, j] * weights[j, c]
        top = p.max()
        total = 0.0
        for c in range(classes):
            p[c] -= top
            total += np.exp(p[c])
        value += share[i] * (np.log(total) - p[klass[i]])
        for c in range(classes):
            p[c] = share[i] * (np.exp(p[c]) / total - (1.0 if c == klass[i] else 0.0))
            gradient[d, c] += p[c]
        for j in range(d):
            for c in range(classes):
                gradient[j, c] += x[i, j] * p[c]
    for j in range(d):
        for c in range(classes):
            value += 0.5 * penalty * weights[j, c] ** 2
            gradient[j, c] += penalty * weights[j, c]
    return value, gradient


@njit(cache=True)
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@njit(cache=True)
def _add(a: Array, factor: float, b: Array) -> None:
    """a += factor * b."""
    for i in range(a.size):
        a[i] += factor * b[i]


@njit(cache=True)
def _minimise(start: Array, x: Array, klass: NDArray[np.int64], share: Array, penalty: float) -> Array:
    """L-BFGS with backtracking (Nocedal and Wright, "Numerical optimization", algorithms 7.4 and 3.1).

    Of its own, in plain loops: on problems as small as these, BLAS under scipy's takes ten times as long to wake its
    threads. The loss is strictly convex in all but a common shift of the biases, hence no curvature condition.
    """
    shape, size = start.shape, start.size
    steps, changes = np.zeros((MEMORY, size)), np.zeros((MEMORY, size))
    products, along = np.zeros(MEMORY), np.zeros(MEMORY)
    weights, direction, trial = start.copy().reshape(size), np.zeros(size), np.zeros(size)
    value, slopes = _loss(weights.reshape(shape), x, klass, share, penalty)
    gradient = slopes.reshape(size)
    kept = 0
    for _ in range(ITERATIONS):
        if np.abs(gradient).max() < TOLERANCE:
            break
        direction[:] = gradient
        for k in range(kept - 1, max(kept - MEMORY, 0) - 1, -1):
            i = k % MEMORY
            along[i] = _dot(steps[i], direction) / products[i]
            _add(direction, -along[i], changes[i])
        if kept > 0:
            i = (kept - 1) % MEMORY
            direction *= products[i] / _dot(changes[i], changes[i])
        for k in range(max(kept - MEMORY, 0), kept):
            i = k % MEMORY
            _add(direction, along[i] - _dot(changes[i], direction) / products[i], steps[i])
        descent = _dot(gradient, direction)
        length = 2.0
        new_value = np.inf
        new_gradient = gradient
        while new_value > value - 1e-4 * length * descent and length > 1e-8:
            length *= 0.5
            trial[:] = weights
            _add(trial, -length, direction)
            new_value, slopes = _loss(trial.reshape(shape), x, klass, share, penalty)
            new_gradient = slopes.reshape(size)
        i = kept % MEMORY
        steps[i] = trial
        _add(steps[i], -1.0, weights)
        changes[i] = new_gradient
        _add(changes[i], -1.0, gradient)
        products[i] = _dot(steps[i], changes[i])
        if products[i] > 1e-14:
            kept += 1
        weights[:] = trial
        value, gradient = new_value, new_gradient
    return weights.reshape(shape)


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
