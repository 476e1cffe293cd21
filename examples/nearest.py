"""An example recognizer of single words: the word whose template recording sounds most alike."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform, load
from voiceveil.core.errors import InputError
from voiceveil.models import recognizers


@dataclass(frozen=True)
class Nearest:
    """Compare a recording with those of a folder, whose names are their words: ``SEVEN.wav``."""

    folder: str
    rate, minimum = 16000, 0.1  # Hz, seconds

    def fingerprint(self) -> str:
        """Return a text that changes whenever a transcript would: version, hash of the model."""
        content = b"".join(path.name.encode() + path.read_bytes() for path in sorted(Path(self.folder).glob("*.wav")))
        return f"nearest 1 {hashlib.sha256(content).hexdigest()}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript of one utterance."""
        spectra = spectrogram(wave)
        templates = read_templates(self.folder)  # once in each process
        return min(templates, key=lambda word: float(np.abs(templates[word] - spectra).mean()))


def spectrogram(wave: Waveform) -> NDArray[np.float64]:
    """Return the levels in dB of 20 bands in 10 stretches of equal length, minus their mean, shape (10, 20)."""
    power = [np.abs(np.fft.rfft(stretch)) ** 2 for stretch in np.array_split(wave.samples, 10)]
    levels = 10 * np.log10([[band.mean() + 1e-6 for band in np.array_split(row, 20)] for row in power])
    return np.asarray(levels - levels.mean())


@lru_cache
def read_templates(folder: str) -> dict[str, NDArray[np.float64]]:
    """Return word -> spectrogram."""
    return {path.stem: spectrogram(load(path, rate=Nearest.rate)) for path in sorted(Path(folder).glob("*.wav"))}


@recognizers.register("nearest")
def make_nearest(model: str, *, online: bool = False) -> Nearest:
    """Return the recognizer; ``model`` is the part after the colon of ``nearest:FOLDER``."""
    if not any(Path(model).glob("*.wav")):
        raise InputError(f"no templates in {model!r}", fix="give a folder with files such as SEVEN.wav: nearest:FOLDER")
    return Nearest(model)
