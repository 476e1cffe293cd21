"""A steady tone, as it covers words in broadcasts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["FREQUENCY", "LEVEL", "tone"]

#: Frequency in Hz, and amplitude relative to full scale: -26 dB, softer than speech at a usual level.
FREQUENCY, LEVEL = 1000.0, 0.05


def tone(count: int, rate: int, start: float = 0.0) -> NDArray[np.float32]:
    """Return ``count`` samples of the tone at ``rate`` Hz, in phase with one that began at 0 s, from ``start`` s on."""
    phase = 2 * np.pi * FREQUENCY * (start + np.arange(count) / rate)
    return (LEVEL * np.sin(phase)).astype(np.float32)
