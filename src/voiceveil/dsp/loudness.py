"""A gain that follows the loudness of the input, for those who cannot wait for the end of a recording.

McAdams' transformation changes the level by up to 40 dB, differently for each voice and sound. The gain of a hop of
10 ms is the square root of (energy of the input / energy of the output), both forgotten with a time constant of one
second: the dynamics of speech stay, its level is that of the input. It depends on the past alone.

Conventions: samples are float32 of shape (n,) in [-1, 1]; every hop but the last has the same length.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["LoudnessFollower"]

Samples = NDArray[np.float32]

_MEMORY = 1.0  # seconds
_QUIET = 1e-4  # of full scale: what is below it does not move the gain
_CEILING = 0.99  # of full scale


class LoudnessFollower:
    """Scales output hop by hop; ``gain`` is what it begins with."""

    def __init__(self, hop: int, rate: int, gain: float) -> None:
        self._hop = hop
        self._keep = math.exp(-hop / rate / _MEMORY)
        self._gain = self._start = gain
        self._quiet = _QUIET**2 * hop / (1 - self._keep)
        self._source = self._result = 0.0

    def push(self, source: Samples, result: Samples) -> Samples:
        """The scaled ``result`` (n,) of the input ``source`` (n,); n is a multiple of the hop but for the last call."""
        whole = len(result) // self._hop * self._hop
        scaled = [self._hops(source[:whole].reshape(-1, self._hop), result[:whole].reshape(-1, self._hop))]
        if whole < len(result):
            scaled.append(self._hops(source[None, whole:], result[None, whole:]))
        return np.concatenate(scaled)

    def _hops(self, source: Samples, result: Samples) -> Samples:
        """Hops of shape (k, n); the gain moves from one to the next on a straight line."""
        energies = zip(_energy(source), _energy(result), np.abs(result).max(axis=1, initial=0.0).tolist(), strict=True)
        gains = [self._gain, *(self._next(*energy) for energy in energies)]
        self._gain = gains[-1]
        before, after = np.array(gains[:-1])[:, None], np.array(gains[1:])[:, None]
        line = before + (after - before) * (np.arange(1, result.shape[1] + 1) / result.shape[1])
        scaled: Samples = np.clip(result * line, -1.0, 1.0).astype(np.float32).ravel()
        return scaled

    def _next(self, source: float, result: float, peak: float) -> float:
        self._source = self._keep * self._source + source
        self._result = self._keep * self._result + result
        gain = math.sqrt((self._source + self._quiet) / (self._result + self._quiet / self._start**2))
        return min(gain, _CEILING / peak) if peak > 0 else gain


def _energy(hops: Samples) -> list[float]:
    energies: list[float] = np.square(hops, dtype=np.float64).sum(axis=1).tolist()
    return energies
