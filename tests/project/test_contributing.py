"""The worked examples of CONTRIBUTING.md: the text is that of the files, and the files work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.paths import ROOT
from voiceveil.audio import Waveform, save
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.testing import synthetic_voice

EXAMPLES = ROOT / "examples"


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.parametrize("name", ["tilt", "auc", "level", "spectrum", "nearest", "pauses", "digits"])
def test_text_equals_the_example_files(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.S)
    assert (EXAMPLES / f"{name}.py").read_text() in blocks


@pytest.mark.slow
def test_example_system_passes_the_checks() -> None:
    done = run(sys.executable, "-m", "voiceveil.cli.main", "check", "tilt:Tilt", cwd=EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the examples are a package with entry points, as CONTRIBUTING tells to declare them."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    points = re.findall(r'\[project\.entry-points\."(.+?)"\]\n(\w+) = "my_package\.(.+?)"', text)
    groups = ["systems", "attackers", "encoders", "recognizers", "tasks", "measures", "corpora"]
    assert [group for group, _, _ in points] == [f"voiceveil.{name}" for name in groups]
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("".join(f"[{g}]\n{n} = {target}\n" for g, n, target in points))
    return {**os.environ, "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{tmp_path}"}


def voiceveil(installed: dict[str, str], *arguments: str | Path) -> str:
    command = [sys.executable, "-m", "voiceveil.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=installed)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_example_system_and_corpus_are_found_by_entry_point(installed: dict[str, str], tmp_path: Path) -> None:
    assert "A first-order filter" in voiceveil(installed, "systems", "tilt")
    for digit in (3, 7):
        save(tmp_path / "data" / "S01" / f"{digit}_00.wav", synthetic_voice(1, digit, seconds=0.3))
    out = tmp_path / "out"
    voiceveil(
        installed, "anonymize", f"digits:{tmp_path / 'data'}", out, "--system", "tilt", "--set", "coefficient=0.5"
    )
    assert (out / "digits_tilt" / "text").read_text() == "S01-3_00 THREE\nS01-7_00 SEVEN\n"


@pytest.mark.slow
def test_example_metric_is_found_by_entry_point(installed: dict[str, str], tmp_path: Path) -> None:
    scores = tmp_path / "scores"
    scores.write_text("".join(f"{i / 10} {'target' if i > 4 else 'nontarget'}\n" for i in range(10)))
    table = voiceveil(installed, "score", scores, "--metrics", "auc")
    assert re.search(r"auc\s+100", table), table


@pytest.mark.slow
def test_example_protocol_uses_the_example_recognizer_task_and_metric(
    installed: dict[str, str], tmp_path: Path
) -> None:
    protocol = EXAMPLES / "digits.toml"
    assert protocol.read_text() in re.findall(r"```toml\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.S)
    for speaker in range(3):
        for digit in range(4):
            save(tmp_path / "digits" / f"S{speaker}" / f"{digit}_00.wav", spoken_digit(speaker, digit))
    for digit, word in enumerate(("ZERO", "ONE", "TWO", "THREE")):
        save(tmp_path / "templates" / f"{word}.wav", spoken_digit(9, digit))
    sets, out = tmp_path / "sets", tmp_path / "out"
    design = ("--name", "digits", "--pooled", "--enroll", "2")
    voiceveil(installed, "corpus", "protocol", f"digits:{tmp_path / 'digits'}", sets, *design)
    options: list[str | Path] = ["--protocol", protocol, "--system", "tilt", "--attackers", "spectrum", "--quiet"]
    options += ["--recognizers", f"nearest:{tmp_path / 'templates'}"]
    evaluate = ("evaluate", "--data", sets, "--out", out, *options)
    plan = voiceveil(installed, *evaluate, "--plan")
    assert re.search(r"^pauses +12 +0 +12 ", plan, flags=re.M), plan  # six trial utterances, original and anonymized
    table = voiceveil(installed, *evaluate)
    assert re.search(r"^auc +digits +aa +\d+\.\d% ", table, flags=re.M), table
    figures = json.loads((out / "results.json").read_text())["figures"]
    value = {(figure["metric"], figure["condition"]): figure["value"] for figure in figures}
    metrics = {("eer", "oo"), ("eer", "aa"), ("auc", "oo"), ("auc", "aa")}
    assert set(value) == metrics | {("wer", "o"), ("wer", "a"), ("pauses_changed", "a")}
    assert value["wer", "o"] == value["wer", "a"] == 0.0
    assert value["pauses_changed", "a"] < 0.1
    page = (out / "report.html").read_text()
    assert "<h2>Pauses</h2>" in page
    assert re.search(r"<td[^>]*>Area under the ROC</td>", page), "metrics without a section of their own are listed"


def spoken_digit(speaker: int, digit: int) -> Waveform:
    """Return a tone of the digit's own frequency, with a pause in it and the speaker's own noise; 0.6 s."""
    rng = np.random.default_rng(speaker)
    tone = np.sin(2 * np.pi * 400 * (digit + 1) * np.arange(9600) / 16000)
    tone[4800:6400] = 0.0
    return Waveform((0.3 * tone + 0.002 * rng.standard_normal(9600)).astype(np.float32), 16000)


@pytest.mark.slow
def test_attacker_and_encoder_by_entry_point(installed: dict[str, str], tmp_path: Path) -> None:
    """Speakers who differ in level alone: the attacker tells them apart, the encoder does not."""
    data = tmp_path / "data"
    for name, role, numbers in (("toy_enrolls", "enroll", range(2)), ("toy_trials_x", "trial", range(2, 5))):
        utterances = []
        for person in range(4):
            for number in numbers:
                key = f"p{person}-{number}"
                wave = synthetic_voice(1, number, seconds=0.5)
                path = data / name / "wav" / f"{key}.wav"
                save(path, Waveform(wave.samples * np.float32(0.5**person), wave.rate))
                utterances.append(Utterance(key, path, speaker=f"p{person}", gender="f", role=role))
        pairs = [(f"p{person}", u) for person in range(4) for u in utterances]
        trials = Trials(
            np.array([speaker for speaker, _ in pairs]),
            np.array([u.id for _, u in pairs]),
            np.array([u.speaker == speaker for speaker, u in pairs]),
        )
        write_kaldi(Corpus(name, tuple(utterances), trials if role == "trial" else None), data / name)
    command = ["attack", "--data", str(data), "--attackers", "level,spectrum", "--resamples", "20", "--json"]
    rows = {row["attacker"]: row for row in json.loads(voiceveil(installed, *command))["rows"]}
    assert rows["level"]["eer"]["value"] == 0.0
    assert (rows["level"]["knowledge"], rows["level"]["encoder"], rows["level"]["backend"]) == ("free", "", "distance")
    assert rows["spectrum"]["eer"]["value"] > 0.3
    assert (rows["spectrum"]["knowledge"], rows["spectrum"]["encoder"]) == ("unprotected", "spectrum")
