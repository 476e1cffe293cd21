"""Fusion: weights from held-out training speakers, which equal slow twins, help, and are not biased."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil import metrics
from voiceveil.attack.adaptation import adapt
from voiceveil.attack.backends import Centered, Cosine, Lda, SNorm, Wccn
from voiceveil.attack.fusion import PENALTIES, Fusion, fit_weights, learn_fusion
from voiceveil.attack.validation import Candidate, HeldOutScores, LabeledEmbeddings, held_out_scores

Floats = NDArray[np.float64]
CANDIDATES = tuple(Candidate(b) for b in (Cosine(), Centered(), Wccn(0.1), Lda(5), SNorm(Wccn(0.3)), SNorm(Lda(8))))


def world(seed: int, signals: list[float], *, speakers: int = 48, utterances: int = 10) -> list[LabeledEmbeddings]:
    """Embeddings by several encoders; each hears traits of the speakers that the others do not hear."""
    rng = np.random.default_rng(seed)
    speaker = np.repeat(np.arange(speakers), utterances)
    gender = np.where(speaker % 2 == 0, "f", "m")
    unit = np.array([str(i) for i in range(len(speaker))])
    views = []
    for signal in signals:
        x = rng.standard_normal((len(speaker), 12)) + signal * rng.standard_normal((speakers, 12))[speaker]
        views.append(LabeledEmbeddings(x, None, speaker, gender, unit))
    return views


def part(data: LabeledEmbeddings, first: int, last: int) -> LabeledEmbeddings:
    """Return the speakers from ``first`` up to ``last``."""
    rows = (data.speaker >= first) & (data.speaker < last)
    return LabeledEmbeddings(data.embeddings[rows], None, data.speaker[rows], data.gender[rows], data.unit[rows])


def attack(views: list[LabeledEmbeddings], trained: int) -> tuple[list[float], float]:
    """Return the EERs, by counting, of each attacker and of their fusion on the speakers after the first ones."""
    training = [part(view, 0, trained) for view in views]
    adapted = [adapt(data, CANDIDATES) for data in training]
    held_out = [held_out_scores(a.candidate, data) for a, data in zip(adapted, training, strict=True)]
    fusion = learn_fusion(held_out, [str(i) for i in range(len(views))])
    scores = []
    for a, view in zip(adapted, views, strict=True):
        attacked = part(view, trained, int(view.speaker.max()) + 1)
        labels = np.unique(attacked.speaker)
        enrolled = [np.flatnonzero(attacked.speaker == label)[:5] for label in labels]
        rest = np.concatenate([np.flatnonzero(attacked.speaker == label)[5:] for label in labels])
        means = np.array([attacked.embeddings[rows].mean(axis=0) for rows in enrolled])
        scores.append(a.scorer(means, np.full(len(means), 5), attacked.embeddings[rest]).ravel())
        target = (labels[:, None] == attacked.speaker[rest][None]).ravel()
    rates = [metrics.eer(s[target], s[~target], method="speechbrain") for s in (*scores, fusion(np.array(scores)))]
    return rates[:-1], rates[-1]


def test_complementary_attackers_are_stronger_together() -> None:
    alone, together = attack(world(0, [0.5, 0.5, 0.0]), 32)
    assert together < min(alone) - 0.03


def test_attackers_chosen_on_training_speakers_are_at_chance_on_random_embeddings() -> None:
    """Six back-ends for each of three encoders and five fusions were tried: chosen on trials they would be below."""
    rates = [attack(world(seed, [0.0, 0.0, 0.0]), 24) for seed in range(12)]
    singles, fused = np.array([alone for alone, _ in rates]), np.array([together for _, together in rates])
    assert singles.mean() == pytest.approx(0.5, abs=0.02)
    assert fused.mean() == pytest.approx(0.5, abs=3 * fused.std() / np.sqrt(len(fused)) + 0.005)
    best_on_trials = np.minimum(singles.min(axis=1), fused)
    assert best_on_trials.mean() < fused.mean() - 0.01  # what the choice on trials would have shown


def slow_weights(x: Floats, target: NDArray[np.bool_], group: NDArray[np.int64], penalty: float) -> Floats:
    """Projected gradient descent, trial by trial weights in plain loops."""
    names = sorted(set(group.tolist()))
    item = np.zeros(len(target))
    for name in names:
        for kind in (True, False):
            rows = [i for i in range(len(target)) if group[i] == name and target[i] == kind]
            for row in rows:
                item[row] = 1 / (2 * len(names) * len(rows))
    weight, bias = np.zeros(len(x)), dict.fromkeys(names, 0.0)
    for _ in range(6000):
        slope, bias_slope = penalty * weight, dict.fromkeys(names, 0.0)
        for i in range(len(target)):
            sign = 1.0 if target[i] else -1.0
            margin = sign * (sum(weight * x[:, i]) + bias[group[i]])
            push = item[i] * sign / (1 + np.exp(margin))
            slope = slope - push * x[:, i]
            bias_slope[group[i]] += push
        weight = np.maximum(weight - 1.0 * slope, 0.0)
        bias = {name: value + 1.0 * bias_slope[name] for name, value in bias.items()}
        if np.abs(slope[weight > 0]).max(initial=0.0) < 1e-6 and max(map(abs, bias_slope.values())) < 1e-6:
            break
    return weight


def small(seed: int = 0) -> tuple[Floats, NDArray[np.bool_], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    target, group = np.arange(40) % 3 == 0, np.arange(40) % 2
    x = rng.standard_normal((3, 40)) + np.array([[1.0], [0.5], [-0.7]]) * target
    return x, target, group


def test_weights_equal_a_slow_descent_and_are_not_negative() -> None:
    x, target, group = small()
    expected = slow_weights(x, target, group, 0.1)
    np.testing.assert_allclose(fit_weights(x, target, group, 0.1), expected, atol=1e-4)
    assert expected[2] == 0.0 < expected[1] < expected[0]


def test_cross_validation_equals_a_plain_loop() -> None:
    """Each fold's scores come from weights of the other folds; the way with the lowest mean EER is kept."""
    views = world(5, [0.6, 0.4])
    members = [held_out_scores(Candidate(Cosine()), view) for view in views]
    fusion = learn_fusion(members, ["a", "b"])
    trials = members[0]
    rates: dict[str, float] = {}
    ways = ["equal weights", *(f"penalty {p:g}" for p in PENALTIES)]
    for way in ways:
        fused = np.full(len(trials.score), np.nan)
        for fold in range(4):
            rows, others = np.flatnonzero(trials.fold == fold), np.flatnonzero(trials.fold != fold)
            columns = [(m.score - m.score[others].mean()) / m.score[others].std() for m in members]
            if way.startswith("penalty"):
                x = np.array([c[others] for c in columns])
                weights = fit_weights(x, trials.target[others], trials.group[others], float(way.split()[1]))
            else:
                weights = np.ones(2)
            for row in rows:
                fused[row] = sum(w * c[row] for w, c in zip(weights, columns, strict=True))
        groups = [trials.group == number for number in sorted(set(trials.group.tolist()))]
        rates[way] = float(np.mean([metrics.eer(fused[g & trials.target], fused[g & ~trials.target]) for g in groups]))
    assert dict(fusion.validation) == pytest.approx(rates)
    assert fusion.choice == min(ways, key=lambda way: rates[way])
    assert isinstance(fusion, Fusion)


def test_attackers_that_know_nothing_get_little_weight() -> None:
    members = [held_out_scores(Candidate(Cosine()), view) for view in world(7, [0.8, 0.0, 0.0])]
    fusion = learn_fusion(members, ["good", "noise", "more noise"])
    assert fusion.alone[0][0] == "good"
    assert fusion.validation[0][1] <= fusion.alone[0][1] + 0.01
    assert fusion.weight[0] > 5 * fusion.weight[1:].max()
    assert isinstance(members[0], HeldOutScores)
