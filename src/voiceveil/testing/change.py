"""Has a voice changed? Two measures of what an anonymizer has left of a recording as it was.

Conventions: samples are floats of shape (n,) at one rate; distances in dB. Both measures ignore gain, polarity and a
shift in time. A copy has a correlation of 1 and a distance of 0 dB. Correlation finds a signal that went through as it
is; the distance finds one that has the same resonances, hence the same vocal tract, in another waveform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.dsp.formants import lpc_from_power

__all__ = ["HIGHEST_CORRELATION", "LEAST_DISTANCE", "correlation", "envelope_distance"]

#: An output that is more like its input than this has not changed.
HIGHEST_CORRELATION = 0.9
#: The least change of the envelope in dB, as a mean over draws. A whisper of the same speech with other noise, hence
#: of the same vocal tract, differs by 0.4 to 0.9 dB.
LEAST_DISTANCE = 1.5
_POINTS, _HOP, _ORDER = 512, 128, 18
_BAND = (100.0, 5500.0)  # Hz, where formants are

Array = NDArray[np.float64]


def correlation(before: NDArray[Any], after: NDArray[Any]) -> float:
    """Return the largest normalized cross-correlation of two signals over all lags, 0 to 1."""
    first, second = (np.asarray(side, dtype=np.float64) - np.mean(side) for side in (before, after))
    size = 1 << (len(first) + len(second)).bit_length()
    crossed = np.fft.irfft(np.fft.rfft(first, size) * np.conj(np.fft.rfft(second, size)), size)
    return float(np.abs(crossed).max() / max(1e-12, float(np.sqrt((first @ first) * (second @ second)))))


def envelope_distance(before: NDArray[Any], after: NDArray[Any], rate: int) -> float:
    """Return the RMS difference in dB of the mean spectral envelopes of two signals from 100 to 5500 Hz."""
    difference = _envelope(before, rate) - _envelope(after, rate)
    return float(np.sqrt(np.mean((difference - difference.mean()) ** 2)))


def _envelope(samples: NDArray[Any], rate: int) -> Array:
    """Return the envelope in dB of the long-term average spectrum."""
    frames = np.lib.stride_tricks.sliding_window_view(np.asarray(samples, dtype=np.float64), _POINTS)[::_HOP]
    powers = np.mean(np.abs(np.fft.rfft(frames * np.hanning(_POINTS), axis=1)) ** 2, axis=0, keepdims=True)
    predictor = lpc_from_power(powers / max(1e-12, float(powers.max())), _ORDER)[0]
    frequencies = np.fft.rfftfreq(_POINTS, 1 / rate)
    inside = (frequencies >= _BAND[0]) & (frequencies <= _BAND[1])
    return np.asarray(-20 * np.log10(np.abs(np.fft.rfft(predictor, _POINTS))[inside]))
