"""Evidence in ranks: pairs counted in loops as twin, ties, and what luck gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metrics.test_legal import Floats, ids
from voiceveil import InputError, metrics
from voiceveil.metrics import all_pairs, legal
from voiceveil.metrics.rank_disclosure import rank_disclosure, rank_disclosure_from_scores, rank_llr, rank_shares


def slow_ratios(scores: Floats, own: list[int]) -> list[float]:
    """For each rank: its frequency among pairs of one speaker, divided by that among pairs of two, by counting pairs.

    Equal scores share their ranks.
    """
    n = scores.shape[1]
    same, different = [0.0] * n, [0.0] * n
    for row, speaker in zip(scores.tolist(), own, strict=True):
        for column, score in enumerate(row):
            above = sum(other > score for other in row)
            tied = row.count(score)
            for rank in range(above, above + tied):
                (same if column == speaker else different)[rank] += 1 / tied
    return [
        np.inf if not d else (s / len(own)) / (d / (len(own) * (n - 1))) for s, d in zip(same, different, strict=True)
    ]


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 9), st.integers(1, 12), st.sampled_from([2, 5, 10_000]), st.integers(0, 10_000))
def test_ratios_equal_counted_pairs(n: int, tests: int, levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (tests, n)) / levels
    own = rng.integers(0, n, tests)
    evidence = rank_disclosure_from_scores(scores, ids(own), ids(range(n)))
    column = scores[np.arange(tests), own][:, None]
    shares = rank_shares((scores > column).sum(axis=1), (scores == column).sum(axis=1) - 1, n)
    ratios = np.array(slow_ratios(scores, own.tolist()))
    assert shares.sum() == pytest.approx(1)
    finite = np.isfinite(ratios)
    np.testing.assert_allclose(10 ** rank_llr(shares, n)[finite], ratios[finite], rtol=1e-9, atol=1e-12)
    if finite.all():
        assert 10**evidence.worst == pytest.approx(max(ratios))
        assert ratios[evidence.rank - 1] == pytest.approx(max(ratios))


def test_equal_scores_are_no_evidence() -> None:
    evidence = rank_disclosure_from_scores(np.ones((6, 6)), ids(range(6)), ids(range(6)))
    assert evidence.worst == pytest.approx(0, abs=1e-12)
    assert evidence.top == pytest.approx(0, abs=1e-12)
    assert not evidence.shows_evidence


def test_certainty_is_infinite_with_a_finite_lower_limit() -> None:
    evidence = rank_disclosure_from_scores(np.eye(40), ids(range(40)), ids(range(40)))
    assert (evidence.worst, evidence.rank) == (np.inf, 1)
    assert 2 < evidence.low < evidence.high == np.inf
    assert evidence.as_dict()["worst"] is None
    assert evidence.shows_evidence


def test_worst_case_sees_what_a_high_eer_hides() -> None:
    """A tenth of the speakers is always first, the others are anywhere: an EER near one half, and an LR of 11."""
    rng = np.random.default_rng(0)
    scores = rng.random((100, 100))
    np.fill_diagonal(scores, np.where(np.arange(100) < 10, 2.0, np.linspace(0, 1, 100)))
    same = np.eye(100, dtype=bool)
    assert metrics.eer(scores[same], scores[~same]) > 0.44
    evidence = rank_disclosure_from_scores(scores, ids(range(100)), ids(range(100)))
    assert evidence.rank == 1
    assert evidence.worst == pytest.approx(np.log10(0.1 * 99 / 0.9), abs=0.15)  # and a few more by luck
    assert evidence.shows_evidence


@pytest.mark.parametrize(("tests", "n"), [(30, 30), (200, 50), (40, 400)])
def test_the_floor_holds_in_95_percent_of_lucky_worst_cases(tests: int, n: int) -> None:
    rng = np.random.default_rng(1)
    repeats = 3000
    largest = rng.multinomial(tests, np.full(n, 1 / n), size=repeats).max(axis=1) / tests
    evidence = rank_disclosure(np.zeros(tests, dtype=np.int64), np.zeros(tests, dtype=np.int64), n, ids(range(tests)))
    exceeded = float((rank_llr(largest, n) > evidence.floor + 1e-9).mean())
    assert exceeded < 0.06
    one_less = rank_llr(np.round(10**evidence.floor / (10**evidence.floor + n - 1) * tests - 1) / tests, n)
    assert float((rank_llr(largest, n) > one_less + 1e-9).mean()) > 0.04  # a lower floor would not hold


def test_interval_at_rank_1_is_over_speakers() -> None:
    above = np.repeat([0, 5], [10, 10])
    alone = rank_disclosure(above, np.zeros(20, dtype=np.int64), 50, ids(range(20)))
    assert alone.low < alone.top < alone.high
    twice = rank_disclosure(np.tile(above, 2), np.zeros(40, dtype=np.int64), 50, ids(range(20)) * 2)
    assert (twice.low, twice.high, twice.tests) == pytest.approx((alone.low, alone.high, 20), abs=0.02)


def test_pairs_of_vectors_count_ties() -> None:
    """Two enrolled speakers with one vector tie; the own speaker's ties are among the rivals."""
    enrolled = legal.unit_rows([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    own = np.array([0, 2])
    result = all_pairs.score_all_pairs(
        all_pairs.LinkTrials(legal.unit_rows([[1.0, 0.1], [1.0, 0.1]]), enrolled, own, np.array([2, 0])),
        [3],
        np.random.default_rng(0),
    )
    assert result.rivals.tolist() == [1, 2]
    assert result.ties.tolist() == [1, 0]


def test_errors_name_the_problem() -> None:
    with pytest.raises(InputError, match="NaN"):
        rank_disclosure_from_scores([[np.nan, 1.0]], ["a"], ["a", "b"])
    with pytest.raises(InputError, match="shape"):
        rank_disclosure_from_scores([[1.0]], ["a"], ["a", "b"])
    with pytest.raises(InputError, match="cannot be ranked"):
        rank_disclosure_from_scores([[1.0]], ["a"], ["a"])
