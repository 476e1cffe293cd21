"""An evaluation by the 2024 challenge's own evaluators, from tiny models in the layout of its checkout."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.official_models import copy_checkout
from tests.support.small_challenge import make_challenge
from voiceveil.audio import load
from voiceveil.cli.main import main
from voiceveil.corpus import open_corpus
from voiceveil.evaluation.evaluate import Evaluation, evaluate, prepare
from voiceveil.evaluation.plan import make_plan
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.results import Results
from voiceveil.metrics import uar_over_folds
from voiceveil.models.emotion import evaluation as emotion_evaluation
from voiceveil.models.speechbrain.emotion import SpeechBrainEmotionModel
from voiceveil.official.labels import labels_of, note_text
from voiceveil.stats.logistic import fit

FOLDS = ("1", "2", "3")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout with data and models; the third fold has the model of the first."""
    place = copy_checkout(tmp_path_factory.mktemp("world"))
    shutil.copytree(place / "exp" / "ser" / "fold_1", place / "exp" / "ser" / "fold_3")
    shutil.copytree(place / "exp" / "asv_anon_x", place / "exp" / "asv_orig")
    make_challenge(place / "data", only=("dev", "emotion"))
    return place


def options(checkout: Path) -> dict[str, Any]:
    return {
        "attackers": [f"speechbrain:{checkout}/exp/asv_orig", f"speechbrain:{checkout}/exp/asv_anon_x"],
        "recognizers": [f"speechbrain:{checkout}/exp/asr", f"speechbrain-correct:{checkout}/exp/asr"],
        "emotion_models": [f"speechbrain:{checkout}/exp/ser"],
        "seed": 1,
    }


def prepared(checkout: Path, out: Path, **changes: Any) -> Evaluation:
    settings = settings_for(checkout / "data", out, "vpc2024", **{**options(checkout), **changes})
    return prepare(settings, system=vv.system("identity"))


@pytest.fixture(scope="module")
def results(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return evaluate(prepared(checkout, tmp_path_factory.mktemp("out")))


def test_plan_has_a_step_for_each_fold(checkout: Path, tmp_path: Path) -> None:
    chosen = options(checkout)
    steps = {name: step for step in make_plan(prepared(checkout, tmp_path)).steps for name in step.name.split(", ")}
    ser = chosen["emotion_models"][0]
    assert all(f"{ser} fold {fold}" in steps for fold in FOLDS)
    assert steps[f"{ser} fold 2"].utterances == 16  # four emotions of two speakers, original and anonymized


def test_attackers_know_what_the_folders_were_trained_on(checkout: Path, results: Results) -> None:
    knowledge = {(Path(f.attacker).name, f.condition): f.knowledge for f in results.find("eer")}
    assert knowledge == {
        ("asv_orig", "oo"): "unprotected",
        ("asv_orig", "oa"): "ignorant",
        ("asv_orig", "aa"): "lazy-informed",
        ("asv_anon_x", "aa"): "semi-informed",
    }
    official = load_protocol("vpc2024").official
    assert official is not None
    labels = labels_of(results, official)
    assert [Path(name).name for name in labels.as_dict().values()] == ["asv_orig", "asv_anon_x", "asr", "ser"]
    assert note_text(results, labels, "challenge", official).count("the challenge's own, as far as") == 4


def test_recognizer_counts_words_as_the_challenge_does(results: Results) -> None:
    official, correct = (
        {f.condition: f for f in results.find("wer") if f.model.startswith(f"{name}:")}
        for name in ("speechbrain", "speechbrain-correct")
    )
    assert official.keys() == correct.keys() == {"o", "a"}
    assert official["o"].detail["insertions"] != correct["o"].detail["insertions"]


def test_each_fold_is_judged_by_its_own_model(checkout: Path, results: Results) -> None:
    corpus = open_corpus(checkout / "data" / "IEMOCAP_test")
    judged = []
    for utterance in corpus:
        model = SpeechBrainEmotionModel(checkout / "exp" / "ser" / f"fold_{utterance.fold}")
        probabilities = model(load(utterance.path))
        judged.append(max(probabilities, key=lambda label: probabilities[label]))
    columns = [[str(getattr(u, key)) for u in corpus] for key in ("emotion", "fold")]
    expected = uar_over_folds(columns[0], judged, columns[1], method="official").value
    uar = next(f for f in results.find("uar") if f.split == "test" and f.condition == "o")
    assert uar.value == pytest.approx(expected)


def test_embedded_recognizer_learns_from_the_other_folds_of_both_sets(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the plan eight speakers: of each fold but one, the development speaker and the evaluation speaker."""
    learned = []

    def counted(x: Any, *rest: Any) -> Any:
        learned.append(np.asarray(x))
        return fit(x, *rest)

    monkeypatch.setattr(emotion_evaluation, "fit", counted)
    results = evaluate(prepared(checkout, tmp_path, attackers=["free:duration"], emotion_models=["functionals"]))
    assert {f.dataset for f in results.find("uar")} == {"IEMOCAP_dev", "IEMOCAP_test"}
    assert [len(x) for x in learned] == [16] * 6  # two other folds, two speakers each, four emotions; for both sets
    for x, held_out in zip(learned[:3], learned[3:], strict=True):
        assert np.array_equal(np.sort(x, axis=0), np.sort(held_out, axis=0), equal_nan=True)  # the same for both sets


def test_broken_models_are_found_before_the_work(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", "--data", str(checkout / "data"), "--system", "identity", "--out", str(tmp_path / "out")]
    few = copy_checkout(tmp_path) / "exp" / "ser"  # two folds
    for option, name, message in (
        ("--attackers", f"speechbrain:{checkout}/exp/asr", "embedding_model.ckpt"),
        ("--recognizers", f"speechbrain:{checkout}/exp/ser", "the recognizer has no hyperparams.yaml"),
        ("--emotion-models", f"speechbrain:{few}", "no model for fold 3"),
    ):
        assert main([*arguments, option, name]) != 0
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "data").exists()
