"""Forced alignment of the frames of a CTC network with a known sequence of tokens.

Conventions: ``log_probabilities`` (T, V), natural logarithms; ``tokens`` (L,) without blanks. An alignment (T,) has a
token or the blank for each frame; without repetitions and then without blanks, it equals the tokens.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError

__all__ = ["align", "align_places", "fewest_frames"]


def fewest_frames(tokens: ArrayLike) -> int:
    """Return the number of frames that an alignment needs: one per token, and a blank between two equal ones."""
    values = np.asarray(tokens)
    return len(values) + int((values[1:] == values[:-1]).sum())


def align(log_probabilities: ArrayLike, tokens: ArrayLike, blank: int = 0) -> NDArray[np.int64]:
    """Return the most probable alignment (Viterbi), shape (T,); on a tie, the one that moves on later.

    Parameters
    ----------
    log_probabilities
        Natural logarithms (T, V).
    tokens
        Numbers of outputs (L,), without the blank.
    blank
        Number of the blank.

    Raises
    ------
    InputError
        If a token is no output, or there are too few frames for the tokens.
    """
    labels = np.asarray(tokens, dtype=np.int64)
    places = align_places(log_probabilities, labels, blank)
    return np.where(places < 0, blank, labels[places] if len(labels) else blank)


def align_places(log_probabilities: ArrayLike, tokens: ArrayLike, blank: int = 0) -> NDArray[np.int64]:
    """Return the same alignment, shape (T,), as the place of each frame's token in ``tokens``; -1 for the blank."""
    scores = np.ascontiguousarray(log_probabilities, dtype=np.float64)
    labels = np.asarray(tokens, dtype=np.int64)
    if (labels == blank).any() or (labels < 0).any() or (labels >= scores.shape[1]).any():
        raise InputError("a token is the blank, or not an output", fix=f"use 0 to {scores.shape[1] - 1} except {blank}")
    if len(scores) < fewest_frames(labels):
        raise InputError(f"{len(scores)} frames are too few for {len(labels)} tokens", fix="check audio and text")
    states = np.full(2 * len(labels) + 1, blank, dtype=np.int64)
    states[1::2] = labels
    path = _path(scores, states, blank)
    return np.where(path % 2 == 1, path // 2, -1)


@njit(cache=True)
def _path(scores: NDArray[np.float64], states: NDArray[np.int64], blank: int) -> NDArray[np.int64]:
    """Return the best path through blank, token, blank, ...; a blank between two different tokens may be skipped."""
    frames, count = len(scores), len(states)
    best = np.full(count, -np.inf)
    steps = np.zeros((frames, count), dtype=np.int8)  # by how many states the best path moved
    best[0] = scores[0, states[0]]
    if count > 1:
        best[1] = scores[0, states[1]]
    for t in range(1, frames):
        for s in range(count - 1, -1, -1):  # downwards: best[s - 1] is still that of the frame before
            value, step = best[s], 0
            if s > 0 and best[s - 1] > value:
                value, step = best[s - 1], 1
            if s > 1 and states[s] != blank and states[s] != states[s - 2] and best[s - 2] > value:
                value, step = best[s - 2], 2
            best[s] = value + scores[t, states[s]]
            steps[t, s] = step
    place = count - 1
    if count > 1 and best[count - 2] > best[count - 1]:
        place = count - 2
    path = np.empty(frames, dtype=np.int64)
    for t in range(frames - 1, -1, -1):
        path[t] = place
        place -= steps[t, place]
    return path
