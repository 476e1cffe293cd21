"""From a corpus to a submission through the command line, on synthetic voices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.tdsv_world import make_corpus
from voiceveil.cli.main import main
from voiceveil.tdsv.answers import read_answer
from voiceveil.tdsv.challenge import open_challenge
from voiceveil.tdsv.serialization import load_system

pytestmark = pytest.mark.slow  # for its fixtures

SMALL = ["--join", "3-4", "--phrases", "4", "--known", "2", "--tests", "2", "--quiet"]
MODELS = ["--encoder", "tdsv-pitch", "--content", "tdsv-bands", "--backend", "cosine", "--quiet"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("words") / "words")


@pytest.fixture(scope="module", params=["1", "2"])
def made(request: pytest.FixtureRequest, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a challenge and a trained system."""
    folder = tmp_path_factory.mktemp(f"task{request.param}")
    out, system, cache = (str(folder / name) for name in ("task", "system.npz", "cache.sqlite"))
    assert main(["tdsv", "make", str(corpus), out, "--task", request.param, "--language", "Vowels", *SMALL]) == 0
    assert main(["tdsv", "train", out, system, "--cache", cache, *MODELS]) == 0
    return folder


def test_commands_lead_from_a_corpus_to_a_submission(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenge, docs = made / "task", made / "task" / "docs"
    common = ["--cache", str(made / "cache.sqlite"), "--quiet"]
    lists = ["--trials", str(docs / "eval_trials.txt"), "--keys", str(docs / "eval_keys.txt")]
    system, answer = str(made / "system.npz"), made / "answer.txt"
    assert main(["tdsv", "check", str(challenge)]) == 0
    assert "task: good" in capsys.readouterr().out.splitlines()[-1]

    parts = made / "parts.txt"
    assert main(["tdsv", "score", system, str(challenge), "--out", str(answer), "--parts", str(parts), *common]) == 0
    trials = open_challenge(challenge).subset("eval").trials
    assert capsys.readouterr().out == f"{answer}: {len(trials)} trials\n"
    llr = read_answer(answer, len(trials))
    table = np.loadtxt(parts, skiprows=1)
    np.testing.assert_allclose(table[:, 2], llr)

    anonymized = ["--anonymize", "b2", "--anonymized-to", str(made / "b2"), "--seed", "1"]
    other = made / "answer-b2.txt"
    assert main(["tdsv", "score", system, str(challenge), "--out", str(other), *anonymized, *common]) == 0
    assert not np.allclose(read_answer(other, len(trials)), llr)
    capsys.readouterr()

    page = made / "report.html"
    assert main(["tdsv", "evaluate", str(answer), f"B2={other}", *lists, "--report", str(page), "--json"]) == 0
    before, after = json.loads(capsys.readouterr().out)
    figures = {(p["group"], p["name"]): p for p in before["parts"]}
    assert {group for group, _ in figures} == {"all", "type", "language", "gender", "phrase"}
    assert figures["type", "TW"]["eer"]["value"] < 0.1
    assert figures["type", "IC"]["eer"]["value"] < 0.35  # by pitch alone
    assert figures["all", "all trials"]["eer"]["value"] < 0.25
    assert figures["all", "all trials"]["min_dcf"]["value"] < 1.0
    assert figures["all", "all trials"]["min_dcf"]["low"] <= figures["all", "all trials"]["min_dcf"]["value"]
    assert after["name"] == "B2"
    html = page.read_text()
    assert html.count("<svg") >= 5
    assert "<script" not in html
    assert "Vowels" in html
    invented = made / "invented.txt"
    invented.write_text("0.5\n" * len(answer.read_text().splitlines()))
    capsys.readouterr()
    assert main(["tdsv", "evaluate", str(invented), *lists, "--resamples", "20"]) == 0
    assert "scores are 0.5 (invented)" in capsys.readouterr().err
    assert main(["tdsv", "evaluate", str(answer), *lists, "--resamples", "20"]) == 0
    assert "TC against TW: the right person, wrong words" in capsys.readouterr().out

    package = made / "s.zip"
    assert main(["tdsv", "submit", str(answer), *lists[:2], "--out", str(package)]) == 0
    assert main(["tdsv", "submit", "--check", str(package), *lists[:2]]) == 0
    assert f"{package}: good, {len(trials)} scores" in capsys.readouterr().out
    assert main(["tdsv", "submit", "--check", str(package), "--trials", str(docs / "dev_trials.txt")]) == 1
    assert f"{len(trials)} scores for" in capsys.readouterr().err


def test_free_text_option_changes_the_scores(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = open_challenge(made / "task").task
    with_it, without = made / "with.txt", made / "without.txt"
    command = ["tdsv", "score", str(made / "system.npz"), str(made / "task"), "--quiet", "--subset", "dev"]
    command += ["--cache", str(made / "cache.sqlite")]
    assert main([*command, "--out", str(with_it)]) == 0
    assert main([*command, "--out", str(without), "--no-free-text"]) == 0
    assert (with_it.read_text() == without.read_text()) == (task == 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["make", "CORPUS", "OUT", "--task", "1", "--join", "4"], "--join 4 (write two numbers, e.g. --join 4-6)"),
        (["make", "CORPUS", "OUT", "--task", "1"], "0 passphrases with 6 recordings"),
        (["check", "CORPUS"], "no challenge: it has no folder docs"),
        (["score", "CORPUS/text", "OUT", "--out", "a"], "not a system, or a damaged one"),
        (["submit", "--trials", "CORPUS/text"], "give either an answer or --check ZIP"),
    ],
)
def test_mistakes_are_explained(
    corpus: Path, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [a.replace("CORPUS", str(corpus)).replace("OUT", str(tmp_path / "out")) for a in arguments]
    repetitions = ["--tests", "3", "--repetitions", "4"] if "make" in arguments else []
    assert main(["tdsv", *filled, *repetitions]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("made", ["1"], indirect=True)  # it is the same in task 2
def test_baseline_is_trained_on_the_training_files(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, system, answer = str(made / "task"), made / "baseline.npz", made / "baseline.txt"
    options = ["--encoder", "ecapa", "--epochs", "1", "--channels", "16", "--content", "tdsv-bands", "--quiet"]
    options += ["--augment", "reverb"]
    assert main(["tdsv", "train", task, str(system), *options, "--cache", str(made / "cache.sqlite")]) == 0
    record = json.loads((made / "baseline-ecapa" / "record.json").read_text())
    challenge = open_challenge(task)
    assert record["corpora"] == [{"name": "training files", "utterances": len(challenge.labels)}]
    assert record["settings"]["model"] == "ecapa"
    assert record["settings"]["augmentation"]["kinds"] == ["reverb"]
    assert load_system(system).encoder == f"ecapa:{made / 'baseline-ecapa'}"
    assert main(["tdsv", "score", str(system), task, "--out", str(answer), "--subset", "dev", "--quiet"]) == 0
    assert np.isfinite(read_answer(answer, len(challenge.subset("dev").trials))).all()
    (made / "baseline-ecapa" / "model.safetensors").unlink()
    again = ["tdsv", "score", str(system), task, "--out", str(answer), "--subset", "dev", "--quiet"]
    assert main(again) == 1
    assert f"{answer}: this file exists" in capsys.readouterr().err
    assert main([*again, "--overwrite"]) == 1
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("made", ["1"], indirect=True)
def test_other_corpora_are_trained_on_without_the_challenge(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_corpus(tmp_path / "other", speakers=4, repetitions=4)
    task, system = str(made / "task"), made / "several.npz"
    options = [*MODELS[:4], "--backend", "plda", "--quiet", "--cache", str(made / "cache.sqlite")]
    assert main(["tdsv", "train", task, str(system), *options, "--train", str(other)]) == 0
    assert "(plda)" in capsys.readouterr().out
    loaded, alone = load_system(system), load_system(made / "system.npz")
    assert loaded.record["speakers"] == alone.record["speakers"] + 4
    assert loaded.record["corpora"] == ["other"]
    answer = made / "several.txt"
    assert main(["tdsv", "score", str(system), task, "--out", str(answer), "--subset", "dev", "--quiet"]) == 0
    assert np.isfinite(read_answer(answer)).all()
    again = ["tdsv", "train", task, str(made / "own.npz"), *options, "--train", f"deepmine:{task}"]
    assert main(again) == 1  # its training files are those of the challenge, the rest is enrollment and trials
    assert "nothing to train on" in capsys.readouterr().err


def test_systems_and_challenges_must_fit(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system, task, out = str(made / "system.npz"), str(made / "task"), str(made / "x.txt")
    assert main(["tdsv", "score", system, task, "--out", out, "--anonymize", "b2"]) == 1
    assert "--anonymize needs a folder for the speech (add --anonymized-to DIR)" in capsys.readouterr().err
    assert main(["tdsv", "train", task, out, *MODELS[2:], "--encoder", "tdsv-pich"]) == 1
    assert "did you mean tdsv-pitch?" in capsys.readouterr().err
    docs = made / "task" / "docs"
    labels = (docs / "train_labels.txt").read_text()
    try:
        (docs / "train_labels.txt").write_text(labels + "trn_000001 s01 01\n")
        assert main(["tdsv", "train", task, out, *MODELS]) == 1
        assert "trn_000001: the same as line 2" in capsys.readouterr().err
        assert main(["tdsv", "check", task, "--no-audio", "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["faults"][0]["line"] == len(labels.splitlines()) + 1
    finally:
        (docs / "train_labels.txt").write_text(labels)
