"""The training loop of speaker encoders: steps, checkpoints, validation, the best weights, the record.

The state of a training is its weights, the moments of the optimizer, and the number of the next batch. There is no
running random generator (see :mod:`voiceveil.training.asv_data`).
"""

from __future__ import annotations

import platform
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.models.checkpoint import load_training, save_tensors, save_training
from voiceveil.models.speaker.networks import (
    FRAMES_PER_SECOND,
    MODEL_KIND,
    SpeakerModel,
    embed,
    validation_eer,
)
from voiceveil.run.ledger import sha256_file
from voiceveil.run.progress import Progress
from voiceveil.training.asv_data import Batches, TrainingSet
from voiceveil.training.asv_recipes import AsvRecipe, reaches_peak
from voiceveil.training.training_run import TrainingRun

if TYPE_CHECKING:
    import torch

__all__ = ["CHECKPOINT_KIND", "Trainer", "TrainerState"]

CHECKPOINT_KIND = "checkpoint of a speaker encoder"


@dataclass
class TrainerState:
    """Progress of a training: everything that the rest of it depends on, besides the tensors."""

    epoch: int = 0
    batch: int = 0
    loss_sum: float = 0.0
    correct: int = 0
    rows: int = 0
    seconds: float = 0.0  # of computation
    audio: float = 0.0  # seconds of speech in the chunks
    curve: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)


class Trainer:
    """A training: the network, its classification head, the optimizer, and their state.

    Parameters
    ----------
    kind
        Model.
    recipe
        Hyperparameters.
    data
        Divided corpus with features.
    settings
        Everything that the weights depend on, for the record; holds ``seed``, ``channels`` and ``data``.
    run
        Device, threads, checkpoints and progress.
    """

    def __init__(
        self, kind: SpeakerModel, recipe: AsvRecipe, data: TrainingSet, settings: dict[str, Any], run: TrainingRun
    ) -> None:
        import torch

        torch.set_num_threads(run.threads)
        torch.manual_seed(settings["seed"])
        self.kind, self.recipe, self.settings, self.run = kind, recipe, settings, run
        self.division, self.store, self.device = data.division, data.store, run.device
        self.class_numbers = {speaker: number for number, speaker in enumerate(self.division.speakers)}
        self.batches = Batches(data, recipe, subtract_mean=kind.centered, seed=settings["seed"])
        self.network = kind.network(settings["channels"])
        pretrained = kind.initial_weights()
        self.head = kind.head(self.network, len(self.class_numbers))
        if pretrained:
            self.network.load_state_dict(pretrained)
        self.modules = torch.nn.ModuleDict({"network": self.network, "head": self.head}).to(run.device)
        if pretrained:
            self._initialize_head()
        self.optimizer = _optimizer(recipe, self.modules)
        self.state = TrainerState()
        self.steps = self.batches.count * recipe.epochs

    def _initialize_head(self) -> None:
        """Set the weights of each speaker to a mean embedding: a pretrained network then does not unlearn at first."""
        import torch

        size = round(self.recipe.longest * FRAMES_PER_SECOND)
        embeddings: dict[str, list[Any]] = {speaker: [] for speaker in self.class_numbers}
        for utterance in self.division.train:
            if len(listed := embeddings[str(utterance.speaker)]) < 4:
                listed += embed(self.network.eval(), self.kind, [self.store.read(utterance)[:size]], self.device)
        means = np.stack([np.mean(listed, axis=0) for listed in embeddings.values()])
        head: Any = self.head
        with torch.no_grad():
            head.weight.copy_(torch.nn.functional.normalize(torch.from_numpy(means)))

    def train(self, out: Path) -> dict[str, Any]:
        """Train to the end, from the checkpoint in ``out`` if there is one; return the record."""
        self._resume(out)
        done = self.state.epoch * self.batches.count + self.state.batch
        reached, highest = reaches_peak(self.recipe.schedule, self.steps)
        with Progress("training", self.steps, unit="steps", start=done, quiet=self.run.quiet) as progress:
            if done:
                progress.note(f"resuming at step {done} of {self.steps}")
            while self.state.epoch < self.recipe.epochs:
                self._epoch(out, progress)
                progress.note(self._validate(out))
                self._save_checkpoint(out)
        return self._record(out, reached, highest)

    def _epoch(self, out: Path, progress: Progress) -> None:
        state = self.state
        self.modules.train()
        saved = time.monotonic()
        for values, speakers in self.batches.epoch(state.epoch, state.batch):
            start = time.monotonic()
            rate = self.recipe.schedule.rate(state.epoch * self.batches.count + state.batch, self.steps)
            loss, correct = self._step(values, speakers, rate)
            state.batch += 1
            state.rows += len(speakers)
            state.loss_sum += loss * len(speakers)
            state.correct += correct
            state.seconds += time.monotonic() - start
            audio = values.shape[0] * values.shape[1] / FRAMES_PER_SECOND
            state.audio += audio
            mean, accuracy = state.loss_sum / state.rows, state.correct / state.rows
            progress.advance(audio=audio, epoch=state.epoch + 1, loss=mean, accuracy=accuracy, rate=rate)
            if time.monotonic() - saved >= self.run.checkpoint_every:
                self._save_checkpoint(out)
                saved = time.monotonic()

    def _step(self, values: Any, speakers: Any, rate: float) -> tuple[float, int]:
        """Update the weights once; return the loss, and the number of chunks that were classified correctly."""
        import torch

        for group in self.optimizer.param_groups:
            group["lr"] = rate
        targets = torch.from_numpy(speakers).to(self.device)
        self.optimizer.zero_grad()
        loss, logits = self.head(self.network(torch.from_numpy(values).to(self.device)), targets)
        loss.backward()
        self.optimizer.step()
        value = float(loss.detach())
        if not np.isfinite(value):
            raise InputError(f"the loss is {value} in epoch {self.state.epoch + 1}", fix="look for damaged audio")
        return value, int((logits.detach().argmax(dim=1) == targets).sum())

    def _validate(self, out: Path) -> str:
        """End an epoch: measure, and keep the weights if they are the best; return the figures as a sentence."""
        state = self.state
        self.modules.eval()
        row: dict[str, Any] = {
            "epoch": state.epoch + 1,
            "loss": state.loss_sum / state.rows,
            "accuracy": state.correct / state.rows,
            "validation_eer": self._validation_eer(),
        }
        state.curve.append(row)
        # On a tie the later epoch is kept: it has seen more data, at a lower learning rate.
        score = row["validation_eer"]
        if not state.best or score is None or score <= state.best["score"]:
            state.best = {"epoch": row["epoch"], "score": score}
            record = {"kind": MODEL_KIND, "model": self.kind.name, "channels": self.settings["channels"]}
            save_tensors(out / "model.safetensors", self.network.state_dict(), record)
        state.epoch, state.batch = state.epoch + 1, 0
        state.loss_sum, state.correct, state.rows = 0.0, 0, 0
        figures = [f"{name} {value:.4f}" for name, value in row.items() if name != "epoch" and value is not None]
        return f"epoch {row['epoch']} of {self.recipe.epochs}: {', '.join(figures)}"

    def _validation_eer(self) -> float | None:
        """Return the EER on whole utterances of speakers that are not trained on; None without such speakers."""
        utterances = self.division.validation
        if not utterances:
            return None
        vectors = [embed(self.network, self.kind, [self.store.read(u)], self.device)[0] for u in utterances]
        return validation_eer(np.stack(vectors), [str(u.speaker) for u in utterances], self.kind)

    def _save_checkpoint(self, out: Path) -> None:
        record = {"kind": CHECKPOINT_KIND, "settings": self.settings, "state": asdict(self.state)}
        save_training(out / "checkpoint.safetensors", self.modules, self.optimizer, record)

    def _resume(self, out: Path) -> None:
        path = out / "checkpoint.safetensors"
        if path.exists():
            record = load_training(path, CHECKPOINT_KIND, self.modules, self.optimizer)
            self.state = TrainerState(**record["state"])

    def _record(self, out: Path, reached: bool, highest: float) -> dict[str, Any]:
        import torch

        division, best = self.division, self.state.best["epoch"]
        kept = self.state.curve[best - 1]
        audio = sum(self.store.entry(utterance).seconds for utterance in division.train)
        return {
            "kind": "training record of a speaker encoder",
            "data": self.settings["data"],
            "speakers": len(self.class_numbers),
            "speaker_ids": sorted(self.class_numbers),
            "utterances": len(division.train),
            "hours": round(audio / 3600, 4),
            "validation_speakers": len({utterance.speaker for utterance in division.validation}),
            "validation_utterances": len(division.validation),
            "accuracy": kept["accuracy"],
            "validation_eer": kept["validation_eer"],
            "best_epoch": best,
            "peak_reached": reached,
            "highest_learning_rate": highest,
            "steps": self.steps,
            "training_seconds": round(self.state.seconds, 1),
            "times_real_time": round(self.state.audio / max(self.state.seconds, 1e-9), 2),
            "curve": self.state.curve,
            "parameters": sum(parameter.numel() for parameter in self.network.parameters()),
            "settings": self.settings,
            "device": self.device,
            "threads": self.run.threads,
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
            "sha256": sha256_file(out / "model.safetensors"),
        }


def _optimizer(recipe: AsvRecipe, modules: torch.nn.Module) -> torch.optim.Optimizer:
    import torch

    rate = recipe.schedule.rate(0, 1)
    parameters = [parameter for parameter in modules.parameters() if parameter.requires_grad]
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate, weight_decay=recipe.weight_decay, fused=True)
    return torch.optim.SGD(parameters, lr=rate, momentum=0.5, weight_decay=recipe.weight_decay)
