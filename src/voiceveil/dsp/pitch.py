"""Pitch tracking by autocorrelation: the method, and the default costs, of Praat.

P. Boersma, "Accurate short-term analysis of the fundamental frequency and the harmonics-to-noise ratio of a sampled
sound", IFA Proceedings 17, 1993.

Conventions: samples are floats of shape (n,); F0 is in Hz, 0 where unvoiced; frames are ``step`` seconds apart and
centered in the recording, so that frame k is at ``first + k * step`` seconds. The level of the recording does not
matter. All arithmetic is in float64.

Each frame has candidates: the peaks of its autocorrelation, divided by that of the window (eq. 9), and "unvoiced".
The track is the path through the candidates with the lowest cost; changes of octave and of voicing have costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError

__all__ = ["PERIODS", "PitchTrack", "track_pitch"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Length of the window in periods of the lowest F0.
PERIODS = 3.0
SILENCE, VOICING, OCTAVE, OCTAVE_JUMP, VOICED_UNVOICED = 0.03, 0.45, 0.01, 0.35, 0.14
#: Points per sample at which the autocorrelation is evaluated; peaks are refined by a parabola.
_FINER = 4
#: Frames that are processed at once.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class PitchTrack:
    """F0 and periodicity of every frame.

    Parameters
    ----------
    f0
        (frames,) in Hz, 0 where unvoiced.
    periodicity
        (frames,): the autocorrelation r at the chosen lag, 0 to 1, 0 where unvoiced. The harmonics-to-noise ratio in dB
        is ``10 log10(r / (1 - r))`` (eq. 4).
    first, step
        Frame k is centered at ``first + k * step`` seconds.
    """

    f0: Array
    periodicity: Array
    first: float
    step: float


def track_pitch(
    samples: ArrayLike, rate: int, *, floor: float = 75.0, ceiling: float = 500.0, step: float = 0.01
) -> PitchTrack:
    """Return the F0 track of a recording.

    Parameters
    ----------
    samples
        Signal (n,), at least three periods of ``floor`` long.
    rate
        Sampling rate in Hz.
    floor, ceiling
        Lowest and highest F0 in Hz.
    step
        Distance of frames in seconds.

    Raises
    ------
    InputError
        If a sample is not finite, the range is impossible, or the signal is too short.
    """
    signal = np.asarray(samples, dtype=np.float64)
    if not np.isfinite(signal).all():
        raise InputError("samples that are not finite have no pitch", fix="repair the recording")
    if not 0 < floor < ceiling <= rate / 2:
        raise InputError(f"impossible range of F0: {floor:g} to {ceiling:g} Hz at a rate of {rate} Hz")
    duration = len(signal) / rate
    frames = int((duration - PERIODS / floor) / step + 1e-9) + 1 if duration >= PERIODS / floor else 0
    if frames < 1:
        raise InputError(f"too short for a pitch: {duration:.3f} s", fix=f"give at least {PERIODS / floor:.3f} s")
    first = 0.5 * (duration - (frames - 1) * step)
    centers = np.floor((first + step * np.arange(frames)) * rate - 0.5).astype(np.int64) + 1
    count, frequency, strength, silence = _candidates(signal - signal.mean(), rate, centers, floor, ceiling)
    f0, periodicity = _cheapest_path(count, frequency, strength, silence, ceiling, 0.01 / step)
    return PitchTrack(f0, periodicity, first, step)


def _candidates(signal: Array, rate: int, centers: Index, floor: float, ceiling: float) -> tuple[Any, ...]:
    """Return the candidates of all frames.

    These are the number of voiced candidates (frames,), F0 and strength of all of them in order, and the strength of
    "unvoiced" (frames,).
    """
    half = int(PERIODS / floor * rate) // 2 - 1  # of the window, in samples
    period = int(rate / floor)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1, 2 * half + 1) / (2 * half + 1))
    length = 1 << int(np.ceil(np.log2(3 * half)))  # zeros for half a window: no lag of interest wraps around
    lags = _FINER * (period + 3)
    of_window = _autocorrelation(window[None], length, lags)[0]
    peak = np.abs(signal).max()
    padded = np.pad(signal, half + 1)
    counts, frequencies, strengths, silences = [], [], [], []
    for block in np.split(centers, range(_BLOCK, len(centers), _BLOCK)):
        around = padded[block[:, None] + (half + 1) + np.arange(-half, half)]
        local_mean = around[:, half - period : half + period].mean(axis=1, keepdims=True)
        shaped = (around - local_mean) * window
        local_peak = np.abs(shaped[:, half - period // 2 - 1 : half + period // 2 + 1]).max(axis=1)
        correlation = _autocorrelation(shaped, length, lags) / of_window
        frame, frequency, strength = _peaks(correlation, rate)
        kept = frequency <= ceiling
        loudness = local_peak / peak if peak > 0 else np.zeros(len(block))
        unvoiced = VOICING + np.maximum(0.0, 2.0 - loudness * (1 + VOICING) / SILENCE)  # eq. 23
        counts.append(np.bincount(frame[kept], minlength=len(block)))
        frequencies.append(frequency[kept])
        strengths.append(strength[kept])
        silences.append(unvoiced)
    return tuple(np.concatenate(parts) for parts in (counts, frequencies, strengths, silences))


def _autocorrelation(frames: Array, length: int, lags: int) -> Array:
    """Return the normalized autocorrelation of each row at lags 0, 1/4, 2/4 ... samples.

    Zeros appended to the power spectrum interpolate the autocorrelation.
    """
    power = np.abs(np.fft.rfft(frames, length)) ** 2
    correlation = np.fft.irfft(power, length * _FINER)[:, :lags]
    return correlation / np.where(correlation[:, :1] > 0, correlation[:, :1], 1.0)


def _peaks(correlation: Array, rate: int) -> tuple[Index, Array, Array]:
    """Return frame, frequency in Hz and height of each sufficiently high peak."""
    left, here, right = correlation[:, :-2], correlation[:, 1:-1], correlation[:, 2:]
    frame, at = np.nonzero((here > left) & (here >= right) & (here > 0.5 * VOICING))
    keep = at + 1 >= 2 * _FINER  # lags below two samples belong to the peak at lag 0
    frame, at = frame[keep], at[keep]
    before, top, after = left[frame, at], here[frame, at], right[frame, at]
    slope, curvature = 0.5 * (after - before), 2 * top - before - after
    height = top + 0.5 * slope**2 / curvature
    frequency = _FINER * rate / (at + 1 + slope / curvature)
    return frame, frequency, np.where(height > 1, 1 / height, height)


@njit(cache=True)
def _cheapest_path(
    count: Index, frequency: Array, strength: Array, unvoiced: Array, ceiling: float, correction: float
) -> tuple[Array, Array]:
    """Find the best path by the Viterbi algorithm: strengths minus costs of low octaves and of changes."""
    frames = len(count)
    width = count.max() + 1
    f0 = np.zeros((frames, width))  # column 0 is "unvoiced"
    score = np.full((frames, width), -np.inf)
    raw = np.zeros((frames, width))
    came_from = np.zeros((frames, width), dtype=np.int64)
    at = 0
    for t in range(frames):
        score[t, 0] = unvoiced[t]
        for k in range(1, count[t] + 1):
            f0[t, k] = frequency[at]
            raw[t, k] = strength[at]
            score[t, k] = strength[at] - OCTAVE * np.log2(ceiling / frequency[at])
            at += 1
    for t in range(1, frames):
        for k in range(count[t] + 1):
            best = -np.inf
            for j in range(count[t - 1] + 1):
                if j == 0 and k == 0:
                    cost = 0.0
                elif j == 0 or k == 0:
                    cost = VOICED_UNVOICED * correction
                else:
                    cost = OCTAVE_JUMP * correction * abs(np.log2(f0[t - 1, j] / f0[t, k]))
                value = score[t - 1, j] - cost
                if value > best:
                    best = value
                    came_from[t, k] = j
            score[t, k] += best
    path = np.zeros(frames)
    periodicity = np.zeros(frames)
    k = int(np.argmax(score[frames - 1]))
    for t in range(frames - 1, -1, -1):
        path[t] = f0[t, k]
        periodicity[t] = raw[t, k]
        k = came_from[t, k]
    return path, periodicity
