"""Formants, F0 and speaking rate of a voice, as medians over a recording.

Conventions: samples are floats of shape (n,) in [-1, 1]; frequencies in Hz; rates in syllables per second. Formants are
poles of linear prediction (order 12 of speech below 5.5 kHz, or 5 kHz for low voices, as Praat's manual advises; Markel
and Gray 1976) in voiced frames of 50 ms; the k-th formant of a voice is the median over its frames. Syllables are
voiced peaks of loudness (de Jong and Wempe 2009).

For whispered speech and very high voices, whose voiced frames do not show formants, they are measured in all loud
frames, and if these do not show them either, they are those of a uniform tube of 17.5 cm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, resample
from voiceveil.dsp.pitch import PERIODS, PitchTrack, track_pitch

__all__ = ["COUNT", "NEUTRAL_FORMANTS", "Voice", "lpc_from_power", "measure_voice", "resonance_spacing"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Number of formants, and the sampling rates in Hz at which a low and a high voice have just these.
COUNT, _LOW_VOICE_RATE, _HIGH_VOICE_RATE = 5, 10000, 11000
#: F0 in Hz above which a voice is high.
_HIGH_VOICE = 150.0
#: Resonances in Hz of a uniform tube of 17.5 cm.
NEUTRAL_FORMANTS = tuple(500.0 * (2 * k + 1) for k in range(COUNT))
_WINDOW, _ORDER = 0.05, 12  # seconds
#: Smallest number of frames for a median, and largest: more take time and do not change it.
_FEWEST, _MOST = 5, 300
#: Largest bandwidth of a formant in Hz.
_WIDEST = 700.0
_FLOOR, _CEILING = 60.0, 500.0
#: In dB: frames this far below the loudest are pauses; dips between syllables are at least this deep.
_PAUSE, _DIP = 25.0, 2.0


class Voice(NamedTuple):
    """Medians over a recording: ``f0`` (0: not voiced) and ``formants`` F1 to F5 in Hz, ``rate`` in syllables/s."""

    f0: float
    formants: tuple[float, ...]
    rate: float


def measure_voice(samples: Samples, rate: int) -> tuple[Voice | None, PitchTrack | None]:
    """Return the voice of a recording and its F0 track; both are None if it is shorter than about 60 ms."""
    if len(samples) < (PERIODS / _FLOOR + 0.01) * rate:
        return None, None
    track = track_pitch(samples, rate, floor=_FLOOR, ceiling=_CEILING)
    voiced = np.flatnonzero(track.f0 > 0)
    f0 = float(np.median(track.f0[voiced])) if len(voiced) >= _FEWEST else 0.0
    formants = _formants(samples, rate, track, voiced, f0) if f0 else None
    if formants is None:
        formants = _formants(samples, rate, track, np.flatnonzero(_is_loud(samples, rate, track)), f0)
    return Voice(f0, formants or NEUTRAL_FORMANTS, _syllables(samples, rate, track, f0 > 0)), track


def resonance_spacing(formants: tuple[float, ...]) -> float:
    """Return half the spacing in Hz of the resonances of the best-fitting uniform tube: F_k = (2 k - 1) times it.

    It is the speed of sound divided by four times the length of the vocal tract.
    """
    odd = 2.0 * np.arange(len(formants)) + 1
    return float(odd @ np.array(formants) / (odd @ odd))


def _formants(samples: Samples, rate: int, track: PitchTrack, chosen: Index, f0: float) -> tuple[float, ...] | None:
    """Return the medians of F1 to F5 over the chosen frames of the track; None if fewer than five frames have them."""
    slow = _HIGH_VOICE_RATE if f0 > _HIGH_VOICE or not f0 else _LOW_VOICE_RATE
    low, width = resample(samples, rate, slow).astype(np.float64), round(_WINDOW * slow)
    flat = np.append(low[:1], low[1:] - 0.97 * low[:-1])
    chosen = chosen[:: max(1, -(-len(chosen) // _MOST))]
    starts = np.rint((track.first + chosen * track.step) * slow).astype(np.int64) - width // 2
    starts = starts[(starts >= 0) & (starts <= len(flat) - width)]
    frames = flat[starts[:, None] + np.arange(width)] * np.hanning(width)
    predictors = lpc_from_power(np.abs(np.fft.rfft(frames, 2 * width, axis=1)) ** 2, _ORDER)
    companion = np.zeros((len(frames), _ORDER, _ORDER))
    companion[:, 0] = -predictors[:, 1:]
    companion[:, np.arange(1, _ORDER), np.arange(_ORDER - 1)] = 1
    poles = np.linalg.eigvals(companion)
    frequency = np.angle(poles) * slow / (2 * np.pi)
    bandwidth = -np.log(np.maximum(np.abs(poles), 1e-9)) * slow / np.pi
    plausible = (frequency > 90) & (frequency < slow / 2 - 50) & (bandwidth < _WIDEST)
    rows = np.sort(np.where(plausible, frequency, np.inf), axis=1)[:, :COUNT]
    rows = rows[np.isfinite(rows).all(axis=1)]
    return tuple(np.median(rows, axis=0).tolist()) if len(rows) >= _FEWEST else None


def lpc_from_power(powers: Array, order: int) -> Array:
    """Return linear predictors (frames, order + 1) of power spectra (frames, bins), by the Levinson recursion."""
    lags = np.fft.irfft(powers, axis=1)[:, : order + 1]
    lags[:, 0] = lags[:, 0] * (1 + 1e-9) + 1e-12
    predictor = np.zeros_like(lags)
    predictor[:, 0] = 1
    error = lags[:, 0].copy()
    for i in range(1, order + 1):
        reflection = -np.einsum("nj,nj->n", predictor[:, :i], lags[:, i:0:-1]) / error
        predictor[:, 1 : i + 1] += reflection[:, None] * predictor[:, i - 1 :: -1][:, :i]
        error *= 1 - reflection**2
    return predictor


def _loudness(samples: Samples, rate: int) -> Array:
    """Return the loudness in dB of every 10 ms, smoothed."""
    energy = np.add.reduceat(np.square(samples, dtype=np.float64), np.arange(0, len(samples), rate // 100))
    return np.asarray(10 * np.log10(np.maximum(np.convolve(energy, np.hanning(9)[1:-1], mode="same"), 1e-12)))


def _is_loud(samples: Samples, rate: int, track: PitchTrack) -> NDArray[np.bool_]:
    """Return which frames of the track are no pauses."""
    loudness = _loudness(samples, rate)
    positions = np.rint(100 * (track.first + track.step * np.arange(len(track.f0)))).astype(np.int64)
    return np.asarray(loudness[np.clip(positions, 0, len(loudness) - 1)] > loudness.max() - _PAUSE)


def _syllables(samples: Samples, rate: int, track: PitchTrack, is_voiced: bool) -> float:
    """Return the peaks of loudness (voiced ones if ``is_voiced``) per second without pauses, between 1 and 10."""
    from scipy.signal import find_peaks

    loudness = _loudness(samples, rate)
    loud = loudness > loudness.max() - _PAUSE
    peaks, _ = find_peaks(loudness, height=loudness.max() - _PAUSE, prominence=_DIP)
    frames = np.clip(np.rint((peaks / 100 - track.first) / track.step).astype(np.int64), 0, len(track.f0) - 1)
    counted = (track.f0[frames] > 0).sum() if is_voiced else len(peaks)
    return float(np.clip(counted / max(0.3, loud.sum() / 100), 1, 10))
