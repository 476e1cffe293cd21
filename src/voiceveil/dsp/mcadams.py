"""McAdams' coefficient: move the poles of a linear predictor and keep its residual (baseline B2 of VoicePrivacy).

Patino et al., *Speaker anonymisation using the McAdams coefficient*, 2021. Frames of 20 ms with 10 ms shift; each is
windowed, predicted (Burg, order 20), inverse filtered, filtered with the moved poles, windowed and added.

Conventions: samples are float32 of shape (n,) at ``rate`` Hz; the output is not normalized, and for a small alpha its
peak is a hundred times the input's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.dsp.lpc import EPSILON, PoleChange, move_poles

__all__ = ["McAdams", "McAdamsStream", "analysis_window"]

#: float32 or float64, as the variant sums its frames.
Real = NDArray[np.floating[Any]]

_BLOCK = 1 << 19  # samples at a time; bounds the memory of a long signal


@dataclass(frozen=True)
class McAdams:
    """The transformation and its variants.

    Parameters
    ----------
    alpha
        McAdams' coefficient: a pole angle phi becomes phi**alpha.
    radius
        Factor on all pole radii.
    clip_angle
        Clip angles to pi, as in 2020 and 2022; matters only for alpha > 1.
    whole
        Frame the signal so that every sample is in two frames. Otherwise the frames are those of the official code:
        none starts before the signal or ends after it, so that up to 319 samples at the end are zeros.
    skip_first
        Without ``whole``, leave out the first frame as well, as in 2020 and 2022.
    double
        Sum the frames in float64 (2020 and 2022) instead of float32 (2024).
    """

    alpha: float
    radius: float = 1.0
    clip_angle: bool = False
    whole: bool = True
    skip_first: bool = False
    double: bool = False

    def __call__(self, samples: NDArray[np.float32], rate: int = 16000) -> Real:
        """Return the transformed signal, with the same length and the dtype in which frames are summed."""
        stream = McAdamsStream(self, rate)
        blocks = [stream.push(samples[i : i + _BLOCK]) for i in range(0, len(samples), _BLOCK)]
        return np.concatenate([*blocks, stream.close()])


def analysis_window(rate: int) -> NDArray[np.float64]:
    """Return the window of a frame of 20 ms, which is used twice: frames that overlap by half add up to the signal."""
    hann = np.hanning(int(0.020 * rate))
    return np.asarray(np.sqrt(hann / (hann.sum() / (len(hann) // 2))))


class McAdamsStream:
    """Transforms a signal block by block; samples come out at most one frame later, and the rest on ``close``."""

    def __init__(self, transform: McAdams, rate: int = 16000) -> None:
        self._transform = transform
        self._window = analysis_window(rate)
        self._hop = hop = len(self._window) // 2
        self._dtype: np.dtype[np.floating[Any]] = np.dtype(np.float64 if transform.double else np.float32)
        # In the whole variant the first frame starts one hop before the signal.
        self._lead = hop if transform.whole else 0
        self._pending = np.full(self._lead, EPSILON, dtype=np.float32)
        self._overlap = np.zeros(hop, dtype=self._dtype)
        self._skip = 1 if transform.skip_first and not transform.whole else 0
        self._received = 0
        self._returned = 0

    def push(self, samples: NDArray[np.float32]) -> Real:
        """Take the next samples; return those that are finished."""
        self._received += len(samples)
        epsilon = np.float32(EPSILON)
        self._pending = np.concatenate([self._pending, np.asarray(samples, dtype=np.float32) + epsilon])
        return self._emit(self._process())

    def close(self) -> Real:
        """End the signal; return the remaining samples, so that as many come out as were pushed."""
        if self._transform.whole:
            padding = np.full(len(self._window), EPSILON, dtype=np.float32)
            self._pending = np.concatenate([self._pending, padding])
        out = self._emit(np.concatenate([self._process(), self._overlap]))
        missing = self._received - self._returned
        return np.concatenate([out, np.zeros(missing, dtype=self._dtype)])

    def _process(self) -> Real:
        """Transform all complete frames; return the samples before the second half of the last one, which are final."""
        length, hop = len(self._window), self._hop
        count = max(0, 1 + (len(self._pending) - length) // hop)
        if count == 0:
            return np.zeros(0, dtype=self._dtype)
        out = np.zeros((count + 1) * hop, dtype=self._dtype)
        out[:hop] = self._overlap
        largest = math.pi if self._transform.clip_angle else math.inf
        change = PoleChange(self._transform.alpha, self._transform.radius, largest)
        move_poles(self._pending, self._window, self._skip, change, out)
        self._skip = 0
        self._pending = self._pending[count * hop :]
        self._overlap = out[count * hop :]
        return out[: count * hop]

    def _emit(self, out: Real) -> Real:
        """Drop the lead-in, and samples beyond the end of the signal."""
        drop = min(self._lead, len(out))
        self._lead -= drop
        out = out[drop:][: self._received - self._returned]
        self._returned += len(out)
        return out
