"""Rates over utterances (WER, UAR, accuracy) with intervals from a bootstrap over speakers.

Conventions: one entry per utterance, shape (n,); ``speaker`` holds labels, ids or numbers. Speakers are resampled, with
all their utterances, since utterances of one speaker are alike. Values are summed by speaker once, so that 1,000
resamples are one matrix product.

* :func:`ratio`: sum over sum, e.g. word errors over words
* :func:`accuracy`, :func:`uar`: of class labels
* :func:`mean`: of any value, e.g. a pitch correlation or a rating
* :func:`compare_ratios`: two systems on the same utterances
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.errors import InputError
from voiceveil.stats.intervals import Range, difference_interval, interval
from voiceveil.stats.values import Difference, Estimate

__all__ = ["accuracy", "compare_ratios", "mean", "ratio", "uar"]

Floats = NDArray[np.float64]


def ratio(
    numerator: ArrayLike,
    denominator: ArrayLike,
    speaker: ArrayLike,
    *,
    resamples: int = 1000,
    seed: int = 0,
    top: float = np.inf,
) -> Estimate:
    """Return sum(numerator) / sum(denominator) with its 95% interval: ``ratio(errors, words, speaker)`` is the WER.

    Parameters
    ----------
    numerator, denominator
        Of each utterance, shape (n,).
    speaker
        Of each utterance.
    resamples, seed
        Of the bootstrap over speakers.
    top
        Largest possible value, at which the interval ends.

    >>> print(ratio([1, 0, 2, 1], [10, 12, 9, 11], ["a", "a", "b", "c"]).value)
    0.09523809523809523
    """
    up, down = _by_speaker(speaker, numerator, denominator)
    if (down < 0).any() or not down.sum() > 0:
        raise InputError("the denominators must be positive in sum and not negative")
    weights = _weights(down, resamples, seed)
    value = float(up.sum() / down.sum())
    return interval(value, weights @ up / (weights @ down), len(up), span=Range(top), unit="%")


def compare_ratios(
    numerator: ArrayLike,
    other: ArrayLike,
    denominator: ArrayLike,
    speaker: ArrayLike,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Difference:
    """Return the ratio of ``other`` minus that of ``numerator``, with the same denominators and resamples.

    See :func:`ratio`; the interval is the 95% interval of the difference.
    """
    first, second, down = _by_speaker(speaker, numerator, other, denominator)
    if (down < 0).any() or not down.sum() > 0:
        raise InputError("the denominators must be positive in sum and not negative")
    weights = _weights(down, resamples, seed)
    value = float((second - first).sum() / down.sum())
    return difference_interval(value, weights @ (second - first) / (weights @ down), len(down), unit="%")


def accuracy(refs: ArrayLike, hyps: ArrayLike, speaker: ArrayLike, *, resamples: int = 1000, seed: int = 0) -> Estimate:
    """Return the fraction of utterances with the right label, with its 95% interval over speakers.

    Parameters
    ----------
    refs, hyps, speaker
        True label, predicted label and speaker of each utterance, shape (n,).
    resamples, seed
        Of the bootstrap over speakers.
    """
    wrong = (np.asarray(refs) != np.asarray(hyps)).astype(np.float64)
    return _mirror(ratio(wrong, np.ones(len(wrong)), speaker, resamples=resamples, seed=seed, top=1.0))


def uar(refs: ArrayLike, hyps: ArrayLike, speaker: ArrayLike, *, resamples: int = 1000, seed: int = 0) -> Estimate:
    """Return the unweighted average recall: the mean, over classes in ``refs``, of the fraction recognized.

    A class that is missing in a resample is left out of the mean of that resample. Parameters are those of
    :func:`accuracy`.
    """
    labels, klass = np.unique(np.asarray(refs), return_inverse=True)
    wrong = np.asarray(refs) != np.asarray(hyps)
    member = klass.reshape(-1, 1) == np.arange(len(labels))
    columns = _by_speaker(speaker, *(member & wrong[:, None]).T, *member.T)
    missed, count = np.array(columns[: len(labels)]).T, np.array(columns[len(labels) :]).T  # (speakers, classes)
    weights = _weights(count.sum(axis=1), resamples, seed)
    with np.errstate(invalid="ignore"):
        miss_rates = np.nanmean((weights @ missed) / (weights @ count), axis=1)
    value = float(np.mean(missed.sum(axis=0) / count.sum(axis=0)))
    return _mirror(interval(value, miss_rates, len(count), unit="%"))


def mean(
    values: ArrayLike, speaker: ArrayLike, *, resamples: int = 1000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """Return the mean of values of any sign over utterances, with a t interval without transformation.

    Parameters
    ----------
    values, speaker
        Of each utterance, shape (n,).
    resamples, seed
        Of the bootstrap over speakers.
    level
        Confidence level.
    """
    total, count = _by_speaker(speaker, values, np.ones(len(np.asarray(values))))
    weights = _weights(count, resamples, seed)
    value = float(total.sum() / count.sum())
    side = difference_interval(value, weights @ total / (weights @ count), len(count), level=level)
    return Estimate(value, side.low, side.high, side.se, side.n, side.of, level)


def _by_speaker(speaker: ArrayLike, *columns: ArrayLike) -> list[Floats]:
    """Return each column summed by speaker; speakers are sorted by their sums, not by their names."""
    names = np.asarray(speaker)
    if names.ndim != 1 or not len(names):
        raise InputError("no utterances", fix="give one speaker an utterance, shape (n,)")
    code = np.unique(names, return_inverse=True)[1].reshape(-1)
    sums: list[Floats] = []
    for column in columns:
        values = np.asarray(column, dtype=np.float64)
        if values.shape != names.shape:
            raise InputError(f"{len(names)} speakers for values of shape {values.shape}", fix="one entry an utterance")
        if not np.isfinite(values).all():
            raise InputError(f"value {int((~np.isfinite(values)).argmax())} is not finite")
        sums.append(np.bincount(code, values).astype(np.float64))
    order = np.lexsort(sums[::-1])
    return [total[order] for total in sums]


def _weights(size: Floats, resamples: int, seed: int) -> Floats:
    """Return how often each speaker is drawn (resamples, speakers); resamples of empty speakers only are redrawn."""
    rng = np.random.default_rng(seed)
    n = len(size)
    weights = rng.multinomial(n, np.full(n, 1.0 / n), size=resamples).astype(np.float64)
    while (empty := weights @ size <= 0.0).any():
        weights[empty] = rng.multinomial(n, np.full(n, 1.0 / n), size=int(empty.sum()))
    return weights


def _mirror(error: Estimate) -> Estimate:
    """Return the estimate of 1 - x, given that of x."""
    return Estimate(
        1 - error.value, 1 - error.high, 1 - error.low, error.se, error.n, error.of, error.level, error.unit
    )
