"""Rates of single speakers."""

from __future__ import annotations

import numpy as np
import pytest

from voiceveil import metrics
from voiceveil.metrics import ScoredTrials
from voiceveil.metrics.speaker_rates import identification, speaker_eer, speaker_rates


def scored(seed: int = 0, speakers: int = 6, utterances: int = 8) -> tuple[ScoredTrials, np.ndarray]:
    """All pairs of speakers and utterances; speaker 0 is recognized, the last one is not enrolled."""
    rng = np.random.default_rng(seed)
    enroll = np.repeat(np.arange(speakers - 1), speakers * utterances)
    utterance = np.tile(np.arange(speakers * utterances), speakers - 1)
    speaker = utterance // utterances
    score = rng.standard_normal(len(enroll)) + np.where(enroll == speaker, np.where(enroll == 0, 9.0, 0.4), 0.0)
    return ScoredTrials.of_speakers(score, enroll == speaker, enroll, speaker), utterance


def test_rates_equal_a_plain_loop() -> None:
    trials, utterance = scored()
    rates = []
    for code in range(5):
        own = [s for s, e, t in zip(trials.score, trials.enroll, trials.target, strict=True) if e == code and t]
        other = [s for s, e, t in zip(trials.score, trials.enroll, trials.target, strict=True) if e == code and not t]
        rates.append(metrics.eer(own, other))
        estimate = speaker_eer(trials, code)
        assert estimate is not None
        assert estimate.value == pytest.approx(rates[-1])
    result = speaker_rates(trials, utterance)
    assert result.worst.value == min(rates) == 0.0
    assert result.below.value == np.mean([rate < 0.2 for rate in rates])
    assert result.below.low <= result.below.value <= result.below.high
    hits = []
    for key in range(5 * 8):  # utterances of the sixth speaker, who is not enrolled, do not count
        rows = np.flatnonzero(utterance == key)
        hits.append(trials.target[rows[np.argmax(trials.score[rows])]])
    assert result.identified.value == pytest.approx(np.mean(hits))
    assert result.candidates == 5.0
    assert result.as_dict()["worst"]["value"] == 0.0


def test_identification_is_at_chance_for_random_scores_and_a_tie_is_a_miss() -> None:
    rates = []
    for seed in range(20):
        trials, utterance = scored(seed)
        rng = np.random.default_rng(seed)
        rates.append(identification(trials.with_scores(rng.standard_normal(len(trials.score))), utterance)[0].value)
    assert np.mean(rates) == pytest.approx(0.2, abs=0.04)
    trials, utterance = scored()
    assert identification(trials.with_scores(np.zeros(len(trials.score))), utterance)[0].value == 0.0


def test_speakers_without_impostors_are_left_out() -> None:
    trials = ScoredTrials.of_speakers([1.0, 2.0, 0.5], [True, True, False], ["a", "b", "a"], ["a", "b", "b"])
    assert speaker_eer(trials, 1) is None
    rates = speaker_rates(trials, ["u", "v", "v"])
    assert np.isnan(rates.worst.value)  # nobody has three target trials
    assert rates.identified.value == 1.0
