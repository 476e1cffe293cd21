"""Tasks: one list for runner, plan, provenance, details and report."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.small_challenge import make_challenge
from tests.support.tiny_models import tiny_emotion
from voiceveil.attack import pipeline
from voiceveil.attack.attacker import ModelWork
from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.evaluation.averages import counting_figures
from voiceveil.evaluation.details import Column, read_details
from voiceveil.evaluation.evaluate import Evaluation, evaluate, prepare
from voiceveil.evaluation.inventory import spread_sample
from voiceveil.evaluation.plan import make_plan
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.tasks import (
    Section,
    SectionTable,
    Task,
    TaskContext,
    TaskResult,
    TaskSetup,
    all_tasks,
    tasks,
)
from voiceveil.evaluation.tasks.contract import CONDITIONS, figure, recognition_parts
from voiceveil.metrics import pitch_correlation
from voiceveil.metrics.catalog import METRICS, MetricInfo
from voiceveil.models.asr.recognition import recognizers
from voiceveil.models.pitch import correlation
from voiceveil.official.tree import write_tree
from voiceveil.report.page import write_report
from voiceveil.run.cache import Cache
from voiceveil.stats import mean

PROTOCOL = """\
name = "mine"
title = "A protocol of one's own"
metrics = ["eer", {metrics}]
conditions = ["oo", "oa", "aa"]

[[verification]]
dataset = "libri_dev"
split = "dev"
enroll = "libri_dev_enrolls"
trials = [{{ set = "libri_dev_trials_f", gender = "f" }}]

[[recognition]]
dataset = "libri_dev"
split = "dev"
sets = ["libri_dev_trials_f"]
{sample}
[[emotion]]
dataset = "IEMOCAP_dev"
split = "dev"
set = "IEMOCAP_dev"
"""
OPTIONS: dict[str, Any] = {"attackers": ["bumps"], "recognizers": ["counter"], "seed": 1}
TRIALS = 12  # utterances of libri_dev_trials_f


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_challenge(tmp_path_factory.mktemp("data"), only=("dev", "emotion"))


def prepared(data: Path, folder: Path, metrics: str, sample: str = "", **options: Any) -> Evaluation:
    path = folder / "mine.toml"
    path.write_text(PROTOCOL.format(metrics=metrics, sample=sample))
    settings = settings_for(data, folder / "out", path, **{**OPTIONS, **options})
    return prepare(settings, system=vv.system("b2"))


def test_tasks_run_in_a_fixed_order_and_own_their_metrics_and_columns() -> None:
    names = [task.name for task in all_tasks()]
    assert names == ["verification", "words", "emotion", "pitch", "distinctiveness", "naturalness"]
    for owned in ([m for task in all_tasks() for m in task.metrics], [c.name for t in all_tasks() for c in t.columns]):
        assert len(owned) == len(set(owned))


@dataclass(frozen=True)
class Level:
    """A model: the root mean square of an utterance in dB."""

    rate, minimum = 16000, 0.01

    def fingerprint(self) -> str:
        return "level 1"

    def __call__(self, wave: Waveform) -> dict[str, float]:
        return {"level": float(20 * np.log10(np.sqrt(np.mean(wave.samples**2)) + 1e-9))}


class Loudness(Task):
    """A measure that nobody else knows."""

    metrics = ("loudness",)
    own_metrics = (MetricInfo("loudness", "Loudness", "dB", "higher", "recognition"),)
    columns = (Column("loudness_anonymized", low=-200.0, high=0.0),)

    def available(self, setup: TaskSetup) -> bool:
        return setup.requests(self.metrics)

    def progress(self, setup: TaskSetup) -> str:
        return "measuring loudness"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        yield ModelWork("level", Level(), recognition_parts(setup.inventory))

    def run(self, context: TaskContext) -> TaskResult:
        figures, columns = [], {}
        for entry in context.inventory.recognition:
            for condition in CONDITIONS:
                for name, utterances in context.recognition_speech(entry, condition).items():
                    levels = context.run.extract(utterances, Level())
                    value = mean([v["level"] for v in levels.values()], [u.speaker or "" for u in utterances])
                    place = {"dataset": entry.dataset, "split": entry.split, "condition": condition, "model": "level"}
                    figures.append(figure("loudness", value, place))
                    columns[name] = {key: {"loudness_anonymized": v["level"]} for key, v in levels.items()}
        return TaskResult(figures, columns=columns)

    def section(self, results: Results) -> Section:
        rows = tuple((f.dataset, CONDITIONS[f.condition], f) for f in results.find("loudness"))
        return Section("loudness", "Loudness of it all", SectionTable(("set", "speech", "level"), rows))


@pytest.fixture
def loudness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the task, as a module of its own would, and forget it afterwards."""
    all_tasks()  # the others are there
    monkeypatch.setattr(tasks, "_items", dict(tasks._items))
    for name in ("loudness",):
        tasks.register(name)(Loudness)
        monkeypatch.delitem(METRICS, name)
    METRICS.update({info.name: info for info in Loudness.own_metrics})


@pytest.mark.usefixtures("loudness")
def test_a_new_measure_is_one_class(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluation = prepared(data, tmp_path, '"loudness"', progress=True)
    steps = {step.name: step for step in make_plan(evaluation).steps}
    assert (steps["level"].utterances, steps["level"].cached) == (2 * TRIALS, 0)
    results = evaluate(evaluation)
    assert "measuring loudness" in capsys.readouterr().err.splitlines()
    assert [f.condition for f in results.find("loudness")] == ["o", "a"]
    assert results.info["models"]["level"] == "level 1"
    rows = read_details(evaluation.out).utterances["libri_dev_trials_f"]
    assert all(-100 < (row.number("loudness_anonymized") or 0.0) < 0 for row in rows)
    again = {step.name: step for step in make_plan(evaluation).steps}
    assert again["level"].left == 0
    page = write_report(evaluation.out).read_text()
    assert "<h2>Loudness of it all</h2>" in page
    assert f"{results.find('loudness')[0].value:.3g} dB" in page
    assert " dB" not in str(results.one("eer", condition="oo"))


@pytest.mark.skipif(importlib.util.find_spec("speechmos") is None, reason="needs the extra naturalness")
def test_naturalness_of_a_sample(data: Path, tmp_path: Path) -> None:
    evaluation = prepared(data, tmp_path, '"dnsmos"', "sample = 2\n")
    steps = {step.name: step for step in make_plan(evaluation).steps}
    assert steps["dnsmos"].utterances == 4
    results = evaluate(evaluation)
    before, after = (results.one("dnsmos", condition=condition) for condition in "oa")
    assert 1.0 <= after.value <= 5.0
    assert 1.0 <= before.value <= 5.0
    rows = read_details(evaluation.out).utterances["libri_dev_trials_f"]
    rated = [value for row in rows if (value := row.number("dnsmos_anonymized")) is not None]
    assert np.mean(rated) == pytest.approx(after.value, rel=1e-5)
    assert "Naturalness" in write_report(evaluation.out).read_text()


def test_two_recognizers_of_words(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute:
        rate, minimum = 16000, 0.01

        def fingerprint(self) -> str:
            return "mute 1"

        def __call__(self, wave: Waveform) -> str:
            return ""

    assert "counter" in recognizers

    def make_mute(model: str, *, online: bool = False) -> Mute:
        return Mute()

    monkeypatch.setitem(recognizers._items, "mute", make_mute)
    settings = settings_for(data, tmp_path / "out", **{**OPTIONS, "recognizers": ["counter", "mute"]})
    evaluation = prepare(settings, system=vv.system("b2"))
    results = evaluate(evaluation, exports=(write_tree,))
    libri = results.find("wer", dataset="libri_dev", condition="a")
    assert [f.model for f in libri] == ["counter", "mute"]
    assert libri[1].value == 1.0
    assert [f.model for f in counting_figures(results, "wer", None, dataset="libri_dev", condition="a")] == ["counter"]
    assert results.info["recognizers"] == ["counter", "mute"]
    assert results.info["official"]["names"]["ASR_eval"] == "counter"
    table = (evaluation.out / "exp" / "asr" / "results_b2.csv").read_text().splitlines()
    assert f"{100 * libri[0].value:.3f}".rstrip("0") in "\n".join(table)
    assert len(table) == 3
    rows = read_details(evaluation.out).utterances["libri_dev_trials_f"]
    assert all(row.text("heard_anonymized") for row in rows)
    page = write_report(evaluation.out).read_text()
    assert "counter" in page
    assert "mute" in page


def test_neural_emotion_model_beside_the_functionals(data: Path, tmp_path: Path) -> None:
    model = str(tiny_emotion(tmp_path / "tiny"))
    evaluation = prepared(data, tmp_path, '"uar"', emotion_models=["functionals", model])
    steps = {step.name: step for step in make_plan(evaluation).steps}
    assert steps[model].utterances == steps["functionals"].utterances == 24
    results = evaluate(evaluation)
    assert [(f.model, f.condition) for f in results.find("uar")] == [
        ("functionals", "o"),
        ("functionals", "a"),
        (model, "o"),
        (model, "a"),
    ]
    assert {f.model for f in counting_figures(results, "uar", None)} == {"functionals"}
    with pytest.raises(InputError, match="nothing: no such folder"):
        evaluate(prepared(data, tmp_path, '"uar"', emotion_models=[str(tmp_path / "nothing")]))


def test_pitch_is_compared_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*args: Any, **options: Any) -> float:
        calls.append(1)
        return pitch_correlation(*args, **options)

    monkeypatch.setattr(correlation, "pitch_correlation", counted)
    results = evaluate(prepared(data, tmp_path, '"pitch_correlation"'))
    assert len(calls) == TRIALS
    rows = read_details(tmp_path / "out").utterances["libri_dev_trials_f"]
    rho = np.mean([row.number("pitch_correlation") for row in rows])
    assert rho == pytest.approx(results.one("pitch_correlation").value, abs=1e-5)


def test_metrics_need_no_score_files(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = evaluate(prepared(data, tmp_path, '"min_cllr"'))
    (tmp_path / "other").mkdir()

    def broken(path: Path, *rest: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("not scores\n")

    monkeypatch.setattr(pipeline, "write_scores", broken)
    again = evaluate(prepared(data, tmp_path / "other", '"min_cllr"'))
    assert plain.find("min_cllr")
    assert [(f.metric, f.value) for f in again.figures] == [(f.metric, f.value) for f in plain.figures]


def test_samples_are_spread_over_speakers_and_nested(data: Path) -> None:
    corpus = open_corpus(data / "libri_dev_trials_f")
    few, more = (set(spread_sample(corpus, count)) for count in (4, 7))
    assert len(few) == 4
    assert few < more
    assert {corpus[key].speaker for key in few} == set(corpus.speakers())
    assert spread_sample(corpus, 100) == [u.id for u in corpus]


def test_a_sample_is_at_least_one_utterance(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PROTOCOL.format(metrics='"wer"', sample="sample = 0\n"))
    with pytest.raises(InputError, match="the sample of 'libri_dev' is 0"):
        load_protocol(path)
