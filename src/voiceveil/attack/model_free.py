"""What an attacker gets for free: cues to the speaker that need no model, and that anonymization often leaves as is.

* ``duration``  how long utterances are: people, and recordings, have their habits
* ``silence``   how much of it is silence, how long and how many the pauses are, how long it takes to begin and end
* ``f0``        the mean and the spread of the pitch
* ``order``     where the utterance stands in its directory (0 to 1), and the speaker's among the enrollment

Each cue is a small vector. The score is the negative distance between an utterance's and the enrollment's mean,
with each dimension scaled by its spread over the attacked data. Conventions: times in seconds, F0 in Hz.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.models.speaker.covariances import Codes, Floats

__all__ = ["CUES", "Cues", "Distance", "mean_f0", "silence_pattern"]

#: Cue -> its columns in the result of :class:`Cues`.
CUES = {"duration": slice(0, 1), "silence": slice(1, 6), "f0": slice(6, 8)}

_HOP = 160  # samples at 16 kHz: 10 ms
_LOWEST, _HIGHEST = 60.0, 400.0  # Hz
_OCTAVE_COST = 0.05


@dataclass(frozen=True)
class Cues:
    """The cues of an utterance, shape (8,): log duration; five of silence; mean and deviation of log F0."""

    rate, minimum = 16000, 0.045
    name: str = "free"

    def fingerprint(self) -> str:
        """Version."""
        return "free cues 1"

    def __call__(self, wave: Waveform) -> NDArray[np.float64]:
        """All cues at once: the audio is read once."""
        return np.concatenate([[np.log(wave.duration)], silence_pattern(wave.samples), mean_f0(wave.samples)])


def silence_pattern(samples: NDArray[Any]) -> Floats:
    """Of 16 kHz samples: share of silence, log mean pause, pauses a second, log silence before and after; (5,).

    A frame of 10 ms is silent if it is 35 dB below the loudest (95th percentile). A pause has 100 ms or more.
    """
    count = max(len(samples) // _HOP, 1)
    frames = np.resize(samples, count * _HOP) if len(samples) < _HOP else samples[: count * _HOP]
    power = np.square(frames.reshape(count, _HOP).astype(np.float64)).mean(axis=1)
    silent = power <= np.percentile(power, 95) * 10**-3.5
    edges = np.flatnonzero(np.diff(np.concatenate([[0], silent.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    before = ends[0] if len(starts) and starts[0] == 0 else 0
    after = count - starts[-1] if len(starts) and ends[-1] == count else 0
    inner = (starts > 0) & (ends < count) & (ends - starts >= 10)
    lengths = (ends - starts)[inner] / 100.0
    pause = lengths.mean() if len(lengths) else 0.1
    rate = len(lengths) / (count / 100.0)
    return np.array([silent.mean(), np.log(pause), rate, np.log(0.01 * before + 0.01), np.log(0.01 * after + 0.01)])


def mean_f0(samples: NDArray[Any]) -> Floats:
    """Mean and standard deviation of log F0 over voiced frames of 16 kHz samples, (2,); of 1 Hz if nothing is voiced.

    Autocorrelation of 40 ms frames every 20 ms, divided by that of the window (Boersma 1993); a frame is voiced if the
    highest peak between 60 and 400 Hz has at least 0.6 of the energy and the frame is not silent.
    """
    from scipy.fft import irfft, rfft

    size, hop, padded = 640, 320, 2048
    if len(samples) < size:
        return np.zeros(2)
    frames = np.lib.stride_tricks.sliding_window_view(samples, size)[::hop]
    window = np.hanning(size).astype(np.float32)
    frames = (frames - frames.mean(axis=1, keepdims=True)) * window
    shortest, longest = int(16000 / _HIGHEST), int(16000 / _LOWEST)
    correlation = irfft(np.abs(rfft(frames, padded, axis=1)) ** 2, axis=1)[:, : longest + 2]
    of_window = irfft(np.abs(rfft(window, padded)) ** 2)[: longest + 2]
    energy = correlation[:, :1]
    ratio = correlation / np.maximum(energy, 1e-12) / (of_window / of_window[0])
    # two periods are as periodic as one: an octave lower costs something
    cost = _OCTAVE_COST * np.log2(np.arange(shortest, longest + 1) / shortest)
    best = shortest + (ratio[:, shortest : longest + 1] - cost).argmax(axis=1)
    row = np.arange(len(ratio))
    left, peak, right = ratio[row, best - 1], ratio[row, best], ratio[row, best + 1]
    voiced = (peak > 0.6) & (peak >= left) & (peak >= right) & (energy[:, 0] > 1e-3 * np.percentile(energy, 95))
    if not voiced.any():
        return np.zeros(2)
    bend = np.maximum(2 * peak - left - right, 1e-9)
    lag = best + np.clip(0.5 * (right - left) / bend, -0.5, 0.5)
    log_f0 = np.log(16000.0 / lag[voiced])
    return np.array([log_f0.mean(), log_f0.std()])


@dataclass(frozen=True, eq=False)
class Distance:
    """Scores by negative distance; ``scale`` (d,) is the spread of each dimension."""

    scale: Floats

    @classmethod
    def of(cls, vectors: Floats) -> Distance:
        """With the spread of vectors (n, d); a dimension that does not vary tells nothing."""
        spread = vectors.std(axis=0)
        return cls(np.where(spread > 0.0, spread, 1.0))

    def __call__(self, enroll: Floats, counts: Codes, test: Floats) -> Floats:
        """Scores (s, n)."""
        return np.asarray(-np.linalg.norm((enroll[:, None] - test[None]) / self.scale, axis=-1))
