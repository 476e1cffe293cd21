"""Pitch-synchronous overlap-add: change F0 and duration, keep the formants (Moulines and Charpentier 1990).

Conventions: samples are floats of shape (n,); marks are sample numbers, one for each period where speech is voiced (at
a peak), one every 5 ms elsewhere. A grain reaches one period to either side of its mark, under a Hann window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["overlap_add", "pitch_marks"]

Index = NDArray[np.int64]

_UNVOICED_STEP = 0.005  # seconds
#: Largest distance of a mark from its expected position, in periods.
_TOLERANCE = 0.2


def pitch_marks(samples: NDArray[np.floating[Any]], f0: NDArray[np.floating[Any]], rate: int) -> Index:
    """Return the marks of a signal (n,) whose F0 (n,) in Hz, 0 if unvoiced, is given for every sample."""
    marks, position, count = [], 0.0, len(samples)
    while position < count:
        here = int(position)
        pitch = float(f0[here])
        if pitch <= 0:
            marks.append(here)
            position += _UNVOICED_STEP * rate
            continue
        period = rate / pitch
        distance = max(1, round((_TOLERANCE if marks and f0[marks[-1]] > 0 else 0.5) * period))
        first = max(here - distance, marks[-1] + 1 if marks else 0)
        around = samples[first : here + distance + 1]
        mark = first + int(np.argmax(around)) if len(around) else here
        marks.append(mark)
        position = mark + period
    return np.unique(np.array(marks, dtype=np.int64))


def overlap_add(
    samples: NDArray[np.floating[Any]], f0: NDArray[np.floating[Any]], rate: int, *, pitch: float, duration: float
) -> NDArray[np.float64]:
    """Return the signal with another F0 and duration.

    Parameters
    ----------
    samples, f0
        Signal (n,), and its F0 (n,) in Hz, 0 if unvoiced.
    rate
        Sampling rate in Hz.
    pitch, duration
        Factors on F0 and on the duration.
    """
    length = round(len(samples) * duration)
    marks = pitch_marks(samples, f0, rate)
    out, weight = np.zeros(length + 2 * rate // 10), np.zeros(length + 2 * rate // 10)
    if len(marks) < 3:
        return np.asarray(np.resize(samples, length), dtype=np.float64)
    periods = np.clip(np.diff(marks, append=2 * marks[-1] - marks[-2]), 16, rate // 40)
    margin = int(periods.max()) + 1
    padded = np.pad(samples.astype(np.float64), margin)
    windows = {period: np.hanning(2 * period + 1) for period in set(periods.tolist())}
    position = float(marks[0]) * duration
    while position < length:
        nearest = _nearest(marks, position / duration)
        period = int(periods[nearest])
        window = windows[period]
        center = int(marks[nearest]) + margin
        grain = padded[center - period : center + period + 1] * window
        start = round(position) - period
        skip = max(0, -start)
        out[start + skip : start + len(grain)] += grain[skip:]
        weight[start + skip : start + len(grain)] += window[skip:]
        position += periods[nearest] / (pitch if f0[marks[nearest]] > 0 else 1)
    return np.asarray(out[:length] / np.maximum(weight[:length], 0.25))


def _nearest(marks: Index, position: float) -> int:
    """Return the index of the mark nearest to a position."""
    right = min(int(np.searchsorted(marks, position)), len(marks) - 1)
    return right - 1 if right and position - marks[right - 1] < marks[right] - position else right
