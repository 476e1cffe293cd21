"""The loop of a training: steps, checkpoints, validation, the best weights, the record.

The state of a training is what the rest of it depends on: weights, the optimizer's moments, and a place in the order
of the batches. There is no running random generator (see :mod:`voiceveil.training.asv_data`).
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
from voiceveil.models.speaker.embedding import embed, validation_eer
from voiceveil.models.speaker.networks import FRAMES_A_SECOND, MODEL_KIND, SpeakerModel, repeated, subtract_mean
from voiceveil.run.ledger import sha256_file
from voiceveil.run.progress import Progress
from voiceveil.training.asv_data import Batches, Division
from voiceveil.training.asv_recipes import Recipe, peaks
from voiceveil.training.feature_store import FeatureStore

if TYPE_CHECKING:
    import torch

__all__ = ["CHECKPOINT_KIND", "State", "Trainer"]

CHECKPOINT_KIND = "checkpoint of a speaker encoder"


@dataclass
class State:
    """How far a training is; everything that the rest of it depends on, besides the tensors."""

    epoch: int = 0
    batch: int = 0
    loss_sum: float = 0.0
    correct: int = 0
    rows: int = 0
    seconds: float = 0.0  # of computing
    audio: float = 0.0  # seconds of speech in the chunks
    curve: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)


class Trainer:
    """One training: the network, its head, the optimizer, and where they stand."""

    def __init__(
        self, kind: SpeakerModel, plan: Recipe, parts: Division, store: FeatureStore, out: Path,
        settings: dict[str, Any], device: str, threads: int
    ) -> None:  # fmt: skip
        import torch

        torch.set_num_threads(threads)
        torch.manual_seed(settings["seed"])
        self.kind, self.plan, self.parts, self.store, self.out = kind, plan, parts, store, out
        self.settings, self.device, self.threads = settings, device, threads
        self.numbers = {speaker: number for number, speaker in enumerate(parts.speakers)}
        self.batches = Batches(
            parts.train, self.numbers, store, plan, subtract_mean=kind.centered, seed=settings["seed"]
        )
        self.network = kind.network(settings["channels"])
        start = kind.begin()
        self.head = kind.head(self.network, len(self.numbers))
        if start:
            self.network.load_state_dict(start)
            self._begin_head()
        self.modules = torch.nn.ModuleDict({"network": self.network, "head": self.head}).to(device)
        self.optimizer = _optimizer(plan, self.modules)
        self.state = State()
        self.steps = self.batches.count * plan.epochs

    def _begin_head(self) -> None:
        """The speakers' weights are the means of their first chunks: a network that knows voices is not to unlearn."""
        import torch

        size = round(self.plan.longest * FRAMES_A_SECOND)
        first: dict[str, list[Any]] = {speaker: [] for speaker in self.numbers}
        for utterance in self.parts.train:
            if len(own := first[str(utterance.speaker)]) < 4:
                own.append(embed(self.network.eval(), self.kind, self.store.read(utterance)[:size]))
        means = np.stack([np.mean(own, axis=0) for own in first.values()])
        head: Any = self.head
        with torch.no_grad():
            head.weight.copy_(torch.nn.functional.normalize(torch.from_numpy(means)))

    def run(self, checkpoint_every: float, *, quiet: bool) -> dict[str, Any]:
        """Train to the end, from the checkpoint if there is one; returns the record."""
        self._resume()
        begun = self.state.epoch * self.batches.count + self.state.batch
        reached, highest = peaks(self.plan.schedule, self.steps)
        with Progress("training", self.steps, unit="steps", start=begun, quiet=quiet) as progress:
            if not reached:
                peak = self.plan.schedule.peak
                progress.note(
                    f"WARNING: in {self.steps} steps the learning rate reaches only {highest:.3g} of {peak:g} and does "
                    "not decay, so the encoder stays weaker than it could be (--recipe fixed)"
                )
            if begun:
                progress.note(f"resuming at step {begun} of {self.steps}")
            while self.state.epoch < self.plan.epochs:
                self._epoch(progress, checkpoint_every)
                progress.note(self._validate())
                self._save_checkpoint()
        return self._record(reached, highest)

    def _epoch(self, progress: Progress, checkpoint_every: float) -> None:
        state = self.state
        self.modules.train()
        saved = time.monotonic()
        for values, speakers in self.batches.epoch(state.epoch, state.batch):
            start = time.monotonic()
            rate = self.plan.schedule.rate(state.epoch * self.batches.count + state.batch, self.steps)
            loss, correct = self._step(values, speakers, rate)
            state.batch += 1
            state.rows += len(speakers)
            state.loss_sum += loss * len(speakers)
            state.correct += correct
            state.seconds += time.monotonic() - start
            audio = values.shape[0] * values.shape[1] / FRAMES_A_SECOND
            state.audio += audio
            mean, accuracy = state.loss_sum / state.rows, state.correct / state.rows
            progress.advance(audio=audio, epoch=state.epoch + 1, loss=mean, accuracy=accuracy, rate=rate)
            if time.monotonic() - saved >= checkpoint_every:
                self._save_checkpoint()
                saved = time.monotonic()

    def _step(self, values: Any, speakers: Any, rate: float) -> tuple[float, int]:
        """Return one step of gradient descent; the loss, and how many chunks were recognized."""
        import torch

        for group in self.optimizer.param_groups:
            group["lr"] = rate
        truth = torch.from_numpy(speakers).to(self.device)
        self.optimizer.zero_grad()
        loss, logits = self.head(self.network(torch.from_numpy(values).to(self.device)), truth)
        loss.backward()
        self.optimizer.step()
        value = float(loss.detach())
        if not np.isfinite(value):
            raise InputError(f"the loss is {value} in epoch {self.state.epoch + 1}", fix="look for damaged audio")
        return value, int((logits.detach().argmax(dim=1) == truth).sum())

    def _validate(self) -> str:
        """End an epoch: measure, and keep the weights if they are the best; return the figures as a sentence."""
        state = self.state
        self.modules.eval()
        row: dict[str, Any] = {
            "epoch": state.epoch + 1,
            "loss": state.loss_sum / state.rows,
            "accuracy": state.correct / state.rows,
            "held_out_error": self._held_out_error(),
            "validation_eer": self._validation_eer(),
        }
        state.curve.append(row)
        # As good as before counts as better: the later epoch has learned from more, at a lower rate.
        score = row["validation_eer"] if row["held_out_error"] is None else row["held_out_error"]
        if not state.best or score is None or score <= state.best["score"]:
            state.best = {"epoch": row["epoch"], "score": score}
            record = {"kind": MODEL_KIND, "model": self.kind.name, "channels": self.settings["channels"]}
            save_tensors(self.out / "model.safetensors", self.network.state_dict(), record)
        state.epoch, state.batch = state.epoch + 1, 0
        state.loss_sum, state.correct, state.rows = 0.0, 0, 0
        figures = [f"{name} {value:.4f}" for name, value in row.items() if name != "epoch" and value is not None]
        return f"epoch {row['epoch']} of {self.plan.epochs}: {', '.join(figures)}"

    def _held_out_error(self) -> float | None:
        """Return the share of held-out utterances whose first chunk is given to the wrong speaker."""
        import torch

        wrong = []
        size = round(self.plan.longest * FRAMES_A_SECOND)
        for utterance in self.parts.held_out:
            frames = subtract_mean(repeated(self.store.read(utterance), size)[:size], self.kind.centered)
            number = torch.tensor([self.numbers[str(utterance.speaker)]], device=self.device)
            with torch.inference_mode():
                embedding = self.network(torch.from_numpy(frames).unsqueeze(0).to(self.device))
                _, logits = self.head(embedding, number)
            wrong.append(int(logits.argmax()) != int(number))
        return float(np.mean(wrong)) if wrong else None

    def _validation_eer(self) -> float | None:
        """On whole utterances of speakers that are not trained on."""
        own = self.parts.validation
        if not own:
            return None
        vectors = [embed(self.network, self.kind, self.store.read(u), self.device) for u in own]
        return validation_eer(np.stack(vectors), [str(u.speaker) for u in own], self.kind)

    def _save_checkpoint(self) -> None:
        record = {"kind": CHECKPOINT_KIND, "settings": self.settings, "state": asdict(self.state)}
        save_training(self.out / "checkpoint.safetensors", self.modules, self.optimizer, record)

    def _resume(self) -> None:
        path = self.out / "checkpoint.safetensors"
        if path.exists():
            record = load_training(path, CHECKPOINT_KIND, self.modules, self.optimizer)
            self.state = State(**record["state"])

    def _record(self, reached: bool, highest: float) -> dict[str, Any]:
        import torch

        parts, best = self.parts, self.state.best["epoch"]
        kept = self.state.curve[best - 1]
        audio = sum(self.store.entry(utterance).seconds for utterance in parts.train)
        return {
            "kind": "training record of a speaker encoder",
            "data": self.settings["data"],
            "speakers": len(self.numbers),
            "speaker_ids": sorted(self.numbers),
            "utterances": len(parts.train),
            "hours": round(audio / 3600, 4),
            "held_out_utterances": len(parts.held_out),
            "validation_speakers": len({utterance.speaker for utterance in parts.validation}),
            "validation_utterances": len(parts.validation),
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
            "threads": self.threads,
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
            "sha256": sha256_file(self.out / "model.safetensors"),
        }


def _optimizer(plan: Recipe, modules: torch.nn.Module) -> torch.optim.Optimizer:
    import torch

    rate = plan.schedule.rate(0, 1)
    learned = [parameter for parameter in modules.parameters() if parameter.requires_grad]
    if plan.optimizer == "adam":
        return torch.optim.Adam(learned, lr=rate, weight_decay=plan.weight_decay, fused=True)
    return torch.optim.SGD(learned, lr=rate, momentum=0.5, weight_decay=plan.weight_decay)
