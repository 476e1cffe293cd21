"""Detection of signals without speech of their own: silence, noise, copies of another signal.

Conventions: samples are float32 of shape (n,) in [-1, 1] at ``RATE`` Hz. Levels are in dB. The functions give the
figures, measured on speech and on degenerate signals, that the thresholds are based on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "RATE",
    "band_levels",
    "is_noise",
    "is_silent",
    "level_correlation",
    "max_correlation",
    "same_signal",
    "spectral_change",
]

#: Sampling rate in Hz that all functions expect.
RATE = 16000

Samples = NDArray[np.float32]

_SILENT = -60.0  # dBFS, RMS
_ZERO = 2.0**-16  # half a step of 16-bit PCM
_FRAME = 1024  # 64 ms
_BANDS = np.array([200, 400, 630, 920, 1270, 1720, 2320, 3150, 4400, 6400])  # Hz, edges
_CHANGE = 2.4
_SEGMENT, _EDGE = 2.0, 0.5  # seconds
_SAME = 0.95
_HOP = 320  # 20 ms
_LEVEL_BANDS = np.array([200, 900, 2500, 7000])  # Hz, edges
_LAGS = range(-5, 6)  # hops


def is_silent(samples: Samples) -> bool:
    """Return whether the RMS is below -60 dBFS, or 99% of the samples are zero in 16 bits."""
    power = float(np.square(samples, dtype=np.float64).mean()) if len(samples) else 0.0
    return power < 10 ** (_SILENT / 10) or float((np.abs(samples) < _ZERO).mean()) > 0.99


def spectral_change(samples: Samples) -> float:
    """Return how much the shape of the spectrum changes over time, in dB; infinite for silence or less than 0.5 s.

    It is the standard deviation over time of the log energies of nine bands from 200 to 6400 Hz relative to their mean,
    in frames of 64 ms within 30 dB of the loudest: the second largest of the nine.
    """
    count = len(samples) // (_FRAME // 2) - 1
    if count < RATE // _FRAME:
        return np.inf
    frames = np.lib.stride_tricks.sliding_window_view(samples, _FRAME)[:: _FRAME // 2]
    power = np.abs(np.fft.rfft(frames * np.hanning(_FRAME), axis=1)) ** 2
    edges = (_BANDS * _FRAME / RATE).astype(int)
    bands = np.add.reduceat(power, edges, axis=1)[:, :-1]
    total = bands.sum(axis=1)
    active = bands[total > 1e-3 * np.percentile(total, 95)]
    if not len(active):
        return np.inf
    decibels = 10 * np.log10(np.maximum(active, 1e-12 * total.max() + 1e-30))
    shape = decibels - decibels.mean(axis=1, keepdims=True)
    return float(np.sort(shape.std(axis=0))[-2])


def is_noise(samples: Samples) -> bool:
    """Return whether the spectrum keeps its shape, as that of noise or of a steady tone does and speech does not.

    Noise of any color has a change of 1.8 dB at most, noise with the mean spectrum of speech or its loudness 2.3 dB.
    Speech has 5.3 dB or more (4.1 dB in single digits), whispered speech 5.6, the outputs of the systems 5.4 (4.4 in
    single digits); speech in noise that is as loud has 2.5.
    """
    return spectral_change(samples) < _CHANGE


def max_correlation(samples: Samples, other: Samples) -> float:
    """Return the largest absolute correlation of a part of a signal with any part of another, 0 to 1.

    The part is the loudest two seconds (two thirds of a shorter signal) away from the edges. Both signals are limited
    to 300 to 3000 Hz. Gain and polarity do not matter.
    """
    from scipy.signal import correlate

    size = min(int(_SEGMENT * RATE), 2 * len(samples) // 3)
    if size < RATE // 10:
        return 0.0
    whole, searched = _voice_band(samples), _voice_band(other)
    energy = np.concatenate([[0.0], np.cumsum(np.square(whole))])
    loudness = energy[size:] - energy[:-size]
    margin = min(int(_EDGE * RATE), len(loudness) // 3)  # a copy may lack the edges
    start = margin + int(loudness[margin : len(loudness) - margin].argmax())
    part = whole[start : start + size]
    searched = np.pad(searched, (0, max(size - len(searched), 0)))
    sums = np.concatenate([[0.0], np.cumsum(np.square(searched))])
    local = sums[size:] - sums[:-size]
    products = correlate(searched, part, mode="valid", method="fft")
    scale = np.sqrt(np.maximum(local, 1e-6 * local.max()) * np.dot(part, part))
    return float(np.abs(products / scale).max()) if scale.max() > 0 else 0.0


def same_signal(samples: Samples, other: Samples) -> bool:
    """Return whether one signal is a copy of the other: scaled, shifted, encoded anew, or played backwards.

    Copies of speech have a maximum correlation of 0.98 or more (MP3, Ogg, mu-law, 8 bits, noise at 20 dB, clipping),
    the outputs of the systems 0.67 at most (0.85 in single digits), McAdams' coefficient 0.9 up to 0.84, other
    utterances 0.16.
    """
    return max_correlation(samples, other) > _SAME or max_correlation(samples, other[::-1]) > _SAME


def band_levels(samples: Samples) -> NDArray[np.float64]:
    """Return the levels in dB of three bands from 200 to 7000 Hz every 20 ms, shape (3, frames).

    Levels more than 40 dB below the loud frames of a band count as 40 dB below.
    """
    if len(samples) < _FRAME:
        return np.zeros((len(_LEVEL_BANDS) - 1, 0))
    frames = np.lib.stride_tricks.sliding_window_view(samples, _FRAME)[::_HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(_FRAME), axis=1)) ** 2
    bands = np.add.reduceat(power, _LEVEL_BANDS * _FRAME // RATE, axis=1)[:, :-1].T
    floor = 1e-4 * np.percentile(bands, 95, axis=1, keepdims=True) + 1e-12
    return np.asarray(10 * np.log10(np.maximum(bands, floor)))


def level_correlation(levels: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the correlation over time of two results of :func:`band_levels`, shifted by up to 0.1 s; -1 to 1.

    It is 0 for signals whose lengths differ by more than a quarter. An utterance and its anonymized version have 0.89
    or more with systems that keep the timing (b2, d1, b1b), 0.23 to 0.86 with veil, which changes it. Different
    utterances have 0.66 at most.
    """
    best = 0.0
    for lag in _LAGS:
        a, b = levels[:, max(lag, 0) :], other[:, max(-lag, 0) :]
        size = min(a.shape[1], b.shape[1])
        if size == 0 or size < 0.75 * max(a.shape[1], b.shape[1]):
            continue
        a, b = (x[:, :size] - x[:, :size].mean(axis=1, keepdims=True) for x in (a, b))
        scale = float(np.sqrt(np.square(a).sum() * np.square(b).sum()))
        best = max(best, float((a * b).sum()) / scale if scale > 0 else 0.0)
    return best


def _voice_band(samples: Samples) -> NDArray[np.float64]:
    """Return the band from 300 to 3000 Hz, which codecs, telephones and high-pass filters preserve."""
    # in double precision: sums over the recording are subtracted from each other
    spectrum = np.fft.rfft(samples.astype(np.float64), len(samples) + 1024)
    hertz = np.linspace(0, RATE / 2, len(spectrum))
    return np.asarray(np.fft.irfft(np.where((hertz > 300) & (hertz < 3000), spectrum, 0.0))[: len(samples)])
