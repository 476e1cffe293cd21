"""Verification metrics with 95 % intervals from a joint bootstrap over speakers, and paired comparisons.

Conventions: see :mod:`voiceveil.stats.trials` for what is resampled, :mod:`voiceveil.stats.intervals` for how an
interval is made of it. The number of resamples and the seed are given, so that every interval can be redone.

* :func:`estimate`, :func:`estimate_all`: one metric, or several from the same resamples
* :func:`compare`: two systems on the same trials
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from voiceveil.errors import InputError
from voiceveil.metrics.tally import Floats
from voiceveil.stats.intervals import difference_interval, interval
from voiceveil.stats.measures import Measure, measure
from voiceveil.stats.trials import ScoredTrials
from voiceveil.stats.values import Difference, Estimate

__all__ = ["compare", "estimate", "estimate_all", "replicates"]


def replicates(trials: ScoredTrials, measures: Sequence[Measure], *, resamples: int = 1000, seed: int = 0) -> Floats:
    """The metrics of each resample, shape (resamples, metrics)."""
    if resamples < 1:
        raise InputError(f"{resamples} resamples", fix="use 1000 or more")
    statistics = [m.statistic(*trials.classes()) for m in measures]
    out = np.empty((resamples, len(measures)))
    for r, weights in enumerate(trials.weights(resamples, seed)):
        tally = trials.tally(weights)
        out[r] = [statistic(tally) for statistic in statistics]
    return out


def estimate(
    trials: ScoredTrials,
    metric: str | Measure = "eer",
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """One metric with its interval.

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
    """Several metrics with their intervals, from the same resamples."""
    measures = [measure(m) for m in metrics]
    values = [m.value(*trials.classes()) for m in measures]
    n = trials.n_units
    drawn = replicates(trials, measures, resamples=resamples, seed=seed) if n > 1 else np.empty((0, len(measures)))
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
    """The metric of ``other`` minus that of ``trials``: two systems on the same trials, in the same order.

    Both see the same resamples, so that speakers who are easy or hard for both do not blur the difference. Its interval
    excludes 0 exactly if ``p_value`` < 1 - level.
    """
    if not isinstance(other, ScoredTrials):
        other = trials.with_scores(other)
    if not (np.array_equal(trials.enroll, other.enroll) and np.array_equal(trials.speaker, other.speaker)):
        raise InputError(
            "the two systems were scored on different trials", fix="give the same trials in the same order"
        )
    m = measure(metric)
    ours, theirs = m.statistic(*trials.classes()), m.statistic(*other.classes())
    value = m.value(*other.classes()) - m.value(*trials.classes())
    if trials.n_units < 2:
        return difference_interval(value, np.empty(0), trials.n_units, level=level, unit=m.unit, of=trials.of)
    drawn = np.array(
        [theirs(other.tally(w)) - ours(trials.tally(w)) for w in trials.weights(resamples, seed)], dtype=np.float64
    )
    return difference_interval(value, drawn, trials.n_units, level=level, unit=m.unit, of=trials.of)
