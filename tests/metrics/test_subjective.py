"""Listening tests: brute force as twin for ranks, U, purity and F1; extremes, ties and what cannot be scored."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil import InputError, metrics

ratings = st.lists(st.integers(1, 10), min_size=1, max_size=12)
panels = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("1234")), min_size=1, max_size=16)


def slow_purity(speakers: list[str], clusters: list[str]) -> float:
    """Equation 3: try every way to give each cluster a speaker of its own, or nobody."""
    names, candidates = sorted(set(clusters)), sorted(set(speakers))
    candidates = candidates + [""] * max(0, len(names) - len(candidates))
    best = 0
    for choice in permutations(candidates, len(names)):
        owner = dict(zip(names, choice, strict=True))
        best = max(best, sum(owner[c] == s for s, c in zip(speakers, clusters, strict=True)))
    return best / len(speakers)


def slow_macro_f1(refs: list[str], hyps: list[str]) -> float:
    scores = []
    for label in set(refs):
        true = sum(r == h == label for r, h in zip(refs, hyps, strict=True))
        precision = true / hyps.count(label) if label in hyps else 0.0
        recall = true / refs.count(label)
        scores.append(2 * precision * recall / (precision + recall) if true else 0.0)
    return sum(scores) / len(scores)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10), st.sampled_from("xyz")), min_size=1, max_size=20))
def test_ranks_equal_plain_counting(given_by: list[tuple[int, str]]) -> None:
    values, names = [v for v, _ in given_by], [n for _, n in given_by]
    for value, name, rank in zip(values, names, metrics.normalized_ranks(values, names), strict=True):
        own = [v for v, n in given_by if n == name]
        below, equal = sum(v < value for v in own), own.count(value)
        assert rank == pytest.approx((below + (equal - 1) / 2) / len(own), abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.integers(1, 10), min_size=2, max_size=20))
def test_ranks_ignore_the_scale_of_an_evaluator(values: list[int]) -> None:
    lenient = [2 * v + 30 for v in values]
    both = metrics.normalized_ranks([*values, *lenient], ["x"] * len(values) + ["y"] * len(values))
    assert (both[: len(values)] == both[len(values) :]).all()
    assert ((both >= 0) & (both < 1)).all()


def test_ranks_equal_stored_figures() -> None:
    """(mean rank - 1) / n: the ratings 1, 5, 5, 10 of one evaluator have the ranks 1, 2.5, 2.5, 4."""
    ranks = metrics.normalized_ranks([5, 1, 7, 10, 5, 7], ["x", "x", "y", "x", "x", "y"])
    assert ranks.tolist() == [0.375, 0.0, 0.25, 0.75, 0.375, 0.25]
    assert metrics.normalized_ranks([3], ["x"]).tolist() == [0.0]


@settings(deadline=None)
@given(ratings, ratings)
def test_u_counts_pairs(a: list[int], b: list[int]) -> None:
    test = metrics.compare_ratings(a, b)
    assert test.u == sum((x > y) + 0.5 * (x == y) for x in a for y in b)
    assert test.superiority == pytest.approx(1 - metrics.compare_ratings(b, a).superiority)
    assert 0 <= test.p <= 1


def test_p_value_equals_stored_figures() -> None:
    """4 against 4 without overlap: of the C(8, 4) = 70 orders two are as extreme."""
    assert metrics.compare_ratings([7, 8, 9, 10], [1, 2, 3, 4]).p == pytest.approx(2 / 70)
    same = metrics.compare_ratings([5, 5], [5, 5, 5])
    assert (same.p, same.superiority) == (1.0, 0.5)


def test_p_values_of_equal_systems_are_uniform() -> None:
    rng = np.random.default_rng(0)
    p = [metrics.compare_ratings(rng.integers(1, 11, 40), rng.integers(1, 11, 40)).p for _ in range(300)]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.03)


def test_holm_adjusts_p_values() -> None:
    rng = np.random.default_rng(1)
    systems = {name: rng.normal(shift, 1, 30) for name, shift in (("b1", 0.0), ("b2", 0.6), ("i1", 1.5), ("k2", 0.1))}
    tests = metrics.compare_systems(systems)
    assert list(tests) == [("b1", "b2"), ("b1", "i1"), ("b1", "k2"), ("b2", "i1"), ("b2", "k2"), ("i1", "k2")]
    ordered = sorted(tests.values(), key=lambda test: test.p)
    for k, test in enumerate(ordered):
        assert test.p_adjusted == pytest.approx(min(1, max((6 - j) * ordered[j].p for j in range(k + 1))))


def test_det_curve_of_ratings() -> None:
    curve = metrics.rating_det([9, 10, 7, 9], [3, 7, 5, 9])
    for threshold, miss, alarm in zip(curve.threshold, curve.p_miss, curve.p_fa, strict=True):
        assert miss == np.mean(np.array([9, 10, 7, 9]) <= threshold)
        assert alarm == np.mean(np.array([3, 7, 5, 9]) > threshold)


@settings(max_examples=60, deadline=None)
@given(panels)
def test_purity_equals_brute_force(panel: list[tuple[str, str]]) -> None:
    speakers, clusters = [s for s, _ in panel], [c for _, c in panel]
    assert metrics.clustering_purity(speakers, clusters) == pytest.approx(slow_purity(speakers, clusters), abs=1e-12)


@settings(deadline=None)
@given(panels)
def test_f1_equals_brute_force(panel: list[tuple[str, str]]) -> None:
    speakers, clusters = [s for s, _ in panel], [c for _, c in panel]
    assert metrics.macro_f1(speakers, clusters) == 0.0  # labels of speakers and clusters are different strings
    names = sorted(set(clusters))
    best = 0.0
    for choice in product(sorted(set(speakers)), repeat=len(names)):
        owner = dict(zip(names, choice, strict=True))
        inside = [[s for s, c in panel if c == name] for name in names]
        if all(i.count(o) == max(i.count(s) for s in i) for i, o in zip(inside, choice, strict=True)):
            best = max(best, slow_macro_f1(speakers, [owner[c] for c in clusters]))
    assert metrics.clustering_f1(speakers, clusters) == pytest.approx(best, abs=1e-12)


@settings(deadline=None)
@given(panels)
def test_macro_f1_equals_precision_and_recall(panel: list[tuple[str, str]]) -> None:
    refs, hyps = [s for s, _ in panel], ["abcd"["1234".index(c)] for _, c in panel]
    assert metrics.macro_f1(refs, hyps) == pytest.approx(slow_macro_f1(refs, hyps), abs=1e-12)


@settings(deadline=None)
@given(panels, st.permutations("abcd"), st.permutations("1234"))
def test_invariant_to_speaker_and_cluster_names(
    panel: list[tuple[str, str]], speakers: list[str], clusters: list[str]
) -> None:
    renamed = [(speakers["abcd".index(s)], clusters["1234".index(c)]) for s, c in reversed(panel)]
    for metric in (metrics.clustering_purity, metrics.clustering_f1):
        assert metric(*map(list, zip(*panel, strict=True))) == pytest.approx(
            metric(*map(list, zip(*renamed, strict=True))), abs=1e-12
        )


def test_a_split_speaker_hurts_purity_but_not_f1() -> None:
    """Section 2.3.2: F1 allows two clusters for one speaker, purity does not."""
    speakers, clusters = ["a", "a", "a", "a", "b", "b"], ["1", "1", "2", "2", "3", "3"]
    assert metrics.clustering_f1(speakers, clusters) == 1.0
    assert metrics.clustering_purity(speakers, clusters) == 4 / 6


def test_extremes_of_perfect_and_single_clusters() -> None:
    speakers = ["a"] * 6 + ["b"] * 5 + ["c"] * 4 + ["d"]  # a panel of the 2020 challenge: one distractor
    assert metrics.clustering_purity(speakers, speakers) == metrics.clustering_f1(speakers, speakers) == 1.0
    assert metrics.clustering_purity(speakers, ["1"] * 16) == 6 / 16
    assert metrics.clustering_f1(speakers, ["1"] * 16) == pytest.approx((2 * 6 / 22) / 4)


def test_clustering_change_counts_moves() -> None:
    moves = [("u1", "A"), ("u2", "A"), ("u1", "B"), ("u1", "B"), ("u1", "A")]
    change = metrics.clustering_change(moves)
    assert (change.count, change.utterances, change.per_utterance) == (4, 2, 2.0)
    assert metrics.clustering_change([(f"u{k}", "A") for k in range(16)]).per_utterance == 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.normalized_ranks([], []),
        lambda: metrics.normalized_ranks([1.0], []),
        lambda: metrics.normalized_ranks([np.nan], ["x"]),
        lambda: metrics.compare_ratings([], [1]),
        lambda: metrics.compare_systems({"b1": [1, 2]}),
        lambda: metrics.rating_det([1], []),
        lambda: metrics.macro_f1([], []),
        lambda: metrics.clustering_purity(["a"], []),
        lambda: metrics.clustering_f1(["a", "b"] * 20, [str(k // 2) for k in range(40)]),
        lambda: metrics.clustering_change([]),
    ],
)
def test_invalid_input_is_rejected(call: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        call()
