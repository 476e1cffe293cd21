"""Training of B1.b and HiFi-GAN: a generator against discriminators, with the losses of HiFi-GAN.

The losses are those of Kong, Kim and Bae (2020, equations 1 to 6) for both generators: least squares for the
adversarial part, twice the mean absolute difference of the discriminators' layers, and 45 times that of log mel
spectra. A step updates the discriminators on the present output of the generator, then the generator. Both share one
optimizer, which leaves parameters without a gradient as they are.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from voiceveil.models.nets.hifigan import HifiGan
from voiceveil.models.nets.mel import MEL_WEIGHT, mel_loss
from voiceveil.models.nets.nsf import HnSincNsf
from voiceveil.training.discriminators import Discriminators, adversarial_loss, discriminator_loss, matching_loss
from voiceveil.training.single_loss_task import batch_tensors, fit_scales, torch_generator
from voiceveil.training.synthesis_data import SynthesisBatch, SynthesisData

__all__ = ["GanTask"]


class GanTask:
    """A generator and its discriminators.

    Parameters
    ----------
    network
        HiFi-GAN or hn-sinc-NSF.
    discriminators
        Discriminators of HiFi-GAN.
    device
        Device of torch.
    """

    def __init__(self, network: HifiGan | HnSincNsf, discriminators: Discriminators, device: str = "cpu") -> None:
        self.device = device
        self.network: HifiGan | HnSincNsf = network.to(device)
        self.discriminators = discriminators.to(device)
        self.modules = nn.ModuleDict({"generator": self.network, "discriminators": self.discriminators})
        self.optimizer = torch.optim.AdamW(self.modules.parameters(), lr=1e-4, betas=(0.8, 0.99), weight_decay=0.01)

    @property
    def kind(self) -> str:
        """Kind of the weights."""
        return "hn-sinc-NSF generator" if isinstance(self.network, HnSincNsf) else "HiFi-GAN generator"

    def prepare(self, data: SynthesisData) -> None:
        """Fit the standardization of the inputs."""
        net = self.network
        fit_scales({"content": net.content_scale, "speaker": net.speaker_scale, "f0": net.f0_scale}, data, self.device)

    def step(self, batch: SynthesisBatch, rng: np.random.Generator) -> float:
        """Update the discriminators, then the generator; return the generator's loss."""
        samples, generated = self._generate(batch, rng)
        self.optimizer.zero_grad()
        loss = discriminator_loss(self.discriminators(samples), self.discriminators(generated.detach()))
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.discriminators.requires_grad_(False)
        loss = self.generator_loss(samples, generated)
        loss.backward()  # type: ignore[no-untyped-call]
        self.discriminators.requires_grad_(True)
        self.optimizer.step()
        return float(loss.detach())

    def generator_loss(self, samples: Tensor, generated: Tensor) -> Tensor:
        """Return the loss of the generator (equation 6) for recorded and generated waveforms (B, N)."""
        with torch.no_grad():
            real = self.discriminators(samples)
        outputs = self.discriminators(generated)
        loss = adversarial_loss(outputs) + matching_loss(real, outputs)
        return loss + MEL_WEIGHT * mel_loss(generated, samples)

    def validate(self, batch: SynthesisBatch, rng: np.random.Generator) -> float:
        """Return the mean absolute difference of log mel spectra."""
        samples, generated = self._generate(batch, rng)
        return float(mel_loss(generated, samples).detach())

    def record(self) -> dict[str, Any]:
        """Return the size of the generator."""
        return asdict(self.network.size)

    def _generate(self, batch: SynthesisBatch, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return the recorded and the generated waveforms (B, N)."""
        samples, content, f0, speaker = batch_tensors(batch, self.device)
        if isinstance(self.network, HnSincNsf):
            return samples, self.network(content, f0, speaker, generator=torch_generator(rng))
        return samples, self.network(content, f0, speaker)
