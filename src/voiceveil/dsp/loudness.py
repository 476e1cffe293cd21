"""A gain that follows the loudness of the input, for live use, where the peak of the recording is not known yet.

McAdams' transformation changes the level by up to 40 dB, differently for each voice and sound. The gain of a hop of 10
ms is the square root of (energy of the input / energy of the output), both averaged over the past with a time constant
of one second: the dynamics of speech stay, its level is that of the input. It depends only on the past.

Conventions: samples are float32 of shape (n,) in [-1, 1]; every hop but the last has the same length.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["LoudnessFollower"]

Samples = NDArray[np.float32]

_TIME_CONSTANT = 1.0  # seconds
_QUIET = 1e-4  # of full scale: quieter input does not change the gain
_CEILING = 0.99  # of full scale


class LoudnessFollower:
    """Scales the output of a system hop by hop.

    Parameters
    ----------
    hop
        Samples per hop.
    rate
        Sampling rate in Hz.
    gain
        Initial gain.
    """

    def __init__(self, hop: int, rate: int, gain: float) -> None:
        self._hop = hop
        self._decay = math.exp(-hop / rate / _TIME_CONSTANT)
        self._gain = self._start = gain
        self._quiet = _QUIET**2 * hop / (1 - self._decay)
        self._source = self._result = 0.0

    def push(self, source: Samples, result: Samples) -> Samples:
        """Scale the ``result`` (n,) of the input ``source`` (n,); n is a multiple of the hop, except at the end."""
        whole = len(result) // self._hop * self._hop
        scaled = [self._hops(source[:whole].reshape(-1, self._hop), result[:whole].reshape(-1, self._hop))]
        if whole < len(result):
            scaled.append(self._hops(source[None, whole:], result[None, whole:]))
        return np.concatenate(scaled)

    def _hops(self, source: Samples, result: Samples) -> Samples:
        """Scale hops of shape (k, n); the gain is interpolated linearly from one to the next."""
        energies = zip(_energy(source), _energy(result), np.abs(result).max(axis=1, initial=0.0).tolist(), strict=True)
        gains = [self._gain, *(self._next_gain(*energy) for energy in energies)]
        self._gain = gains[-1]
        before, after = np.array(gains[:-1])[:, None], np.array(gains[1:])[:, None]
        gain = before + (after - before) * (np.arange(1, result.shape[1] + 1) / result.shape[1])
        scaled: Samples = np.clip(result * gain, -1.0, 1.0).astype(np.float32).ravel()
        return scaled

    def _next_gain(self, source: float, result: float, peak: float) -> float:
        self._source = self._decay * self._source + source
        self._result = self._decay * self._result + result
        gain = math.sqrt((self._source + self._quiet) / (self._result + self._quiet / self._start**2))
        return min(gain, _CEILING / peak) if peak > 0 else gain


def _energy(hops: Samples) -> list[float]:
    energies: list[float] = np.square(hops, dtype=np.float64).sum(axis=1).tolist()
    return energies
