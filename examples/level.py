"""An example attacker: it compares how loud recordings are, without any model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack import Attacker, AttackerOptions, Condition, Knowledge, TrialSet, attackers
from voiceveil.audio import Waveform
from voiceveil.run.context import RunContext


class Level:
    """Measure one utterance: its level in dB relative to full scale, shape (1,)."""

    rate, minimum = 16000, 0.1  # Hz, seconds

    def fingerprint(self) -> str:
        """Return a text that changes whenever a result would: the cache keeps results by it."""
        return "level 1"

    def __call__(self, wave: Waveform) -> NDArray[np.float64]:
        """Return the level."""
        return np.array([10 * np.log10(np.mean(np.square(wave.samples, dtype=np.float64)) + 1e-10)])


class LevelAttacker(Attacker):
    """Score a trial by the difference between its level and the mean level of the enrollment."""

    name, minimum, backend = "level", Level.minimum, "distance"

    def conditions(self, *, anonymized: bool = True) -> Mapping[Condition, Knowledge]:
        """Return anonymized against anonymized speech, or original speech if there is no other."""
        return {"aa" if anonymized else "oo": "free"}

    def fingerprint(self) -> str:
        """Return the version."""
        return Level().fingerprint()

    def score(self, trial_set: TrialSet, condition: Condition, context: RunContext) -> NDArray[np.float64]:
        """Return the score of each trial, shape (trials,): higher for the same speaker."""
        enrollment, trial = (context.extract(speech, Level()) for speech in trial_set.speech(condition))
        mean = {speaker: np.mean([enrollment[key] for key in ids]) for speaker, ids in trial_set.enrollment.items()}
        pairs = zip(trial_set.trials.enroll.tolist(), trial_set.trials.utterance.tolist(), strict=True)
        return np.array([-abs(mean[speaker] - trial[utterance][0]) for speaker, utterance in pairs])


@attackers.register("level")
def make_level(options: AttackerOptions) -> list[Attacker]:
    """Return the attackers of the name; ``options.argument`` is the part after the colon of ``level:ARGUMENT``."""
    return [LevelAttacker()]
