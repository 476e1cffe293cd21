"""A small corpus of synthetic voices that say "words", and small models that recognize speakers and words.

A word is two vowels; a speaker has a pitch and a vocal tract; no two recordings are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.model_free import mean_f0
from voiceveil.audio import Waveform, save
from voiceveil.corpus import Corpus, Utterance, write_kaldi
from voiceveil.models.content.features import content_encoders
from voiceveil.models.speaker.encoders import TrainingRecord, encoders
from voiceveil.testing.voices import _VOWELS, _vowel

WORDS = {"a": (0, 2), "b": (1, 4), "c": (2, 0), "d": (3, 1), "e": (4, 3), "g": (0, 3)}


def say(speaker: int, word: str, repetition: int) -> Waveform:
    """Return a word of about a quarter of a second."""
    person = np.random.default_rng([speaker, 1])
    pitch = 90 + 8 * speaker if speaker < 12 else 190 + 6 * (speaker - 12)
    tract = person.uniform(0.95, 1.05) * (1.0 if speaker < 12 else 1.12)
    rng = np.random.default_rng([speaker, ord(word), repetition])
    pieces = []
    for vowel in WORDS[word]:
        length = int(16000 * rng.uniform(0.10, 0.14))
        fade = np.minimum(1, np.minimum(np.arange(length), np.arange(length)[::-1]) / 160)
        melody = pitch * rng.uniform(0.99, 1.01) * np.ones(length)
        sound = _vowel(melody, tract * _VOWELS[vowel], 16000, rng)
        pieces.append(fade * sound / np.abs(sound).max())
    samples = 0.1 * np.concatenate(pieces)
    return Waveform((samples + 1e-4 * rng.standard_normal(len(samples))).astype(np.float32), 16000)


def make_corpus(folder: Path, speakers: int = 24, repetitions: int = 5) -> Path:
    """Write a Kaldi directory with utt2phrase; the second half of the speakers are women."""
    utterances = []
    for s in range(speakers):
        gender = "m" if s < speakers // 2 else "f"
        number = s if s < speakers // 2 else 12 + s - speakers // 2
        for word in WORDS:
            for r in range(repetitions):
                path = folder / "audio" / f"s{s:02d}-{word}-{r}.wav"
                save(path, say(number, word, r))
                utterances.append(Utterance(path.stem, path, f"s{s:02d}", gender, text=word.upper(), phrase=word))
    write_kaldi(Corpus("words", tuple(utterances)), folder)
    phrases = "".join(f"{u.id} {u.phrase}\n" for u in utterances)
    (folder / "utt2phrase").write_text(phrases)
    return folder


@dataclass(frozen=True)
class Pitch:
    """Encode the mean pitch as bumps on the axis of log F0."""

    name: str = "pitch"
    family: str = "pitch"
    rate, minimum, dimension = 16000, 0.05, 32

    def fingerprint(self) -> str:
        return "tdsv test pitch 1"

    def training(self) -> TrainingRecord:
        return TrainingRecord()

    def check(self) -> None:
        pass

    def __call__(self, wave: Waveform) -> NDArray[np.float32]:
        centers = np.linspace(np.log(80.0), np.log(280.0), self.dimension)
        return np.asarray(np.exp(-0.5 * ((mean_f0(wave.samples)[0] - centers) / 0.06) ** 2), dtype=np.float32)


@dataclass(frozen=True)
class Bands:
    """Encode log energies of bands, normalized by the level."""

    rate: ClassVar[int] = 16000
    dimension: ClassVar[int] = 36
    hop: ClassVar[float] = 384.0
    offset: ClassVar[float] = 256.0
    minimum: ClassVar[float] = 0.05

    def fingerprint(self) -> str:
        return "tdsv test bands 1"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        frames = np.lib.stride_tricks.sliding_window_view(wave.samples, 512)[::384] * np.hanning(512)
        power = np.abs(np.fft.rfft(frames, axis=1)[:, 4:184]) ** 2
        bands = np.log(power.reshape(len(power), self.dimension, -1).sum(axis=2) + 1e-6)
        return np.asarray(bands - bands.mean(axis=1, keepdims=True), dtype=np.float16)


@encoders.register("tdsv-pitch")
def _encoder(argument: str | None) -> Pitch:
    return Pitch()


@content_encoders.register("tdsv-bands")
def _content(model: str) -> Any:
    return Bands()
