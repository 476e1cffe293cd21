"""The models that measure: of a protocol, of options, and which of them measures what."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.small_challenge import make_challenge
from voiceveil.attack.registry import make_attackers
from voiceveil.audio import Waveform
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.evaluation.averages import counting_figures
from voiceveil.evaluation.evaluate import evaluate, prepare
from voiceveil.evaluation.model_choice import ModelChoice
from voiceveil.evaluation.plan import make_plan
from voiceveil.evaluation.protocol import protocol_document, protocol_from_document
from voiceveil.evaluation.results import Results
from voiceveil.models.asr.recognition import recognizers
from voiceveil.official.reading import read_results
from voiceveil.official.tree import write_tree
from voiceveil.report.page import write_report
from voiceveil.run.context import RunContext

PROTOCOL = """\
name = "mine"
title = "A protocol of one's own"
metrics = ["eer", "wer", "pitch_correlation", "gvd", "deid"]
conditions = ["oo", "aa"]

[training]
set = "train-clean-360"

[[verification]]
dataset = "libri_dev"
split = "dev"
enroll = "libri_dev_enrolls"
trials = [{ set = "libri_dev_trials_f", gender = "f" }]

[[recognition]]
dataset = "libri_dev"
split = "dev"
sets = ["libri_dev_trials_f"]
"""
MODELS = """
[models]
recognizers = ["counter"]
anonymized_recognizers = ["mute", "counter"]
similarity = "bumps"
pitch_tracker = "swift"
"""
TRIALS = 12  # utterances of libri_dev_trials_f


class Mute:
    """A recognizer that hears nothing."""

    rate, minimum = 16000, 0.01

    def fingerprint(self) -> str:
        return "mute 1"

    def __call__(self, wave: Waveform) -> str:
        return ""


@pytest.fixture(autouse=True)
def mute(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "counter" in recognizers

    def make_mute(model: str, *, online: bool = False) -> Mute:
        return Mute()

    monkeypatch.setitem(recognizers._items, "mute", make_mute)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_challenge(tmp_path_factory.mktemp("data"), only=("dev", "train"))


def measured(data: Path, folder: Path, models: str = "", **options: Any) -> Results:
    folder.mkdir(exist_ok=True)
    path = folder / "mine.toml"
    path.write_text(PROTOCOL + models)
    settings = settings_for(data, folder / "out", path, attackers=["bumps"], seed=1, **options)
    return evaluate(prepare(settings, system=vv.system("b2")))


def test_options_override_the_models_of_a_protocol(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PROTOCOL + MODELS)
    settings = settings_for(data, tmp_path / "out", path, recognizers=["mute"], pitch_tracker="yaapt")
    assert settings.models == ModelChoice(("mute",), ("mute", "counter"), similarity="bumps", pitch_tracker="yaapt")
    assert protocol_from_document(protocol_document(settings.protocol)) == settings.protocol
    assert settings_for(data, tmp_path, "vpc2022").models == ModelChoice()


@pytest.mark.skipif(importlib.util.find_spec("swift_f0") is None, reason="needs the extra pitch")
def test_a_protocol_names_recognizers_of_each_side_tracker_and_voices(data: Path, tmp_path: Path) -> None:
    results = measured(data, tmp_path, MODELS)
    words = [(figure.model, figure.condition) for figure in results.find("wer")]
    assert words == [("counter", "o"), ("mute", "a"), ("counter", "a")]
    assert results.find("wer", model="mute")[0].value == 1.0
    counting = [counting_figures(results, "wer", None, condition=condition) for condition in "oa"]
    assert [[figure.model for figure in figures] for figures in counting] == [["counter"], ["mute"]]
    assert results.one("pitch_correlation").model == "swift"
    assert {figure.model for figure in results.find("deid")} == {"bumps"}
    assert results.info["anonymized_recognizers"] == ["mute", "counter"]
    assert {"counter", "mute", "swift", "bumps"} <= set(results.info["models"])
    page = write_report(tmp_path / "out").read_text()
    assert "swift" in page
    assert "mute" in page


def test_a_recognizer_runs_on_its_own_side_only(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PROTOCOL)
    chosen = {"recognizers": ["counter"], "anonymized_recognizers": ["mute"], "similarity": "bumps"}
    settings = settings_for(data, tmp_path / "out", path, attackers=["bumps"], seed=1, **chosen)
    steps = {step.name: step.utterances for step in make_plan(prepare(settings, system=vv.system("b2"))).steps}
    assert (steps["counter"], steps["mute"]) == (TRIALS, TRIALS)


def test_official_files_of_2022_name_the_recognizer_of_anonymized_speech(data: Path, tmp_path: Path) -> None:
    settings = settings_for(
        data, tmp_path / "out", "vpc2022", attackers=["bumps"], seed=1, similarity="bumps",
        recognizers=["counter"], anonymized_recognizers=["mute"],
    )  # fmt: skip
    results = evaluate(prepare(settings, system=vv.system("b2-2022")), exports=(write_tree,))
    names = results.info["official"]["names"]
    assert (names["ASR_eval"], names["ASR_eval^anon"]) == ("counter", "mute")
    (home,) = (folder for folder in (tmp_path / "out" / "exp").iterdir() if folder.suffix != ".orig")
    line = (home / "ASR-libri_dev_asr_anon").read_text()
    assert line.startswith("%WER 100.00 ")
    assert line.endswith("asr_eval_anon/mute/wer\n")
    assert {figure.model for figure in read_results(home / "results.txt").find("wer")} == {"ASR_eval^anon"}
    assert "ASR_eval^anon: mute" in (home / "NOTE.txt").read_text()


@pytest.mark.parametrize("scoring", ["cosine", "plda"])
def test_voices_are_compared_by_the_chosen_attacker_and_scoring(data: Path, tmp_path: Path, scoring: Any) -> None:
    chosen = {"similarity": "bumps", "similarity_scoring": scoring, "train": ["libri_dev_trials_m"]}
    results = measured(data, tmp_path, recognizers=["mute"], **chosen)
    results.save(tmp_path / "results.json", overwrite=True)
    assert Results.load(tmp_path / "results.json").one("deid").detail["speakers"]  # names, not rates
    gvd = results.one("gvd")
    assert gvd.model == "bumps"
    assert gvd.detail["backend"].startswith(scoring)


def test_plda_without_training_speech_is_noted(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PROTOCOL.replace('[training]\nset = "train-clean-360"\n', ""))
    chosen = {"recognizers": ["mute"], "similarity": "bumps", "similarity_scoring": "plda"}
    settings = settings_for(data, tmp_path / "out", path, attackers=["bumps"], seed=1, **chosen)
    results = evaluate(prepare(settings, system=vv.system("b2")))
    assert "voices are compared by cosines: PLDA needs training speech, and there is none" in results.info["notes"]
    assert results.one("gvd").detail["backend"] == "cosine"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--pitch-tracker", "swfit", "did you mean swift?"),
        ("--similarity", "free", "'free' cannot compare voices"),
        ("--similarity", "bumbs", "did you mean bumps"),
        ("--anonymized-recognizers", "countre", "did you mean counter"),
    ],
)
def test_mistyped_models_are_found_before_the_work_begins(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, message: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PROTOCOL)
    arguments = ["--protocol", str(path), "--data", str(data), "--system", "b2", "--attackers", "bumps"]
    arguments += ["--recognizers", "counter", "--out", str(tmp_path / "out"), option, value]
    assert main(["evaluate", *arguments]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "results.json").exists()


def test_attackers_without_embeddings_compare_no_voices(data: Path) -> None:
    (attacker,) = make_attackers(["free:f0"])
    corpus = open_corpus(data / "libri_dev_trials_f")
    with pytest.raises(InputError, match="scores trials only"):
        attacker.compare(corpus, corpus, RunContext())
