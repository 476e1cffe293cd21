"""The protocol of the legal framework as a whole: chance, certainty, permutations, twins, scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.paths import GOLDEN
from voiceveil import metrics
from voiceveil.core.errors import InputError
from voiceveil.metrics import all_pairs, legal
from voiceveil.metrics.isolation import SinglingOutProtocol, singling_out_chance
from voiceveil.metrics.legal import Floats, UtteranceEmbeddings, utterance_embeddings
from voiceveil.metrics.legal_linkability import link_probabilities
from voiceveil.metrics.legal_singling_out import singling_out
from voiceveil.risk.curves import Curve, RiskPlan, measure_linking, measure_singling_out
from voiceveil.risk.sets import AttackPart, RiskAttack
from voiceveil.testing.embeddings import EmbeddingWorld

SMALL = EmbeddingWorld(speakers=60, speakers_b=30, utterances=60 * 12, utterances_b=30 * 40, dimension=24)


def attack(strength: float, world: EmbeddingWorld = SMALL) -> RiskAttack:
    return RiskAttack("informed", (AttackPart(*world.draw(strength)),))


def unit(rng: np.random.Generator, rows: int, dimension: int = 16) -> Floats:
    made = rng.standard_normal((rows, dimension))
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True))


def names(speakers: int, each: int) -> list[str]:
    return [f"s{number:03d}" for number in range(speakers) for _ in range(each)]


@pytest.mark.parametrize(("m", "expected"), [(1, 0.278), (2, 0.308), (4, 0.332), (9, 0.350), (30, 0.362)])
def test_independent_embeddings_single_out_by_chance(m: int, expected: float) -> None:
    """The levels are for large N; what N = 100 gives is known exactly as well."""
    rng = np.random.default_rng(m)
    speakers = 100
    a = utterance_embeddings(unit(rng, speakers * (m + 1)), names(speakers, m + 1))
    b = utterance_embeddings(unit(rng, speakers * 2), names(speakers, 2))
    found = singling_out(a, b, SinglingOutProtocol(folds=m + 1, draws=6), sizes=[speakers], seed=m)
    exact = singling_out_chance(speakers, m).value
    assert abs(exact - expected) < 0.012
    # folds share all but one x-vector of each speaker: a speaker in a draw counts as about one trial
    assert abs(found.value[0] - exact) < 4 * np.sqrt(exact * (1 - exact) / (speakers * 6))
    assert abs(found.chance[0] - exact) < 0.02


def test_independent_embeddings_link_by_chance() -> None:
    linked, verified = measure_linking(attack(0.0), RiskPlan(lengths=(1,), draws=20), 1)
    assert (linked.low <= linked.chance).all()
    assert (linked.chance <= linked.high).all()
    assert verified.value[-1] < 0.58
    np.testing.assert_array_equal(linked.chance, 1 / np.array(linked.sizes))
    np.testing.assert_array_equal(verified.chance, 0.5)


def test_identical_enrollment_and_test_give_one() -> None:
    rng = np.random.default_rng(0)
    who = np.repeat(unit(rng, 40), 12, axis=0)
    a, b = utterance_embeddings(who, names(40, 12)), utterance_embeddings(who, names(40, 12))
    one = RiskAttack("informed", (AttackPart(a, b),))
    single = measure_singling_out(one, RiskPlan(lengths=(1,), draws=2), 1)
    linked, verified = measure_linking(one, RiskPlan(lengths=(1,), draws=2), 1)
    for curve in (single, linked, verified):
        np.testing.assert_array_equal(curve.value, 1.0)
        assert (curve.low < 0.97).all()  # 40 of 40 speakers are not everybody


def test_invariant_to_a_permutation_of_speakers() -> None:
    """The same voices under other names: what is linked does not depend on what people are called."""
    a, b = SMALL.draw(0.5)
    renamed = {name: f"p{number:03d}" for number, name in enumerate(a.names)}
    other = [replace(side, names=tuple(renamed[name] for name in side.names)) for side in (a, b)]
    plan = RiskPlan(lengths=(3,), draws=2)
    first, second = (
        RiskAttack("informed", (AttackPart(a, b),)),
        RiskAttack("informed", (AttackPart(other[0], other[1]),)),
    )
    for mine, theirs in zip(curves(first, plan, 3), curves(second, plan, 3), strict=True):
        np.testing.assert_array_equal(mine.value, theirs.value)


def test_linkability_is_invariant_to_speaker_order() -> None:
    """Everybody is tested with all they have, so that nothing is drawn: then rows and names can come in any order."""
    a, b = SMALL.draw(0.5)
    rng = np.random.default_rng(3)
    shuffled = dict(zip(a.names, rng.permutation(np.array(a.names)).tolist(), strict=True))
    first = legal.speaker_means(a), legal.speaker_means(b)
    mixed = [_renamed(side, shuffled, rng) for side in (a, b)]
    second = legal.speaker_means(mixed[0]), legal.speaker_means(mixed[1])
    values = []
    for enrolled, tests in (first, second):
        scores = tests.vectors.astype(np.float64) @ enrolled.vectors.astype(np.float64).T
        values.append(metrics.linkability_from_scores(scores, tests.speakers, enrolled.speakers, sizes=[20, 60]).value)
    np.testing.assert_allclose(values[0], values[1], atol=1e-12)


def _renamed(side: UtteranceEmbeddings, new: dict[str, str], rng: np.random.Generator) -> UtteranceEmbeddings:
    order = rng.permutation(len(side.codes))
    return utterance_embeddings(side.matrix[order], [new[side.names[code]] for code in side.codes[order]])


def curves(one: RiskAttack, plan: RiskPlan, length: int) -> tuple[Curve, Curve, Curve]:
    return (measure_singling_out(one, plan, length), *measure_linking(one, plan, length))


def test_points_do_not_depend_on_the_other_n() -> None:
    whole = curves(attack(0.4), RiskPlan(lengths=(2,), sizes=(7, 20, 31, 60), draws=2), 2)
    alone = curves(attack(0.4), RiskPlan(lengths=(2,), sizes=(31,), draws=2), 2)
    for curve, point in zip(whole, alone, strict=True):
        for name in ("value", "low", "high", "chance", *(["control"] if curve.control is not None else [])):
            assert getattr(point, name)[0] == pytest.approx(getattr(curve, name)[2], rel=1e-12), (curve.metric, name)


def test_drawn_linkability_does_not_depend_on_the_other_n() -> None:
    scores, names_ = np.random.default_rng(5).normal(size=(30, 30)), names(30, 1)
    whole = metrics.linkability_from_scores(scores, names_, names_, sizes=[2, 10, 25], draws=5)
    alone = metrics.linkability_from_scores(scores, names_, names_, sizes=[10], draws=5)
    assert whole.value[1] == alone.value[0]


def test_drawn_and_exact_linkability_agree() -> None:
    a, b = SMALL.draw(0.45)
    tests = legal.draw_conversations(b, 1, most=1, rng=np.random.default_rng(1))
    enrolled = legal.speaker_means(a)
    scores = tests.vectors @ enrolled.vectors.T
    exact = metrics.linkability_from_scores(scores, tests.speakers, enrolled.speakers, sizes=[20, 40])
    drawn = metrics.linkability_from_scores(scores, tests.speakers, enrolled.speakers, sizes=[20, 40], draws=4000)
    np.testing.assert_allclose(exact.value, drawn.value, atol=0.01)


def test_one_pass_equals_the_plain_metrics() -> None:
    """Rivals, control and EER of the block-wise pass against loops over the whole matrix of scores."""
    a, b = SMALL.draw(0.4)
    enrolled, tests = legal.speaker_means(a), legal.draw_conversations(b, 2, most=1, rng=np.random.default_rng(0))
    own = np.array([enrolled.speakers.index(name) for name in tests.speakers])
    claimed = (own + 7) % len(enrolled.speakers)
    found = all_pairs.score_all_pairs(
        all_pairs.LinkTrials(tests.vectors, enrolled.vectors, own, claimed), [60], np.random.default_rng(0)
    )
    scores = tests.vectors.astype(np.float64) @ enrolled.vectors.astype(np.float64).T
    for i, row in enumerate(scores):
        others = [j for j in range(len(row)) if j != own[i]]
        assert found.rivals[i] == sum(row[j] >= row[own[i]] for j in others)
        assert found.control[i] == sum(row[j] >= row[claimed[i]] for j in others if j != claimed[i])
    target = scores[np.arange(len(own)), own]
    mask = np.ones(scores.shape, dtype=bool)
    mask[np.arange(len(own)), own] = False
    assert abs(found.eer[0] - metrics.eer(target, scores[mask])) < 2e-3
    grid = np.floor((scores.astype(np.float32) + 1) * all_pairs.GRID + 0.5)
    assert abs(found.eer[0] - metrics.eer(grid[np.arange(len(own)), own], grid[mask])) < 1e-9


def test_result_does_not_depend_on_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    one = attack(0.4)
    plan = RiskPlan(lengths=(1,), sizes=(20, 60), draws=2)
    whole = measure_linking(one, plan, 1)
    monkeypatch.setattr(legal, "BLOCK_BYTES", 4 * 60 * 7)
    parts = measure_linking(one, plan, 1)
    for mine, theirs in zip(whole, parts, strict=True):
        np.testing.assert_allclose(mine.value, theirs.value)
    assert legal.speaker_means(one.parts[0].a).vectors.shape == (60, 24)


def test_every_size_has_its_number_of_trials() -> None:
    a, b = SMALL.draw(0.4)
    enrolled, tests = legal.speaker_means(a), legal.draw_conversations(b, 1, most=1, rng=np.random.default_rng(0))
    own = np.array([enrolled.speakers.index(name) for name in tests.speakers])
    found = all_pairs.score_all_pairs(
        all_pairs.LinkTrials(tests.vectors, enrolled.vectors, own, np.roll(own, 1)),
        [2, 20, 45],
        np.random.default_rng(0),
    )
    per_test = found.trials.nontarget.sum(axis=2)
    np.testing.assert_array_equal(per_test, np.broadcast_to([1, 19, 44], per_test.shape))
    assert (found.trials.target.sum(axis=1) == 1).all()


def test_eer_interval_covers_the_true_value() -> None:
    """Of 12 worlds eleven or so intervals hold the value of a large one."""
    big = EmbeddingWorld(speakers=1500, speakers_b=700, utterances=1500 * 7, utterances_b=700 * 31, dimension=24)
    truth = measure_linking(attack(0.5, big), RiskPlan(lengths=(1,), sizes=(1500,), draws=1), 1)[1].value[0]
    held = 0
    for seed in range(12):
        world = EmbeddingWorld(60, 50, 60 * 7, 50 * 31, 24, seed=seed + 1)
        curve = measure_linking(attack(0.5, world), RiskPlan(lengths=(1,), sizes=(60,), draws=1), 1)[1]
        held += bool(curve.low[0] <= truth <= curve.high[0])
    assert held >= 9


def test_attacker_in_parts_equals_the_whole() -> None:
    """An attacker in parts with one and the same model is the attacker without parts, speaker by speaker."""
    whole = attack(0.5)
    part = whole.parts[0]
    mine, yours = frozenset(part.a.names[::2]), frozenset(part.a.names[1::2])
    split = RiskAttack("informed", (replace(part, only=mine), replace(part, only=yours)))
    plan = RiskPlan(lengths=(1,), sizes=(60,), draws=3)
    one, two = measure_linking(whole, plan, 1)[0], measure_linking(split, plan, 1)[0]
    assert one.components is not None
    assert two.components is not None
    assert dict(zip(one.speakers, one.components[:, 0], strict=True)) == dict(
        zip(two.speakers, two.components[:, 0], strict=True)
    )
    single = measure_singling_out(split, plan, 1)
    assert sorted(single.speakers) == sorted(measure_singling_out(whole, plan, 1).speakers)


def test_control_is_at_chance_and_the_attack_is_not() -> None:
    single, linked, _ = curves(attack(1.2), RiskPlan(lengths=(1,), draws=3), 1)
    assert linked.control is not None
    assert single.control is not None
    assert linked.value[-1] > 0.9
    assert linked.control[-1] < 0.1
    assert single.value[-1] > 0.8
    assert single.control[-1] < 0.55


def test_speakers_with_few_utterances_are_left_out_at_large_l() -> None:
    """Footnote 4: K >= 2, hence 2 L utterances in A."""
    counts = SMALL.draw(0.5)[0].counts
    single = measure_singling_out(attack(0.5), RiskPlan(lengths=(10,), draws=1), 10)
    assert single.sizes[-1] == (counts >= 20).sum() < 60


def test_curve_sizes_are_those_of_the_plan() -> None:
    assert RiskPlan().curve_sizes(22024, 22024)[:2] == (21, 43)
    assert RiskPlan(sizes=(20, 100)).curve_sizes(100, 70) == (20, 70)
    with pytest.raises(InputError, match=r"a speaker count of 101 is impossible \(between 2 and 100 are possible\)"):
        RiskPlan(sizes=(101,)).curve_sizes(100, 100)
    with pytest.raises(InputError, match="conversation lengths"):
        RiskPlan(lengths=(0,))
    with pytest.raises(InputError, match="draws is 0"):
        RiskPlan(draws=0)


def test_impossible_conversation_lengths_are_rejected() -> None:
    with pytest.raises(InputError, match=r"L = 900: 0 speaker\(s\) of A have 1800 utterances"):
        measure_singling_out(attack(0.5), RiskPlan(), 900)
    with pytest.raises(InputError, match="L = 9000: no speaker of B has 9000 utterances"):
        measure_linking(attack(0.5), RiskPlan(), 9000)


def test_embedding_world_has_the_sizes_of_the_paper() -> None:
    world = EmbeddingWorld()
    in_a, in_b = world.counts()
    assert (len(in_a), len(in_b), in_a.sum(), in_b.sum()) == (22_024, 4_949, 234_945, 996_971)
    assert in_a.min() >= 6
    assert in_b.min() >= 30
    a, _ = SMALL.draw(0.3)
    again, _ = SMALL.draw(0.3)
    np.testing.assert_array_equal(a.matrix, again.matrix)
    np.testing.assert_allclose(np.linalg.norm(a.matrix, axis=1), 1, rtol=1e-5)


def test_equals_the_official_small_case() -> None:
    """The figures of the authors' withdrawn code; those of its Singling Out are in tests/metrics/test_singling.py."""
    case = np.load(GOLDEN / "legal.npz")
    tests, enrolled = legal.unit_rows(case["test"]), legal.unit_rows(case["enroll"])
    own = np.arange(60)
    found = all_pairs.score_all_pairs(
        all_pairs.LinkTrials(tests, enrolled, own, np.roll(own, 1)), [60], np.random.default_rng(0)
    )
    assert link_probabilities(found.rivals, 60, 60).mean() == pytest.approx(0.36666666666666664, abs=1e-12)
