"""Runs that are repeated, killed or interrupted, and runs with other settings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import voiceveil as vv
from tests.support.batch_corpora import anonymize, audio, make_folder, make_kaldi, tree
from voiceveil.audio import save
from voiceveil.core.errors import InputError
from voiceveil.testing import synthetic_voice


def test_second_run_does_nothing(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=1)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.wav")}
    summary = anonymize(source, tmp_path / "out", seed=1)
    assert (summary.done, summary.already_done) == (0, 4)
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.wav")}


def test_only_changed_files_are_redone(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=1)
    undisturbed = audio(tmp_path / "out")
    (tmp_path / "out" / "s0" / "s0-u0.wav").unlink()
    (tmp_path / "out" / "s0" / "s0-u1.wav").unlink()
    (tmp_path / "out" / "s0" / ".voiceveil-part-left").write_bytes(b"by a killed run")
    assert anonymize(source, tmp_path / "out", seed=1).done == 2
    assert audio(tmp_path / "out") == undisturbed
    assert not list((tmp_path / "out").rglob(".voiceveil-part-*"))
    save(source / "s1" / "s1-u0.wav", synthetic_voice(9, 9, seconds=0.4))
    assert anonymize(source, tmp_path / "out", seed=1).done == 1
    assert vv.load(tmp_path / "out" / "s1" / "s1-u0.wav").duration == pytest.approx(0.4)


@pytest.mark.parametrize("change", [{"seed": 2}, {"system": "d1"}, {"level": "speaker"}, {"rate": 8000}])
def test_other_settings_are_rejected(tmp_path: Path, change: dict[str, object]) -> None:
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=1)
    before = tree(tmp_path / "out")
    with pytest.raises(InputError, match="another run"):
        anonymize(source, tmp_path / "out", **{"seed": 1, **change})  # type: ignore[arg-type]
    assert tree(tmp_path / "out") == before
    anonymize(source, tmp_path / "out", overwrite=True, **{"seed": 1, **change})  # type: ignore[arg-type]


def test_speaker_level_without_a_key_cannot_be_resumed(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", level="speaker")
    assert anonymize(source, tmp_path / "out", level="speaker").already_done == 4  # nothing is left to draw
    save(source / "s0" / "new.wav", synthetic_voice(0, 7, seconds=0.3))
    with pytest.raises(InputError, match="other pseudo-speakers"):
        anonymize(source, tmp_path / "out", level="speaker")


def test_outputs_of_removed_inputs_are_named(tmp_path: Path) -> None:
    """A speaker may have withdrawn a recording: its output is reported."""
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=1)
    (source / "s1" / "s1-u1.wav").unlink()
    for _ in range(2):
        summary = anonymize(source, tmp_path / "out", seed=1)
        assert (summary.already_done, summary.left_over) == (3, ("s1/s1-u1",))
    (tmp_path / "out" / "s1" / "s1-u1.wav").unlink()
    assert anonymize(source, tmp_path / "out", seed=1).left_over == ()


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    source = make_kaldi(tmp_path)
    out = anonymize(source, tmp_path / "data", seed=1).output
    undisturbed = tree(out)
    for folder in (out, out / "wav", out / ".voiceveil"):
        (folder / ".voiceveil-part-abc").write_text("cut off")
    anonymize(source, tmp_path / "data", seed=1)
    assert tree(out) == undisturbed


@pytest.mark.slow
def test_output_does_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", 3, 3)
    for jobs in (1, 2, 3):
        anonymize(source, tmp_path / str(jobs), seed=1, jobs=jobs)
    assert tree(tmp_path / "1") == tree(tmp_path / "2") == tree(tmp_path / "3")


SEEDED = ("--system", "b2", "--seed", "1")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_run_resumes_to_the_same_output(tmp_path: Path, jobs: str) -> None:
    """Kill the run four times at different moments, then let it finish."""
    source = make_folder(tmp_path / "in", 4, 25, seconds=4.0)
    anonymize(source, tmp_path / "undisturbed", seed=1)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "voiceveil.cli.main", "anonymize", str(source), str(out), *SEEDED]
    ledger = out / ".voiceveil" / "ledger.jsonl"
    kills = 0
    for goal in (3, 25, 50, 75):
        process = subprocess.Popen([*command, "--jobs", jobs], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if ledger.exists() and ledger.read_bytes().count(b"\n") >= goal:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.001)
        kills += process.wait() == -signal.SIGKILL
    assert kills >= 2
    assert subprocess.run([*command, "--jobs", jobs], capture_output=True, check=False).returncode == 0
    assert tree(out) == tree(tmp_path / "undisturbed")


@pytest.mark.slow
def test_interrupted_run_can_be_resumed(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", 4, 25, seconds=4.0)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "voiceveil.cli.main", "anonymize", str(source), str(out), *SEEDED]
    process = subprocess.Popen([*command, "--jobs", "2"], stderr=subprocess.PIPE, text=True)
    ledger = out / ".voiceveil" / "ledger.jsonl"
    while process.poll() is None and not (ledger.exists() and ledger.read_bytes().count(b"\n") >= 10):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "the same command resumes the run" in printed
    assert "Traceback" not in printed
    assert not list(out.rglob(".voiceveil-part-*"))
    again = subprocess.run([*command, "--json", "--quiet"], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["already_done"] >= 9
