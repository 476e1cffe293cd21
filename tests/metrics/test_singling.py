"""Singling Out: loops as twin of the protocol, and what happens by chance, by simulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.metrics.test_legal import common_voice, cosines, ids, voices
from voiceveil import InputError, metrics
from voiceveil.metrics import SinglingOutProtocol, isolation, legal, legal_singling_out, utterance_embeddings
from voiceveil.metrics.isolation import Rank

Floats = NDArray[np.float64]


def slow_isolation(scores: Floats, counts: list[int], folds: int, rank: int) -> float:
    """The protocol in loops: ``scores`` of one enrolled speaker with the x-vectors of each test speaker in turn."""
    isolated = []
    for fold in range(folds):
        test: list[float] = []
        calibration: list[float] = []
        at = 0
        for count in counts:
            for slot in range(count):
                (test if slot == fold % count else calibration).append(scores[at + slot])
            at += count
        highest = sorted(calibration, reverse=True)
        threshold = (highest[rank - 1] + highest[rank]) / 2
        isolated.append(sum(score > threshold for score in test) == 1)
    return float(np.mean(isolated))


def ranks_of(counts: list[int], chosen: list[int]) -> dict[str, int]:
    mean = np.mean([counts[s] - 1 for s in chosen])
    return {"published": counts[chosen[0]] - 1, "balanced": int(np.floor(mean + 0.5)), "official": 9}


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(2, 10), min_size=3, max_size=40),
    st.sampled_from(["published", "balanced", "official"]),
    st.sampled_from([2, 5, 1000]),
    st.integers(0, 10_000),
)
def test_isolation_equals_the_loops(counts: list[int], rank: Rank, levels: int, seed: int) -> None:
    """With ties (scores of few levels), unequal K and all rules for the threshold; N of all the speakers are drawn."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, sum(counts)) / levels
    chosen = rng.permutation(len(counts))[: max(2, len(counts) * 2 // 3)].tolist()
    position = ranks_of(counts, chosen)[rank]
    pool = [counts[s] for s in chosen]
    row = isolation.Row(scores, 0.0, scores.__getitem__)
    arguments = (row, np.array(chosen), np.array(counts), SinglingOutProtocol(rank=rank), rng)
    if sum(pool) - len(pool) <= position:
        with pytest.raises(InputError, match="calibration scores"):
            isolation.row_isolation(*arguments)
        return
    starts = np.cumsum(counts) - counts
    picked = np.concatenate([scores[starts[s] : starts[s] + counts[s]] for s in chosen])
    rate, chance, _ = isolation.row_isolation(*arguments)
    assert rate == pytest.approx(slow_isolation(picked, pool, 10, position), abs=1e-12)
    assert 0 <= chance <= 1


def test_isolation_of_footnote_4_equals_its_figure() -> None:
    """Two speakers with K = 2 and K = 3: ten folds take slots 0,1,0,1,... and 0,1,2,0,...; the rule is K of the first.

    Enrolled speaker a scores .9 and .8, speaker b .5, .4, .3: the threshold is the mean of the 1st and the 2nd
    calibration score, between a's remaining one and b's best remaining one, and only a's test is above.
    """
    names, scores = ["a", "a", "b", "b", "b"], [[0.9, 0.8, 0.5, 0.4, 0.3]]
    result = metrics.singling_out_from_scores(scores, ["a"], names, sizes=[2])
    assert result.value[0] == 1.0
    # Official: the 9th and 10th of three calibration scores do not exist.
    with pytest.raises(InputError, match="the threshold needs 10"):
        metrics.singling_out_from_scores(scores, ["a"], names, SinglingOutProtocol(rank="official"), sizes=[2])


def test_the_whole_protocol_equals_the_loops() -> None:
    """All speakers, one draw: the same split into folds, then loops."""
    rng = np.random.default_rng(6)
    counts = rng.integers(1, 14, 25)
    codes = rng.permutation(np.repeat(np.arange(25), counts))
    scores = rng.normal(size=(25, len(codes))) + 1.5 * (codes == np.arange(25)[:, None])
    kept = np.minimum(counts, 10)
    kept[kept < 2] = 0
    eligible = np.flatnonzero(kept)
    result = metrics.singling_out_from_scores(
        scores, ids(range(25)), ids(codes), SinglingOutProtocol(draws=1), sizes=[len(eligible)], seed=3
    )
    assert result.speakers == tuple(ids(eligible))
    columns, _ = legal.draw_rows(codes, 1, most=10, least=2, rng=np.random.default_rng(3))
    expected = [
        slow_isolation(scores[s, columns[:, 0]], kept[eligible].tolist(), 10, int(kept[s]) - 1) for s in eligible
    ]
    assert result.components[:, 0] == pytest.approx(expected, abs=1e-12)


def test_isolation_falls_back_to_all_scores() -> None:
    """The 64 highest scores belong to one speaker's lone test slots: the answer comes from all scores."""
    counts = np.array([2] * 100)
    scores = np.tile([1.0, 0.0], 100) + np.linspace(0, 0.1, 200)  # slot 0 is always far above slot 1
    row = isolation.Row(scores, 0.0, scores.__getitem__)
    rate, _, _ = isolation.row_isolation(row, np.arange(100), counts, SinglingOutProtocol(), np.random.default_rng(0))
    assert rate == slow_isolation(scores, counts.tolist(), 10, 1)


def test_vectors_and_scores_agree() -> None:
    test, _, enroll, _ = voices(7, speakers=80, each=10, noise=1.5)
    tests = legal.unit_rows(test)
    counts, exact = np.full(80, 10), cosines(enroll, test)
    for k, row in enumerate(legal_singling_out._vector_rows(legal.unit_rows(enroll), tests)):
        scores = isolation.Row(exact[k], 0.0, exact[k].__getitem__)
        members = np.r_[k, [s for s in range(80) if s != k]]
        rates = [
            isolation.row_isolation(r, members, counts, SinglingOutProtocol(), np.random.default_rng(0))[0]
            for r in (row, scores)
        ]
        assert rates[0] == rates[1]


def test_the_value_at_an_n_does_not_depend_on_the_other_n() -> None:
    """Members, shuffles and control have a stream for each N; a shared one made the value depend on the list of N."""
    test, test_ids, enroll, enroll_ids = voices(10, speakers=60, each=8, noise=1.5)
    sides = utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids)
    protocol = SinglingOutProtocol(draws=2)
    whole = metrics.singling_out(*sides, protocol, sizes=[5, 20, 33, 60])
    for k, size in enumerate(whole.sizes):
        for others in ([], [2], [59]):
            alone = metrics.singling_out(*sides, protocol, sizes=[*others, size])
            at = alone.sizes.index(size)
            for name in ("value", "chance", "interval"):
                np.testing.assert_allclose(getattr(alone, name)[at], getattr(whole, name)[k], rtol=1e-12)
            np.testing.assert_array_equal(alone.components[:, at], whole.components[:, k])
            np.testing.assert_array_equal(alone.control[:, at], whole.control[:, k])


def test_the_value_of_a_speaker_does_not_depend_on_who_else_attacks() -> None:
    test, test_ids, enroll, enroll_ids = voices(10, speakers=40, each=8, noise=1.5)
    sides = utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids)
    protocol = SinglingOutProtocol(draws=3, most_enrolled=20)
    whole = metrics.singling_out(*sides, protocol)
    few = metrics.singling_out(*sides, protocol, only=whole.speakers[5:9])
    np.testing.assert_array_equal(few.components, whole.components[5:9])


def test_extremes_of_separated_and_equal_voices() -> None:
    test, test_ids, enroll, enroll_ids = voices(8, speakers=40, each=10, noise=0.01)
    apart = metrics.singling_out(
        utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids), SinglingOutProtocol(draws=2)
    )
    assert apart.value == pytest.approx([1.0, 1.0])
    alike = metrics.singling_out(
        utterance_embeddings(np.ones_like(test), test_ids),
        utterance_embeddings(np.ones_like(enroll), enroll_ids),
        SinglingOutProtocol(draws=1),
    )
    assert alike.value.tolist() == alike.chance.tolist() == [0.0, 0.0]  # nothing is ever strictly above


def test_shuffled_speakers_are_singled_out_by_chance() -> None:
    test, test_ids, enroll, enroll_ids = voices(9, speakers=150, each=10, noise=1.0)
    shuffled = np.random.default_rng(0).permutation(test_ids).tolist()
    honest = metrics.singling_out(
        utterance_embeddings(test, test_ids), utterance_embeddings(enroll, enroll_ids), sizes=[20, 150]
    )
    blind = metrics.singling_out(
        utterance_embeddings(test, shuffled), utterance_embeddings(enroll, enroll_ids), sizes=[20, 150]
    )
    assert (honest.value > honest.chance + 0.1).all()
    assert blind.value == pytest.approx(blind.chance, abs=0.02)
    assert blind.value == pytest.approx([bounds.value for bounds in blind.chance_bounds], abs=0.02)
    assert (blind.interval[:, 0] < blind.chance).all()
    assert (blind.interval[:, 1] > blind.chance).all()


def test_isolating_another_speaker_counts() -> None:
    """Isolation counts 'whether it is from the same speaker or not': here it is always speaker b."""
    names = np.repeat(["a", "b", "c"], 10).tolist()
    scores = np.r_[np.zeros(10), np.ones(10), np.zeros(10)][None] + np.linspace(0, 1e-3, 30)
    result = metrics.singling_out_from_scores(scores, ["a"], names, sizes=[3])
    assert result.value[0] == 1.0


def test_invariant_to_affine_maps_and_names() -> None:
    rng = np.random.default_rng(10)
    names = np.repeat(ids(range(30)), 10).tolist()
    scores = rng.normal(size=(30, 300))
    plain = metrics.singling_out_from_scores(scores, ids(range(30)), names)
    mapped = metrics.singling_out_from_scores(4 * scores + 8, ids(range(30)), names)
    assert (plain.components == mapped.components).all()
    renamed = metrics.singling_out_from_scores(scores, [f"x{n}" for n in ids(range(30))], [f"x{n}" for n in names])
    assert (plain.components == renamed.components).all()


def test_isolated_equals_a_plain_loop() -> None:
    rng = np.random.default_rng(11)
    test, calibration = rng.integers(0, 30, (50, 12)), rng.integers(0, 30, (50, 40))
    for result, t, c in zip(metrics.isolated(test, calibration, rank=4), test, calibration, strict=True):
        highest = sorted(c, reverse=True)
        assert result == (sum(x > (highest[3] + highest[4]) / 2 for x in t) == 1)


# ---- Chance


@pytest.mark.parametrize(("m", "expected"), [(1, 0.278), (2, 0.308), (4, 0.332), (9, 0.3497), (30, 0.362)])
def test_chance_level_of_many_speakers(m: int, expected: float) -> None:
    assert metrics.singling_out_chance(22_024, m).value == pytest.approx(expected, abs=6e-4)


def test_ignorant_attackers_of_the_paper_are_at_chance_level() -> None:
    """Published Singling Out of the ignorant attacker at L = 1, for each N: it is at .35, not at e^-1 = .368."""
    published = {30: 0.3593, 100: 0.3543, 200: 0.3554, 400: 0.3507, 800: 0.3491, 1600: 0.3419, 3200: 0.3465}
    published |= {6400: 0.3503, 12800: 0.3448}
    gaps = [value - metrics.singling_out_chance(n).value for n, value in published.items()]
    assert abs(np.mean(gaps)) < 0.003
    assert max(np.abs(gaps)) < 0.01
    assert abs(np.mean(list(published.values())) - np.exp(-1)) > 0.015


def simulated_chance(n: int, m: int, map_of_uniform: Callable[[Floats], Floats], repeats: int = 20_000) -> float:
    rng = np.random.default_rng(0)
    test, calibration = (map_of_uniform(rng.random((repeats, k * n))) for k in (1, m))
    return float(metrics.isolated(test, calibration, rank=m).mean())


@pytest.mark.parametrize("n", [2, 5, 20])
def test_chance_equals_simulation(n: int) -> None:
    chance = metrics.singling_out_chance(n)
    assert chance.value == pytest.approx(simulated_chance(n, 9, lambda u: u), abs=0.012)
    if n == 20:
        assert chance.value == pytest.approx(0.358, abs=1e-3)


@pytest.mark.parametrize("shape", [lambda u: u**-3.0, lambda u: -(u**0.05), lambda u: np.log(u), lambda u: u**40])
def test_chance_of_any_distribution_is_within_the_bounds(shape: Callable[[Floats], Floats]) -> None:
    chance = metrics.singling_out_chance(20)
    assert chance.lower < chance.value < chance.upper
    assert chance.lower - 0.01 < simulated_chance(20, 9, shape) < chance.upper + 0.01


def test_chance_by_shuffles_accounts_for_ties() -> None:
    """Scores of few levels: ties never isolate. The result's own chance knows it, the flat-density value does not."""

    def coarse(u: Floats) -> Floats:
        return np.floor(u * 100)

    scores = coarse(np.random.default_rng(1).random((100, 1000)))
    result = metrics.singling_out_from_scores(scores, ids(range(100)), ids(np.repeat(np.arange(100), 10)), sizes=[100])
    expected = simulated_chance(100, 9, coarse, repeats=4000)
    assert result.chance[0] == pytest.approx(expected, abs=0.03)
    assert result.value[0] == pytest.approx(expected, abs=0.03)
    assert expected < metrics.singling_out_chance(100).value - 0.1


@pytest.mark.parametrize("folds", [10, 60, 100])
def test_chance_level_of_many_folds(folds: int) -> None:
    """The threshold is the mean of the 99th and the 100th calibration score if there are 100 folds."""
    scores = np.random.default_rng(2).normal(size=(30, 3000))
    result = metrics.singling_out_from_scores(
        scores, ids(range(30)), ids(np.repeat(np.arange(30), 100)), SinglingOutProtocol(folds=folds)
    )
    closed = metrics.singling_out_chance(30, folds - 1)
    assert closed.value == pytest.approx({10: 0.356, 60: 0.371, 100: 0.372}[folds], abs=1e-3)
    assert result.chance[0] == pytest.approx(closed.value, abs=0.015)  # 15,000 shuffles: three standard errors
    assert result.chance_bounds[0].value == pytest.approx(closed.value, abs=1e-9)


def slow_shuffles(scores: Floats, n_test: int, rank: int, repeats: int) -> float:
    """Chance of these very scores: shuffle all, the first N are the test."""
    rng = np.random.default_rng(5)
    orders = np.array([rng.permutation(scores) for _ in range(repeats)])
    return float(metrics.isolated(orders[:, :n_test], orders[:, n_test:], rank=rank).mean())


@pytest.mark.parametrize(("counts", "levels"), [([8] * 6, 0), ([8] * 6, 12), ([90, 90, 2, 2], 0), ([2] * 40, 25)])
def test_shuffles_equal_plain_shuffles(counts: list[int], levels: int) -> None:
    """With and without ties; with 90 x-vectors of the enrolled speaker the threshold is the 89th and 90th score."""
    rng = np.random.default_rng(3)
    scores = rng.random(sum(counts)) if not levels else rng.integers(0, levels, sum(counts)) / levels
    row = isolation.Row(scores, 0.0, scores.__getitem__)
    chances = [
        isolation.row_isolation(row, np.arange(len(counts)), np.array(counts), SinglingOutProtocol(), rng)[1]
        for _ in range(200)
    ]
    expected = slow_shuffles(scores, len(counts), counts[0] - 1, repeats=20_000)
    assert np.mean(chances) == pytest.approx(expected, abs=0.015)  # each side has 20,000 shuffles


@pytest.mark.parametrize("rank", ["published", "balanced", "official"])
@pytest.mark.parametrize("shape", [lambda u: u, lambda u: u**-3.0, lambda u: -(u**0.05)])
def test_chance_is_within_its_bounds_if_speakers_differ_in_k(rank: Rank, shape: Callable[[Floats], Floats]) -> None:
    """20 speakers with K = 2 and 20 with K = 10: those with 2 have the highest calibration score as threshold."""
    counts = np.repeat([2, 10], 20)
    names = ids(np.repeat(np.arange(40), counts))
    scores = shape(np.random.default_rng(4).random((40, counts.sum())))
    result = metrics.singling_out_from_scores(
        scores, ids(range(40)), names, SinglingOutProtocol(draws=10, rank=rank), sizes=[10, 40]
    )
    for chance, bounds in zip(result.chance, result.chance_bounds, strict=True):
        assert bounds.lower - 0.01 < chance < bounds.upper + 0.01  # 40,000 shuffles
        assert bounds.lower < bounds.value < bounds.upper
    if shape(np.array([0.5]))[0] == 0.5:  # scores are flat
        assert result.chance == pytest.approx([bounds.value for bounds in result.chance_bounds], abs=0.015)


def test_bounds_are_means_over_the_enrolled_speakers() -> None:
    """All 40 speakers: 20 thresholds below the 1st and 20 below the 9th of 200 calibration scores."""
    counts = np.repeat([2, 10], 20)
    scores = np.random.default_rng(5).random((40, counts.sum()))
    result = metrics.singling_out_from_scores(scores, ids(range(40)), ids(np.repeat(np.arange(40), counts)), sizes=[40])
    each = [metrics.singling_out_chance(40, 5, rank) for rank in (1, 9)]
    assert result.chance_bounds[0].lower == pytest.approx(np.mean([chance.lower for chance in each]))
    assert result.chance_bounds[0].upper == pytest.approx(np.mean([chance.upper for chance in each]))
    assert result.chance_bounds[0].value == pytest.approx(np.mean([chance.value for chance in each]))


@pytest.mark.parametrize(("n", "total", "rank"), [(2, 2, 1), (3, 7, 2), (5, 45, 9), (100, 300, 299)])
def test_chance_equals_the_sums_of_its_formula(n: int, total: int, rank: int) -> None:
    """P(a, g) in whole numbers, summed over all g."""

    def probability(a: int, g: int) -> Fraction:
        rest = n - a - g
        return Fraction(comb(a + rank - 1, a) * comb(rest + total - rank - 1, rest), comb(n + total, n))

    p_0 = [probability(0, g) for g in range(n + 1)]
    p_1 = [probability(1, g) for g in range(n)]
    chance = metrics.singling_out_chance(n, total / n, rank)
    assert chance.lower == pytest.approx(float(p_1[0]))
    assert chance.upper == pytest.approx(float(sum(p_1) + sum(p_0[1:])))
    value = sum(p / 2**g for g, p in enumerate(p_1)) + sum(p * g / 2**g for g, p in enumerate(p_0))
    assert chance.value == pytest.approx(float(value))


# ---- Speed


@pytest.mark.slow
def test_singling_out_of_the_paper_takes_less_than_a_minute() -> None:
    """495 enrolled speakers, N = 22,024, 10 folds, 5 draws; the withdrawn code would take hours."""
    many, many_ids, few, few_ids = common_voice(10)
    start = time.process_time()
    result = metrics.singling_out(
        utterance_embeddings(many, many_ids),
        utterance_embeddings(few, few_ids),
        SinglingOutProtocol(most_enrolled=495),
        sizes=[22_024],
    )
    assert time.process_time() - start < 60
    assert len(result.speakers) == 495
    assert result.chance[0] == pytest.approx(0.35, abs=0.01)
