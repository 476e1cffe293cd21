"""Estimates, Wilson's interval, and rates over utterances."""

from __future__ import annotations

import json

import numpy as np
import pytest

from voiceveil import InputError, stats
from voiceveil.stats import Difference, Estimate


def test_estimates_are_formatted_with_their_interval() -> None:
    assert str(Estimate(0.075, 0.059, 0.092, unit="%")) == "7.5% [5.9, 9.2]"
    assert str(Estimate(0.312345, 0.2501, 0.4512, unit="bit")) == "0.31 bit [0.25, 0.45]"
    assert str(Estimate(0.5, 0.5, 0.5, unit="%")) == "50.0% [50.0, 50.0]"
    assert str(Estimate(0.5, 0.0, np.inf, unit="bit")) == "0.500 bit [0.000, inf]"
    assert str(Difference(-0.02, -0.0312, -0.0088, unit="%", p_value=1e-6)) == "-2.0% [-3.1, -0.9], p < 0.0001"


def test_estimates_are_valid_json() -> None:
    text = json.dumps(Estimate(0.1, 0.0, np.inf, unit="%").as_dict(), allow_nan=False)
    assert json.loads(text)["high"] is None
    assert json.loads(json.dumps(Difference(0.1, 0.0, 0.2, p_value=0.04).as_dict()))["p_value"] == 0.04


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe (1998), Table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_equals_published_figures(successes: int, n: int, low: float, high: float) -> None:
    estimate = stats.wilson(successes, n)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=5e-5)
    assert estimate.value == successes / n


def test_wilson_rejects_invalid_counts() -> None:
    for successes, n in ((-1, 5), (6, 5), (0, 0)):
        with pytest.raises(InputError):
            stats.wilson(successes, n)


def test_ratio_resamples_speakers_with_all_their_utterances() -> None:
    errors, words = np.array([1.0, 0, 3, 2, 5]), np.array([10.0, 12, 9, 11, 30])
    speaker = np.array(["a", "a", "b", "c", "c"])
    estimate = stats.ratio(errors, words, speaker, resamples=400)
    assert estimate.value == errors.sum() / words.sum()
    assert estimate.n == 3
    # a resample written out
    totals = {name: (errors[speaker == name].sum(), words[speaker == name].sum()) for name in "abc"}
    possible = {
        round((totals[x][0] + totals[y][0] + totals[z][0]) / (totals[x][1] + totals[y][1] + totals[z][1]), 12)
        for x in "abc"
        for y in "abc"
        for z in "abc"
    }
    spread = np.std(list(possible))
    assert 0.5 * spread < estimate.se < 2 * spread


def test_invariant_to_utterance_names_and_order() -> None:
    rng = np.random.default_rng(0)
    speaker = rng.integers(0, 7, 60)
    errors, words = rng.integers(0, 5, 60), rng.integers(5, 20, 60)
    order = rng.permutation(60)
    renamed = np.array(list("qwertyu"))[speaker]
    assert stats.ratio(errors, words, speaker) == stats.ratio(errors[order], words[order], renamed[order])


def test_uar_is_the_mean_recall_and_accuracy_the_proportion() -> None:
    refs = np.array(["ang", "ang", "ang", "sad", "hap", "hap"])
    hyps = np.array(["ang", "ang", "sad", "sad", "ang", "hap"])
    speaker = np.array([1, 2, 2, 1, 2, 3])
    assert stats.uar(refs, hyps, speaker).value == pytest.approx((2 / 3 + 1 + 1 / 2) / 3)
    assert stats.accuracy(refs, hyps, speaker).value == pytest.approx(4 / 6)
    for estimate in (stats.uar(refs, hyps, speaker), stats.accuracy(refs, hyps, speaker)):
        assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0
        assert estimate.n == 3
    perfect = stats.uar(refs, refs, speaker)
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low == pytest.approx(1 - stats.wilson(0, 3).high)


def test_mean_may_be_negative() -> None:
    rng = np.random.default_rng(0)
    speaker = np.repeat(np.arange(12), 5)
    values = rng.normal(-0.3, 0.1, 60) + rng.normal(0, 0.2, 12)[speaker]
    estimate = stats.mean(values, speaker)
    assert estimate.low < estimate.value < estimate.high < 0.0
    assert estimate.value == pytest.approx(values.mean())


def test_compare_ratios_is_paired() -> None:
    rng = np.random.default_rng(0)
    speaker = np.repeat(np.arange(12), 10)
    words = rng.integers(10, 30, 120)
    errors = rng.binomial(words, rng.beta(2, 18, 12)[speaker])
    better = np.maximum(errors - rng.integers(0, 2, 120), 0)
    difference = stats.compare_ratios(errors, better, words, speaker)
    assert difference.value == pytest.approx((better.sum() - errors.sum()) / words.sum())
    assert difference.high < 0.0
    assert difference.p_value < 0.001
    assert stats.compare_ratios(errors, errors, words, speaker).p_value == 1.0


def test_average_of_women_and_men() -> None:
    women, men = Estimate(0.10, 0.06, 0.16, 0.02, 10, unit="%"), Estimate(0.20, 0.14, 0.28, 0.03, 12, unit="%")
    both = stats.average([women, men])
    assert both.value == pytest.approx(0.15)
    assert both.low == pytest.approx(0.15 - np.hypot(0.04, 0.06) / 2)
    assert both.high == pytest.approx(0.15 + np.hypot(0.06, 0.08) / 2)
    assert both.se == pytest.approx(np.hypot(0.02, 0.03) / 2)
    assert both.n == 22
    assert stats.average([women, men], [3, 1]).value == pytest.approx(0.125)
    with pytest.raises(InputError):
        stats.average([])


def test_invalid_utterances_are_rejected() -> None:
    with pytest.raises(InputError, match="no utterances"):
        stats.ratio([], [], [])
    with pytest.raises(InputError, match="one entry an utterance"):
        stats.ratio([1.0], [1.0, 2.0], ["a", "b"])
    with pytest.raises(InputError, match="not finite"):
        stats.mean([np.nan, 1.0], ["a", "b"])
    with pytest.raises(InputError, match="denominators"):
        stats.ratio([1.0, 1.0], [0.0, 0.0], ["a", "b"])
    with pytest.raises(InputError, match="power"):
        stats.minimal_detectable_difference(0.1, 10, power=80)
    with pytest.raises(InputError, match="cannot show a difference"):
        stats.minimal_detectable_difference(0.1, 1)
