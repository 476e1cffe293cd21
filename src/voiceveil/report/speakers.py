"""The EER of each speaker: an average hides the speakers that a system does not protect.

See :mod:`voiceveil.metrics.speaker_rates` for the conventions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voiceveil.metrics.speaker_rates import speaker_eer
from voiceveil.report.report_data import Scored
from voiceveil.stats import Estimate

__all__ = ["SpeakerEer", "by_speaker"]


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
    for code in np.unique(trials.enroll[trials.target]).tolist():
        eer = speaker_eer(trials, code, resamples=resamples)
        if eer is None:
            continue
        own = np.flatnonzero((trials.enroll == code) & trials.target)
        speakers.append(
            SpeakerEer(
                scored.speakers[code],
                str(scored.figure.detail.get("set", "")),
                scored.figure.gender,
                eer,
                len(own),
                str(scored.utterances[own[int(trials.score[own].argmax())]]),
            )
        )
    return sorted(speakers, key=lambda speaker: (speaker.eer.value, speaker.eer.high, speaker.speaker))
