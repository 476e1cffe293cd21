"""Intervals over evaluators *and* speakers, and the agreement of evaluators.

Conventions: arrays have one entry for each rating, shape (n,). Ratings of one evaluator are correlated, and so are
those of one speaker. Both are resampled: the "pigeonhole" bootstrap of Owen (2007) for crossed factors, in which the
weight of a rating is the product of the counts of its evaluator and of its speaker. It is somewhat conservative. The
interval is that of Student's t; its degrees of freedom are the smaller of both numbers minus one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.stats.intervals import difference_interval
from voiceveil.stats.values import Estimate

__all__ = ["crossed_interval", "krippendorff_alpha", "weighted_mean", "weighted_median"]

Floats = NDArray[np.float64]


def crossed_interval(
    statistic: Callable[[Floats], float],
    evaluators: Sequence[Hashable],
    speakers: Sequence[Hashable],
    *,
    resamples: int = 400,
    seed: int = 0,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Estimate:
    """Return a statistic with its 95% interval over evaluators and speakers.

    Parameters
    ----------
    statistic
        Maps weights (n,) of the ratings to a value.
    evaluators, speakers
        Of each rating.
    resamples, seed
        Of the bootstrap.
    bounds
        Range of the statistic; it is the interval if there is only one evaluator or speaker.
    """
    _, evaluator_index = np.unique(np.asarray(evaluators), return_inverse=True)
    _, speaker_index = np.unique(np.asarray(speakers), return_inverse=True)
    n = min(int(evaluator_index.max()), int(speaker_index.max())) + 1
    value = statistic(np.ones(len(evaluator_index)))
    replicates = np.array(
        [x for w in _weights(evaluator_index, speaker_index, resamples, seed) if np.isfinite(x := statistic(w))]
    )
    interval = difference_interval(
        value, replicates if len(replicates) > 1 else np.zeros(0), n, of="evaluators, speakers"
    )
    low, high = (float(np.clip(end, *bounds)) for end in (interval.low, interval.high))
    return Estimate(value, low, high, interval.se, n, interval.of)


def _weights(
    evaluator_index: NDArray[np.intp], speaker_index: NDArray[np.intp], resamples: int, seed: int
) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    drawn = []
    for factor in (evaluator_index, speaker_index):
        size = int(factor.max()) + 1
        # A factor of one level is not drawn: its only value would come out every time.
        shape = np.full(size, 1 / size)
        drawn.append(
            rng.multinomial(size, shape, resamples).astype(np.float64) if size > 1 else np.ones((resamples, 1))
        )
    for first, second in zip(*drawn, strict=True):
        weights = first[evaluator_index] * second[speaker_index]
        if weights.sum() > 0:
            yield weights


def weighted_mean(values: ArrayLike) -> Callable[[Floats], float]:
    """Return the mean of ``values`` as a function of weights."""
    array = np.asarray(values, dtype=np.float64)
    return lambda weights: float(weights @ array / weights.sum())


def weighted_median(values: ArrayLike) -> Callable[[Floats], float]:
    """Return the median of ``values`` as a function of weights; the mean of the two middle values if they tie."""
    array = np.asarray(values, dtype=np.float64)
    order = np.argsort(array, kind="stable")
    ordered = array[order]

    def median(weights: Floats) -> float:
        reached = np.cumsum(weights[order])
        half = reached[-1] / 2
        low = int(np.searchsorted(reached, half))
        high = int(np.searchsorted(reached, half, side="right"))
        return float((ordered[low] + ordered[min(high, len(ordered) - 1)]) / 2)

    return median


def krippendorff_alpha(
    units: Mapping[str, Sequence[float]], *, level: Literal["ordinal", "interval"] = "ordinal"
) -> float:
    """Return Krippendorff's alpha: 1 is perfect agreement, 0 that of chance; NaN without items of two evaluators.

    ``units``: item -> its ratings by different evaluators; items with fewer than two do not count. With m_u ratings of
    unit u, n of all, and d(c, k) the squared distance of two values, alpha = 1 - D_o / D_e with the
    observed D_o = sum_u sum_{i != j} d / (m_u - 1) / n and the expected D_e = sum_{i != j of all} d / (n (n - 1))
    (Krippendorff 2011, "Computing Krippendorff's alpha-reliability").
    """
    pairable = [np.asarray(values, dtype=np.float64) for values in units.values() if len(values) > 1]
    if not pairable:
        return float("nan")
    pooled = np.concatenate(pairable)
    place = _places(pooled) if level == "ordinal" else lambda values: values
    n = len(pooled)
    # The sum of squared differences of all ordered pairs of m values is 2 m sum x^2 - 2 (sum x)^2.
    observed = sum(_scatter(place(values)) / (len(values) - 1) for values in pairable) / n
    expected = _scatter(place(pooled)) / (n * (n - 1))
    return float(1.0 - observed / expected) if expected > 0 else float("nan")


def _scatter(values: Floats) -> float:
    centered = values - values.mean()
    return float(2.0 * len(values) * (centered**2).sum())


def _places(pooled: Floats) -> Callable[[Floats], Floats]:
    """Return a function from values to mean ranks, by which distances are ordinal.

    That is d(c, k) = (n_c / 2 + all between + n_k / 2)^2.
    """
    counts = Counter(pooled.tolist())
    place, below = {}, 0.0
    for value in sorted(counts):
        place[value] = below + counts[value] / 2
        below += counts[value]
    return lambda values: np.array([place[value] for value in values.tolist()])
