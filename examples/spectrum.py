"""An example speaker encoder: the long-term average spectrum. It knows little of voices and much of microphones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceveil.attack import SpeakerEncoder, encoders
from voiceveil.audio import Waveform
from voiceveil.models.speaker.encoders import Embedding


@dataclass(frozen=True)
class Spectrum(SpeakerEncoder):
    """Levels of 24 frequency bands in dB, minus their mean."""

    name: ClassVar[str] = "spectrum"
    rate: ClassVar[int] = 16000  # Hz
    minimum: ClassVar[float] = 0.1  # seconds
    dimension: ClassVar[int] = 24

    def fingerprint(self) -> str:
        """Return a text that changes whenever an embedding would: version, hash of the weights."""
        return "spectrum 1"

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the embedding of one utterance, shape (24,)."""
        power = np.abs(np.fft.rfft(wave.samples)) ** 2
        levels = 10 * np.log10([band.mean() + 1e-10 for band in np.array_split(power, self.dimension)])
        return np.asarray(levels - levels.mean(), dtype=np.float32)


@encoders.register("spectrum")
def make_spectrum(argument: str | None) -> Spectrum:
    """Return the encoder; ``argument`` is the part after the colon of ``spectrum:ARGUMENT``."""
    return Spectrum()
