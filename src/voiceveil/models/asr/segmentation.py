"""Cuts at pauses: a long recording in pieces that a recognizer can take, not cut inside a word if it can be helped.

Conventions: samples are float32 of shape (n,); times are in seconds; pieces are half-open ranges of samples that cover
the recording without gap or overlap. Memory beyond the recording itself is one number every 10 ms.

No voice activity detector: a piece is only cut when it must be, and then where the next seconds are quietest. Nothing
is left out, so that a quiet speaker, or the noise that a bad anonymizer makes of him, is recognized as well.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError

__all__ = ["cut_at_pauses", "frame_energy", "heard_in_pieces"]

#: Seconds: the grid of possible cuts, and how long a stretch must be quiet to count as a pause.
HOP, PAUSE = 0.01, 0.2


def frame_energy(samples: Samples, rate: int) -> NDArray[np.float64]:
    """Sum of squares in each hop of 10 ms, shape (ceil(n / hop),); the last hop may be partial."""
    hop = round(HOP * rate)
    return np.add.reduceat(np.square(samples, dtype=np.float64), np.arange(0, len(samples), hop))


def cut_at_pauses(samples: Samples, rate: int, longest: float) -> list[tuple[int, int]]:
    """Pieces ``(start, stop)`` of at most ``longest`` seconds; one piece when the recording is short enough.

    Each cut lies in the middle of the quietest 0.2 s of the second half of what a piece may be, the latest of several
    that are equally quiet. No piece is shorter than about a quarter of ``longest``.
    """
    hop, limit = round(HOP * rate), int(longest * rate)
    half = round(PAUSE / HOP) // 2
    if limit < 8 * half * hop:
        raise InputError(f"pieces of at most {longest:g} s", fix=f"allow at least {8 * half * HOP:g} s")
    if len(samples) <= limit:
        return [(0, len(samples))]
    total = np.concatenate([[0.0], np.cumsum(frame_energy(samples, rate))])
    pieces, start = [], 0
    while len(samples) - start > limit:
        low, high = start + limit // 2, start + limit
        if len(samples) - low < limit:  # the last cut: leave neither side with a scrap
            low = max(len(samples) - limit, start + limit // 4)
            high = min(high, len(samples) - limit // 4)
        cut = hop * _quietest(total, -(-low // hop), high // hop, half)
        pieces.append((start, cut))
        start = cut
    return [*pieces, (start, len(samples))]


def _quietest(total: NDArray[np.float64], low: int, high: int, half: int) -> int:
    """The hop in [low, high] around which the least energy lies within ``half`` hops; ``total`` is its running sum."""
    cuts = np.arange(low, high + 1)
    left, right = np.maximum(cuts - half, 0), np.minimum(cuts + half, len(total) - 1)
    energy = (total[right] - total[left]) / (right - left)
    return int(cuts[len(cuts) - 1 - np.argmin(energy[::-1])])


def heard_in_pieces(wave: Waveform, longest: float, hear: Callable[[Samples], str]) -> str:
    """What ``hear`` writes of each piece, one after the other. Digital silence is not heard: models invent words."""
    pieces = (wave.samples[start:stop] for start, stop in cut_at_pauses(wave.samples, wave.rate, longest))
    return " ".join(filter(None, (hear(piece) for piece in pieces if piece.any())))
