"""Segmentation: cut a long recording at pauses into pieces that a recognizer can take.

Conventions: samples are float32 of shape (n,); times are in seconds; pieces are half-open ranges of samples that cover
the recording without gap or overlap. Memory beyond the recording itself is one number for every 10 ms.

There is no voice activity detection: a recording is cut only if it is too long, at the quietest point in reach. Nothing
is left out, so that quiet speakers, and noisy output of a poor anonymizer, are recognized as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import check_audio

__all__ = ["PiecewiseRecognizer", "cut_at_pauses", "frame_energy"]

#: Seconds between possible cuts, and seconds of a pause.
HOP, PAUSE = 0.01, 0.2


def frame_energy(samples: Samples, rate: int) -> NDArray[np.float64]:
    """Return the sum of squares of each 10 ms, shape (ceil(n / hop),); the last may be shorter."""
    hop = round(HOP * rate)
    return np.add.reduceat(np.square(samples, dtype=np.float64), np.arange(0, len(samples), hop))


def cut_at_pauses(samples: Samples, rate: int, max_seconds: float) -> list[tuple[int, int]]:
    """Return pieces ``(start, stop)`` in samples, of at most ``max_seconds`` each.

    A cut lies in the middle of the quietest 0.2 s between half of ``max_seconds`` and ``max_seconds`` after the
    previous one; of equally quiet places the last is taken. No piece is shorter than about a quarter of
    ``max_seconds``.

    Parameters
    ----------
    samples
        The recording (n,).
    rate
        In Hz.
    max_seconds
        Length of the longest piece.

    Raises
    ------
    InputError
        If ``max_seconds`` is less than 0.8.
    """
    hop, limit = round(HOP * rate), int(max_seconds * rate)
    half = round(PAUSE / HOP) // 2
    if limit < 8 * half * hop:
        problem = f"pieces of at most {max_seconds:g} s are too short to cut at pauses"
        raise InputError(problem, fix=f"allow at least {8 * half * HOP:g} s")
    if len(samples) <= limit:
        return [(0, len(samples))]
    running_sum = np.concatenate([[0.0], np.cumsum(frame_energy(samples, rate))])
    pieces, start = [], 0
    while len(samples) - start > limit:
        low, high = start + limit // 2, start + limit
        if len(samples) - low < limit:  # the last cut: neither side may become very short
            low = max(len(samples) - limit, start + limit // 4)
            high = min(high, len(samples) - limit // 4)
        cut = hop * _quietest_hop(running_sum, -(-low // hop), high // hop, half)
        pieces.append((start, cut))
        start = cut
    return [*pieces, (start, len(samples))]


def _quietest_hop(running_sum: NDArray[np.float64], low: int, high: int, half: int) -> int:
    """Return the hop in [low, high] with the least energy within ``half`` hops, from the running sum of the energy."""
    cuts = np.arange(low, high + 1)
    left, right = np.maximum(cuts - half, 0), np.minimum(cuts + half, len(running_sum) - 1)
    energy = (running_sum[right] - running_sum[left]) / (right - left)
    return int(cuts[len(cuts) - 1 - np.argmin(energy[::-1])])


class PiecewiseRecognizer(ABC):
    """Base of recognizers at 16 kHz that process recordings in pieces, cut at pauses."""

    rate: ClassVar[int] = 16000
    #: Length of the shortest audio in samples.
    min_samples: ClassVar[int]
    #: Length of the longest piece in seconds.
    max_seconds: float

    @property
    def minimum(self) -> float:
        """Length of the shortest audio in seconds."""
        return self.min_samples / self.rate

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript; pieces of digital silence are skipped, because models invent words there."""
        check_audio(wave, self.rate, self.min_samples)
        pieces = (wave.samples[start:stop] for start, stop in cut_at_pauses(wave.samples, wave.rate, self.max_seconds))
        return " ".join(filter(None, (self.transcribe_piece(piece) for piece in pieces if piece.any())))

    @abstractmethod
    def transcribe_piece(self, samples: Samples) -> str:
        """Return the transcript of a piece (n,)."""
