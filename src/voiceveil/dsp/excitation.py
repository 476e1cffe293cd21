"""The excitation of source-filter synthesis: a pulse train at F0.

Conventions: 16 kHz, one F0 value in Hz for every 160 samples, 0 where the speech is unvoiced.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["continuous_f0", "pulse_train"]

FRAME = 160
RATE = 16000
#: F0 in Hz of recordings without any voiced frame.
DEFAULT_F0 = 150.0


def continuous_f0(f0: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return F0 without gaps: log-linearly interpolated through unvoiced frames, constant at both ends."""
    voiced = np.flatnonzero(f0 > 0)
    if not len(voiced):
        return np.full(len(f0), DEFAULT_F0, dtype=np.float32)
    filled = np.exp(np.interp(np.arange(len(f0)), voiced, np.log(f0[voiced])))
    return np.asarray(filled, dtype=np.float32)


def pulse_train(f0: NDArray[np.floating], phase: float = 0.0) -> NDArray[np.float32]:
    """Return a band-limited pulse train of unit power, 160 samples for every frame.

    A pulse is the sum of all N harmonics below 8 kHz: 1 + 2 sum cos(k θ) = sin((N + 1/2) θ) / sin(θ / 2), whose power
    is 2 N + 1. The phase is summed in double precision.

    Parameters
    ----------
    f0
        F0 (frames,) in Hz, without gaps.
    phase
        Phase of the first sample, in cycles.
    """
    centers = (np.arange(len(f0)) + 0.5) * FRAME - 0.5
    pitch = np.interp(np.arange(len(f0) * FRAME), centers, f0.astype(np.float64))
    half = np.pi * ((phase + np.cumsum(pitch) / RATE) % 1.0)
    harmonics = np.floor(0.5 * RATE / pitch)
    bottom = np.sin(half)
    at_pulse = np.abs(bottom) < 1e-9
    value = np.where(at_pulse, 2 * harmonics + 1, np.sin((2 * harmonics + 1) * half) / np.where(at_pulse, 1.0, bottom))
    return np.asarray(value / np.sqrt(2 * harmonics + 1), dtype=np.float32)
