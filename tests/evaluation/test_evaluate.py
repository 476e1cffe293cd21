"""A whole evaluation on a small world of synthetic voices: what is there is measured, what is missing is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from voiceveil.audio import save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Trials, Utterance, write_kaldi
from voiceveil.corpus.model import Corpus
from voiceveil.evaluation.evaluate import evaluate, prepare
from voiceveil.evaluation.results import Figure, Results
from voiceveil.testing import synthetic_voice

SPEAKERS = {"f": [11, 12, 13], "m": [21, 22, 23]}
OPTIONS: dict[str, Any] = {"attackers": ["campplus", "free:duration"], "seed": 1, "emotion": ["emotions"]}


def make_set(data: Path, name: str, utterances: list[Utterance], trials: Trials | None = None) -> None:
    for index, utterance in enumerate(utterances):
        number = int(utterance.speaker or 0)
        save(utterance.path, synthetic_voice(number, index, seconds=1.2))
    write_kaldi(Corpus(name, tuple(utterances), trials), data / name)


def utterances(data: Path, name: str, speakers: list[int], count: int, gender: str, role: str) -> list[Utterance]:
    return [
        Utterance(f"{s}-{name[-3:]}-{i}", data / "audio" / name / f"{s}-{i}.wav", speaker=str(s), gender=gender,
                  text="A B C", role=role)
        for s in speakers
        for i in range(count)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LibriSpeech dev in small, and a set of emotions; no training set, no test sets."""
    data = tmp_path_factory.mktemp("data")
    enroll = [u for g in "fm" for u in utterances(data, "libri_dev_enrolls", SPEAKERS[g], 2, g, "enroll")]
    make_set(data, "libri_dev_enrolls", enroll)
    for gender in "fm":
        name = f"libri_dev_trials_{gender}"
        spoken = utterances(data, name, SPEAKERS[gender], 4, gender, "trial")
        pairs = [(str(s), u.id, str(s) == u.speaker) for s in SPEAKERS[gender] for u in spoken]
        columns = [np.array(column) for column in zip(*pairs, strict=True)]
        make_set(data, name, spoken, Trials(columns[0], columns[1], columns[2]))
    emotional = [
        Utterance(f"{s}-{e}-{i}", data / "audio" / "emo" / f"{s}-{e}-{i}.wav", speaker=str(s), gender="f", emotion=e)
        for s in (31, 32, 33)
        for e in ("ang", "hap", "neu", "sad")
        for i in range(2)
    ]
    make_set(data, "emotions", emotional)
    return data


def test_inventory_lists_missing_and_different_sets(data: Path, tmp_path: Path) -> None:
    inventory = prepare(settings_for(data, tmp_path), system=vv.system("b2")).inventory
    assert "train-clean-360" in inventory.missing
    assert "IEMOCAP_dev" in inventory.missing
    assert "libri_test_trials_m" in inventory.missing
    assert [one.dataset for one in inventory.verification] == ["libri_dev"]
    assert "utterances of libri_dev_enrolls: 12, the plan says 343" in inventory.differences


@pytest.fixture(scope="module")
def evaluated(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    out = tmp_path_factory.mktemp("out")
    return out, evaluate(prepare(settings_for(data, out, **OPTIONS), system=vv.system("b2")))


@pytest.mark.slow
def test_every_figure_is_complete(evaluated: tuple[Path, Results]) -> None:
    out, results = evaluated
    eers = {(f.dataset, f.gender, f.condition, f.evaluator) for f in results.find("eer")}
    for gender in "fm":
        for conditions, knowledge in (("oo", "unprotected"), ("oa", "ignorant"), ("aa", "lazy-informed")):
            assert ("libri_dev", gender, conditions, f"campplus ({knowledge})") in eers
    assert {f.condition for f in results.find("wer")} == {"o", "a"}
    assert {f.condition for f in results.find("uar")} == {"o", "a"}
    assert all(f.low is not None and f.high is not None and f.low <= f.value <= f.high for f in results.find("eer"))
    assert Results.load(out / "results.json").figures == results.figures
    assert results.info["seed"] == 1
    assert any("train-clean-360" in note for note in results.info["notes"])
    assert len(list((out / "scores").rglob("*.scores"))) >= 6


@pytest.mark.slow
def test_second_run_computes_nothing(evaluated: tuple[Path, Results], data: Path) -> None:
    out, results = evaluated
    before = {path: path.stat().st_mtime_ns for path in (out / "data").rglob("*.wav")}
    again = evaluate(prepare(settings_for(data, out, **OPTIONS), system=vv.system("b2")))
    assert again.figures == results.figures
    assert before == {path: path.stat().st_mtime_ns for path in (out / "data").rglob("*.wav")}


@pytest.mark.slow
def test_externally_anonymized_data_is_evaluated(evaluated: tuple[Path, Results], data: Path, tmp_path: Path) -> None:
    out, results = evaluated
    theirs = tmp_path / "data"
    shutil.copytree(data, theirs)
    for directory in (out / "data").iterdir():
        shutil.copytree(directory, theirs / directory.name.replace("_b2", "_theirs"))
    settings = settings_for(theirs, tmp_path / "out", attackers=["campplus"], emotion=["emotions"])
    again = evaluate(prepare(settings, anon="_theirs"))
    assert again.system == "theirs"
    assert [f.value for f in again.find("eer")] == [f.value for f in results.find("eer") if "campplus" in f.attacker]
    broken = theirs / "libri_dev_trials_f_theirs" / "wav.scp"
    broken.write_text("".join(broken.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(InputError, match=r"missing, e\.g\. 11-s_f-0"):
        prepare(settings_for(theirs, tmp_path / "out2"), anon="_theirs")


def test_plan_option_computes_nothing(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", "--data", str(data), "--system", "b2", "--out", str(tmp_path / "out"), "--plan"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "libri_dev_trials_f: trial, 12 utterances, 3 speakers; utterance level" in out
    assert "train-clean-360: MISSING" in out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "b22"], "did you mean b2"),
        (["--anon", "_x"], "no anonymized set"),
        (["--system", "b2", "--train", "nothing"], "no set 'nothing'"),
        (["--system", "b2", "--protocol", "vpc2023"], "did you mean vpc202"),
    ],
)
def test_invalid_input_is_rejected(
    data: Path, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["evaluate", "--data", str(data), "--out", str(tmp_path / "out"), *arguments])
    assert code == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_emotion_labels_are_checked_before_the_work(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no emotion labels"):
        prepare(settings_for(data, tmp_path / "out", emotion=["libri_dev_enrolls"]), system=vv.system("b2"))


def test_data_without_any_set_of_the_protocol_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing of VoicePrivacy 2024"):
        prepare(settings_for(tmp_path, tmp_path / "out"), system=vv.system("b2"))


def test_results_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    figures = (Figure("cllr", float("inf"), "libri_dev", low=0.5, high=float("inf")), Figure("eer", 0.1, "libri_dev"))
    results = Results("b2", "vpc2020", figures, {"note": "x"})
    results.save(path)
    assert Results.load(path) == results
    path.write_text(json.dumps({"format": "another"}))
    with pytest.raises(InputError, match="not the results"):
        Results.load(path)
    path.write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        Results.load(path)
