"""A small VoicePrivacy 2024 challenge: nine sets of synthetic voices, a speaker encoder and a recognizer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.model_free import mean_f0
from voiceveil.audio import Waveform, save
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus, write_kaldi
from voiceveil.corpus.trial_design import product_trials
from voiceveil.models.asr.recognition import recognizers
from voiceveil.models.speaker.encoders import TrainingRecord, encoders
from voiceveil.testing import synthetic_voice

WORDS = ("ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN")
ATTACKERS = ("bumps", "bumps:anon")
SETS = [
    *(f"libri_{split}_{part}" for split in ("dev", "test") for part in ("enrolls", "trials_f", "trials_m")),
    "IEMOCAP_dev",
    "IEMOCAP_test",
    "train-clean-360",
]


@dataclass(frozen=True)
class Bumps:
    """Encode the mean pitch as bumps on the axis of log F0, which tells synthetic voices apart."""

    name: str
    trained_on: str = "original"
    family: str = "bumps"
    rate, minimum, dimension = 16000, 0.05, 24

    def fingerprint(self) -> str:
        return f"bumps 1 {self.trained_on}"

    def training(self) -> TrainingRecord:
        return TrainingRecord(data=self.trained_on, accuracy=0.9, speakers=30)  # type: ignore[arg-type]

    def check(self) -> None:
        pass

    def __call__(self, wave: Waveform) -> NDArray[np.float32]:
        width = 0.1 if self.trained_on == "original" else 0.15
        centers = np.linspace(np.log(70.0), np.log(300.0), self.dimension)
        return np.asarray(np.exp(-0.5 * ((mean_f0(wave.samples)[0] - centers) / width) ** 2), dtype=np.float32)


@dataclass(frozen=True)
class Counter:
    """Return a word for each fifth of the audio, chosen by its number of zero crossings."""

    rate, minimum = 16000, 0.05

    def fingerprint(self) -> str:
        return "counter 1"

    def __call__(self, wave: Waveform) -> str:
        parts = np.array_split(np.signbit(wave.samples), 5)
        crossings = [int(np.diff(part.astype(int)).__abs__().sum()) for part in parts]
        return " ".join(WORDS[count % len(WORDS)] for count in crossings)


@encoders.register("bumps")
def _encoder(argument: str | None) -> Bumps:
    return Bumps("bumps-anon", "anonymized") if argument == "anon" else Bumps("bumps")


@recognizers.register("counter")
def _recognizer(model: str, *, online: bool = False) -> Counter:
    return Counter()


@cache
def _voice(speaker: int, index: int, seconds: float) -> Waveform:
    return synthetic_voice(speaker, index, seconds=seconds)


def make_set(data: Path, name: str, spoken: list[Utterance], trials: Trials | None = None) -> None:
    """Write a Kaldi directory and its audio; utterances have different lengths."""
    for index, utterance in enumerate(spoken):
        save(utterance.path, _voice(int(utterance.speaker or 0), index, 0.5 + 0.05 * (index % 7)))
    write_kaldi(Corpus(name, tuple(spoken), trials), data / name)


def spoken(data: Path, name: str, speakers: list[int], count: int, gender: str, role: str = "") -> list[Utterance]:
    """Return the utterances of a set, whose audio `make_set` writes."""
    # Each set has chapters of its own: the ids of enrollment and trials differ, as in LibriSpeech.
    chapter = 100 + sorted(SETS).index(name)
    return [
        Utterance(
            f"{s}-{chapter}-{i:04d}",
            data / "audio" / name / f"{s}-{i}.wav",
            speaker=str(s),
            gender=gender,
            text=" ".join(WORDS[(s + i + k) % 7] for k in range(5)),
            role=role,
        )
        for s in speakers
        for i in range(count)
    ]


def make_challenge(data: Path, *, only: tuple[str, ...] = ("dev", "test", "emotion", "train"), count: int = 3) -> Path:
    """Write the sets of the 2024 challenge, or some of them; ``count``: trial utterances of each speaker."""
    for split, first in (("dev", 10), ("test", 40)):
        if split not in only:
            continue
        speakers = {"f": [first + k for k in range(4)], "m": [first + 10 + k for k in range(4)]}
        name = f"libri_{split}_enrolls"
        make_set(data, name, [u for g in "fm" for u in spoken(data, name, speakers[g], 2, g, "enroll")])
        for gender in "fm":
            name = f"libri_{split}_trials_{gender}"
            heard = spoken(data, name, speakers[gender], count, gender, "trial")
            pairs = [(str(s), u.id, str(s) == u.speaker) for s in speakers[gender] for u in heard]
            columns = [np.array(column) for column in zip(*pairs, strict=True)]
            make_set(data, name, heard, Trials(columns[0], columns[1], columns[2]))
    for split, first in (("dev", 70), ("test", 80)) if "emotion" in only else ():
        emotional = [
            Utterance(f"{s}-{e}", data / "audio" / f"IEMOCAP_{split}" / f"{s}-{e}.wav", speaker=str(s), gender="f",
                      emotion=e, fold=str(s - first + 1))
            for s in range(first, first + 3)
            for e in ("ang", "hap", "neu", "sad")
        ]  # fmt: skip
        make_set(data, f"IEMOCAP_{split}", emotional)
    if "train" in only:
        make_set(data, "train-clean-360", spoken(data, "train-clean-360", [90, 91], 2, "f"))
    return data


def make_mixed(data: Path, split: str) -> None:
    """Write ``libri_<split>_trials_mixed`` of 2026 from the trial sets of women and men."""
    parts = [open_corpus(data / f"libri_{split}_trials_{gender}") for gender in "fm"]
    spoken = tuple(utterance for part in parts for utterance in part)
    enrolled = open_corpus(data / f"libri_{split}_enrolls").speakers()
    name = f"libri_{split}_trials_mixed"
    write_kaldi(Corpus(name, spoken, product_trials(enrolled, spoken)), data / name)
