"""Vocal effort: how far a voice is raised or lowered, measured by spectral balance and not by level.

Raising the voice changes more than its level: the middle of the spectrum grows by more than the level does, its lowest
part by less (Nordenberg and Sundberg, "Effect on LTAS of vocal loudness variation", 2004). The amounts, the mean
balance and its spread between recordings of different speakers were measured over the voiced frames of read speech,
LibriSpeech (`scripts/measure_effort.py` prints the tables).

Conventions: 16 kHz; frames of 160 samples, frame ``j`` centered at sample 160 j + 80. A spectral balance is the mean
level of 20 bands in dB, equally spaced in mel from 60 to 4,500 Hz, minus the mean over the bands. Effort is a z-score
between recordings.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.audio import Samples
from voiceveil.dsp.kaldi import Framing, MelBands, fbank

__all__ = ["change_effort", "spectral_balance", "vocal_effort", "voiced_levels"]

Array = NDArray[np.float64]
RATE, BANDS, LOWEST, HIGHEST = 16000, 20, 60.0, 4500.0
_FRAMING = Framing(window="hann", preemphasis=0.0, snip_edges=False)
_MEL = MelBands(BANDS, LOWEST, HIGHEST)
#: Frames more than this many dB below the loud ones (their 95th percentile) are ignored.
_DYNAMIC_RANGE = 30.0
#: Smallest number of voiced frames.
_FEWEST = 20
#: Largest change of a band in dB.
_LARGEST_GAIN = 20.0
#: Samples of silence appended before filtering, so that the filter does not wrap around.
_PADDING = 2048

#: Mean spectral balance of recordings in dB.
MEAN_BALANCE = np.array(
    (
        (11.81, 15.08, 13.49, 12.98, 11.15, 7.06, 3.02, -0.44, -2.53, -3.87),
        (-4.10, -3.75, -4.44, -5.51, -6.00, -6.26, -7.29, -8.70, -10.13, -11.57),
    )
).ravel()
#: Change of the balance in dB with one standard deviation of effort.
EFFORT_STEP = np.array(
    (
        (-5.25, -2.88, -1.91, -0.55, 1.12, 1.89, 2.00, 1.75, 1.51, 1.32),
        (1.06, 0.82, 0.54, 0.25, 0.01, -0.15, -0.08, 0.00, -0.33, -1.10),
    )
).ravel()


def _mel(hertz: ArrayLike) -> Array:
    return np.asarray(np.log1p(np.asarray(hertz, dtype=np.float64) / 700.0))


def voiced_levels(samples: Samples, voiced: NDArray[np.bool_]) -> Array:
    """Return the levels in dB (n, 20) of voiced frames that are loud enough; ``voiced`` (T,) marks voiced frames."""
    bands = 10 / np.log(10) * fbank(samples, _FRAMING, _MEL).astype(np.float64)
    frames = min(len(bands), len(voiced))
    bands = bands[:frames]
    loudness = bands.max(axis=1, initial=-np.inf)
    loud = loudness > np.percentile(loudness, 95) - _DYNAMIC_RANGE if frames else voiced[:0]
    return np.asarray(bands[loud & voiced[:frames]])


def spectral_balance(samples: Samples, voiced: NDArray[np.bool_]) -> Array | None:
    """Return the spectral balance (20,) of the voiced frames; None if they are too few."""
    levels = voiced_levels(samples, voiced)
    if len(levels) < _FEWEST:
        return None
    mean = levels.mean(axis=0)
    return np.asarray(mean - mean.mean())


def vocal_effort(balance: Array) -> float:
    """Return the effort of a spectral balance (20,): its deviation from the mean, projected on the effect of effort."""
    return float((balance - MEAN_BALANCE) @ EFFORT_STEP / (EFFORT_STEP @ EFFORT_STEP))


def change_effort(samples: Samples, amount: float) -> Samples:
    """Return samples (N,) whose effort is raised by ``amount`` standard deviations: a zero-phase filter."""
    if amount == 0:
        return samples
    size = len(samples) + _PADDING
    mel = _mel(np.fft.rfftfreq(size, 1 / RATE))
    centers = np.linspace(_mel(LOWEST), _mel(HIGHEST), BANDS + 2)[1:-1]
    gains = np.interp(mel, centers, np.clip(amount * EFFORT_STEP, -_LARGEST_GAIN, _LARGEST_GAIN))
    filtered = np.fft.irfft(np.fft.rfft(samples, size) * 10 ** (gains / 20), size)[: len(samples)]
    return np.asarray(filtered, dtype=np.float32)
