"""Statistics: every rate with its interval, by a bootstrap over speakers; Wilson; paired comparisons; power.

>>> from voiceveil import stats
>>> trials = stats.ScoredTrials.of_speakers(score, target, enroll, speaker)  # doctest: +SKIP
>>> print(stats.estimate(trials, "eer"))  # doctest: +SKIP
7.5 % [5.9, 9.2]

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.stats.intervals import average, minimal_detectable_difference, wilson
    from voiceveil.stats.measures import MEASURES, Measure
    from voiceveil.stats.rates import accuracy, compare_ratios, mean, ratio, uar
    from voiceveil.stats.trials import ScoredTrials
    from voiceveil.stats.values import Difference, Estimate
    from voiceveil.stats.verification import compare, compare_all, estimate, estimate_all

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
    "MEASURES": "voiceveil.stats.measures",
    "Difference": "voiceveil.stats.values",
    "Estimate": "voiceveil.stats.values",
    "Measure": "voiceveil.stats.measures",
    "ScoredTrials": "voiceveil.stats.trials",
    "accuracy": "voiceveil.stats.rates",
    "average": "voiceveil.stats.intervals",
    "compare": "voiceveil.stats.verification",
    "compare_all": "voiceveil.stats.verification",
    "compare_ratios": "voiceveil.stats.rates",
    "estimate": "voiceveil.stats.verification",
    "estimate_all": "voiceveil.stats.verification",
    "mean": "voiceveil.stats.rates",
    "minimal_detectable_difference": "voiceveil.stats.intervals",
    "ratio": "voiceveil.stats.rates",
    "uar": "voiceveil.stats.rates",
    "wilson": "voiceveil.stats.intervals",
}

__getattr__ = lazy_exports(__name__, _HOME)
