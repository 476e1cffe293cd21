"""Cuts at pauses, against a plain search."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.models.asr.segmentation import cut_at_pauses, frame_energy

RATE = 1000  # Hz: small, so that the plain search is quick; a hop has 10 samples, a pause 200


def slow_cuts(samples: NDArray[np.float32], limit: int) -> list[tuple[int, int]]:
    """Try every possible cut, summing the energy around it sample by sample."""
    n = len(samples)
    pieces, start = [], 0
    while n - start > limit:
        low, high = start + limit // 2, start + limit
        if n - low < limit:
            low, high = max(n - limit, start + limit // 4), min(high, n - limit // 4)
        quietest, best = np.inf, -1
        for cut in range(low, high + 1):
            if cut % 10 == 0:
                around = samples[max(cut - 100, 0) : cut + 100].astype(float)
                energy = sum(x * x for x in around) / (len(around) / 10)
                if energy <= quietest * (1 + 1e-9):
                    quietest, best = energy, cut
        pieces.append((start, best))
        start = best
    return [*pieces, (start, n)]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4000), st.sampled_from([1.0, 1.7]))
@settings(max_examples=25, deadline=None)
def test_cuts_equal_the_plain_search(seed: int, length: int, longest: float) -> None:
    rng = np.random.default_rng(seed)
    loudness = np.repeat(rng.choice([0.01, 0.3, 1.0], length // 50 + 1), 50)[:length]
    samples = (loudness * rng.normal(size=length)).astype(np.float32)
    assert cut_at_pauses(samples, RATE, longest) == slow_cuts(samples, int(longest * RATE))


@given(st.integers(0, 2**32 - 1), st.integers(0, 20000), st.floats(0.8, 5.0))
@settings(max_examples=100, deadline=None)
def test_pieces_tile_the_recording(seed: int, length: int, longest: float) -> None:
    samples = np.random.default_rng(seed).normal(size=length).astype(np.float32)
    pieces = cut_at_pauses(samples, RATE, longest)
    limit = int(longest * RATE)
    assert pieces[0][0] == 0
    assert pieces[-1][1] == length
    assert all(a[1] == b[0] for a, b in pairwise(pieces))
    assert all(stop - start <= limit for start, stop in pieces)
    if length > limit:
        assert all(stop - start >= limit // 4 - 10 for start, stop in pieces)


def test_cut_is_in_the_pause() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=40 * RATE).astype(np.float32)
    samples[17 * RATE : int(17.4 * RATE)] *= 0.001
    (_, cut), _ = cut_at_pauses(samples, RATE, 24.0)
    assert 17.0 * RATE <= cut <= 17.4 * RATE


def test_silence_is_cut_as_late_as_possible() -> None:
    assert cut_at_pauses(np.zeros(50 * RATE, dtype=np.float32), RATE, 20.0) == [
        (0, 20000),
        (20000, 40000),
        (40000, 50000),
    ]


def test_energy_of_a_partial_hop() -> None:
    samples = np.array([3.0] * 10 + [2.0] * 3, dtype=np.float32)
    assert frame_energy(samples, RATE).tolist() == [90.0, 12.0]


def test_pieces_must_be_longer_than_a_pause() -> None:
    with pytest.raises(InputError, match=r"at most 0\.5 s .*at least 0\.8 s"):
        cut_at_pauses(np.zeros(10, dtype=np.float32), RATE, 0.5)
