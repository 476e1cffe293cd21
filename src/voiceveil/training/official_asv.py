"""The official training of ASV_eval and ASV_eval^anon of 2024: ECAPA-TDNN on SpeechBrain's features.

What the challenge's code does with its configuration: 10 epochs over all speakers in batches of 256 random chunks of
3 s; Adam with weight decay; additive angular margin; a learning rate that rises to a fifth of its peak; no gradient
clipping (it is declared, but comes before the gradients); the last epoch is evaluated. The result is a folder that the
challenge's scripts and ``speechbrain:FOLDER`` read (:mod:`voiceveil.training.official_asv_files`). A killed training
resumes from ``checkpoint.safetensors``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.core.errors import InputError
from voiceveil.models.checkpoint import load_training, save_training
from voiceveil.models.nets.ecapa import EcapaTdnn
from voiceveil.models.speechbrain.fbank import fbank, subtract_sentence_mean
from voiceveil.run.progress import Progress
from voiceveil.training.asv_recipes import AsvRecipe, reaches_peak
from voiceveil.training.asv_trainer import CHECKPOINT_KIND
from voiceveil.training.official_asv_files import remove_superseded, write_encoder
from voiceveil.training.official_asv_rows import Row, RowSplit, csv_text, read_chunk, row_order
from voiceveil.training.speechbrain_folder import labels_text, write_text
from voiceveil.training.training_run import TrainingRun

__all__ = ["MARGIN", "SCALE", "OfficialTrainer", "aam_logits", "make_optimizer", "training_step"]

MARGIN, SCALE = 0.2, 30.0
_CLIP = 1e-7


def aam_logits(cosine: Tensor, speakers: Tensor) -> Tensor:
    """Return the logits (B, speakers) of cosines: scaled, with the margin at the true speakers (B,)."""
    cosine = cosine.clamp(-1 + _CLIP, 1 - _CLIP)
    with_margin = cosine * math.cos(MARGIN) - (1 - cosine**2).sqrt() * math.sin(MARGIN)
    beyond = cosine - MARGIN * math.sin(math.pi - MARGIN)
    with_margin = torch.where(cosine > math.cos(math.pi - MARGIN), with_margin, beyond)
    true = functional.one_hot(speakers, cosine.shape[1]).bool()
    return SCALE * torch.where(true, with_margin, cosine)


class Model(nn.Module):
    """The encoder, and the weights (speakers, dimension) that classify its embeddings by cosine."""

    def __init__(self, channels: int, speakers: int) -> None:
        super().__init__()
        self.network = EcapaTdnn(channels=channels, wide=3 * channels)
        self.classifier = nn.Parameter(nn.init.xavier_uniform_(torch.empty(speakers, self.network.dimension)))

    def forward(self, samples: Tensor) -> Tensor:
        """Return the cosines (B, speakers) of chunks (B, N)."""
        embeddings = self.network(subtract_sentence_mean(fbank(samples)))
        return functional.linear(functional.normalize(embeddings), functional.normalize(self.classifier))


def make_optimizer(model: nn.Module, weight_decay: float) -> torch.optim.Optimizer:
    """Return Adam, with the weight decay added to the gradients."""
    return torch.optim.Adam(model.parameters(), lr=0.0, weight_decay=weight_decay)


def training_step(
    model: Model, optimizer: torch.optim.Optimizer, samples: Tensor, speakers: Tensor, rate: float
) -> float:
    """Do one step of gradient descent on chunks (B, N) of speakers (B,) at a learning rate; return the loss before."""
    model.train()
    optimizer.zero_grad()
    loss = functional.cross_entropy(aam_logits(model(samples), speakers), speakers)
    loss.backward()  # type: ignore[no-untyped-call]
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return float(loss.detach())


@dataclass
class State:
    """Position of a training, besides the tensors; epochs count from 1."""

    epoch: int = 1
    batch: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0
    curve: list[dict[str, Any]] = field(default_factory=list)


class OfficialTrainer:
    """A training in the folder ``out``.

    Parameters
    ----------
    split : RowSplit
        Chunks of both parts.
    recipe : AsvRecipe
        Epochs, batch size, learning rates and weight decay.
    settings : dict
        Entries ``channels`` and ``seed``; recorded with the checkpoint.
    run : TrainingRun
        Device, threads, and threads that read audio.
    """

    def __init__(self, split: RowSplit, recipe: AsvRecipe, settings: dict[str, Any], run: TrainingRun) -> None:
        torch.set_num_threads(run.threads)
        torch.manual_seed(settings["seed"])
        self.split, self.recipe, self.settings, self.run = split, recipe, settings, run
        self.model = Model(settings["channels"], len(split.speakers)).to(run.device)
        self.optimizer = make_optimizer(self.model, recipe.weight_decay)
        # The last batch is kept, unless it has one chunk alone: batch normalization needs two.
        full, rest = divmod(len(split.train), recipe.batch_size)
        self.count = full + (rest > 1)
        self.state = State()

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        return self.count * self.recipe.epochs

    def train(self, out: Path) -> dict[str, Any]:
        """Train to the end, from the checkpoint if there is one; return the record."""
        self._write_lists(out)
        checkpoint = out / "checkpoint.safetensors"
        if checkpoint.exists():
            record = load_training(checkpoint, CHECKPOINT_KIND, self.model, self.optimizer)
            self.state = State(**record["state"])
        begun = (self.state.epoch - 1) * self.count + self.state.batch
        reached, highest = reaches_peak(self.recipe.schedule, self.steps + 1)  # steps count from 1
        with Progress("training", self.steps, unit="steps", start=begun, quiet=self.run.quiet) as progress:
            if not reached:
                progress.note(
                    f"WARNING: in {self.steps} steps the learning rate reaches only {highest:.3g} of "
                    f"{self.recipe.schedule.peak:g} and does not decay, so the encoder stays weaker than it could be "
                    "(--recipe fixed)"
                )
            if begun:
                progress.note(f"resuming at step {begun} of {self.steps}")
            while self.state.epoch <= self.recipe.epochs:
                self._epoch(out, progress)
                progress.note(self._end_epoch(out))
        return self._record(reached, highest)

    def _write_lists(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "train.csv", csv_text(self.split.train))
        write_text(out / "dev.csv", csv_text(self.split.dev))
        write_text(out / "label_encoder.txt", labels_text(self.split.speakers))

    def _epoch(self, out: Path, progress: Progress) -> None:
        state, saved = self.state, time.monotonic()
        for samples, speakers in self._batches(self.split.train, "train", state.epoch, state.batch):
            start = time.monotonic()
            step = (state.epoch - 1) * self.count + state.batch + 1
            rate = self.recipe.schedule.rate(step, self.steps)
            loss = training_step(self.model, self.optimizer, samples, speakers, rate)
            if not math.isfinite(loss):
                raise InputError(f"the loss is {loss} in epoch {state.epoch}", fix="look for damaged audio")
            state.batch += 1
            state.loss_sum += loss
            state.seconds += time.monotonic() - start
            audio = samples.shape[0] * self.recipe.longest
            progress.advance(audio=audio, epoch=state.epoch, loss=state.loss_sum / state.batch, rate=rate)
            if time.monotonic() - saved >= self.run.checkpoint_every:
                self._save(out)
                saved = time.monotonic()

    def _batches(self, rows: list[Row], part: str, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield chunks (B, N) and speaker numbers (B,) from batch ``start`` on."""
        order = row_order(len(rows), epoch if part == "train" else 0)
        numbers, size, seed = self.split.numbers, self.recipe.batch_size, self.settings["seed"]
        with ThreadPoolExecutor(self.run.jobs) as readers:
            for first in range(start * size, len(order), size):
                chosen = order[first : first + size]
                if part == "train" and len(chosen) == 1:
                    return
                keys = [f"{seed} {part} {epoch} {number}" for number in chosen]
                chunks = list(readers.map(read_chunk, [rows[number] for number in chosen], keys))
                speakers = torch.tensor([numbers[rows[number].speaker] for number in chosen])
                yield torch.from_numpy(np.stack(chunks)).to(self.run.device), speakers.to(self.run.device)

    def _end_epoch(self, out: Path) -> str:
        """Measure the errors on the development data, write the checkpoint, and return the line of the log."""
        state = self.state
        loss, errors = self._errors()
        rate = self.recipe.schedule.rate(
            state.epoch * self.count - 1, self.steps
        )  # the log has the one before the last
        row = {"epoch": state.epoch, "rate": rate, "loss": state.loss_sum / max(state.batch, 1), "dev_loss": loss}
        state.curve.append({**row, "error_rate": errors})
        write_encoder(out, state.epoch, self.model.network, self.model.classifier, errors)
        remove_superseded(out)
        lines = [_log_line(entry) for entry in state.curve]
        write_text(out / "train_log.txt", "".join(f"{line}\n" for line in lines))
        state.epoch, state.batch, state.loss_sum = state.epoch + 1, 0, 0.0
        self._save(out)
        return lines[-1]

    def _errors(self) -> tuple[float, float]:
        """Return the mean loss of the batches, and the share of development chunks that get another speaker."""
        self.model.eval()
        losses, wrong = [], []
        with torch.inference_mode():
            for samples, speakers in self._batches(self.split.dev, "dev", self.state.epoch):
                cosine = self.model(samples)
                losses.append(float(functional.cross_entropy(aam_logits(cosine, speakers), speakers)))
                wrong += (cosine.argmax(dim=1) != speakers).tolist()
        return (float(np.mean(losses)), float(np.mean(wrong))) if wrong else (0.0, 1.0)

    def _save(self, out: Path) -> None:
        record = {"kind": CHECKPOINT_KIND, "settings": self.settings, "state": asdict(self.state)}
        save_training(out / "checkpoint.safetensors", self.model, self.optimizer, record)

    def _record(self, reached: bool, highest: float) -> dict[str, Any]:
        split, last = self.split, self.state.curve[-1]
        recordings = {row.utterance.id: row.samples for row in split.train}
        return {
            "kind": "training record of a speaker encoder",
            "encoder": "speechbrain",
            "data": self.settings["data"],
            "speakers": len(split.speakers),
            "speaker_ids": sorted(split.speakers),
            "utterances": len(recordings),
            "hours": round(sum(recordings.values()) / 16000 / 3600, 4),
            "accuracy": 1 - last["error_rate"] if split.dev else None,
            "validation_eer": None,
            "best_epoch": last["epoch"],
            "peak_reached": reached,
            "highest_learning_rate": highest,
            "steps": self.steps,
            "training_seconds": round(self.state.seconds, 1),
            "curve": self.state.curve,
            "parameters": sum(parameter.numel() for parameter in self.model.network.parameters()),
            "settings": self.settings,
            "device": self.run.device,
        }


def _log_line(row: dict[str, Any]) -> str:
    """Return a line of ``train_log.txt``."""
    return (
        f"epoch: {row['epoch']}, lr: {row['rate']:.2e} - train loss: {row['loss']:.3g} - "
        f"valid loss: {row['dev_loss']:.3g}, valid ErrorRate: {row['error_rate']:.2e}"
    )
