"""Text-dependent verification on files: challenge, system, answer, evaluation and submission."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.tdsv_world import make_corpus
from voiceveil.api.tdsv import (
    AnswerOptions,
    SystemSettings,
    TrialLists,
    evaluate_answers,
    make_challenge,
    pack_answer,
    score_challenge,
    train_system,
)
from voiceveil.core.errors import InputError
from voiceveil.run.context import RunContext
from voiceveil.tdsv.answers import read_answer, write_answer
from voiceveil.tdsv.challenge import open_challenge
from voiceveil.tdsv.challenge_design import ChallengePlan
from voiceveil.tdsv.lists import TdsvKey, Trial, write_keys, write_trials


@pytest.fixture
def lists(tmp_path: Path) -> TrialLists:
    """Forty trials of ten models, half of them targets."""
    keys = [
        TdsvKey(f"m{i % 10}", f"t{i:02d}", "TC" if i < 20 else "IC", f"s{i % 10}", f"s{(i % 10 + i // 20) % 10}")
        for i in range(40)
    ]
    write_trials(tmp_path / "trials.txt", [Trial(key.model, key.test) for key in keys])
    write_keys(tmp_path / "keys.txt", keys)
    return TrialLists(tmp_path / "trials.txt", tmp_path / "keys.txt")


def write_scores(path: Path, separation: float) -> Path:
    rng = np.random.default_rng(0)
    write_answer(path, np.concatenate([rng.normal(separation, 1, 20), rng.normal(-separation, 1, 20)]))
    return path


@pytest.mark.slow
def test_answers_are_evaluated_and_reported(lists: TrialLists, tmp_path: Path) -> None:
    answers = [("good", write_scores(tmp_path / "a.txt", 3.0)), ("bad", write_scores(tmp_path / "b.txt", 0.2))]
    report = tmp_path / "report.html"
    evaluations, checks = evaluate_answers(answers, lists, resamples=20, report=report, title="Two systems")
    assert [evaluation.name for evaluation in evaluations] == ["good", "bad"]
    assert evaluations[0].overall.eer.value < evaluations[1].overall.eer.value
    assert checks == []
    assert "Two systems" in report.read_text()
    with pytest.raises(InputError, match="this file exists"):
        evaluate_answers(answers, lists, resamples=20, report=report)


def test_report_never_replaces_an_input(lists: TrialLists, tmp_path: Path) -> None:
    answer = write_scores(tmp_path / "a.txt", 3.0)
    for path in (answer, lists.trials, lists.keys):
        before = path.read_bytes()
        with pytest.raises(InputError):
            evaluate_answers([("a", answer)], lists, resamples=20, report=path, overwrite=True)
        assert path.read_bytes() == before


def test_constant_scores_fail_a_check(lists: TrialLists, tmp_path: Path) -> None:
    write_answer(tmp_path / "constant.txt", np.full(40, 0.5))
    _, checks = evaluate_answers([("constant", tmp_path / "constant.txt")], lists, resamples=20)
    assert [check.name for check in checks][:1] == ["constant-scores"]


def test_answer_is_packed_beside_itself(lists: TrialLists, tmp_path: Path) -> None:
    answer = write_scores(tmp_path / "mine.txt", 1.0)
    path, count = pack_answer(answer, lists.trials)
    assert (path, count) == (tmp_path / "submission.zip", 40)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["answer.txt"]
    with pytest.raises(InputError, match="this file exists"):
        pack_answer(answer, lists.trials)
    assert pack_answer(answer, lists.trials, overwrite=True) == (path, 40)


def test_anonymizer_and_folder_belong_together(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--anonymize needs a folder"):
        AnswerOptions(anonymizer="b2")
    with pytest.raises(InputError, match="--anonymized-to without --anonymize"):
        AnswerOptions(anonymized_to=tmp_path)


@pytest.mark.slow
def test_challenge_is_made_trained_and_scored(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "words")
    plan = ChallengePlan(join=(3, 4), phrases=4, tests=2)
    design = make_challenge(corpus, tmp_path / "task", plan)
    assert sum(design.trial_counts("eval").values()) == len(design.keys["eval"])
    settings, context = SystemSettings("tdsv-pitch", "cosine", "tdsv-bands"), RunContext()
    system = train_system(tmp_path / "task", tmp_path / "system.npz", settings, context)
    assert system.encoder == "tdsv-pitch"
    options = AnswerOptions(subset="dev", parts=tmp_path / "parts.txt")
    scores = score_challenge(tmp_path / "system.npz", tmp_path / "task", tmp_path / "answer.txt", options, context)
    np.testing.assert_allclose(read_answer(tmp_path / "answer.txt"), scores.llr, atol=1e-6)
    np.testing.assert_allclose(np.loadtxt(tmp_path / "parts.txt", skiprows=1)[:, 0], scores.voice, atol=1e-6)
    challenge = open_challenge(tmp_path / "task")
    first = challenge.with_trials("dev", challenge.subset("dev").trials[:3])
    assert len(first.subset("dev").trials) == 3
    with pytest.raises(InputError, match="this file exists"):
        train_system(tmp_path / "task", tmp_path / "system.npz", settings, context)
    with pytest.raises(InputError):  # never into the challenge itself
        train_system(tmp_path / "task", tmp_path / "task" / "system.npz", settings, context)
