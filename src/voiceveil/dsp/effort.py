"""Vocal effort: how far a voice is raised or lowered, heard in the balance of its spectrum and not in its level.

Who speaks up does not only speak louder: the middle of the spectrum grows by more than the level does, its lowest part
by less (Nordenberg and Sundberg, "Effect on LTAS of vocal loudness variation", 2004). By how much was measured on read
speech, LibriSpeech, over the voiced frames of each recording; and so were the usual balance and how far recordings of
different speakers are from it (`scripts/measure_effort.py` prints the tables).

Conventions: 16 kHz; frames of 160 samples, frame ``j`` centered at sample 160 j + 80. A balance is the mean level of 20
bands in dB, equally spaced in mel from 60 to 4,500 Hz, about the mean of the bands. Effort is in deviations between
recordings, 0 for what is usual.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.audio import Samples
from voiceveil.dsp.kaldi import Framing, fbank

__all__ = ["balance", "effort", "raised", "voiced_levels"]

Array = NDArray[np.float64]
RATE, BANDS, LOWEST, HIGHEST = 16000, 20, 60.0, 4500.0
_FRAMING = Framing(window="hann", preemphasis=0.0, snip_edges=False)
#: dB: what is so far below the loud frames (their 95th percentile) is none of the voice. Voiced frames that are needed.
_DEPTH, _FEWEST = 30.0, 20
#: dB that a band is changed by at most.
_MOST = 20.0

#: Samples of silence behind a recording, so that the end of a filter does not ring at its beginning.
_REACH = 2048

#: The mean balance of recordings, dB.
USUAL = np.array(
    (
        (11.81, 15.08, 13.49, 12.98, 11.15, 7.06, 3.02, -0.44, -2.53, -3.87),
        (-4.10, -3.75, -4.44, -5.51, -6.00, -6.26, -7.29, -8.70, -10.13, -11.57),
    )
).ravel()
#: What a balance changes by with one deviation of effort, dB.
STEP = np.array(
    (
        (-5.25, -2.88, -1.91, -0.55, 1.12, 1.89, 2.00, 1.75, 1.51, 1.32),
        (1.06, 0.82, 0.54, 0.25, 0.01, -0.15, -0.08, 0.00, -0.33, -1.10),
    )
).ravel()


def _mel(hertz: ArrayLike) -> Array:
    return np.asarray(np.log1p(np.asarray(hertz, dtype=np.float64) / 700.0))


def voiced_levels(samples: Samples, voiced: NDArray[np.bool_]) -> Array:
    """Levels in dB (n, 20) of the voiced frames that are loud enough; ``voiced`` (T,) is of the frames of synthesis."""
    bands = 10 / np.log(10) * fbank(samples, _FRAMING, bins=BANDS, low=LOWEST, high=HIGHEST).astype(np.float64)
    frames = min(len(bands), len(voiced))
    bands = bands[:frames]
    loudness = bands.max(axis=1, initial=-np.inf)
    loud = loudness > np.percentile(loudness, 95) - _DEPTH if frames else voiced[:0]
    return np.asarray(bands[loud & voiced[:frames]])


def balance(samples: Samples, voiced: NDArray[np.bool_]) -> Array | None:
    """Return the balance (20,) of the voice in some samples; None if there is too little of it."""
    levels = voiced_levels(samples, voiced)
    if len(levels) < _FEWEST:
        return None
    mean = levels.mean(axis=0)
    return np.asarray(mean - mean.mean())


def effort(balance: Array) -> float:
    """How far a balance is from the usual, along the way in which effort changes it."""
    return float((balance - USUAL) @ STEP / (STEP @ STEP))


def raised(samples: Samples, by: float) -> Samples:
    """Samples (N,) of a voice that is raised by so many deviations of effort, or lowered: a filter without delay."""
    if by == 0:
        return samples
    size = len(samples) + _REACH
    at = _mel(np.fft.rfftfreq(size, 1 / RATE))
    gains = np.interp(at, np.linspace(_mel(LOWEST), _mel(HIGHEST), BANDS + 2)[1:-1], np.clip(by * STEP, -_MOST, _MOST))
    made = np.fft.irfft(np.fft.rfft(samples, size) * 10 ** (gains / 20), size)[: len(samples)]
    return np.asarray(made, dtype=np.float32)
