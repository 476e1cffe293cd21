"""How the synthesizers of B1.a learn: the acoustic model, and the vocoder NSF on true mel spectra.

The recipe of B1.b, with discriminators, is in :mod:`voiceveil.training.gan_task`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from voiceveil.models.nets.acoustic_model import AcousticModel
from voiceveil.models.nets.mel import log_mel, stft_loss
from voiceveil.models.nets.nsf import HnSincNsf
from voiceveil.models.nets.standardize import Standardize
from voiceveil.training.synthesis_data import Batch, SynthesisData

__all__ = ["AcousticModelTask", "Descent", "VocoderTask", "fit", "seeded", "tensors"]

_STATISTICS_STEPS = 30


def tensors(batch: Batch, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Samples, content, F0, speaker."""
    samples, content, f0, speaker = (torch.from_numpy(x).to(device) for x in batch)
    return samples, content, f0, speaker


def fit(scales: Mapping[str, Standardize], data: SynthesisData, device: str) -> None:
    """Take mean and deviation of ``content``, ``speaker``, ``f0`` or ``mel`` from some crops of the training data."""
    seen: dict[str, list[Tensor]] = {name: [] for name in scales}
    for step in range(_STATISTICS_STEPS):
        samples, content, f0, speaker = tensors(data.batch(step, 16), device)
        values = {"content": content, "speaker": speaker, "f0": f0.unsqueeze(2), "mel": log_mel(samples)}
        for name in scales:
            seen[name].append(values[name].flatten(end_dim=-2))
    for name, scale in scales.items():
        scale.fit(torch.cat(seen[name]))


def seeded(rng: np.random.Generator) -> torch.Generator:
    """Torch's generator from numpy's."""
    return torch.Generator().manual_seed(int(rng.integers(2**40)))


class Descent:
    """A network, one loss, AdamW."""

    kind: str
    network: nn.Module

    def __init__(self, network: nn.Module, device: str) -> None:
        self.device = device
        self.network = network.to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.01)

    @property
    def modules(self) -> nn.Module:
        """All that learns."""
        return self.network

    def step(self, batch: Batch, rng: np.random.Generator) -> float:
        """Return one step of AdamW."""
        self.optimizer.zero_grad()
        loss = self.loss(batch, rng)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def validate(self, batch: Batch, rng: np.random.Generator) -> float:
        """The same loss."""
        return float(self.loss(batch, rng).detach())

    def loss(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        """What is made smaller."""
        raise NotImplementedError


class AcousticModelTask(Descent):
    """Mean square error of mel spectra, with the true frames as feedback."""

    kind = "acoustic model"
    network: AcousticModel

    def __init__(self, network: AcousticModel, device: str = "cpu") -> None:
        super().__init__(network, device)

    def prepare(self, data: SynthesisData) -> None:
        """Means and deviations of inputs and of the mel spectra."""
        net = self.network
        scales = {"content": net.content_scale, "speaker": net.speaker_scale, "f0": net.f0_scale, "mel": net.mel_scale}
        fit(scales, data, self.device)

    def loss(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        """Of the crops; the gates' noise and the dropout follow from ``rng``."""
        samples, content, f0, speaker = tensors(batch, self.device)
        torch.manual_seed(int(rng.integers(2**40)))
        return self.network.loss(content, f0, speaker, log_mel(samples))

    def record(self) -> dict[str, Any]:
        """Return the size."""
        return dict(self.network.size)


class VocoderTask(Descent):
    """Logarithmic power spectra of what NSF makes of the recording's own mel spectra, at three resolutions."""

    kind = "mel vocoder"
    network: HnSincNsf

    def __init__(self, network: HnSincNsf, device: str = "cpu") -> None:
        super().__init__(network, device)

    def prepare(self, data: SynthesisData) -> None:
        """Means and deviations of the inputs, of which the content is mel."""
        net = self.network
        fit({"mel": net.content_scale, "speaker": net.speaker_scale, "f0": net.f0_scale}, data, self.device)

    def loss(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        """Of the crops; phases and noise follow from ``rng``."""
        samples, _, f0, speaker = tensors(batch, self.device)
        return stft_loss(self.network(log_mel(samples), f0, speaker, generator=seeded(rng)), samples)

    def record(self) -> dict[str, Any]:
        """Return the size."""
        return dict(self.network.size)
