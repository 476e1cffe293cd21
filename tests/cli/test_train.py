"""``voiceveil train asv``: resumed after a kill, invalid input, and its output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.training.test_asv import voices
from voiceveil.audio import save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.models.checkpoint import load_tensors, read_record
from voiceveil.testing import synthetic_voice

__all__ = ["voices"]  # the fixture

CHECKPOINT = "checkpoint of a speaker encoder"


def arguments(data: Path, out: Path) -> list[str]:
    options = "--channels 8 --epochs 4 --batch-size 4 --seconds-per-chunk 0.5 --seed 3 --checkpoint-every 0"
    return ["train", "asv", "--data", str(data), "--out", str(out), *options.split()]


def steps_done(checkpoint: Path) -> int:
    """Return 100 times the epoch plus the batch of a checkpoint; 0 while there is none."""
    try:
        state = read_record(checkpoint, CHECKPOINT)["state"]
    except InputError:
        return 0
    return int(100 * state["epoch"] + state["batch"])


def test_killed_training_resumes_to_the_same_weights(
    voices: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After SIGKILL in the second epoch, the same command ends with the weights of an undisturbed run."""
    assert main(arguments(voices, tmp_path / "calm")) == 0
    command = [sys.executable, "-m", "voiceveil.cli.main", *arguments(voices, tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoint = tmp_path / "killed" / "checkpoint.safetensors"
    while steps_done(checkpoint) < 103 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 100 < steps_done(checkpoint) < 400
    assert not (tmp_path / "killed" / "record.json").exists()
    capsys.readouterr()
    assert main(arguments(voices, tmp_path / "killed")) == 0
    assert "resuming at step" in capsys.readouterr().err
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("calm", "killed")]
    assert files[0] == files[1]
    calm, killed = (json.loads((tmp_path / name / "record.json").read_text()) for name in ("calm", "killed"))
    assert calm["curve"] == killed["curve"]
    tensors, _ = load_tensors(tmp_path / "killed" / "model.safetensors", "speaker encoder")
    assert tensors["embed.weight"].shape == (192, 48)


def test_train_command_prints_its_progress(voices: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*arguments(voices, tmp_path), "--recipe", "official", "--epochs", "1", "--quiet"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "recipe official" in out
    assert "trained on 6 speakers, 27 utterances" in out
    assert "epoch 1, the last:" in out
    assert "the official recipe trains on all speakers" in out
    assert "WARNING: the learning rate got to" in out
    assert f"encoder: speechbrain:{tmp_path}" in out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["speakers"] == 6
    assert main([*command, "--overwrite"]) == 0
    (tmp_path / "CKPT+1" / "counter.ckpt").write_text("mine")
    assert main(command) == 1
    assert "counter.ckpt: this file exists, and the run did not write it" in capsys.readouterr().err


def test_invalid_input_is_rejected(voices: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "one" / "a" / "x.wav", synthetic_voice(0, 0, seconds=1.0))
    assert main(arguments(tmp_path / "one", tmp_path / "out")) == 1
    assert "1 speaker in 1 utterances" in capsys.readouterr().err
    assert main([*arguments(voices, tmp_path / "out"), "--device", "abacus"]) == 1
    assert "the device 'abacus' is not available here" in capsys.readouterr().err
    assert main([*arguments(voices, tmp_path / "out"), "--model", "resnet34", "--recipe", "official"]) == 1
    assert "publish no recipe for resnet34" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["train"])
    assert stop.value.code == 2


@pytest.mark.parametrize("kind", ["asv", "asr"])
def test_help_of_a_kind_ends_with_examples(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", kind, "--help"])
    assert stop.value.code == 0
    assert f"examples:\n  voiceveil train {kind} " in capsys.readouterr().out


def test_asking_for_help_does_not_import_torch() -> None:
    code = "import sys, voiceveil.cli.train; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
