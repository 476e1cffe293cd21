"""Checks of scores and labels: constant scores, swapped labels, shared utterances."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.check_inputs import names, scores
from voiceveil.attack.checks import check_scores, check_shared_utterances, check_trials
from voiceveil.core.checks import NAMES, failed, merged
from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Results
from voiceveil.metrics import ScoredTrials


@pytest.mark.parametrize("shift", [3.0, 1.0, 0.0, -0.1])
def test_ordinary_scores_give_no_warning(shift: float) -> None:
    assert check_scores(*scores(shift)) == []


def test_constant_scores_give_a_warning() -> None:
    (check,) = check_scores(np.zeros(10), np.zeros(30), where="campplus, libri_dev")
    assert check.name == "constant-scores"
    assert "All 40 scores are 0 (campplus, libri_dev)." in check.seen
    assert str(check).startswith("WARNING constant-scores: All scores are equal.")


def test_scores_that_differ_by_rounding_count_as_constant() -> None:
    noise = np.random.default_rng(0).standard_normal(40)
    assert names(check_scores(1.0 + 1e-9 * noise[:10], 1.0 + 1e-9 * noise[10:])) == ["constant-scores"]
    assert check_scores(100.0 + 1e-2 * noise[:10], 100.0 + 1e-2 * noise[10:]) == []


def test_infinite_scores_give_no_warning() -> None:
    assert check_scores([np.inf, 2.0, 3.0], [-np.inf, 0.0, 1.0]) == []
    assert names(check_scores([np.inf, np.inf], [np.inf])) == ["constant-scores"]


def test_scores_with_one_dominant_value_give_a_warning() -> None:
    target, nontarget = scores(2.0)
    target[:300], nontarget[:900] = 0.25, 0.25
    (check,) = check_scores(target, nontarget)
    assert check.name == "tied-scores"
    assert "1,200 of 2,000 scores (60%) are 0.25" in check.seen
    target[:300] = np.linspace(0, 1, 300)
    assert check_scores(target, nontarget) == []  # 45%: not most of them


def test_swapped_labels_give_a_warning() -> None:
    target, nontarget = scores(2.0)
    (check,) = check_scores(-target, -nontarget)
    assert check.name == "eer-above-half"
    assert "84." in check.seen or "83." in check.seen


def test_eer_above_one_half_by_chance_gives_no_warning() -> None:
    assert check_scores([0.1, 0.2, 0.4], [0.3, 0.5, 0.15]) == []


def test_swapped_labels_are_judged_by_an_interval_over_speakers() -> None:
    rng = np.random.default_rng(5)
    enroll, heard = (side.reshape(-1) for side in np.meshgrid(np.arange(12), np.repeat(np.arange(12), 4)))
    target = enroll == heard
    trials = ScoredTrials.of_speakers(rng.standard_normal(len(enroll)) - 2.0 * target, target, enroll, heard)
    assert names(check_trials(trials)) == ["eer-above-half"]
    assert check_trials(trials.with_scores(-trials.score)) == []


def test_shared_utterances_are_found_by_id_and_content() -> None:
    enrolled: dict[str, bytes | None] = {"a": b"1", "b": b"2", "c": None}
    assert check_shared_utterances(enrolled, {"d": b"3", "e": None}) == []
    by_id, by_content = check_shared_utterances(enrolled, {"a": b"1", "d": b"2", "e": b"3"}, where="toy")
    assert by_id.seen == "1 of 3 trial utterances are enrolled, e.g. a (toy)."
    assert by_content.seen == "1 of 3 trial utterances have the content of an enrolled one, e.g. d is b (toy)."


def test_checks_are_merged_by_name() -> None:
    checks = [failed("tied-scores", "Two."), failed("silent-audio", "One."), failed("tied-scores", "Three.")]
    once = merged([*checks, *checks])
    assert [(check.name, check.seen) for check in once] == [("silent-audio", "One."), ("tied-scores", "Two. Three.")]
    (many,) = merged(failed("tied-scores", f"{n}.") for n in range(1000))
    assert many.seen == "0. 1. 2. 3. 4. 5. And 994 more such cases."


def test_checks_round_trip_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results = Results("mine", "vpc2024", (), {}, (failed("tied-scores", "Two."), failed("silent-audio", "One.")))
    results.save(path)
    assert Results.load(path) == results


@pytest.mark.parametrize("value", [None, 3, "text", [1, None, {"title": "x"}], {"name": "x"}])
def test_checks_of_an_invalid_file_are_rejected(value: object, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    Results("mine", "vpc2024", ()).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "checks": value}))
    with pytest.raises(InputError, match="checks"):
        Results.load(path)


def test_names_of_checks_are_stable() -> None:
    assert NAMES == (
        "identical-audio",
        "silent-audio",
        "noise-audio",
        "repeated-audio",
        "swapped-audio",
        "shared-utterances",
        "training-speakers-in-test",
        "constant-scores",
        "tied-scores",
        "eer-above-half",
    )
