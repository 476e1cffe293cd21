"""An example metric: the area under the ROC curve, with its interval over speakers."""

from __future__ import annotations

import numpy as np

from voiceveil.metrics import MEASURES, Measure
from voiceveil.metrics.tally import Floats, Tally


def area(target: Floats, nontarget: Floats) -> float:
    """Return the probability that a target trial scores higher than a nontarget trial; a tie counts half."""
    higher = np.searchsorted(np.sort(nontarget), target, side="left")
    tied = np.searchsorted(np.sort(nontarget), target, side="right") - higher
    return float((higher + tied / 2).mean() / len(nontarget))


def weighted_area(tally: Tally) -> float:
    """Return the same from weighted counts, which a bootstrap resamples."""
    below = np.cumsum(tally.nontarget) - tally.nontarget / 2
    return float(tally.target @ below / (tally.target.sum() * tally.nontarget.sum()))


@MEASURES.register("auc")
def auc() -> Measure:
    """Return the area under the ROC curve: 100% = speakers are always told apart, 50% = never."""
    return Measure("auc", area, lambda target, nontarget: weighted_area, title="Area under the ROC", better="lower")
