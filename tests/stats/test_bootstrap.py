"""The speaker bootstrap: re-weighting equals recomputing, names and order do not matter, bad input is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from voiceveil import InputError, metrics, stats
from voiceveil.corpus.model import Trials
from voiceveil.metrics import ScoredTrials, measures
from voiceveil.metrics.dsys import bin_edges, d_sys_of_histograms
from voiceveil.testing.scores import ScoreWorld

Floats = NDArray[np.float64]


def draw(seed: int = 0, **changes: float) -> ScoredTrials:
    world = ScoreWorld(speakers=8, utterances=4, **changes)  # type: ignore[arg-type]
    return world.draw(np.random.default_rng(seed))


def repeated(trials: ScoredTrials, weights: Floats) -> tuple[Floats, Floats]:
    """The resample written out: every trial as often as its speakers were drawn."""
    target, nontarget = [], []
    for score, is_target, enroll, speaker in zip(
        trials.score, trials.target, trials.enroll, trials.speaker, strict=True
    ):
        if is_target:
            target += [score] * int(weights[enroll])
        else:
            nontarget += [score] * int(weights[enroll] * weights[speaker])
    return np.array(target), np.array(nontarget)


MEASURES: dict[str, tuple[measures.Measure, Callable[[Floats, Floats], float]]] = {
    "eer": (measures.eer(), metrics.eer),
    "eer rocch-official": (
        measures.eer("rocch-official"),
        lambda t, n: metrics.eer(t, n, method="rocch-official"),
    ),
    "eer speechbrain": (measures.eer("speechbrain"), lambda t, n: metrics.eer(t, n, method="speechbrain")),
    "eer kaldi": (measures.eer("kaldi"), lambda t, n: metrics.eer(t, n, method="kaldi")),
    "min_dcf": (measures.min_dcf(0.1, 2.0, 1.0), lambda t, n: metrics.min_dcf(t, n, p_target=0.1, c_miss=2.0)),
    "min_dcf kaldi": (
        measures.min_dcf(0.9, 1.0, 1.0, "kaldi"),
        lambda t, n: metrics.min_dcf(t, n, p_target=0.9, c_miss=1.0, method="kaldi"),
    ),
    "act_dcf": (measures.act_dcf(0.3, 1.0, 1.0), lambda t, n: metrics.act_dcf(t, n, p_target=0.3, c_miss=1.0)),
    "cllr": (measures.cllr(), metrics.cllr),
    "min_cllr": (measures.min_cllr(), metrics.min_cllr),
    "min_cllr official": (measures.min_cllr("official"), lambda t, n: metrics.min_cllr(t, n, method="official")),
    "zebra": (measures.zebra_population(), lambda t, n: metrics.zebra(t, n).population),
}


@pytest.mark.parametrize("name", MEASURES)
def test_reweighting_equals_recomputing(name: str) -> None:
    measure, metric = MEASURES[name]
    trials = draw()
    trials = trials.with_scores(np.round(trials.score, 1))  # ties
    statistic = measure.statistic(*trials.classes())
    for weights in trials.weights(20, seed=1):
        expected = metric(*repeated(trials, weights))
        assert statistic(trials.tally(weights)) == pytest.approx(expected, abs=1e-6 if "official" in name else 1e-12)
    assert statistic(trials.tally(np.ones(trials.n_codes))) == pytest.approx(measure.value(*trials.classes()), abs=1e-6)


@pytest.mark.parametrize("method", ["exact", "official"])
def test_reweighting_equals_recomputing_d_sys(method: str) -> None:
    trials = draw()
    edges = bin_edges(*trials.classes())
    statistic = measures.d_sys(method=method).statistic(*trials.classes())  # type: ignore[arg-type]
    for weights in trials.weights(20, seed=1):
        target, nontarget = repeated(trials, weights)
        histograms = np.histogram(target, edges)[0], np.histogram(nontarget, edges)[0]
        assert statistic(trials.tally(weights)) == pytest.approx(
            d_sys_of_histograms(*histograms, 1.0, method), abs=1e-12
        )
    assert statistic(trials.tally(np.ones(trials.n_codes))) == pytest.approx(
        metrics.d_sys(*trials.classes(), method=method)  # type: ignore[arg-type]
    )


@given(seed=st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_invariant_to_speaker_names_and_trial_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trials = draw(seed % 5)
    names = np.array([f"speaker{code}" for code in rng.permutation(8)])
    shuffle = rng.permutation(len(trials.score))
    renamed = ScoredTrials.of_speakers(
        trials.score[shuffle],
        trials.target[shuffle],
        names[trials.enroll[shuffle]],
        names[trials.speaker[shuffle]],
    )
    chosen = ["eer", "cllr", "min_cllr", "d_sys", "min_dcf"]
    ours = metrics.estimate_all(trials, chosen, resamples=30)
    theirs = metrics.estimate_all(renamed, chosen, resamples=30)
    for a, b in zip(ours, theirs, strict=True):
        assert (b.value, b.low, b.high) == pytest.approx((a.value, a.low, a.high), abs=1e-12)


def test_interval_depends_on_the_seed_only() -> None:
    trials = draw()
    assert metrics.estimate(trials, resamples=50, seed=3) == metrics.estimate(trials, resamples=50, seed=3)
    assert metrics.estimate(trials, resamples=50, seed=3) != metrics.estimate(trials, resamples=50, seed=4)


def test_invariant_to_monotone_maps_of_the_scores() -> None:
    trials = draw()
    mapped = trials.with_scores(np.exp(trials.score))
    for name in ("eer", "min_cllr", "min_dcf", "zebra_population"):
        assert metrics.estimate(trials, name, resamples=50) == metrics.estimate(mapped, name, resamples=50)


def test_every_draw_has_both_classes() -> None:
    """With three speakers, one resample in nine would be of one speaker alone, without nontargets."""
    trials = ScoreWorld(speakers=3, utterances=2).draw(np.random.default_rng(0))
    drawn = np.array(list(trials.weights(200, seed=0)))
    assert drawn.sum(axis=1) == pytest.approx(3.0)
    assert ((drawn > 0).sum(axis=1) >= 2).all()
    assert drawn.var() > 0


def test_perfect_separation_has_a_nonzero_interval() -> None:
    """Resamples of no errors have no errors: the limit is Wilson's for 0 of 8 speakers."""
    estimate = metrics.estimate(draw(separation=100.0), "eer")
    assert (estimate.value, estimate.low) == (0.0, 0.0)
    assert estimate.high == pytest.approx(0.5 * stats.wilson(0, 8).high)
    linkability = metrics.estimate(draw(separation=100.0), "d_sys")
    assert (linkability.value, linkability.high) == (1.0, 1.0)
    assert 0.5 < linkability.low < 0.8


def test_single_speaker_gives_the_widest_interval() -> None:
    trials = ScoredTrials.of_speakers([1.0, 2.0, 0.0], [True, True, False], ["a", "a", "a"], ["a", "a", "b"])
    estimate = metrics.estimate(trials, "eer")
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (0.0, 0.0, 0.5, 1)
    difference = metrics.compare(trials, [0.0, 0.0, 1.0], "eer")
    assert (difference.low, difference.high, difference.p_value) == (-np.inf, np.inf, 1.0)


def test_equal_scores_give_chance_with_a_zero_interval() -> None:
    trials = draw()
    estimate = metrics.estimate(trials.with_scores(np.zeros(len(trials.score))), "eer")
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.5, 0.5, 0.5))


def test_labels_and_speakers_must_agree() -> None:
    with pytest.raises(InputError, match="trial 0 is target, but its speakers differ"):
        ScoredTrials.of_speakers([1.0, 0.0], [True, False], ["a", "a"], ["b", "b"])
    with pytest.raises(InputError, match="trial 1 is nontarget, but its speakers are the same"):
        ScoredTrials.of_speakers([1.0, 0.0], [True, False], ["a", "a"], ["a", "a"])
    with pytest.raises(InputError, match="NaN"):
        ScoredTrials.of_speakers([np.nan, 0.0], [True, False], ["a", "a"], ["a", "b"])
    with pytest.raises(InputError, match="no nontarget"):
        ScoredTrials.of_speakers([1.0], [True], ["a"], ["a"])
    with pytest.raises(InputError, match="one entry for each trial"):
        draw().with_scores([1.0])


def test_trials_of_a_corpus() -> None:
    trials = Trials(np.array(["a", "a"]), np.array(["u", "v"]), np.array([True, False]))
    scored = ScoredTrials.of_trials(trials, [1.0, 0.0], {"u": "a", "v": "b"})
    assert scored.enroll.tolist() == [0, 0]
    assert scored.speaker.tolist() == [0, 1]
    with pytest.raises(InputError, match="no speaker for 1 utterance"):
        ScoredTrials.of_trials(trials, [1.0, 0.0], {"u": "a"})


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(InputError, match="did you mean eer"):
        metrics.estimate(draw(), "err")
    with pytest.raises(InputError, match="resample"):
        metrics.estimate(draw(), resamples=1)
    with pytest.raises(InputError, match="level"):
        metrics.estimate(draw(), resamples=10, level=95)
    trials = draw()
    infinite = trials.with_scores(np.where(trials.target, np.inf, trials.score))
    with pytest.raises(InputError, match="infinite"):
        metrics.estimate(infinite, "cllr")


def test_no_metric_gives_no_estimate() -> None:
    assert metrics.estimate_all(draw(), []) == []
    assert metrics.compare_all(draw(), draw().score, []) == []


def test_comparison_is_paired() -> None:
    trials = draw()
    rng = np.random.default_rng(1)
    noisy = trials.score + rng.normal(0, 0.3, len(trials.score))
    difference = metrics.compare(trials, noisy, "eer", resamples=200)
    assert difference.value == pytest.approx(
        metrics.eer(*trials.with_scores(noisy).classes()) - metrics.eer(*trials.classes())
    )
    apart = np.hypot(
        metrics.estimate(trials, resamples=200).se, metrics.estimate(trials.with_scores(noisy), resamples=200).se
    )
    assert difference.se < 0.7 * apart  # what makes both hard cancels
    same = metrics.compare(trials, trials, "eer", resamples=50)
    assert (same.value, same.low, same.high, same.p_value) == (0.0, 0.0, 0.0, 1.0)
    with pytest.raises(InputError, match="different trials"):
        metrics.compare(trials, draw(1, enrolled=7))
