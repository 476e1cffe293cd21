"""Statistics: every rate with its interval, by a bootstrap over speakers; Wilson; paired comparisons; power.

>>> from voiceveil import stats
>>> trials = stats.ScoredTrials.of_speakers(score, target, enroll, speaker)  # doctest: +SKIP
>>> print(stats.estimate(trials, "eer"))  # doctest: +SKIP
7.5 % [5.9, 9.2]

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.core.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.metrics.estimation import compare, compare_all, estimate, estimate_all
    from voiceveil.metrics.measures import MEASURES, Measure
    from voiceveil.metrics.scored_trials import ScoredTrials
    from voiceveil.stats.intervals import average, minimal_detectable_difference, wilson
    from voiceveil.stats.rates import accuracy, compare_ratios, mean, ratio, uar
    from voiceveil.stats.values import Difference, Estimate

__all__ = [
    "MEASURES",
    "Difference",
    "Estimate",
    "Measure",
    "ScoredTrials",
    "accuracy",
    "average",
    "compare",
    "compare_all",
    "compare_ratios",
    "estimate",
    "estimate_all",
    "mean",
    "minimal_detectable_difference",
    "ratio",
    "uar",
    "wilson",
]

_HOME = {
    "MEASURES": "voiceveil.metrics.measures",
    "Difference": "voiceveil.stats.values",
    "Estimate": "voiceveil.stats.values",
    "Measure": "voiceveil.metrics.measures",
    "ScoredTrials": "voiceveil.metrics.scored_trials",
    "accuracy": "voiceveil.stats.rates",
    "average": "voiceveil.stats.intervals",
    "compare": "voiceveil.metrics.estimation",
    "compare_all": "voiceveil.metrics.estimation",
    "compare_ratios": "voiceveil.stats.rates",
    "estimate": "voiceveil.metrics.estimation",
    "estimate_all": "voiceveil.metrics.estimation",
    "mean": "voiceveil.stats.rates",
    "minimal_detectable_difference": "voiceveil.stats.intervals",
    "ratio": "voiceveil.stats.rates",
    "uar": "voiceveil.stats.rates",
    "wilson": "voiceveil.stats.intervals",
}

__getattr__ = lazy_exports(__name__, _HOME)
