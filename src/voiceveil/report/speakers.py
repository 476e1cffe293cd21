"""The EER of each speaker: an average hides the speakers that a system does not protect.

Conventions: a speaker's targets are the trials of their own voice, the nontargets those of all others against their
enrollment. The interval is over this speaker's utterances and the other speakers: it covers what another recording
session with other impostors might give. The worst of many speakers looks worse by selection than they are: the interval
shows by how much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voiceveil.metrics import ScoredTrials, estimate
from voiceveil.report.report_data import Scored
from voiceveil.stats import Estimate

__all__ = ["SpeakerEer", "by_speaker"]

_MIN_TARGETS = 5  # target trials for an interval


@dataclass(frozen=True)
class SpeakerEer:
    """The EER of one speaker; its interval is NaN with fewer than five target trials."""

    speaker: str
    set: str
    gender: str
    eer: Estimate
    targets: int
    closest: str  # the speaker's utterance with the highest target score


def by_speaker(scored: Scored, *, resamples: int = 300) -> list[SpeakerEer]:
    """Return the EERs of all speakers with target and nontarget trials, the worst protected first."""
    trials, speakers = scored.trials, []
    for code in np.unique(trials.enroll[trials.target]):
        enrolled = trials.enroll == code
        own, others = enrolled & trials.target, enrolled & ~trials.target
        if not others.any():
            continue
        best = np.flatnonzero(own)[int(trials.score[own].argmax())]
        speakers.append(
            SpeakerEer(
                scored.speakers[code],
                str(scored.figure.detail.get("set", "")),
                scored.figure.gender,
                _estimate(trials, own, others, resamples),
                int(own.sum()),
                str(scored.utterances[best]),
            )
        )
    return sorted(speakers, key=lambda speaker: (speaker.eer.value, speaker.eer.high, speaker.speaker))


def _estimate(trials: ScoredTrials, own: np.ndarray, others: np.ndarray, resamples: int) -> Estimate:
    """Return the EER with an interval over the target utterances (each its own unit) and the other speakers."""
    targets = int(own.sum())
    score = np.concatenate([trials.score[own], trials.score[others]])
    target = np.arange(len(score)) < targets
    utterance = np.arange(targets)
    enroll = np.concatenate([utterance, np.full(int(others.sum()), targets)])
    speaker = np.concatenate([utterance, targets + 1 + trials.speaker[others]])
    units = ScoredTrials(score, target, enroll, speaker, of="utterances")
    if targets >= _MIN_TARGETS:
        return estimate(units, "eer", resamples=resamples)
    from voiceveil.metrics import eer

    return Estimate(eer(*units.classes()), np.nan, np.nan, n=targets, of="utterances", unit="%")
