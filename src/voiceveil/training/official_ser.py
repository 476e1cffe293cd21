"""The official training of SER_eval of 2024: one fold by SpeechBrain's recipe for IEMOCAP (wav2vec 2.0).

wav2vec 2.0, mean over time, a linear layer without bias. Cross-entropy on batches of four utterances, padded to the
longest; attention masks the padding. Two Adams: 1e-5 for the network, whose convolutions stay as they are, and 1e-4
for the output layer; gradients are clipped to a norm of 5. After each epoch the error rate on the validation speaker is
measured; where it has not fallen by 0.25% of itself, both rates are multiplied by 0.9. The epoch with the lowest error
rate is kept.

Conventions: samples at 16 kHz, shape (B, N), padded with zeros; ``lengths`` (B,) are fractions of N; epochs count from
1. Dropout and noise of a step depend on the seed, the fold and the step, so that a killed training resumes to the same
result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.audio import load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.checkpoint import load_training, save_training
from voiceveil.models.speechbrain.emotion import pooling_noise
from voiceveil.models.speechbrain.wav2vec2 import Wav2Vec2
from voiceveil.run.progress import Progress
from voiceveil.training.official_asv_rows import row_order
from voiceveil.training.official_ser_files import SourceModel, write_emotion_model
from voiceveil.training.speechbrain_folder import keep_checkpoints, write_text
from voiceveil.training.training_run import TrainingRun

__all__ = ["CHECKPOINT_KIND", "FoldData", "FoldTrainer", "Model", "SerRecipe", "annealed", "make_optimizer", "pad",
           "training_step"]  # fmt: skip

CHECKPOINT_KIND = "checkpoint of an emotion recognizer"
RATE = 16000


@dataclass(frozen=True)
class SerRecipe:
    """Settings of a training; the defaults are the recipe's.

    Parameters
    ----------
    epochs, batch_size : int
        Passes over the speech, and utterances in a batch.
    output_rate, network_rate : float
        First learning rates of the output layer and of wav2vec 2.0.
    largest_norm : float
        Gradients are clipped to it.
    improvement : float
        Learning rates fall if the error rate falls by less than this share of itself.
    annealing : float
        The factor by which they fall.
    """

    epochs: int = 30
    batch_size: int = 4
    output_rate: float = 1e-4
    network_rate: float = 1e-5
    largest_norm: float = 5.0
    improvement: float = 0.0025
    annealing: float = 0.9

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} {getattr(self, name)}", fix="use 1 or more")


@dataclass(frozen=True)
class FoldData:
    """Utterances of a fold: to learn from, and of the validation speaker; emotions in the order of their numbers."""

    fold: str
    train: Sequence[Utterance]
    validation: Sequence[Utterance]
    labels: Sequence[str]

    @property
    def numbers(self) -> dict[str, int]:
        """Emotion -> number of the output."""
        return {label: number for number, label in enumerate(self.labels)}


class Model(nn.Module):
    """wav2vec 2.0 and the output layer (emotions, D)."""

    def __init__(self, network: nn.Module, normalize_wave: bool, emotions: int) -> None:
        super().__init__()
        config: Any = network.config
        config.apply_spec_augment = False  # as SpeechBrain: nothing is masked at random
        self.wav2vec2 = network
        self.output = nn.Linear(int(config.hidden_size), emotions, bias=False)
        self.normalize_wave = normalize_wave
        network.feature_extractor.requires_grad_(False)

    def forward(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Return the logits (B, emotions)."""
        size = samples.shape[1]
        mask = torch.arange(size, device=samples.device) < torch.round(lengths * size)[:, None]
        hidden = Wav2Vec2(self.wav2vec2, self.normalize_wave)(samples, mask)
        rows = torch.round(lengths * hidden.shape[1]).long().clamp(min=1)
        means = torch.stack([states[:count].mean(dim=0) for states, count in zip(hidden, rows.tolist(), strict=True)])
        logits: Tensor = self.output(means + pooling_noise(torch.randn_like(means)))
        return logits


def pad(waves: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return waveforms (N,) of different lengths as samples (B, N), padded with zeros, and their lengths (B,)."""
    samples = nn.utils.rnn.pad_sequence(list(waves), batch_first=True)
    return samples, torch.tensor([len(wave) / samples.shape[1] for wave in waves])


def make_optimizer(model: Model, recipe: SerRecipe) -> torch.optim.Optimizer:
    """Return Adam with the recipe's first learning rates: of wav2vec 2.0, then of the output layer."""
    groups = [
        {"params": list(model.wav2vec2.parameters()), "lr": recipe.network_rate},
        {"params": list(model.output.parameters()), "lr": recipe.output_rate},
    ]
    return torch.optim.Adam(groups)


def training_step(
    model: Model, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor, Tensor], largest_norm: float
) -> float:
    """Do one step of gradient descent on (samples, lengths, emotions); return the loss before it, in nats."""
    samples, lengths, emotions = batch
    model.train()
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(samples, lengths), emotions)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), largest_norm)
    optimizer.step()
    return float(loss.detach())


def annealed(rate: float, before: float | None, errors: float, recipe: SerRecipe) -> float:
    """Return the learning rate after an epoch; ``before`` is the error rate of the last one, None after the first."""
    if before is None:
        return rate
    improvement = (before - errors) / before if before else 0.0
    return rate * recipe.annealing if improvement < recipe.improvement else rate


@dataclass
class State:
    """Position of a training, besides the tensors."""

    epoch: int = 1
    batch: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0
    rates: list[float] = field(default_factory=list)
    curve: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)


class FoldTrainer:
    """A training of one fold, in a folder such as ``exp/ser/fold_1``.

    Parameters
    ----------
    data : FoldData
        Utterances of the fold.
    source : SourceModel
        wav2vec 2.0 to begin with.
    recipe : SerRecipe
        Epochs, batches and learning rates.
    settings : mapping
        Everything that the weights depend on, with the entry ``seed``; recorded with the checkpoint.
    run : TrainingRun
        Device, threads, and threads that read audio.
    """

    def __init__(
        self, data: FoldData, source: SourceModel, recipe: SerRecipe, settings: Mapping[str, Any], run: TrainingRun
    ) -> None:
        network = source.load(run.device)
        torch.set_num_threads(run.threads)
        torch.manual_seed(settings["seed"])
        self.data, self.source, self.recipe, self.settings, self.run = data, source, recipe, settings, run
        self.model = Model(network, source.normalizes, len(data.labels)).to(run.device)
        self.optimizer = make_optimizer(self.model, recipe)
        self.state = State(rates=[group["lr"] for group in self.optimizer.param_groups])
        self.count = math.ceil(len(data.train) / recipe.batch_size)

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return self.count * self.recipe.epochs

    def train(self, out: Path) -> dict[str, Any]:
        """Train to the end, from the checkpoint if there is one; return the record."""
        out.mkdir(parents=True, exist_ok=True)
        checkpoint = out / "checkpoint.safetensors"
        if checkpoint.exists():
            record = load_training(checkpoint, CHECKPOINT_KIND, self.model, self.optimizer)
            self.state = State(**record["state"])
        begun = (self.state.epoch - 1) * self.count + self.state.batch
        label = f"fold {self.data.fold}"
        with Progress(label, self.steps, unit="steps", start=begun, quiet=self.run.quiet) as progress:
            if begun:
                progress.note(f"{label}: resuming at step {begun} of {self.steps}")
            while self.state.epoch <= self.recipe.epochs:
                self._epoch(out, progress)
                progress.note(f"{label}: {self._end_epoch(out)}")
        return self._record()

    def _epoch(self, out: Path, progress: Progress) -> None:
        state, saved = self.state, time.monotonic()
        for group, rate in zip(self.optimizer.param_groups, state.rates, strict=True):
            group["lr"] = rate
        for batch in self._batches(self.data.train, state.epoch, state.batch):
            start = time.monotonic()
            step = (state.epoch - 1) * self.count + state.batch
            self._seed(step)
            loss = training_step(self.model, self.optimizer, batch, self.recipe.largest_norm)
            if not math.isfinite(loss):
                raise InputError(f"the loss is {loss} in epoch {state.epoch}", fix="look for damaged audio")
            state.batch += 1
            state.loss_sum += loss
            state.seconds += time.monotonic() - start
            audio = float(batch[1].sum()) * batch[0].shape[1] / RATE
            progress.advance(audio=audio, epoch=state.epoch, loss=state.loss_sum / state.batch, rate=state.rates[0])
            if time.monotonic() - saved >= self.run.checkpoint_every:
                self._save(out)
                saved = time.monotonic()

    def _seed(self, step: int) -> None:
        """Make the random numbers of a step those of the seed, the fold and the step."""
        words = [*f"{self.settings['seed']} {self.data.fold} {step}".encode()]
        torch.manual_seed(int(np.random.SeedSequence(words).generate_state(1)[0]))

    def _batches(
        self, utterances: Sequence[Utterance], epoch: int, start: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield samples, lengths and emotions (B,) from batch ``start`` on; epoch 0 is that of the validation."""
        order, size, device = row_order(len(utterances), epoch), self.recipe.batch_size, self.run.device
        with ThreadPoolExecutor(self.run.jobs) as readers:
            for first in range(start * size, len(order), size):
                chosen = [utterances[number] for number in order[first : first + size]]
                samples, lengths = pad(list(readers.map(_read, chosen)))
                emotions = torch.tensor([self.data.numbers[str(utterance.emotion)] for utterance in chosen])
                yield samples.to(device), lengths.to(device), emotions.to(device)

    def _end_epoch(self, out: Path) -> str:
        """Measure the errors, keep the weights if they are the best, set the rates; return the line of the log."""
        state = self.state
        loss, errors = self._errors()
        row = {"epoch": state.epoch, "rates": state.rates, "loss": state.loss_sum / max(state.batch, 1)}
        state.rates = [
            annealed(rate, state.curve[-1]["error_rate"] if state.curve else None, errors, self.recipe)
            for rate in state.rates
        ]
        state.curve.append({**row, "validation_loss": loss, "error_rate": errors})
        if not state.best or errors <= state.best["error_rate"]:  # of equal ones the later has learned more
            state.best = {"epoch": state.epoch, "error_rate": errors}
            figures = {"error_rate": errors, "loss": loss}
            folder = write_emotion_model(out, state.epoch, self.model, self.data.labels, (self.source, figures))
            keep_checkpoints(out, [folder])
        lines = [_log_line(entry) for entry in state.curve]
        write_text(out / "train_log.txt", "".join(f"{line}\n" for line in lines))
        state.epoch, state.batch, state.loss_sum = state.epoch + 1, 0, 0.0
        self._save(out)
        return lines[-1]

    def _errors(self) -> tuple[float, float]:
        """Return the mean loss of the batches, and the share of validation utterances that get another emotion."""
        self.model.eval()
        self._seed(-self.state.epoch)
        losses, wrong = [], []
        with torch.inference_mode():
            for samples, lengths, emotions in self._batches(self.data.validation, 0):
                logits = self.model(samples, lengths)
                losses.append(float(functional.cross_entropy(logits, emotions)))
                wrong += (logits.argmax(dim=1) != emotions).tolist()
        return float(np.mean(losses)), float(np.mean(wrong))

    def _save(self, out: Path) -> None:
        record = {"kind": CHECKPOINT_KIND, "settings": dict(self.settings), "state": asdict(self.state)}
        save_training(out / "checkpoint.safetensors", self.model, self.optimizer, record)

    def _record(self) -> dict[str, Any]:
        data, state = self.data, self.state
        return {
            "kind": "training record of an emotion recognizer",
            "fold": data.fold,
            "emotions": list(data.labels),
            "speakers": sorted({str(u.speaker) for u in data.train}),
            "validation_speakers": sorted({str(u.speaker) for u in data.validation}),
            "utterances": len(data.train),
            "validation_utterances": len(data.validation),
            "best_epoch": state.best["epoch"],
            "error_rate": state.best["error_rate"],
            "curve": state.curve,
            "steps": self.steps,
            "training_seconds": round(state.seconds, 1),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "settings": dict(self.settings),
            "device": self.run.device,
        }


def _read(utterance: Utterance) -> Tensor:
    wave = load(utterance.path, rate=RATE, start=utterance.start, duration=utterance.duration)
    return torch.from_numpy(np.ascontiguousarray(wave.samples, dtype=np.float32))


def _log_line(row: dict[str, Any]) -> str:
    """Return a line of ``train_log.txt``."""
    network, output = row["rates"]
    return (
        f"Epoch: {row['epoch']}, lr: {output:.2e}, wave2vec_lr: {network:.2e} - train loss: {row['loss']:.3g} - "
        f"valid loss: {row['validation_loss']:.3g}, valid error_rate: {row['error_rate']:.2e}"
    )
