"""Machines that lack something: places to write, memory, shared memory, standard streams."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import voiceveil
from voiceveil.audio import Samples, Waveform, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.run.extract import extract
from voiceveil.run.progress import Progress
from voiceveil.systems import Anonymizer, anonymize
from voiceveil.systems.parameters import parameter
from voiceveil.testing import synthetic_voice


@pytest.fixture(scope="module")
def read_only_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package that can hold no compiled code: its __pycache__ folders are files."""
    root = tmp_path_factory.mktemp("site")
    original = Path(voiceveil.__file__).parent
    for source in original.rglob("*"):
        target = root / "voiceveil" / source.relative_to(original)
        if source.is_file() and "__pycache__" not in source.parts:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source) if source.suffix == ".safetensors" else target.write_bytes(source.read_bytes())
            (target.parent / "__pycache__").touch()
    return root


def bare_environment(**changed: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    return {**kept, **changed}


@pytest.mark.parametrize("temporary", [True, False])
def test_compiled_code_works_without_a_cache_folder(read_only_package: Path, tmp_path: Path, temporary: bool) -> None:
    """A read-only installation and no home: a temporary folder serves, and none at all does too."""
    code = (
        "import voiceveil, os, tempfile\n"
        "if not TEMPORARY:\n"
        "    tempfile.tempdir = '/dev/null/nowhere'\n"
        "import voiceveil.dsp.pitch, voiceveil.metrics.scored_trials\n"
        "print(voiceveil.__file__, os.environ.get('NUMBA_CACHE_DIR', ''))\n"
    )
    environment = bare_environment(HOME="/dev/null/home", PYTHONPATH=str(read_only_package), TMPDIR=str(tmp_path))
    command = [sys.executable, "-c", code.replace("TEMPORARY", str(temporary))]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    package, cache = done.stdout.rstrip("\n").split(" ")
    assert Path(package).is_relative_to(read_only_package)
    assert cache.startswith(str(tmp_path)) if temporary else cache == ""
    assert list(tmp_path.iterdir()) == [], "the temporary folder is removed"


# --- Memory -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Greedy(Anonymizer):
    """Needs more memory than any machine has for a recording of more than half a second."""

    kind: str = parameter("numpy", "what runs out of memory")

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        if len(samples) > 8000 and self.kind == "numpy":
            np.zeros(1 << 60, dtype=np.int8)
        if len(samples) > 8000 and self.kind == "torch":
            import torch

            torch.zeros(1 << 60, dtype=torch.int8)
        return samples


@pytest.mark.parametrize("jobs", [1, 2])
def test_recording_larger_than_memory_is_a_failed_item(tmp_path: Path, jobs: int) -> None:
    for number in range(3):
        save(tmp_path / "in" / f"{number}.wav", synthetic_voice(0, number, seconds=1.0 if number == 1 else 0.3))
    summary = anonymize(tmp_path / "in", tmp_path / "out", system=Greedy(), jobs=jobs)
    assert (summary.done, [failure.id for failure in summary.failures]) == (2, ["1"])
    assert f"{tmp_path / 'in' / '1.wav'}: not enough memory" in summary.failures[0].error


def test_torch_out_of_memory_is_a_failed_item(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    save(tmp_path / "in" / "a.wav", synthetic_voice(0, seconds=1.0))
    summary = anonymize(tmp_path / "in", tmp_path / "out", system=Greedy(kind="torch"))
    assert "not enough memory" in summary.failures[0].error


class GreedyModel:
    """A model that needs more memory than there is."""

    rate, minimum = 16000, 0.0

    def fingerprint(self) -> str:
        return "greedy"

    def __call__(self, wave: Waveform) -> float:
        return float(np.zeros(1 << 60, dtype=np.int8)[0])


def test_model_out_of_memory_names_the_recording(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", synthetic_voice(0, seconds=0.3))
    with pytest.raises(InputError, match=r"a\.wav: not enough memory .*--jobs"):
        extract([Utterance("a", tmp_path / "a.wav")], GreedyModel())


def test_command_out_of_memory_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever part of it runs out: here the list of systems."""

    def everything(*_: object) -> None:
        np.zeros(1 << 60, dtype=np.int8)

    monkeypatch.setattr("voiceveil.cli.systems.run", everything)
    assert main(["systems"]) == 1
    assert (
        capsys.readouterr().err == "voiceveil systems: not enough memory (close other programs, or use fewer --jobs)\n"
    )


# --- Shared memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["ro", "size=4k,nr_inodes=1"], ids=["read-only", "full"])
def test_unusable_shared_memory_is_named(tmp_path: Path, option: str) -> None:
    """In a name space of its own, where only this command sees the change."""
    save(tmp_path / "in" / "a.wav", synthetic_voice(0, seconds=0.3))
    save(tmp_path / "in" / "b.wav", synthetic_voice(0, seconds=0.3))
    command = f"{sys.executable} -m voiceveil anonymize in out --system b2 --jobs 2 --quiet"
    script = f"mount -t tmpfs -o {option} tmpfs /dev/shm || exit 99; exec {command}"
    words = ["unshare", "--mount", "sh", "-c", script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        pytest.skip("no permission to mount")
    assert done.returncode == 1
    assert "voiceveil anonymize: /dev/shm: worker processes need shared memory, which cannot be used" in done.stderr
    assert "--jobs 1" in done.stderr
    assert "Traceback" not in done.stderr


# --- Standard streams ---------------------------------------------------------------------------------------------

STREAMS = {
    "closed stderr": "2>&-",
    "all closed": "<&- >&- 2>&-",
    "full stderr": "2>/dev/full",
    "full stdout": ">/dev/full",
    "both full": ">/dev/full 2>/dev/full",
}
COMMANDS = {
    "help": "--help",
    "version": "--version",
    "usage": "anonymize",
    "unknown": "anonymise",
    "systems": "systems --json",
    "anonymize": "anonymize good out --system b2 --overwrite",
    "two jobs": "anonymize good out --system b2 --overwrite --jobs 2",
    "bad item": "anonymize bad out2 --system b2 --overwrite",
    "corpus": "corpus info good",
    "error": "corpus info nowhere",
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for name in ("good/a", "good/b", "bad/a"):
        save(folder / f"{name}.wav", synthetic_voice(0, seconds=0.3))
    (folder / "bad" / "b.wav").write_bytes(b"no audio")
    return folder


@pytest.mark.parametrize("streams", STREAMS)
def test_closed_and_full_streams_are_handled(recordings: Path, streams: str) -> None:
    """Each command ends as ever but for what it could not say, which is an error if it was asked for."""
    script = "".join(
        f"{sys.executable} -m voiceveil {arguments} {STREAMS[streams]}; echo $? >>{number}.code\n"
        for number, arguments in enumerate(COMMANDS.values())
    )
    for old in recordings.glob("*.code"):
        old.unlink()
    done = subprocess.run(["bash", "-c", script], cwd=recordings, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert "Traceback" not in told
    assert "Exception ignored" not in told
    codes = {name: int((recordings / f"{n}.code").read_text()) for n, name in enumerate(COMMANDS)}
    expected = dict.fromkeys(COMMANDS, 0) | {"usage": 2, "unknown": 2, "bad item": 1, "error": 1}
    if streams in ("full stdout", "both full"):
        expected = {name: code or 1 for name, code in expected.items()}
        for name in ("help", "version"):  # argparse does not mind, where nothing is buffered
            assert codes[name] in (0, 1)
            codes[name] = 1
    assert codes == expected
    if streams == "full stdout":
        assert "voiceveil systems: cannot write to the standard output: No space left on device" in told
    assert len(list((recordings / "out").glob("*.wav"))) == 2
    for file in (recordings / "out").iterdir():
        assert b"voiceveil" not in file.read_bytes() if file.is_file() else True, "messages in a file of the output"


def test_live_speech_to_a_full_disk_is_an_error(recordings: Path) -> None:
    script = f"head -c 64000 /dev/zero | {sys.executable} -m voiceveil live --stdin --stdout >/dev/full"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "voiceveil live: cannot write to the standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_progress_works_without_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program without standard streams, or with a full disk behind them."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 -- a text stream
        for stream in (None, full):
            monkeypatch.setattr(sys, "stderr", stream)
            with Progress("working", 2) as progress:
                progress.note("a note")
                progress.advance(failed=True)
            assert (progress._done, progress._failed) == (1, 1)
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
