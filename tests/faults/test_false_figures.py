"""Figures that say nothing must not pass: each broken input has a named check, and good input has none."""

from __future__ import annotations

import numpy as np
import pytest

from voiceveil.attack.sanity import NAMES, Check, check_scores, check_shared, check_trials, failed, merged, read_checks
from voiceveil.stats import ScoredTrials


def names(checks: list[Check] | tuple[Check, ...]) -> list[str]:
    return [check.name for check in checks]


def scores(shift: float, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.standard_normal(count) + shift, rng.standard_normal(4 * count)


@pytest.mark.parametrize("shift", [3.0, 1.0, 0.0, -0.1])
def test_ordinary_scores_pass(shift: float) -> None:
    assert check_scores(*scores(shift)) == []


def test_constant_scores_are_said_to_be() -> None:
    (check,) = check_scores(np.zeros(10), np.zeros(30), where="campplus, libri_dev")
    assert check.name == "constant-scores"
    assert "All 40 scores are 0 (campplus, libri_dev)." in check.seen
    assert str(check).startswith("WARNING constant-scores: All scores are equal.")


def test_scores_that_are_mostly_one_value_are_said_to_be() -> None:
    target, nontarget = scores(2.0)
    target[:300], nontarget[:900] = 0.25, 0.25
    (check,) = check_scores(target, nontarget)
    assert check.name == "tied-scores"
    assert "1,200 of 2,000 scores (60%) are 0.25" in check.seen
    target[:300] = np.linspace(0, 1, 300)
    assert check_scores(target, nontarget) == []  # 45 %: not most of them


def test_swapped_labels_are_said_to_be() -> None:
    target, nontarget = scores(2.0)
    (check,) = check_scores(-target, -nontarget)
    assert check.name == "eer-above-half"
    assert "84." in check.seen or "83." in check.seen


def test_an_eer_above_half_by_chance_passes() -> None:
    assert check_scores([0.1, 0.2, 0.4], [0.3, 0.5, 0.15]) == []


def test_swapped_labels_with_speakers_have_an_interval_over_speakers() -> None:
    rng = np.random.default_rng(5)
    enroll, heard = (side.reshape(-1) for side in np.meshgrid(np.arange(12), np.repeat(np.arange(12), 4)))
    target = enroll == heard
    trials = ScoredTrials.of_speakers(rng.standard_normal(len(enroll)) - 2.0 * target, target, enroll, heard)
    assert names(check_trials(trials)) == ["eer-above-half"]
    assert check_trials(trials.with_scores(-trials.score)) == []


def test_shared_utterances_by_id_and_by_content() -> None:
    enrolled: dict[str, bytes | None] = {"a": b"1", "b": b"2", "c": None}
    assert check_shared(enrolled, {"d": b"3", "e": None}) == []
    by_id, by_content = check_shared(enrolled, {"a": b"1", "d": b"2", "e": b"3"}, where="toy")
    assert by_id.seen == "1 of 3 trial utterances are enrolled, e.g. a (toy)."
    assert by_content.seen == "1 of 3 trial utterances have the content of an enrolled one, e.g. d is b (toy)."


def test_checks_survive_json_and_are_merged_by_name() -> None:
    checks = [failed("tied-scores", "Two."), failed("silent-audio", "One."), failed("tied-scores", "Three.")]
    once = merged([*checks, *checks])
    assert [(check.name, check.seen) for check in once] == [("silent-audio", "One."), ("tied-scores", "Two. Three.")]
    assert read_checks([check.as_dict() for check in once]) == once


@pytest.mark.parametrize("value", [None, 3, "text", [1, None, {"title": "x"}], {"name": "x"}])
def test_checks_of_a_strange_file_are_none(value: object) -> None:
    assert read_checks(value) == ()


def test_names_are_stable() -> None:
    assert NAMES == (
        "identical-audio",
        "silent-audio",
        "noise-audio",
        "repeated-audio",
        "shared-utterances",
        "training-speakers-in-test",
        "constant-scores",
        "tied-scores",
        "eer-above-half",
    )
