"""Do the intervals hold what they promise? Simulated worlds with speakers who differ, and a known truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil import metrics, stats
from voiceveil.metrics import ScoredTrials, kernels
from voiceveil.testing.scores import ScoreWorld

WORLD = ScoreWorld(speakers=20, enrolled=16, utterances=8)
WORLDS = 500


@pytest.fixture(scope="module")
def truth() -> dict[str, float]:
    target, nontarget = WORLD.densities()
    return {
        "eer": WORLD.eer,
        "min_cllr": float(kernels.pav_min_cllr(target, nontarget)),
        "min_dcf": float(kernels.min_dcf(target, nontarget, 1.0, 9.9, True)),
    }


@pytest.fixture(scope="module")
def worlds() -> list[ScoredTrials]:
    rng = np.random.default_rng(2024)
    return [WORLD.draw(rng) for _ in range(WORLDS)]


def test_simulated_eer_equals_the_stated_truth(worlds: list[ScoredTrials], truth: dict[str, float]) -> None:
    target = np.concatenate([world.classes()[0] for world in worlds])
    nontarget = np.concatenate([world.classes()[1] for world in worlds])
    assert metrics.eer(target, nontarget) == pytest.approx(truth["eer"], abs=0.003)
    assert metrics.min_cllr(target, nontarget) == pytest.approx(truth["min_cllr"], abs=0.01)
    assert metrics.min_dcf(target, nontarget) == pytest.approx(truth["min_dcf"], abs=0.01)


@pytest.fixture(scope="module")
def by_speakers(worlds: list[ScoredTrials], truth: dict[str, float]) -> list[list[stats.Estimate]]:
    return [metrics.estimate_all(world, list(truth), resamples=150, seed=i) for i, world in enumerate(worlds)]


def covered(estimates: list[stats.Estimate], truth: float) -> float:
    return float(np.mean([estimate.low <= truth <= estimate.high for estimate in estimates]))


@pytest.mark.slow
def test_speaker_bootstrap_has_nominal_coverage(
    by_speakers: list[list[stats.Estimate]], truth: dict[str, float]
) -> None:
    """95% is promised; 500 worlds know it to 1 %."""
    assert 0.92 <= covered([row[0] for row in by_speakers], truth["eer"]) <= 0.98
    assert 0.92 <= covered([row[1] for row in by_speakers], truth["min_cllr"]) <= 0.98
    assert 0.92 <= covered([row[2] for row in by_speakers], truth["min_dcf"]) <= 0.99


@pytest.mark.slow
def test_trial_bootstrap_undercovers(worlds: list[ScoredTrials], truth: dict[str, float]) -> None:
    """The same interval from resampled trials: 2,560 trials pass for 2,560 speakers."""
    estimates = [
        metrics.estimate(ScoredTrials.independent(*world.classes()), "eer", resamples=60, seed=i)
        for i, world in enumerate(worlds)
    ]
    assert covered(estimates, truth["eer"]) < 0.85


@pytest.mark.slow
def test_enrolled_and_test_roles_of_a_person_are_resampled_together(
    worlds: list[ScoredTrials], by_speakers: list[list[stats.Estimate]]
) -> None:
    """Why one draw serves both roles, and why a target trial weighs w and not w squared.

    The standard error is compared with the true spread of the EER over worlds. Drawing enrollees and trial speakers
    apart (weight k l for all trials) lets every target trial be drawn twice over and overstates the error.
    """
    spread = np.std([row[0].value for row in by_speakers])
    ours = np.mean([row[0].se for row in by_speakers])
    rng = np.random.default_rng(1)
    apart = np.mean([np.std(_separate_roles(world, rng)) for world in worlds[:100]])
    assert ours == pytest.approx(spread, rel=0.12)
    assert apart > 1.2 * ours


def _separate_roles(trials: ScoredTrials, rng: np.random.Generator) -> NDArray[np.float64]:
    score, target = np.unique(trials.score, return_inverse=True)[1].reshape(-1), trials.target
    values = []
    for _ in range(60):
        enroll, speaker = rng.multinomial(16, np.full(16, 1 / 16)), rng.multinomial(20, np.full(20, 1 / 20))
        weight = (enroll[trials.enroll] * speaker[trials.speaker]).astype(float)
        size = score.max() + 1
        both = [np.bincount(score[chosen], weight[chosen], size).astype(float) for chosen in (target, ~target)]
        values.append(kernels.rocch_eer(*both))
    return np.array(values)


@pytest.mark.slow
def test_paired_test_has_its_nominal_level() -> None:
    """Two systems that are equally good, on the same trials: about 5% of the tests may say otherwise."""
    rng = np.random.default_rng(7)
    rejected = []
    for i in range(300):
        trials = ScoreWorld(speakers=16, utterances=3).draw(rng)
        # each system adds noise and has lambs of its own
        a, b = (
            trials.with_scores(
                trials.score + rng.normal(0, 0.4, 16)[trials.enroll] + rng.normal(0, 0.4, len(trials.score))
            )
            for _ in range(2)
        )
        difference = metrics.compare(a, b, "eer", resamples=100, seed=i)
        rejected.append(difference.p_value < 0.05)
        assert (difference.p_value < 0.05) == (not difference.low <= 0.0 <= difference.high)
    assert 0.01 <= np.mean(rejected) <= 0.07


@pytest.mark.slow
def test_wer_interval_covers_by_speaker_and_not_by_utterance() -> None:
    """Speakers differ in how well they are recognized: WER of 15 speakers with 20 utterances each."""
    rng = np.random.default_rng(3)
    hits = np.zeros((500, 2), dtype=bool)
    for i in range(len(hits)):
        rate = rng.beta(2.0, 18.0, 15)  # mean 0.1
        speaker = np.repeat(np.arange(15), 20)
        words = rng.integers(5, 40, len(speaker))
        errors = rng.binomial(words, rate[speaker])
        for k, unit in enumerate((speaker, np.arange(len(speaker)))):
            estimate = stats.ratio(errors, words, unit, resamples=200, seed=i)
            hits[i, k] = estimate.low <= 0.1 <= estimate.high
    by_speaker, by_utterance = hits.mean(axis=0)
    assert 0.92 <= by_speaker <= 0.98
    assert by_utterance < 0.7


def test_minimal_detectable_difference_has_its_power() -> None:
    """Differences of that size, known with that standard error, are found in 80% of the cases."""
    rng = np.random.default_rng(0)
    n, sd = 12, 0.3
    size = stats.minimal_detectable_difference(sd / np.sqrt(n), n)
    found = 0
    for _ in range(2000):
        sample = rng.normal(size, sd, n)
        t = sample.mean() / (sample.std(ddof=1) / np.sqrt(n))
        found += abs(t) > 2.2009851600829489  # Student's t, 11 degrees of freedom, 97.5%
    assert found / 2000 == pytest.approx(0.8, abs=0.04)
