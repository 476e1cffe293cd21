"""Recordings whose words are tones, and a recognizer that understands them: every word is known to the sample.

A word is 0.4 s of a tone, between pauses of 0.3 s. The recognizer hears the word of a tone wherever it lasts 50 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.models import recognizers

RATE = 16000
#: Word -> frequency in Hz; none is that of the tone that covers words.
TONES = {"hello": 310.0, "Mary": 470.0, "lives": 630.0, "in": 790.0, "Berlin": 1270.0, "today": 1590.0}
WORD, PAUSE = 0.4, 0.3  # seconds


def speak(*words: str, rate: int = RATE) -> Samples:
    """Return the words, each behind a pause, and a pause at the end."""
    silence = np.zeros(round(PAUSE * rate), dtype=np.float32)
    time = np.arange(round(WORD * rate)) / rate
    parts = [silence]
    for word in words:
        parts += [(0.3 * np.sin(2 * np.pi * TONES[word] * time)).astype(np.float32), silence]
    return np.concatenate(parts)


def word_at(number: int) -> tuple[float, float]:
    """Return start and end in seconds of the ``number``-th word, from 0."""
    start = PAUSE + number * (WORD + PAUSE)
    return start, start + WORD


def heard(samples: Samples) -> list[tuple[str, float, float]]:
    """Return the words of a recording, with start and end in seconds."""
    hop = RATE // 50
    found: list[tuple[str, float, float]] = []
    for start in range(0, len(samples) - 2 * hop + 1, hop):
        part = samples[start : start + 2 * hop] * np.hanning(2 * hop)
        power = np.abs(np.fft.rfft(part, 4096)) ** 2
        if power.max() < 100:
            continue
        frequency = float(np.argmax(power)) * RATE / 4096
        word = next((word for word, tone in TONES.items() if abs(tone - frequency) < 40), None)
        if word is None:
            continue
        if found and found[-1][0] == word and start / RATE - found[-1][2] < 0.05:
            found[-1] = word, found[-1][1], (start + 2 * hop) / RATE
        else:
            found.append((word, start / RATE, (start + 2 * hop) / RATE))
    return [entry for entry in found if entry[2] - entry[1] > 0.05]


@dataclass(frozen=True)
class ToneRecognizer:
    """Writes the words of tones; ``shift``: seconds by which the times that it states are wrong; None: states none."""

    shift: float | None = 0.0
    rate: ClassVar[int] = RATE
    minimum: ClassVar[float] = 0.1

    def fingerprint(self) -> str:
        """Return a text that changes whenever a transcript would."""
        return f"tones {self.shift}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript."""
        return " ".join(word for word, _, _ in heard(wave.samples))

    def word_times(self, wave: Waveform, words: list[str]) -> list[tuple[float, float]] | None:
        """Return when the words are spoken."""
        found = heard(wave.samples)
        if self.shift is None or [word.lower() for word, _, _ in found] != [word.lower() for word in words]:
            return None
        return [(max(0.0, start + self.shift), max(0.01, end + self.shift)) for _, start, end in found]


@recognizers.register("tones")
def make_tones(model: str, *, online: bool = False) -> ToneRecognizer:
    """Return the recognizer; ``model``: its shift in seconds, or "none"."""
    return ToneRecognizer(None if model == "none" else float(model or 0))
