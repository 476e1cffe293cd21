"""Phones behind posteriors: against all paths, and on paths that are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil.models.content.phone_path import PhonePath, phone_path, retimed_positions

#: Two phones and silence.
CLASSES = 7


def best_of_all_paths(posteriors: NDArray[np.float64], new_phone: float) -> tuple[float, list[int]]:
    """Return score and classes of the best path that ends with a whole phone, by trying all of them."""
    scores = np.log(np.maximum(posteriors, 1e-5))
    complete: list[tuple[float, list[int]]] = []

    def go_on(row: int, state: int, score: float, path: list[int]) -> None:
        score, path = score + scores[row, state], [*path, state]
        whole = state % 3 == 0  # silence, or the last state of a phone
        if row == len(scores) - 1:
            complete.extend([(score, path)] * whole)
            return
        go_on(row + 1, state, score, path)
        if not whole:
            go_on(row + 1, state + 1, score, path)
        for first in (0, 1, 4):
            if whole:
                go_on(row + 1, first, score - new_phone, path)

    for first in (0, 1, 4):
        go_on(0, first, 0.0, [])
    return max(complete)


@pytest.mark.parametrize("seed", range(12))
def test_path_is_the_best_of_all(seed: int) -> None:
    posteriors = np.random.default_rng(seed).dirichlet(np.ones(CLASSES), size=6)
    _, states = best_of_all_paths(posteriors, 1.0)
    path = phone_path(posteriors, 1.0)
    found = np.repeat(path.phones, path.durations)
    assert found.tolist() == [0 if state == 0 else (state - 1) // 3 + 1 for state in states]


def test_path_of_certain_posteriors() -> None:
    states = [0, 0, 4, 4, 5, 6, 6, 6, 1, 2, 3, 1, 2, 2, 3, 0]
    path = phone_path(np.eye(CLASSES)[states])
    assert path.phones.tolist() == [0, 2, 1, 1, 0]
    assert path.starts.tolist() == [[0, 0, 0], [2, 4, 5], [8, 9, 10], [11, 12, 14], [15, 15, 15]]
    assert path.durations.tolist() == [2, 6, 3, 4, 1]


def test_new_phones_cost() -> None:
    doubtful = np.eye(CLASSES)[[0, 0, 1, 2, 3, 0, 0]] * 0.5 + np.eye(CLASSES)[[0] * 7] * 0.5
    assert phone_path(doubtful, 0.1).phones.tolist() == [0]
    clear = np.eye(CLASSES)[[0, 0, 1, 2, 3, 0, 0]] * 0.9 + np.eye(CLASSES)[[0] * 7] * 0.1
    assert phone_path(clear, 1.0).phones.tolist() == [0, 1, 0]
    assert phone_path(clear, 9.0).phones.tolist() == [0]


def test_shorter_than_a_phone() -> None:
    path = phone_path(np.eye(CLASSES)[[1, 2]])
    assert path.durations.sum() == path.length == 2


def test_positions_follow_the_new_durations() -> None:
    path = PhonePath(np.array([0, 1, 2]), np.array([[0, 0, 0], [4, 5, 6], [8, 10, 12]]), 20)
    same = retimed_positions(path, path.durations, 20)
    assert np.allclose(same, np.arange(20))
    twice = retimed_positions(path, np.array([4, 8, 12]), 24)  # the phone in the middle is twice as long
    assert np.allclose(twice[:4], np.arange(4))
    assert np.allclose(np.diff(twice[4:12]), 0.5)
    assert np.allclose(np.diff(twice[13:]), 1.0)
    assert twice[-1] == 19
