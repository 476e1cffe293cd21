"""``voiceveil anonymize --redact`` on real speech, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("spacy")
pytest.importorskip("onnxruntime")

from tests.support.names_pipeline import write_pipeline
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import load, save
from voiceveil.corpus import open_corpus


def spoken(id: str, folder: Path) -> Path:
    """Write an utterance of the demo corpus to ``folder``."""
    (utterance,) = (u for u in open_corpus(SPEECH / "demo_enrolls") if u.id == id)
    path = folder / f"{id}.wav"
    save(path, load(utterance.path))
    return path


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "voiceveil", "anonymize", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_names_of_real_speech_are_gone_from_sound_and_transcript(tmp_path: Path) -> None:
    """SIR HARRY TOWNE BOWED AND SAID THAT HE HAD MET MISTER ALEXANDER AND HIS WIFE IN TOKYO."""
    source = spoken("1462-170138-0017", tmp_path)
    pipeline = write_pipeline(tmp_path / "names")
    (tmp_path / "words.txt").write_text("Harry Towne\n")
    done = run(source.name, "out.wav", "--redact", "--words", "words.txt", "--names-model", pipeline, "--system", "b2",
               "--transcript", "rest.vtt", "--json", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["redaction"]["names"] >= 2
    assert summary["redaction"]["words"] >= 1
    rest = (tmp_path / "rest.vtt").read_text().lower()
    assert "[redacted]" in rest
    assert "bowed" in rest or "said" in rest
    for word in ("harry", "alexander", "tokyo"):
        assert word not in rest
        assert word not in (done.stdout + done.stderr).lower()
    from voiceveil.models.asr.recognition import recognizer

    said = recognizer("moonshine")(load(tmp_path / "out.wav", rate=16000)).lower()
    assert not {"harry", "alexander", "tokyo"} & set(said.replace(".", "").replace(",", "").split())


def test_a_folder_with_two_processes_and_transcripts_beside_each_file(tmp_path: Path) -> None:
    for id in ("1272-128104-0000", "1272-128104-0006"):
        spoken(id, tmp_path / "in")
    (tmp_path / "words.txt").write_text("Quilter\n")
    done = run("in", "out", "--redact", "words", "--words", "words.txt", "--system", "b2", "--jobs", "2",
               "--transcript", "txt", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    texts = sorted((tmp_path / "out").glob("*.txt"))
    assert [path.stem for path in texts] == ["1272-128104-0000", "1272-128104-0006"]
    assert all("[redacted]" in path.read_text() and "uilter" not in path.read_text() for path in texts)
    assert "word(s) of the list" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--redact", "a.wav"), "a recording goes before --redact"),
        (("a.wav", "--redact", "nmes"), "did you mean names"),
        (("a.wav", "--redact", "words", "--words", "missing.txt"), "missing.txt"),
        (("a.wav", "--redact", "--names-model", "missing"), "no spaCy pipeline"),
        (("a.wav", "--words", "words.txt"), "give --redact as well"),
        (("a.wav", "b.wav", "c.wav", "--redact", "numbers", "--redactions", "list.csv"), "several recordings"),
    ],
)
def test_mistakes_are_explained_in_one_line(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    for name in ("a.wav", "b.wav", "c.wav"):
        save(tmp_path / name, load(spoken("1272-128104-0006", tmp_path / "speech")))
    (tmp_path / "words.txt").write_text("Quilter\n")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*anonymized*"))
