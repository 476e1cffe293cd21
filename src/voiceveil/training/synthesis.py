"""Training of synthesizers: one loop for all; what a step does is the task's own.

The state of a training is its weights, the optimizer's moments and the number of the step; crops and sources depend on
the seed and that number (see :mod:`voiceveil.training.synthesis_data`), so that a killed training goes on as if
nothing had been. What is kept in the end is a running average of the weights.
"""

from __future__ import annotations

import copy
import json
import math
import platform
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.locking import exclusive_lock
from voiceveil.models.checkpoint import load_tensors, load_training, save_tensors, save_training
from voiceveil.run.ledger import sha256_file
from voiceveil.run.progress import Progress

__all__ = ["CHECKPOINT_KIND", "Data", "Plan", "Task", "train"]

CHECKPOINT_KIND = "checkpoint of a synthesizer"


class Data(Protocol):
    """What is learned from; of a batch the loop uses ``samples`` alone, to tell how much audio it holds."""

    def batch(self, step: int, size: int) -> Any:
        """Return the batch of a step: the same whenever it is asked for."""
        ...

    def validation_batches(self, size: int) -> Iterable[Any]:
        """The same every time."""
        ...


class Task(Protocol):
    """What is trained, and how; the kinds of its data and batches are its own."""

    @property
    def kind(self) -> str:
        """The name of what the file of weights then holds."""
        ...

    @property
    def network(self) -> nn.Module:
        """What is kept."""
        ...

    @property
    def modules(self) -> nn.Module:
        """All that learns, a discriminator too."""
        ...

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Of all parameters; one that has no gradient in a step stays as it is."""
        ...

    def prepare(self, data: Any) -> None:
        """Before the first step: take from the data what the network keeps, such as means of its inputs."""

    def step(self, batch: Any, rng: np.random.Generator) -> float:
        """Return one update; the loss. The learning rate is set already."""
        ...

    def validate(self, batch: Any, rng: np.random.Generator) -> float:
        """Return the loss of crops that are not learned from."""
        ...

    def record(self) -> dict[str, Any]:
        """What making the same network again needs."""
        ...


@dataclass(frozen=True)
class Plan:
    """How long, how fast: a linear rise of ``warmup`` steps to the learning rate ``peak``, then half a cosine to 0."""

    steps: int
    batch_size: int = 16
    peak: float = 2e-3
    warmup: int = 100
    average: float = 0.999  # of the weights, a step
    seed: int = 0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        return self.peak * 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / max(1, self.steps - self.warmup)))


class _Averaged(nn.Module):
    """All that a checkpoint holds: what learns, and the running average of the network."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.modules_ = task.modules
        self.average = copy.deepcopy(task.network).requires_grad_(False)

    @torch.no_grad()
    def update(self, network: nn.Module, keep: float) -> None:
        for mean, now in zip(self.average.parameters(), network.parameters(), strict=True):
            mean.lerp_(now, 1 - keep)
        for kept, buffer in zip(self.average.buffers(), network.buffers(), strict=True):
            kept.copy_(buffer)


def train(
    task: Task,
    data: Data,
    plan: Plan,
    out: Path,
    *,
    settings: dict[str, Any],
    start: Path | None = None,
    threads: int = 1,
    checkpoint_every: float = 120.0,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train to the end, from the checkpoint in ``out`` if there is one; writes ``model.safetensors`` and the record.

    ``start``: the folder of an earlier training of the same task, whose weights are the first ones.
    """
    torch.set_num_threads(threads)
    settings = {**settings, "plan": asdict(plan), "task": task.kind, "size": task.record()}
    if start is not None:
        settings["start"] = sha256_file(start / "model.safetensors")
    with exclusive_lock(out, "another training"):
        checkpoint = out / "checkpoint.safetensors"
        if overwrite:
            checkpoint.unlink(missing_ok=True)
        held = _Averaged(task)
        state: dict[str, Any] = {"step": 0, "seconds": 0.0, "curve": []}
        if checkpoint.exists():
            record = load_training(checkpoint, CHECKPOINT_KIND, held, task.optimizer)
            _check_same(record["settings"], settings, checkpoint)
            state = record["state"]
        else:
            task.prepare(data)
            if start is not None:
                _begin_with(task, start / "model.safetensors")
            held.update(task.network, 0.0)
        _loop(task, held, data, plan, state, checkpoint, settings, checkpoint_every, quiet)
        return _finish(task, held, state, out, settings, threads)


def _begin_with(task: Task, weights: Path) -> None:
    """All parameters are taken over; what was found in the data stays, where an earlier network had none."""
    tensors, _ = load_tensors(weights, task.kind)
    own = task.network.state_dict()
    found = {name: own[name] for name, _ in task.network.named_buffers() if name in own}
    try:
        task.network.load_state_dict({**found, **tensors})
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"weights of another network: {reason}", where=weights, fix="use those of its kind") from error


def _loop(
    task: Task, held: _Averaged, data: Data, plan: Plan, state: dict[str, Any], checkpoint: Path,
    settings: dict[str, Any], checkpoint_every: float, quiet: bool
) -> None:  # fmt: skip
    with Progress("training", plan.steps, unit="steps", start=state["step"], quiet=quiet) as progress:
        if state["step"]:
            progress.note(f"resuming at step {state['step']} of {plan.steps}")
        saved, losses = time.monotonic(), []
        every = max(1, plan.steps // 20)
        while state["step"] < plan.steps:
            start, step = time.monotonic(), state["step"]
            for group in task.optimizer.param_groups:
                group["lr"] = plan.rate(step)
            batch = data.batch(step, plan.batch_size)
            loss = task.step(batch, np.random.default_rng([plan.seed, 4, step]))
            if not math.isfinite(loss):
                raise InputError(f"the loss is {loss} in step {step + 1}", fix="look for damaged audio")
            losses.append(loss)
            held.update(task.network, min(plan.average, (1 + step) / (10 + step)))
            state["step"] += 1
            state["seconds"] += time.monotonic() - start
            seconds = batch.samples.size / 16000
            progress.advance(audio=seconds, loss=float(np.mean(losses[-50:])), rate=plan.rate(step))
            if state["step"] % every == 0 or state["step"] == plan.steps:
                row = {
                    "step": state["step"],
                    "loss": float(np.mean(losses[-every:])),
                    "validation": _validate(task, held, data, plan),
                }
                state["curve"].append(row)
                progress.note(f"step {row['step']}: loss {row['loss']:.4f}, validation {row['validation']:.4f}")
            if time.monotonic() - saved >= checkpoint_every or state["step"] == plan.steps:
                record = {"kind": CHECKPOINT_KIND, "settings": settings, "state": state}
                save_training(checkpoint, held, task.optimizer, record)
                saved = time.monotonic()


def _validate(task: Task, held: _Averaged, data: Data, plan: Plan) -> float:
    """Return the loss of the averaged weights."""
    own = {name: tensor.clone() for name, tensor in task.network.state_dict().items()}
    task.network.load_state_dict(held.average.state_dict())
    task.network.eval()
    batches = list(data.validation_batches(plan.batch_size))
    with torch.inference_mode():
        losses = [task.validate(batch, np.random.default_rng([plan.seed, 5, i])) for i, batch in enumerate(batches)]
    task.network.train()
    task.network.load_state_dict(own)
    return float(np.mean(losses)) if losses else math.nan


def _check_same(old: dict[str, Any], new: dict[str, Any], checkpoint: Path) -> None:
    changed = sorted(name for name in new if json.loads(json.dumps(new[name])) != old.get(name))
    if changed:
        what = f"a training with other settings stands here ({', '.join(changed)})"
        raise InputError(what, where=checkpoint, fix="use another --out, or --overwrite")


def _finish(
    task: Task, held: _Averaged, state: dict[str, Any], out: Path, settings: dict[str, Any], threads: int
) -> dict[str, Any]:
    model = out / "model.safetensors"
    save_tensors(
        model, held.average.state_dict(), {"kind": task.kind, "size": task.record(), "parts": settings["parts"]}
    )
    record = {
        "kind": f"training record of a {task.kind}",
        "settings": settings,
        "parameters": sum(p.numel() for p in task.network.parameters()),
        "validation": state["curve"][-1]["validation"] if state["curve"] else None,
        "curve": state["curve"],
        "training_seconds": round(state["seconds"], 1),
        "threads": threads,
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "sha256": sha256_file(model),
    }
    with atomic_path(out / "record.json") as part:
        part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return record
