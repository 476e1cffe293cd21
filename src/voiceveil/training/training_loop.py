"""Training of a network: one loop for all tasks; a task computes the losses and updates the weights.

The state of a training is its weights, the moments of the optimizer and the number of the step. Batches and everything
random in a step depend on the seed and that number, so that a killed training resumes to the same result. The weights
that are kept in the end are a running average.
"""

from __future__ import annotations

import copy
import json
import math
import platform
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from voiceveil.core.errors import InputError
from voiceveil.core.locking import exclusive_lock
from voiceveil.models.checkpoint import load_tensors, load_training, save_tensors, save_training
from voiceveil.run.ledger import sha256_file
from voiceveil.run.progress import Progress
from voiceveil.training.network_settings import TrainingPlan
from voiceveil.training.training_run import TrainingRun, write_record

__all__ = ["CHECKPOINT_KIND", "Data", "NetworkTrainer", "Task", "check_same_settings"]

CHECKPOINT_KIND = "checkpoint of a synthesizer"
#: Former names of settings in checkpoints.
_FORMER_SETTINGS = {
    "listening": "content_loss", "exchanged": "swap_voices", "likeness": "speaker_loss", "imitation": "teacher_loss",
    "masking": "adversary_loss", "module": "network",
}  # fmt: skip


class Data(Protocol):
    """Batches of training data; of a batch the loop uses only ``samples``, for the amount of audio in the progress."""

    def batch(self, step: int, size: int) -> Any:
        """Return the batch of a step, the same at each call."""
        ...

    def validation_batches(self, size: int) -> Iterable[Any]:
        """Return the validation batches, the same at each call."""
        ...


class Task(Protocol):
    """A network and its training; it knows the type of its data and batches."""

    @property
    def kind(self) -> str:
        """Kind of the file of weights."""
        ...

    @property
    def network(self) -> nn.Module:
        """The network whose weights are kept."""
        ...

    @property
    def modules(self) -> nn.Module:
        """Everything that learns: the network, and helpers such as a discriminator."""
        ...

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Optimizer of all parameters; those without a gradient in a step stay as they are."""
        ...

    def prepare(self, data: Any) -> None:
        """Fit buffers such as means of the inputs to the data, before the first step."""

    def step(self, batch: Any, rng: np.random.Generator) -> float:
        """Update the weights once, at the learning rate that the optimizer has; return the loss."""
        ...

    def validate(self, batch: Any, rng: np.random.Generator) -> float:
        """Return the loss of a batch that is not trained on."""
        ...

    def record(self) -> dict[str, Any]:
        """Return the arguments from which a network of the same shape is built."""
        ...


class _Checkpointed(nn.Module):
    """The modules of a checkpoint: everything that learns, and the running average of the network."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.modules_ = task.modules
        self.average = copy.deepcopy(task.network).requires_grad_(False)

    @torch.no_grad()
    def update(self, network: nn.Module, keep: float) -> None:
        """Move the average to ``network``, of which it keeps the share 1 - ``keep``; buffers are copied."""
        for mean, parameter in zip(self.average.parameters(), network.parameters(), strict=True):
            mean.lerp_(parameter, 1 - keep)
        for copied, buffer in zip(self.average.buffers(), network.buffers(), strict=True):
            copied.copy_(buffer)


class NetworkTrainer:
    """A training of a task.

    Parameters
    ----------
    task
        Network, losses and optimizer.
    data
        Training data of the task.
    plan
        Length and learning rate.
    settings
        Everything else that the weights depend on, for the record; ``parts`` holds the fingerprints of other models.
    run
        Device, processes and files (default: those of :class:`TrainingRun`).
    """

    def __init__(
        self, task: Task, data: Data, plan: TrainingPlan, settings: dict[str, Any], run: TrainingRun | None = None
    ) -> None:
        self.task, self.data, self.plan, self.run = task, data, plan, run or TrainingRun()
        self.settings = {**settings, "plan": asdict(plan), "task": task.kind, "size": task.record()}

    def train(self, out: Path, start: Path | None = None) -> dict[str, Any]:
        """Train to the end, from the checkpoint in ``out`` if there is one; write the weights and the record.

        Parameters
        ----------
        out
            Output folder.
        start
            Folder of an earlier training of the same task, whose weights are the first ones.

        Returns
        -------
        dict
            The record.

        Raises
        ------
        InputError
            If another training is in ``out``, the weights of ``start`` do not fit, or the loss is not finite.
        """
        torch.set_num_threads(self.run.threads)
        if start is not None:
            self.settings["start"] = sha256_file(start / "model.safetensors")
        with exclusive_lock(out, "another training"):
            checkpoint = out / "checkpoint.safetensors"
            if self.run.overwrite:
                checkpoint.unlink(missing_ok=True)
            checkpointed = _Checkpointed(self.task)
            state: dict[str, Any] = {"step": 0, "seconds": 0.0, "curve": []}
            if checkpoint.exists():
                record = load_training(checkpoint, CHECKPOINT_KIND, checkpointed, self.task.optimizer)
                check_same_settings(record["settings"], self.settings, checkpoint)
                state = record["state"]
            else:
                self.task.prepare(self.data)
                if start is not None:
                    _load_start(self.task, start / "model.safetensors")
                checkpointed.update(self.task.network, 0.0)
            self._loop(checkpointed, state, checkpoint)
            return self._finish(checkpointed, state, out)

    def _loop(self, checkpointed: _Checkpointed, state: dict[str, Any], checkpoint: Path) -> None:
        plan = self.plan
        with Progress("training", plan.steps, unit="steps", start=state["step"], quiet=self.run.quiet) as progress:
            if state["step"]:
                progress.note(f"resuming at step {state['step']} of {plan.steps}")
            saved, losses = time.monotonic(), []
            validation_interval = max(1, plan.steps // 20)
            while state["step"] < plan.steps:
                rate = plan.rate(state["step"])
                loss, audio = self._step(checkpointed, state)
                losses.append(loss)
                progress.advance(audio=audio, loss=float(np.mean(losses[-50:])), rate=rate)
                if state["step"] % validation_interval == 0 or state["step"] == plan.steps:
                    row = {
                        "step": state["step"],
                        "loss": float(np.mean(losses[-validation_interval:])),
                        "validation": self._validate(checkpointed),
                    }
                    state["curve"].append(row)
                    progress.note(f"step {row['step']}: loss {row['loss']:.4f}, validation {row['validation']:.4f}")
                if time.monotonic() - saved >= self.run.checkpoint_every or state["step"] == plan.steps:
                    record = {"kind": CHECKPOINT_KIND, "settings": self.settings, "state": state}
                    save_training(checkpoint, checkpointed, self.task.optimizer, record)
                    saved = time.monotonic()

    def _step(self, checkpointed: _Checkpointed, state: dict[str, Any]) -> tuple[float, float]:
        """Make the next step; return its loss, and the seconds of audio in its batch."""
        plan, step, start = self.plan, state["step"], time.monotonic()
        for group in self.task.optimizer.param_groups:
            group["lr"] = plan.rate(step)
        batch = self.data.batch(step, plan.batch_size)
        loss = self.task.step(batch, np.random.default_rng([plan.seed, 4, step]))
        if not math.isfinite(loss):
            raise InputError(f"the loss is {loss} in step {step + 1}", fix="look for damaged audio")
        keep = min(plan.average, (1 + step) / (10 + step))  # less at first: the average soon leaves the first weights
        checkpointed.update(self.task.network, keep)
        state["step"] += 1
        state["seconds"] += time.monotonic() - start
        return loss, batch.samples.size / 16000

    def _validate(self, checkpointed: _Checkpointed) -> float:
        """Return the mean validation loss of the averaged weights; NaN without validation data."""
        network, seed = self.task.network, self.plan.seed
        weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        network.load_state_dict(checkpointed.average.state_dict())
        network.eval()
        batches = list(self.data.validation_batches(self.plan.batch_size))
        with torch.inference_mode():
            losses = [self.task.validate(b, np.random.default_rng([seed, 5, i])) for i, b in enumerate(batches)]
        network.train()
        network.load_state_dict(weights)
        return float(np.mean(losses)) if losses else math.nan

    def _finish(self, checkpointed: _Checkpointed, state: dict[str, Any], out: Path) -> dict[str, Any]:
        """Write the averaged weights and the record; return the record."""
        task, model = self.task, out / "model.safetensors"
        header = {"kind": task.kind, "size": task.record(), "parts": self.settings["parts"]}
        save_tensors(model, checkpointed.average.state_dict(), header)
        record = {
            "kind": f"training record of a {task.kind}",
            "settings": self.settings,
            "parameters": sum(p.numel() for p in task.network.parameters()),
            "validation": state["curve"][-1]["validation"] if state["curve"] else None,
            "curve": state["curve"],
            "training_seconds": round(state["seconds"], 1),
            "threads": self.run.threads,
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
            "sha256": sha256_file(model),
        }
        write_record(out, record)
        return record


def _load_start(task: Task, weights: Path) -> None:
    """Load all parameters; buffers that the earlier network did not have stay as they were fitted to the data."""
    tensors, _ = load_tensors(weights, task.kind)
    present = task.network.state_dict()
    buffers = {name: present[name] for name, _ in task.network.named_buffers() if name in present}
    try:
        task.network.load_state_dict({**buffers, **tensors})
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"weights of another network: {reason}", where=weights, fix="give a training of the same network and size"
        ) from error


def check_same_settings(saved: dict[str, Any], settings: dict[str, Any], checkpoint: Path) -> None:
    """Raise ``InputError`` if the settings of a checkpoint are not those of this training."""
    before = {_FORMER_SETTINGS.get(name, name): value for name, value in saved.items()}
    changed = sorted(name for name in settings if json.loads(json.dumps(settings[name])) != before.get(name))
    if changed:
        raise InputError(
            f"another training is here, with other settings ({', '.join(changed)})",
            where=checkpoint,
            fix="use another --out, or --overwrite",
        )
