"""Plans: what they say is what then happens; what is done is not done again, and a killed evaluation goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.pitch_bumps import make_corpus  # registers the encoder `pitch-bumps`
from tests.support.protocols import SMALL_PROTOCOL
from voiceveil.audio import save
from voiceveil.cli.evaluate import _needs
from voiceveil.cli.main import main
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.evaluation.evaluate import Evaluation, evaluate, prepare
from voiceveil.evaluation.inventory import take_inventory
from voiceveil.evaluation.plan import Plan, PlanStep, make_plan
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.run.cache import Cache
from voiceveil.testing import synthetic_voice

ATTACKERS = ["free:f0", "free:duration"]
ENROLLED, TRIED = 6, 18  # utterances
MANY = 12_000


def spoken(data: Path, speaker: int, index: int, role: str) -> Utterance:
    path = data / "audio" / f"{speaker}-{index}.wav"
    save(path, synthetic_voice(speaker, index, seconds=0.6))
    return Utterance(path.stem, path, speaker=str(speaker), gender="f", text="A B", role=role)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    speakers = (1, 2, 3)
    enroll = tuple(spoken(data, s, i, "enroll") for s in speakers for i in range(2))
    trial = tuple(spoken(data, s, i, "trial") for s in speakers for i in range(2, 8))
    pairs = [(str(s), u.id, str(s) == u.speaker) for s in speakers for u in trial]
    write_kaldi(Corpus("libri_dev_enrolls", enroll), data / "libri_dev_enrolls")
    write_kaldi(
        Corpus("trials", trial, Trials(*(np.array(column) for column in zip(*pairs, strict=True)))),
        data / "libri_dev_trials_f",
    )
    (data / "small.toml").write_text(SMALL_PROTOCOL)
    return data


def small(data: Path, out: Path, seed: int = 1, **parameters: Any) -> Evaluation:
    settings = settings_for(data, out, data / "small.toml", attackers=ATTACKERS, seed=seed)
    return prepare(settings, system=vv.system("b2", **parameters))


def planned(evaluation: Evaluation) -> dict[str, PlanStep]:
    return {step.name: step for step in make_plan(evaluation).steps}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many results were computed: of each kind, by what is put into the cache and written as audio."""
    counts: Counter[str] = Counter()
    put, note = Cache.put, Cache.note_pace

    def counted(self: Cache, key: bytes, value: Any) -> None:
        counts["free cues" if len(value) == 8 else "autocorrelation"] += 1
        put(self, key, value)

    monkeypatch.setattr(Cache, "put", counted)
    monkeypatch.setattr(Cache, "note_pace", note)
    return counts


def audio(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (out / "data").rglob("*.wav")}


@pytest.mark.slow
def test_plan_equals_what_is_computed(data: Path, tmp_path: Path, work: Counter[str]) -> None:
    evaluation = small(data, tmp_path / "out")
    steps = planned(evaluation)
    assert not (tmp_path / "out").exists()
    total = ENROLLED + TRIED
    assert {name: (step.utterances, step.cached) for name, step in steps.items()} == {
        "anonymize": (total, 0),
        "free cues": (total, 0),
        "autocorrelation": (2 * TRIED, 0),
    }
    assert steps["anonymize"].audio == pytest.approx(0.6 * total, rel=0.01)
    assert steps["autocorrelation"].audio == pytest.approx(0.6 * 2 * TRIED, rel=0.01)
    evaluate(evaluation)
    assert {name: steps[name].left for name in work} == dict(work)
    again = planned(evaluation)
    assert all(step.left == 0 and step.seconds == 0.0 for step in again.values())
    work.clear()
    before = audio(tmp_path / "out")
    evaluate(evaluation)
    assert not work
    assert audio(tmp_path / "out") == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conditions", "attackers", "scoring"),
    [
        (["oo"], ["pitch-bumps"], "cosine"),
        (["oa"], ["pitch-bumps", "mcadams-inversion:pitch-bumps"], "cosine"),
        (["aa"], ["pitch-bumps", "pitch-bumps-adapted", "free:f0"], "cosine"),
        (["oo", "aa"], ["pitch-bumps"], "plda"),
    ],
)
def test_plan_counts_the_conditions_and_training_speech_of_the_protocol(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    conditions: list[str],
    attackers: list[str],
    scoring: str,
) -> None:
    """Everything that is planned is in the cache afterwards, and no other result of a model."""
    put, computed = Cache.put, []

    def counted(self: Cache, key: bytes, value: Any) -> None:
        if isinstance(value, np.ndarray):  # a number is the validation of a back-end
            computed.append(key)
        put(self, key, value)

    monkeypatch.setattr(Cache, "put", counted)
    make_corpus(data, "train", range(4, 24), range(4))
    text = SMALL_PROTOCOL.replace('["oo", "aa"]', json.dumps(conditions)).replace("cosine", scoring)
    protocol = tmp_path / "mine.toml"
    protocol.write_text(f'{text}\n[training]\nset = "train"\n')
    settings = settings_for(data, tmp_path / "out", protocol, attackers=attackers, seed=1)
    evaluation = prepare(settings, system=vv.system("b2"))
    before = [step for step in make_plan(evaluation).steps if step.name != "anonymize"]
    evaluate(evaluation)
    assert [step.name for step in make_plan(evaluation).steps if step.left] == []
    assert sum(step.utterances for step in before) == len(computed)


@pytest.mark.slow
def test_new_seed_recomputes_only_dependent_steps(data: Path, tmp_path: Path, work: Counter[str]) -> None:
    evaluation = small(data, tmp_path / "out")
    evaluate(evaluation)
    work.clear()
    steps = planned(small(data, tmp_path / "out", seed=2))
    assert steps["anonymize"].left == ENROLLED + TRIED
    assert steps["anonymize"].again.startswith("key was ")
    assert (steps["autocorrelation"].cached, steps["autocorrelation"].left) == (
        TRIED,
        TRIED,
    )  # the original speech is as it was
    evaluate(small(data, tmp_path / "out", seed=2))
    assert {name: steps[name].left for name in ("free cues", "autocorrelation")} == dict(work)


def test_new_parameter_recomputes_only_dependent_steps(data: Path, tmp_path: Path) -> None:
    evaluate(small(data, tmp_path / "out"))
    step = planned(small(data, tmp_path / "out", alpha=(0.8, 0.8)))["anonymize"]
    assert step.left == step.utterances
    assert step.again == "alpha was 0.5,0.9, now 0.8,0.8"


@pytest.mark.slow
def test_changed_recording_recomputes_only_dependent_steps(data: Path, tmp_path: Path, work: Counter[str]) -> None:
    mine = tmp_path / "data"
    shutil.copytree(data, mine)
    for name in ("libri_dev_enrolls", "libri_dev_trials_f"):  # paths of a copy are its own
        scp = mine / name / "wav.scp"
        scp.write_text(scp.read_text().replace(str(data), str(mine)))
    evaluate(small(mine, tmp_path / "out"))
    work.clear()
    save(mine / "audio" / "1-2.wav", synthetic_voice(1, 99, seconds=0.6))
    evaluation = small(mine, tmp_path / "out")
    steps = planned(evaluation)
    assert {name: step.left for name, step in steps.items()} == {"anonymize": 1, "free cues": 1, "autocorrelation": 2}
    evaluate(evaluation)
    assert dict(work) == {"free cues": 1, "autocorrelation": 2}


@pytest.mark.slow
def test_copied_data_is_not_anonymized_again(data: Path, tmp_path: Path) -> None:
    mine = tmp_path / "data"
    shutil.copytree(data, mine)
    for name in ("libri_dev_enrolls", "libri_dev_trials_f"):
        scp = mine / name / "wav.scp"
        scp.write_text(scp.read_text().replace(str(data), str(mine)))
    evaluate(small(data, tmp_path / "out"))
    for path in (mine / "audio").iterdir():
        os.utime(path, (1e9, 1e9))
    before = audio(tmp_path / "out")
    assert all(step.left == 0 for step in planned(small(mine, tmp_path / "out")).values())
    evaluate(small(mine, tmp_path / "out"))
    assert audio(tmp_path / "out") == before


def results_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    del found["info"]["time"]
    return found


def cached(out: Path) -> int:
    if not (out / "cache.sqlite").exists():
        return 0
    try:
        with sqlite3.connect(out / "cache.sqlite") as database:
            return int(database.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.slow
def test_killed_evaluation_resumes_to_the_same_results(data: Path, tmp_path: Path) -> None:
    evaluate(small(data, tmp_path / "undisturbed"))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "voiceveil.cli.main", "evaluate", "--data", str(data), "--out", str(out)]
    command += ["--protocol", str(data / "small.toml"), "--system", "b2", "--seed", "1", "--jobs", "1", "--quiet"]
    command += ["--attackers", ",".join(ATTACKERS)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and cached(out) < 5:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (out / "results.json").exists()
    done = cached(out)
    steps = planned(small(data, out))
    assert sum(step.cached for name, step in steps.items() if name != "anonymize") == done
    subprocess.run(command, check=True, capture_output=True)
    assert results_of(out) == results_of(tmp_path / "undisturbed")


@pytest.mark.slow
def test_plan_imports_no_torch_and_is_fast(data: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time; from voiceveil.cli.main import main; code = main(sys.argv[1:]); "
        "print(code, 'torch' in sys.modules, time.process_time())"
    )
    command = ["evaluate", "--data", str(data), "--system", "b2", "--out", str(tmp_path / "out"), "--plan"]
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    *_, needs, last = done.stdout.splitlines()
    assert last.startswith("0 False "), done.stdout
    assert float(last.split()[2]) < 8.0
    assert needs.startswith("needs: about 0:00:")


def test_plan_of_a_large_corpus_is_sampled(data: Path, tmp_path: Path) -> None:
    mine = tmp_path / "data"
    shutil.copytree(data, mine)
    one = next(iter(sorted((data / "audio").iterdir())))
    many = tuple(
        Utterance(f"u{i:06d}", one, speaker=f"s{i % 921}", gender="f", seconds=12.0 + i % 3) for i in range(MANY)
    )
    write_kaldi(Corpus("train-clean-360", many), mine / "train-clean-360")
    (mine / "small.toml").write_text(SMALL_PROTOCOL + '\n[training]\nset = "train-clean-360"\n')
    settings = settings_for(mine, tmp_path / "out", mine / "small.toml", attackers=[*ATTACKERS, "campplus-adapted"])
    evaluation = prepare(settings, system=vv.system("b2"))
    start = time.process_time()
    plan = make_plan(evaluation)
    assert time.process_time() - start < 4.0
    assert plan.sampled
    step = plan.steps[0]
    assert step.utterances == MANY + ENROLLED + TRIED
    assert step.audio == pytest.approx(MANY * 13.0, rel=0.02)
    assert plan.disk == pytest.approx(32_000 * MANY * 13.0, rel=0.02)


def test_plan_prints_time_and_disk_needed() -> None:
    step = PlanStep("anonymize", 10, 4, 3600.0, 0.01)
    mine = PlanStep("mine", 10, 10, 0.0, None)
    assert _needs(Plan((step, mine), 5e9, 4e9, False), 2) == (
        "needs: about 0:00:18 (h:mm:ss) with 2 jobs; 5.00 GB of disk, of 4 GB that are free; THE DISK IS TOO SMALL"
    )
    slow = PlanStep("mine", 10, 9, 12.0, None)
    assert "and the time of mine, which was never measured here" in _needs(Plan((step, slow), 0.0, 4e9, True), 1)


def test_substitute_training_sets_are_used_and_named(data: Path, tmp_path: Path) -> None:
    mine = tmp_path / "data"
    shutil.copytree(data, mine)
    shutil.copytree(data / "libri_dev_enrolls", mine / "libri_pool")
    (mine / "NOTE.txt").write_text("made up\nby us\n")
    inventory = take_inventory(load_protocol("vpc2024"), mine)
    assert inventory.training == ("libri_pool",)
    assert inventory.remarks == (
        "the attacker learns from libri_pool instead of train-clean-360",
        "about the data: made up by us",
    )
    named = take_inventory(load_protocol("vpc2024"), mine, train=["libri_dev_enrolls"])
    assert named.training == ("libri_dev_enrolls",)


def test_defaults_of_the_command(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "--data", str(data), "--system", "b2", "--plan"]) == 0
    assert "VoicePrivacy 2024 Challenge, system b2, into results/vpc2024/b2" in capsys.readouterr().out
