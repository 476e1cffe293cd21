"""Linkability, and what both legal metrics share: enumeration as twin, the official case, bad input, speed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.paths import GOLDEN
from voiceveil import InputError, metrics
from voiceveil.metrics import SinglingOutProtocol, legal, legal_linkability, utterance_embeddings

Floats = NDArray[np.float64]


def ids(codes: NDArray[np.int64] | range) -> list[str]:
    return [f"s{code:05d}" for code in codes]


def voices(
    seed: int, speakers: int, each: int, *, noise: float, dimension: int = 16
) -> tuple[NDArray[np.float32], list[str], NDArray[np.float32], list[str]]:
    """Test utterances and one enrollment embedding of each speaker, around the speaker's own direction."""
    rng = np.random.default_rng(seed)
    center = rng.normal(size=(speakers, dimension))
    codes = np.repeat(np.arange(speakers), each)
    test = center[codes] + noise * rng.normal(size=(len(codes), dimension))
    enroll = center + 0.3 * noise * rng.normal(size=center.shape)
    return test.astype(np.float32), ids(codes), enroll.astype(np.float32), ids(range(speakers))


def cosines(a: NDArray[np.floating], b: NDArray[np.floating]) -> Floats:
    a, b = (x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True) for x in (a, b))
    return np.asarray(a @ b.T)


# ---- Linkability


def linkability_by_enumeration(scores: Floats, size: int) -> float:
    """Equation 3 for every possible choice of the N' - 1 others; test i belongs to column i."""
    linked = []
    for i, row in enumerate(scores):
        others = [j for j in range(scores.shape[1]) if j != i]
        linked += [all(row[i] > row[j] for j in chosen) for chosen in combinations(others, size - 1)]
    return float(np.mean(linked))


small_scores = st.integers(2, 6).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 4), min_size=n, max_size=n), min_size=1, max_size=n)
)


@settings(deadline=None)
@given(small_scores)
def test_exact_linkability_equals_enumeration(rows: list[list[int]]) -> None:
    """Ties included: scores are integers from 0 to 4."""
    scores = np.array(rows, dtype=np.float64)
    n = scores.shape[1]
    sizes = list(range(1, n + 1))
    result = metrics.linkability_from_scores(scores, ids(range(len(scores))), ids(range(n)), sizes=sizes)
    for size, value, chance in zip(result.sizes, result.value, result.chance, strict=True):
        assert value == pytest.approx(linkability_by_enumeration(scores, size), abs=1e-12)
        assert chance == 1 / size


def test_link_probabilities_equal_stored_figures() -> None:
    """n = 5, N' = 3: with r rivals C(4 - r, 2) / C(4, 2) = 6/6, 3/6, 1/6, 0, 0."""
    result = legal_linkability.link_probabilities([0, 1, 2, 3, 4], enrolled=5, size=3)
    assert result == pytest.approx([1, 1 / 2, 1 / 6, 0, 0], abs=1e-15)


def test_link_probabilities_are_stable_for_large_counts() -> None:
    """Against exact integers, where binomials have thousands of digits."""
    from fractions import Fraction
    from math import comb

    n, size = 22_024, 11_012
    result = legal_linkability.link_probabilities([1, 10, 500, 11_012], n, size)
    for rivals, value in zip([1, 10, 500, 11_012], result, strict=True):
        exact = Fraction(comb(n - 1 - rivals, size - 1), comb(n - 1, size - 1))
        assert value == pytest.approx(float(exact), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.permutations(range(12)), st.permutations(range(12)))
def test_linkability_ignores_order_names_and_monotone_maps(seed: int, rows: list[int], names: list[int]) -> None:
    scores = np.random.default_rng(seed).normal(size=(12, 12)) + 2 * np.eye(12)
    plain = metrics.linkability_from_scores(scores, ids(range(12)), ids(range(12)), sizes=[3, 12])
    renamed = [f"x{names[k]}" for k in range(12)]
    mapped = np.exp(scores)[rows][:, names]
    other = metrics.linkability_from_scores(
        mapped, [renamed[k] for k in rows], [renamed[k] for k in names], sizes=[12, 3]
    )
    assert other.value == pytest.approx(plain.value, abs=1e-12)


def test_embeddings_and_scores_agree() -> None:
    test, test_ids, enroll, enroll_ids = voices(0, speakers=150, each=1, noise=1.5)
    from_scores = metrics.linkability_from_scores(cosines(test, enroll), test_ids, enroll_ids)
    result = metrics.linkability(utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids))
    assert result.sizes == (37, 75, 150)
    assert (result.rivals == from_scores.rivals).all()
    assert result.value == pytest.approx(from_scores.value, abs=1e-12)


def test_result_does_not_depend_on_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    test, test_ids, enroll, enroll_ids = voices(1, speakers=60, each=12, noise=1.5)
    once = metrics.linkability(utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids))
    single = metrics.singling_out(
        utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids), SinglingOutProtocol(draws=1)
    )
    monkeypatch.setattr(legal, "BLOCK_BYTES", 1)
    assert (
        metrics.linkability(utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids)).rivals
        == once.rivals
    ).all()
    again = metrics.singling_out(
        utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids), SinglingOutProtocol(draws=1)
    )
    assert (again.components == single.components).all()


def test_identical_enrolled_vectors_tie_and_do_not_link() -> None:
    """Every enrolled speaker exists twice: a strict inequality never holds, whatever float32 makes of it."""
    test, test_ids, enroll, enroll_ids = voices(2, speakers=101, each=1, noise=0.2, dimension=37)
    twins = [f"twin-{name}" for name in enroll_ids]
    result = metrics.linkability(
        utterance_embeddings(test, test_ids),
        utterance_embeddings(np.r_[enroll, enroll], [*enroll_ids, *twins]),
        sizes=[202],
    )
    assert result.value[0] == 0.0
    assert (
        metrics.linkability(
            utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids), sizes=[101]
        ).value[0]
        == 1.0
    )


def test_longer_conversations_link_better() -> None:
    test, test_ids, enroll, enroll_ids = voices(3, speakers=100, each=30, noise=3.0)
    values = [
        metrics.linkability(
            utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids), length=n, sizes=[100]
        ).value[0]
        for n in (1, 3, 30)
    ]
    assert values[0] < values[1] < values[2]
    assert values[0] > 0.01


def test_the_five_draws_of_the_paper_estimate_the_exact_value() -> None:
    test, test_ids, enroll, enroll_ids = voices(4, speakers=300, each=1, noise=2.0)
    exact = metrics.linkability(
        utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids), sizes=[20, 100]
    )
    drawn = metrics.linkability(
        utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids), sizes=[20, 100], draws=400
    )
    assert drawn.value == pytest.approx(exact.value, abs=0.01)
    five = metrics.linkability(
        utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids), sizes=[20], draws=5
    )
    assert set(np.unique(five.components * 5).round(9)) <= {0, 1, 2, 3, 4, 5}


def test_shuffled_speakers_link_by_chance() -> None:
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(400, 400))
    result = metrics.linkability_from_scores(scores, ids(range(400)), ids(range(400)), sizes=[2, 20, 100])
    assert result.value == pytest.approx(result.chance, abs=0.03)
    assert (result.interval[:, 0] <= result.value).all()
    assert (result.interval[:, 1] >= result.value).all()


def test_equal_scores_never_link() -> None:
    result = metrics.linkability_from_scores(np.ones((3, 5)), ids(range(3)), ids(range(5)), sizes=[1, 2, 5])
    assert result.value.tolist() == [1.0, 0.0, 0.0]  # alone among one speaker there is nobody to be confused with


def test_tests_of_one_speaker_are_resampled_together() -> None:
    scores = np.tile(np.eye(4), (10, 1))
    scores[:20] = 1 - scores[:20]
    names = ids(range(4)) * 10
    result = metrics.linkability_from_scores(scores, names, ids(range(4)), sizes=[4])
    assert result.value[0] == 0.5
    assert result.interval[0, 1] - result.interval[0, 0] < 1e-9  # each speaker is linked in exactly half of the tests


# ---- Conversations


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=8), st.sampled_from([1, 3]), st.integers(0, 99))
def test_conversations_are_disjoint_and_complete(available: list[int], length: int, seed: int) -> None:
    """min(10, n // L) groups of L utterances; speakers with fewer than 2 L are excluded."""
    codes = np.repeat(np.arange(len(available)), available)
    if max(available) < 2 * length:
        with pytest.raises(InputError, match="utterances"):
            legal.draw_rows(codes, length, most=10, least=2, rng=np.random.default_rng(seed))
        return
    rows, counts = legal.draw_rows(codes, length, most=10, least=2, rng=np.random.default_rng(seed))
    assert counts.tolist() == [min(10, n // length) if n >= 2 * length else 0 for n in available]
    assert len(np.unique(rows)) == rows.size
    assert (codes[rows] == np.repeat(np.arange(len(available)), counts)[:, None]).all()


def test_conversation_vectors_are_means() -> None:
    embeddings = utterance_embeddings([[2.0, 0.0], [0.0, 2.0], [0.0, 4.0]], ["a", "a", "b"])
    pairs = legal.draw_conversations(embeddings, 2, most=10, rng=np.random.default_rng(0))
    assert pairs.speakers == ("a",)
    assert pairs.vectors == pytest.approx(np.sqrt([[0.5, 0.5]]))
    single = legal.speaker_means(embeddings, most=1, rng=np.random.default_rng(0))
    assert sorted(single.vectors[0].tolist()) == [0.0, 1.0]
    means = legal.speaker_means(embeddings)
    assert means.speakers == ("a", "b")
    assert means.vectors == pytest.approx(np.array([[0.5**0.5, 0.5**0.5], [0, 1]]))


# ---- What cannot be scored


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: metrics.linkability_from_scores([[1.0]], ["a"], ["b"]), "'a' is not enrolled"),
        (lambda: metrics.linkability_from_scores([[1.0, 0.0]], ["a"], ["a", "a"]), "twice"),
        (lambda: metrics.linkability_from_scores([[np.nan, 0.0]], ["a"], ["a", "b"]), "NaN"),
        (lambda: metrics.linkability_from_scores([[1.0, 0.0]], ["a"], ["a", "b"], sizes=[3]), "between 1 and 2"),
        (lambda: metrics.linkability_from_scores([[1.0, 0.0]], ["a"], ["a", "b"], sizes=[]), "no speaker count"),
        (lambda: metrics.linkability_from_scores([], [], []), "shape"),
        (
            lambda: metrics.linkability(
                utterance_embeddings([[1.0, 0]], ["a"]), utterance_embeddings([[0.0, 0]], ["a"])
            ),
            "zeros",
        ),
        (
            lambda: metrics.linkability(utterance_embeddings([[1.0, 0]], ["a"]), utterance_embeddings([[1.0]], ["a"])),
            "dimensions",
        ),
        (
            lambda: metrics.linkability(
                utterance_embeddings(np.array([[1.0, np.nan]]), ["a"]), utterance_embeddings([[1.0, 0]], ["a"])
            ),
            "NaN",
        ),
        (
            lambda: metrics.linkability(
                utterance_embeddings([[1.0]], ["a"]), utterance_embeddings([[1.0]], ["a"]), length=2
            ),
            "no speaker has 2",
        ),
        (
            lambda: metrics.linkability(
                utterance_embeddings([[1.0]], ["a"]), utterance_embeddings([[1.0]], ["a"]), length=0
            ),
            "length of 0",
        ),
        (
            lambda: metrics.linkability(
                utterance_embeddings([[1.0]], ["a"]), utterance_embeddings([[1.0]], ["a"]), draws=0
            ),
            "draws = 0",
        ),
        (
            lambda: metrics.singling_out(utterance_embeddings([[1.0]], ["a"]), utterance_embeddings([[1.0]], ["a"])),
            "no speaker has 2",
        ),
        (
            lambda: metrics.singling_out(
                utterance_embeddings([[1.0]] * 2, ["a"] * 2), utterance_embeddings([[1.0]] * 2, ["a"])
            ),
            "for 1 speaker ids",
        ),
        (
            lambda: metrics.singling_out(utterance_embeddings([[1.0]] * 2, ["a"] * 2), utterance_embeddings([], [])),
            "for 0 speaker ids",
        ),
        (
            lambda: metrics.singling_out(
                utterance_embeddings([[1.0]] * 2, ["a"] * 2), utterance_embeddings([[1.0]], ["a"])
            ),
            "two test speakers",
        ),
        (
            lambda: metrics.singling_out(
                utterance_embeddings([[1.0]] * 4, ["a", "a", "b", "b"]), utterance_embeddings([[1.0]], ["c"])
            ),
            "no enrolled speaker",
        ),
        (
            lambda: metrics.singling_out(
                utterance_embeddings([[1.0]] * 4, ["a", "a", "b", "b"]),
                utterance_embeddings([[1.0]], ["a"]),
                SinglingOutProtocol(folds=1),
            ),
            "folds",
        ),
        (lambda: metrics.singling_out_from_scores([[1.0, np.nan]], ["a"], ["a", "b"]), "NaN"),
        (lambda: metrics.singling_out_from_scores([[1.0]], ["a"], ["a", "b"]), "shape"),
        (lambda: metrics.singling_out_chance(1), "1 speakers"),
        (lambda: metrics.isolated([[1.0]], [[1.0]]), "rank 9"),
        (lambda: metrics.isolated([[np.nan]], [[1.0, 2.0]], rank=1), "NaN"),
    ],
)
def test_invalid_input_is_rejected(call: Callable[[], object], what: str) -> None:
    with pytest.raises(InputError, match=what):
        call()


# ---- Official figures and speed


def test_equals_the_official_small_case() -> None:
    data = np.load(GOLDEN / "legal.npz")
    official = json.loads((GOLDEN / "legal.json").read_text())
    enrolled = data["enroll"][:20]  # the official figure is of the first 20 enrolled speakers
    isolated = metrics.isolated(cosines(enrolled, data["test"]), cosines(enrolled, data["calib"]))
    assert isolated.mean() == pytest.approx(official["singling_out_isolation"], abs=1e-12)
    names = ids(range(60))
    linked = metrics.linkability(
        utterance_embeddings(data["test"], names), utterance_embeddings(data["enroll"], names), sizes=[20, 60]
    )
    assert linked.value[1] == pytest.approx(official["linkability_all"], abs=1e-12)
    # The official figure for N' = 20 is one random draw of 60 tests: within three standard errors of the exact value.
    p = linked.components[:, 0]
    assert abs(linked.value[0] - official["linkability_N20"]) < 3 * np.sqrt((p * (1 - p)).sum()) / 60 + 1e-9


def common_voice(each: int) -> tuple[NDArray[np.float32], list[str], NDArray[np.float32], list[str]]:
    """Return embeddings of as many speakers as in subsets A and B of the paper."""
    rng = np.random.default_rng(0)
    center = rng.standard_normal((22_024, 192), dtype=np.float32)
    codes = np.repeat(np.arange(22_024), each)
    many = center[codes] + 4 * rng.standard_normal((len(codes), 192), dtype=np.float32)
    few = center[:4949] + 2 * rng.standard_normal((4949, 192), dtype=np.float32)
    return many, ids(codes), few, ids(range(4949))


@pytest.mark.slow
def test_linkability_of_the_paper_takes_seconds() -> None:
    """4,949 tests, 22,024 enrolled speakers, eleven N' at once; the withdrawn code takes 470 s for one draw of one."""
    many, many_ids, few, few_ids = common_voice(1)
    start = time.process_time()
    result = metrics.linkability(utterance_embeddings(few, few_ids), utterance_embeddings(many, many_ids))
    assert time.process_time() - start < 10
    assert len(result.sizes) == 11
    assert (np.diff(result.value) < 0).all()
