"""The most probable sequence of phones behind posterior probabilities of phone states, and a new timing for it.

Conventions: posteriors (T, 118) as in :mod:`voiceveil.models.nets.phone_encoder`, a row every 12 ms. Times are in rows,
from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PhonePath", "phone_path", "retimed_positions"]

#: States of a phone; silence has one.
STATES = 3
#: Log probability that is lost with each new phone: without it, uncertain sounds become many short phones.
_NEW_PHONE = 2.0
#: Least posterior probability.
_FLOOR = 1e-5
Positions = NDArray[np.float64]


@dataclass(frozen=True)
class PhonePath:
    """Phones in time.

    Parameters
    ----------
    phones
        Number of each phone in :data:`voiceveil.models.asr.alignment.PHONES`, (N,); 0 is silence.
    starts
        First row of each state of each phone, (N, 3); those of silence are equal.
    length
        Number of rows.
    """

    phones: NDArray[np.int64]
    starts: NDArray[np.int64]
    length: int

    @property
    def durations(self) -> NDArray[np.int64]:
        """Rows of each phone (N,), at least 1."""
        return np.diff(self.starts[:, 0], append=self.length)


def phone_path(posteriors: NDArray[np.floating[Any]], new_phone: float = _NEW_PHONE) -> PhonePath:
    """Return the sequence of phones of highest total log probability, by dynamic programming.

    A phone passes through its three states in order, each at least one row long. Phones follow each other freely, at a
    cost of ``new_phone`` each.
    """
    scores = np.log(np.maximum(posteriors, _FLOOR)).astype(np.float64)
    length, classes = scores.shape
    firsts, lasts = np.arange(1, classes, STATES), np.arange(STATES, classes, STATES)
    ends = np.concatenate([[0], lasts])  # classes after which a phone may begin
    entries = np.concatenate([[0], firsts])
    inner = np.setdiff1d(np.arange(classes), entries)
    total = np.full(classes, -np.inf)
    total[entries] = scores[0, entries]
    moves = np.zeros((length, classes), dtype=np.int8)  # 0: stay, 1: from the state before, 2: a new phone
    previous_ends = np.zeros(length, dtype=np.int64)
    for row in range(1, length):
        end = ends[int(total[ends].argmax())]
        previous_ends[row] = end
        arriving = np.full(classes, -np.inf)
        arriving[inner] = total[inner - 1]
        arriving[entries] = total[end] - new_phone
        moved = arriving > total
        moves[row, moved] = 1
        moves[row, entries[moved[entries]]] = 2
        total = np.where(moved, arriving, total) + scores[row]
    state = ends[int(total[ends].argmax())] if np.isfinite(total[ends]).any() else int(total.argmax())
    path = np.empty(length, dtype=np.int64)
    begins = np.zeros(length, dtype=bool)  # rows at which a phone begins
    for row in range(length - 1, -1, -1):
        path[row] = state
        if row:
            begins[row] = moves[row, state] == 2
            state = (state, state - 1, previous_ends[row])[moves[row, state]]
    begins[0] = True
    return _from_states(path, begins)


def _from_states(path: NDArray[np.int64], begins: NDArray[np.bool_]) -> PhonePath:
    """Return the phones of a path of classes (T,); ``begins`` marks the first row of each phone."""
    heads = np.flatnonzero(begins)
    phones = np.where(path[heads] == 0, 0, (path[heads] - 1) // STATES + 1)
    limits = np.append(heads[1:], len(path))
    starts = np.empty((len(heads), STATES), dtype=np.int64)
    for number, (head, limit) in enumerate(zip(heads, limits, strict=True)):
        state = (path[head:limit] - 1) % STATES if phones[number] else np.zeros(limit - head, dtype=np.int64)
        starts[number] = head + np.searchsorted(state, np.arange(STATES))
        if not phones[number]:
            starts[number] = head
    return PhonePath(phones, np.minimum(starts, limits[:, None]), len(path))


def retimed_positions(path: PhonePath, durations: NDArray[Any], rows: int) -> Positions:
    """Return the position in the source of each of ``rows`` output rows, (rows,), not decreasing.

    Parameters
    ----------
    path
        Phones of the source.
    durations
        New durations (N,), in any unit: they are scaled to ``rows`` in all.
    rows
        Number of output rows.
    """
    edges = np.append(path.starts[:, 0], path.length).astype(np.float64)
    new_edges = np.concatenate([[0.0], np.cumsum(durations)])
    new_edges *= rows / new_edges[-1]
    centers = np.arange(rows) + 0.5
    return np.asarray(np.clip(np.interp(centers, new_edges, edges) - 0.5, 0, path.length - 1))
