"""Mel spectra to a waveform without a network: back to linear frequency, then Griffin and Lim's phases (1984).

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
_REACH = (WINDOW - FRAME) // 2
#: Of the last step, that is taken again: "fast Griffin-Lim" (Perraudin et al. 2013).
_MOMENTUM = 0.9


def from_mel(mel: NDArray[np.floating[Any]], rng: np.random.Generator, *, rounds: int = 32) -> Array:
    """Return the waveform (160 T,) of logarithmic mel spectra (T, 80); the phases begin at random."""
    return griffin_lim(linear_magnitudes(mel), rng, rounds=rounds)


def linear_magnitudes(mel: NDArray[np.floating[Any]], *, rounds: int = 20) -> Array:
    """Magnitudes (T, 513) that have these mel spectra, and none below zero (Lee and Seung's updates)."""
    banks, energies = _banks(), np.exp(mel).astype(np.float32)
    made = np.maximum(energies @ (banks / banks.sum(axis=0)).T, 1e-8)
    for _ in range(rounds):
        made *= (energies / np.maximum(made @ banks, 1e-8)) @ banks.T / np.maximum(banks.sum(axis=1), 1e-3)
    return np.pad(made, ((0, 0), (0, 1)))


def griffin_lim(magnitudes: Array, rng: np.random.Generator, *, rounds: int = 32) -> Array:
    """Return a waveform whose transforms have nearly these magnitudes (T, 513)."""
    angles = np.exp(2j * np.pi * rng.random(magnitudes.shape, dtype=np.float32)).astype(np.complex64)
    before = np.zeros_like(angles)
    for _ in range(rounds):
        heard = _transformed(_waveform(magnitudes * angles))
        ahead = heard + np.float32(_MOMENTUM) * (heard - before)
        before = heard
        angles = ahead / np.maximum(np.abs(ahead), 1e-9)
    return _waveform(magnitudes * angles)


def _transformed(samples: Array) -> NDArray[np.complex64]:
    from scipy.fft import rfft

    padded = np.pad(samples, (_REACH, _REACH))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::FRAME]
    return np.asarray(rfft(frames * _window(), POINTS, axis=1))


def _waveform(spectra: NDArray[np.complex64]) -> Array:
    """Return the waveform whose transforms are nearest to these (Griffin and Lim 1984, equation 6)."""
    from scipy.fft import irfft

    frames = np.asarray(irfft(spectra, POINTS, axis=1))[:, :WINDOW] * _window()
    return np.asarray(_added(frames) / np.maximum(_added(np.broadcast_to(_window() ** 2, frames.shape)), 1e-3))


def _added(frames: NDArray[np.floating[Any]]) -> Array:
    """Frames (T, 400) added, each 160 samples behind the one before: (160 T,)."""
    count = len(frames)
    total = np.zeros((count + 2, FRAME), dtype=np.float32)
    padded = np.pad(frames, ((0, 0), (0, 3 * FRAME - WINDOW))).reshape(count, 3, FRAME)
    for part in range(3):
        total[part : count + part] += padded[:, part]
    return total.ravel()[_REACH : _REACH + count * FRAME]


@lru_cache(maxsize=1)
def _window() -> Array:
    return np.hanning(WINDOW + 1)[:-1].astype(np.float32)


@lru_cache(maxsize=1)
def _banks() -> Array:
    return mel_banks(RATE, POINTS, BANDS, 20.0, 0.0).astype(np.float32)
