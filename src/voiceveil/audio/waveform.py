"""Mono audio in memory: :class:`Waveform`, resampling, conversion to PCM.

Conventions: samples are float32, mono, nominally in [-1, 1], shape (n,); rates are in Hz.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.errors import InputError

__all__ = ["Samples", "Waveform", "check_waveform", "in_channels", "mix_down", "resample", "round_to_pcm", "to_int16"]

Samples = NDArray[np.float32]


@dataclass(frozen=True, repr=False)
class Waveform:
    """Mono audio; in a notebook it shows a player.

    Parameters
    ----------
    samples
        Floating-point samples of shape (n,), nominally in [-1, 1]; kept as float32.
    rate
        Sampling rate in Hz.

    Examples
    --------
    >>> Waveform(np.zeros(8000), 16000).duration
    0.5
    """

    samples: Samples
    rate: int

    def __post_init__(self) -> None:
        samples = np.asarray(self.samples)
        if samples.ndim != 1:
            raise InputError(f"a waveform has one dimension, not shape {samples.shape}")
        if not np.issubdtype(samples.dtype, np.floating):
            raise InputError(f"samples are floats in [-1, 1], not {samples.dtype}", fix="divide int16 by 32768")
        if samples.dtype != np.float32:
            samples = samples.astype(np.float32)
        if not (self.rate > 0 and self.rate % 1 == 0):
            raise InputError(f"a sampling rate is a positive whole number of Hz, not {self.rate}")
        object.__setattr__(self, "samples", samples)
        object.__setattr__(self, "rate", int(self.rate))

    def __len__(self) -> int:
        return len(self.samples)

    def __repr__(self) -> str:
        return f"Waveform({self.duration:.3f} s, {self.rate} Hz)"

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.rate

    def resampled(self, rate: int) -> Waveform:
        """Return this audio at ``rate`` Hz (soxr, very high quality), or itself if it has that rate already."""
        return self if rate == self.rate else Waveform(resample(self.samples, self.rate, rate), rate)

    def _repr_html_(self) -> str:
        """Return an audio player that holds the recording as 16-bit WAV."""
        import base64

        text = f"{self.duration:.2f} s, {self.rate} Hz"
        if not len(self) or not np.isfinite(self.samples).all():
            return f"<p>{text}: nothing to play</p>"
        data = base64.b64encode(_wav_bytes(self)).decode()
        return f'<audio controls src="data:audio/wav;base64,{data}"></audio><p>{text}</p>'

    def int16(self) -> NDArray[np.int16]:
        """Return the samples as 16-bit PCM, rounded to the nearest step of 1/32768 and clipped to [-1, 1)."""
        return to_int16(self.samples)


def check_waveform(wave: object) -> None:
    """Raise ``InputError`` unless ``wave`` is a :class:`Waveform`; say what to do with a numpy array."""
    if isinstance(wave, Waveform):
        return
    if isinstance(wave, np.ndarray):
        raise InputError(
            f"a numpy array of shape {wave.shape} was given, which has no sampling rate",
            fix="give voiceveil.Waveform(samples, rate)",
        )
    raise InputError(f"a Waveform is needed, not {type(wave).__name__}", fix="read one with voiceveil.load(path)")


def _wav_bytes(wave: Waveform) -> bytes:
    """Return the recording as a WAV file, 16-bit PCM."""
    import soundfile

    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", wave.rate, 1, "PCM_16", format="WAV") as file:
        file.write(wave.int16())
    return buffer.getvalue()


def to_int16(samples: NDArray[Any]) -> NDArray[np.int16]:
    """Return float samples as 16-bit PCM, rounded to the nearest step of 1/32768 and clipped to [-1, 1)."""
    return round_to_pcm(samples, 16).astype(np.int16)


def round_to_pcm(samples: NDArray[Any], bits: int) -> NDArray[Any]:
    """Return float samples in steps of PCM of ``bits`` bits: rounded (ties to even) and clipped, still as floats."""
    full = 2.0 ** (bits - 1)
    return np.clip(np.rint(samples * full), -full, full - 1)


def resample(samples: ArrayLike, rate: int, new_rate: int) -> Samples:
    """Return samples (n,) resampled to ``new_rate`` Hz; the length is ``round(n * new_rate / rate)`` +- 1."""
    import soxr

    if not (rate > 0 and new_rate > 0):
        raise InputError(f"cannot resample from {rate} to {new_rate} Hz")
    array = np.asarray(samples, dtype=np.float32)
    if rate == new_rate or len(array) == 0:
        return array
    return np.asarray(soxr.resample(array, rate, new_rate, quality="VHQ"), dtype=np.float32)


def mix_down(frames: NDArray[np.float32]) -> Samples:
    """Average the channels: ``(n, channels)`` to ``(n,)``."""
    return frames[:, 0] if frames.shape[1] == 1 else frames.mean(axis=1, dtype=np.float32)


def in_channels(samples: NDArray[np.float32], channels: int) -> NDArray[np.float32]:
    """Return samples (n,) or (n, 1) in so many channels, (n, channels); frames (n, channels) as they are."""
    frames = samples[:, np.newaxis] if samples.ndim == 1 else samples
    if frames.shape[1] not in (1, channels):
        raise InputError(f"{frames.shape[1]} channels cannot be written to a file of {channels}")
    return frames if frames.shape[1] == channels else np.repeat(frames, channels, axis=1)
