"""A small speaker encoder that tells synthetic voices apart by their pitch, and corpora of such voices."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.model_free import mean_f0
from voiceveil.audio import Waveform, save
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.models.speaker.encoders import TrainingRecord, encoders
from voiceveil.testing import synthetic_voice


@dataclass(frozen=True)
class PitchBumps:
    """Encode the mean pitch as bumps on the axis of log F0."""

    record: TrainingRecord = field(default_factory=TrainingRecord)
    name: str = "pitch-bumps"
    family: str = "pitch-bumps"
    rate, minimum, dimension = 16000, 0.05, 24

    def fingerprint(self) -> str:
        return "pitch-bumps"

    def training(self) -> TrainingRecord:
        return self.record

    def check(self) -> None:
        pass

    def __call__(self, wave: Waveform) -> NDArray[np.float32]:
        centers = np.linspace(np.log(70.0), np.log(300.0), self.dimension)
        return np.asarray(np.exp(-0.5 * ((mean_f0(wave.samples)[0] - centers) / 0.1) ** 2), dtype=np.float32)


@encoders.register("pitch-bumps")
def _make(argument: str | None) -> PitchBumps:
    return PitchBumps(TrainingRecord.read(Path(argument)) if argument else TrainingRecord())


def make_corpus(folder: Path, name: str, people: range, utterances: range, role: str = "") -> Corpus:
    """Write synthetic voices as a Kaldi directory, with trials of all pairs if the role is trial."""
    spoken = []
    for person in people:
        for number in utterances:
            key = f"p{person:02d}-{number:02d}"
            path = folder / name / "wav" / f"{key}.wav"
            save(path, synthetic_voice(person, number, seconds=1.0 + 0.05 * (person % 4)))
            spoken.append(Utterance(key, path, speaker=f"p{person:02d}", gender="fm"[person % 2], role=role))
    trials = None
    if role == "trial":
        pairs = [(f"p{a:02d}", u) for a in people for u in spoken]
        trials = Trials(
            np.array([a for a, _ in pairs]),
            np.array([u.id for _, u in pairs]),
            np.array([u.speaker == a for a, u in pairs]),
        )
    found = Corpus(name, tuple(spoken), trials)
    write_kaldi(found, folder / name)
    return found
