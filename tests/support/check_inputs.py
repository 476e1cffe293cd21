"""Inputs and helpers of tests of checks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.checks import Check
from voiceveil.testing import synthetic_voice

Samples = NDArray[np.float32]


def names(checks: list[Check] | tuple[Check, ...]) -> list[str]:
    return [check.name for check in checks]


def scores(shift: float, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.standard_normal(count) + shift, rng.standard_normal(4 * count)


def spoken(number: int = 0, seconds: float = 3.0) -> Samples:
    return synthetic_voice(number % 7, number, seconds=seconds).samples


def noise(power: int, seconds: float = 3.0) -> Samples:
    rng = np.random.default_rng(power)
    spectrum = np.fft.rfft(rng.standard_normal(int(16000 * seconds)))
    made = np.fft.irfft(spectrum * np.arange(1, len(spectrum) + 1.0) ** (-power / 2))
    return np.asarray(0.3 * made / np.abs(made).max(), dtype=np.float32)
