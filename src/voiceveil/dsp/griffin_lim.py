"""Waveforms from mel spectra by signal processing alone: linear magnitudes, then the Griffin-Lim algorithm (1984).

Conventions: 16 kHz; mel spectra (T, 80) are natural logarithms of magnitudes as in :mod:`voiceveil.models.nets.mel`:
Hann windows of 400 samples, one in the middle of each frame of 160, transforms of 1,024 points, triangles from 20 to
8,000 Hz. The waveform has 160 T samples.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.dsp.kaldi import mel_banks

__all__ = ["from_mel", "griffin_lim", "linear_magnitudes"]

Array = NDArray[np.float32]

RATE, FRAME, WINDOW, POINTS, BANDS = 16000, 160, 400, 1024, 80
#: Samples of a window on either side of its frame.
_OVERHANG = (WINDOW - FRAME) // 2
#: Momentum of the "fast Griffin-Lim" algorithm (Perraudin et al. 2013).
_MOMENTUM = 0.9


def from_mel(mel: NDArray[np.floating[Any]], rng: np.random.Generator, *, rounds: int = 32) -> Array:
    """Return a waveform (160 T,) for log mel spectra (T, 80), by ``rounds`` iterations from random phases."""
    return griffin_lim(linear_magnitudes(mel), rng, rounds=rounds)


def linear_magnitudes(mel: NDArray[np.floating[Any]], *, rounds: int = 20) -> Array:
    """Return nonnegative magnitudes (T, 513) with these mel spectra (T, 80), by Lee and Seung's updates."""
    banks, energies = _banks(), np.exp(mel).astype(np.float32)
    magnitudes = np.maximum(energies @ (banks / banks.sum(axis=0)).T, 1e-8)
    for _ in range(rounds):
        magnitudes *= (energies / np.maximum(magnitudes @ banks, 1e-8)) @ banks.T / np.maximum(banks.sum(axis=1), 1e-3)
    return np.pad(magnitudes, ((0, 0), (0, 1)))


def griffin_lim(magnitudes: Array, rng: np.random.Generator, *, rounds: int = 32) -> Array:
    """Return a waveform (160 T,) whose short-time spectra have nearly these magnitudes (T, 513)."""
    angles = np.exp(2j * np.pi * rng.random(magnitudes.shape, dtype=np.float32)).astype(np.complex64)
    previous = np.zeros_like(angles)
    for _ in range(rounds):
        spectra = _spectra(_waveform(magnitudes * angles))
        extrapolated = spectra + np.float32(_MOMENTUM) * (spectra - previous)
        previous = spectra
        angles = extrapolated / np.maximum(np.abs(extrapolated), 1e-9)
    return _waveform(magnitudes * angles)


def _spectra(samples: Array) -> NDArray[np.complex64]:
    from scipy.fft import rfft

    padded = np.pad(samples, (_OVERHANG, _OVERHANG))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::FRAME]
    return np.asarray(rfft(frames * _window(), POINTS, axis=1))


def _waveform(spectra: NDArray[np.complex64]) -> Array:
    """Return the waveform whose short-time spectra are nearest to these (Griffin and Lim 1984, equation 6)."""
    from scipy.fft import irfft

    frames = np.asarray(irfft(spectra, POINTS, axis=1))[:, :WINDOW] * _window()
    return np.asarray(
        _overlap_add(frames) / np.maximum(_overlap_add(np.broadcast_to(_window() ** 2, frames.shape)), 1e-3)
    )


def _overlap_add(frames: NDArray[np.floating[Any]]) -> Array:
    """Return the sum (160 T,) of frames (T, 400) at distances of 160 samples."""
    count = len(frames)
    total = np.zeros((count + 2, FRAME), dtype=np.float32)
    padded = np.pad(frames, ((0, 0), (0, 3 * FRAME - WINDOW))).reshape(count, 3, FRAME)
    for part in range(3):
        total[part : count + part] += padded[:, part]
    return total.ravel()[_OVERHANG : _OVERHANG + count * FRAME]


@lru_cache(maxsize=1)
def _window() -> Array:
    return np.hanning(WINDOW + 1)[:-1].astype(np.float32)


@lru_cache(maxsize=1)
def _banks() -> Array:
    return mel_banks(RATE, POINTS, BANDS, 20.0, 0.0).astype(np.float32)
