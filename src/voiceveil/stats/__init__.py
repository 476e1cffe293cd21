"""Statistics: estimates with intervals, bootstrap, Wilson intervals, paired comparisons of rates, power.

Verification metrics with intervals (``estimate``, ``compare``) are in :mod:`voiceveil.metrics`. Each name is imported
when it is first used.

>>> from voiceveil import stats
>>> print(stats.wilson(3, 40))
7.5% [2.6, 19.9]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.core.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.stats.intervals import average, minimal_detectable_difference, wilson
    from voiceveil.stats.rates import accuracy, compare_ratios, mean, ratio, uar
    from voiceveil.stats.values import Difference, Estimate

__all__ = [
    "Difference",
    "Estimate",
    "accuracy",
    "average",
    "compare_ratios",
    "mean",
    "minimal_detectable_difference",
    "ratio",
    "uar",
    "wilson",
]

_HOME = {
    "Difference": "voiceveil.stats.values",
    "Estimate": "voiceveil.stats.values",
    "accuracy": "voiceveil.stats.rates",
    "average": "voiceveil.stats.intervals",
    "compare_ratios": "voiceveil.stats.rates",
    "mean": "voiceveil.stats.rates",
    "minimal_detectable_difference": "voiceveil.stats.intervals",
    "ratio": "voiceveil.stats.rates",
    "uar": "voiceveil.stats.rates",
    "wilson": "voiceveil.stats.intervals",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
