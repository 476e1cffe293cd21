"""Verification metrics with 95% intervals from a joint bootstrap over speakers, and paired comparisons.

Conventions: see :mod:`voiceveil.metrics.scored_trials` for what is resampled, :mod:`voiceveil.stats.intervals` for how
an interval is made of it. The number of resamples and the seed are given, so that every interval can be redone.

* :func:`estimate`, :func:`estimate_all`: one metric, or several from the same resamples
* :func:`compare`, :func:`compare_all`: two systems on the same trials
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from voiceveil.core.errors import InputError
from voiceveil.metrics.measures import Measure, measure
from voiceveil.metrics.scored_trials import ScoredTrials
from voiceveil.metrics.tally import Floats
from voiceveil.stats.intervals import difference_interval, interval
from voiceveil.stats.values import Difference, Estimate

__all__ = ["compare", "compare_all", "estimate", "estimate_all"]


def estimate(
    trials: ScoredTrials,
    metric: str | Measure = "eer",
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Return one metric with its interval.

    Parameters
    ----------
    trials
        Scored trials.
    metric
        Name of a measure, or the measure.
    resamples, seed
        Number and seed of the bootstrap resamples.
    level
        Confidence level.

    Examples
    --------
    >>> from voiceveil.testing.scores import ScoreWorld
    >>> trials = ScoreWorld(speakers=20).draw(np.random.default_rng(7))
    >>> print(estimate(trials, "eer"))  # doctest: +SKIP
    """
    return estimate_all(trials, [metric], resamples=resamples, seed=seed, level=level)[0]


def estimate_all(
    trials: ScoredTrials,
    metrics: Sequence[str | Measure],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Estimate]:
    """Return several metrics with their intervals, from the same resamples; see :func:`estimate`."""
    if not metrics:
        return []
    measures = [measure(m) for m in metrics]
    values = [m.value(*trials.classes()) for m in measures]
    n = trials.n_units
    drawn = _replicates(trials, measures, trials.weights(resamples, seed) if n > 1 else ())
    return [
        interval(value, drawn[:, k], n, span=m.span, level=level, unit=m.unit, of=trials.of)
        for k, (m, value) in enumerate(zip(measures, values, strict=True))
    ]


def compare(
    trials: ScoredTrials,
    other: ScoredTrials | ArrayLike,
    metric: str | Measure = "eer",
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Difference:
    """Return the metric of ``other`` minus that of ``trials``: two systems on the same trials, in the same order.

    Both use the same resamples, so that speakers who are easy or hard for both do not widen the interval. It excludes 0
    exactly if ``p_value`` < 1 - level.

    Parameters
    ----------
    trials, other
        Trials as scored by two systems; ``other`` may be just the scores.
    metric, resamples, seed, level
        See :func:`estimate`.
    """
    return compare_all(trials, other, [metric], resamples=resamples, seed=seed, level=level)[0]


def compare_all(
    trials: ScoredTrials,
    other: ScoredTrials | ArrayLike,
    metrics: Sequence[str | Measure],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Difference]:
    """Return the differences of several metrics, from the same resamples."""
    if not metrics:
        return []
    if not isinstance(other, ScoredTrials):
        other = trials.with_scores(other)
    if not (np.array_equal(trials.enroll, other.enroll) and np.array_equal(trials.speaker, other.speaker)):
        raise InputError(
            "the two systems were scored on different trials", fix="give the same trials in the same order"
        )
    measures = [measure(m) for m in metrics]
    n = trials.n_units
    drawn = np.empty((0, len(measures)))
    if n > 1:
        weights = list(trials.weights(resamples, seed))
        drawn = _replicates(other, measures, weights) - _replicates(trials, measures, weights)
    return [
        difference_interval(
            m.value(*other.classes()) - m.value(*trials.classes()),
            drawn[:, k],
            n,
            level=level,
            unit=m.unit,
            of=trials.of,
        )
        for k, m in enumerate(measures)
    ]


def _replicates(trials: ScoredTrials, measures: Sequence[Measure], weights: Iterable[Floats]) -> Floats:
    """Return the metrics of each resample, shape (resamples, metrics)."""
    statistics = [m.statistic(*trials.classes()) for m in measures]
    rows = [[statistic(tally) for statistic in statistics] for tally in map(trials.tally, weights)]
    return np.array(rows, dtype=np.float64).reshape(-1, len(measures))
