"""Trainings with a single loss, minimized by AdamW; and what the tasks of synthesizers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from voiceveil.models.nets.mel import log_mel
from voiceveil.models.nets.standardize import Standardize
from voiceveil.training.synthesis_data import SynthesisBatch, SynthesisData

__all__ = ["SingleLossTask", "batch_tensors", "fit_scales", "torch_generator"]

_STATISTICS_STEPS = 30  # batches from which means and deviations are estimated
BatchType = TypeVar("BatchType")


class SingleLossTask(ABC, Generic[BatchType]):
    """A network with one loss: the common part of a :class:`~voiceveil.training.training_loop.Task`.

    Parameters
    ----------
    network
        The network; its ``size`` is what makes a network of the same shape again.
    device
        Device of torch.
    """

    kind: str
    network: nn.Module

    def __init__(self, network: nn.Module, device: str) -> None:
        self.device = device
        self.network = network.to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)

    @property
    def modules(self) -> nn.Module:
        """The network: nothing else learns."""
        return self.network

    def step(self, batch: BatchType, rng: np.random.Generator) -> float:
        """Update the weights by one step of AdamW; return the loss before it."""
        self.optimizer.zero_grad()
        loss = self.loss(batch, rng)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def validate(self, batch: BatchType, rng: np.random.Generator) -> float:
        """Return the loss of a batch."""
        return float(self.loss(batch, rng).detach())

    def record(self) -> dict[str, Any]:
        """Return the size of the network."""
        size: Any = self.network.size
        return dict(size) if isinstance(size, dict) else asdict(size)

    @abstractmethod
    def loss(self, batch: BatchType, rng: np.random.Generator) -> Tensor:
        """Return the loss of a batch; everything random in it is drawn from ``rng``."""


def batch_tensors(batch: SynthesisBatch, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return samples, content, F0 and speaker embeddings of a batch as tensors on a device."""
    samples, content, f0, speaker = (torch.from_numpy(x).to(device) for x in batch)
    return samples, content, f0, speaker


def fit_scales(scales: Mapping[str, Standardize], data: SynthesisData, device: str) -> None:
    """Fit layers that standardize ``content``, ``speaker``, ``f0`` or ``mel`` to crops of the training data."""
    collected: dict[str, list[Tensor]] = {name: [] for name in scales}
    for step in range(_STATISTICS_STEPS):
        samples, content, f0, speaker = batch_tensors(data.batch(step, 16), device)
        values = {"content": content, "speaker": speaker, "f0": f0.unsqueeze(2), "mel": log_mel(samples)}
        for name in scales:
            collected[name].append(values[name].flatten(end_dim=-2))
    for name, scale in scales.items():
        scale.fit(torch.cat(collected[name]))


def torch_generator(rng: np.random.Generator) -> torch.Generator:
    """Return a generator of torch that is seeded from one of numpy."""
    return torch.Generator().manual_seed(int(rng.integers(2**40)))
