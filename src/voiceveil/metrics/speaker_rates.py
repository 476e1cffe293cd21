"""Rates of single speakers: an average hides the speakers that a system does not protect.

Conventions: as in :mod:`voiceveil.metrics.scored_trials`; rates are fractions. A speaker's targets are the trials of
their own voice, the nontargets those of all others against their enrollment. The interval of a speaker's EER is over
this speaker's utterances and the other speakers: it covers what another recording session with other impostors might
give. The worst of many speakers looks worse by selection than they are: the interval shows by how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from voiceveil.metrics.estimation import estimate
from voiceveil.metrics.scored_trials import ScoredTrials
from voiceveil.metrics.verification import eer
from voiceveil.stats import Estimate, ratio

__all__ = ["LOW_EER", "SpeakerRates", "identification", "speaker_eer", "speaker_rates"]

#: An EER below which a speaker counts as hardly protected.
LOW_EER = 0.2
_MIN_TARGETS = 5  # target trials for an interval
_FEWEST_TARGETS = 3  # target trials of a speaker whose EER says something


@dataclass(frozen=True)
class SpeakerRates:
    """How single speakers fare.

    Parameters
    ----------
    worst : Estimate
        EER of the speaker with the lowest one; its interval is NaN with fewer than five target trials, and all is NaN
        if no speaker has three.
    below : Estimate
        Share of speakers whose EER is below 20%.
    identified : Estimate
        Share of trial utterances, or groups of them, whose own speaker scores highest among those they are compared
        with.
    candidates : float
        Mean number of speakers that a trial utterance is compared with: by chance, 1 / candidates are identified.
    """

    worst: Estimate
    below: Estimate
    identified: Estimate
    candidates: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        estimates = {name: getattr(self, name).as_dict() for name in ("worst", "below", "identified")}
        return {**estimates, "candidates": self.candidates}


def speaker_eer(trials: ScoredTrials, code: int, *, resamples: int = 300) -> Estimate | None:
    """Return the EER of one enrolled speaker, by number; None without target or nontarget trials."""
    enrolled = trials.enroll == code
    own, others = enrolled & trials.target, enrolled & ~trials.target
    if not own.any() or not others.any():
        return None
    targets = int(own.sum())
    score = np.concatenate([trials.score[own], trials.score[others]])
    target = np.arange(len(score)) < targets
    utterance = np.arange(targets)
    enroll = np.concatenate([utterance, np.full(int(others.sum()), targets)])
    speaker = np.concatenate([utterance, targets + 1 + trials.speaker[others]])
    units = ScoredTrials(score, target, enroll, speaker, of="utterances")
    if targets >= _MIN_TARGETS and resamples:
        return estimate(units, "eer", resamples=resamples)
    return Estimate(eer(*units.classes()), np.nan, np.nan, n=targets, of="utterances", unit="%")


def speaker_rates(trials: ScoredTrials, utterance: ArrayLike, *, resamples: int = 300, seed: int = 0) -> SpeakerRates:
    """Return the rates of single speakers; EERs of those with fewer than three target trials do not count.

    Parameters
    ----------
    trials
        Scored trials, with target and nontarget trials of at least one speaker.
    utterance
        The test utterance of each trial, any labels (n,).
    resamples, seed
        Of the bootstrap.
    """
    rates = {}
    codes, counts = np.unique(trials.enroll[trials.target], return_counts=True)
    for code in codes[counts >= _FEWEST_TARGETS].tolist():
        rate = speaker_eer(trials, code, resamples=0)
        if rate is not None:
            rates[code] = rate.value
    if not rates:
        nothing = Estimate(np.nan, np.nan, np.nan, unit="%")
        return SpeakerRates(nothing, nothing, *identification(trials, utterance, resamples=resamples, seed=seed))
    worst = speaker_eer(trials, min(rates, key=lambda code: rates[code]), resamples=resamples)
    assert worst is not None  # noqa: S101 -- it has a rate
    low = [float(rate < LOW_EER) for rate in rates.values()]
    below = ratio(low, np.ones(len(low)), list(rates), resamples=resamples, seed=seed, top=1.0)
    return SpeakerRates(worst, below, *identification(trials, utterance, resamples=resamples, seed=seed))


def identification(
    trials: ScoredTrials, utterance: ArrayLike, *, resamples: int = 300, seed: int = 0
) -> tuple[Estimate, float]:
    """Return the share of test utterances whose own speaker scores highest, and the mean number of candidates.

    Utterances whose speaker is not enrolled, or who are compared with nobody else, do not count. A tie is a miss.

    Parameters
    ----------
    trials
        Scored trials.
    utterance
        The test utterance of each trial, any labels (n,).
    resamples, seed
        Of the bootstrap over speakers.
    """
    _, codes, counts = np.unique(np.asarray(utterance), return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    best = np.full(len(counts), -np.inf)
    np.maximum.at(best, codes[~trials.target], trials.score[~trials.target])
    own = np.flatnonzero(trials.target & (counts[codes] > 1))
    if not len(own):
        return Estimate(np.nan, np.nan, np.nan, unit="%"), 0.0
    hits = (trials.score[own] > best[codes[own]]).astype(np.float64)
    share = ratio(hits, np.ones(len(hits)), trials.speaker[own], resamples=resamples, seed=seed, top=1.0)
    return share, float(counts[codes[own]].mean())
