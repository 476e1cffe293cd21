"""How B1.b and HiFi-GAN learn: a generator against discriminators, and a spectral loss (Kong et al., equations 1 to 6).

A step updates the discriminators on what the generator makes now, then the generator. Both share one optimizer: what
has no gradient stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from voiceveil.models.nets.hifigan import HifiGan
from voiceveil.models.nets.mel import SPECTRAL_WEIGHT, mel_loss, stft_loss
from voiceveil.models.nets.nsf import HnSincNsf
from voiceveil.training.b1_tasks import fit, seeded, tensors
from voiceveil.training.discriminators import Discriminators, adversarial_loss, discriminator_loss, matching_loss
from voiceveil.training.synthesis_data import Batch, SynthesisData

__all__ = ["GanTask"]


class GanTask:
    """``network``: HiFi-GAN (spectral loss on mel spectra) or hn-sinc-NSF (on power spectra of three resolutions)."""

    def __init__(self, network: HifiGan | HnSincNsf, discriminators: Discriminators, device: str = "cpu") -> None:
        self.device = device
        self.network: HifiGan | HnSincNsf = network.to(device)
        self.discriminators = discriminators.to(device)
        self.modules = nn.ModuleDict({"generator": self.network, "discriminators": self.discriminators})
        self.optimizer = torch.optim.AdamW(self.modules.parameters(), lr=1e-4, betas=(0.8, 0.99), weight_decay=0.01)

    @property
    def kind(self) -> str:
        """What the weights are of."""
        return "hn-sinc-NSF generator" if isinstance(self.network, HnSincNsf) else "HiFi-GAN generator"

    def prepare(self, data: SynthesisData) -> None:
        """Means and deviations of the inputs."""
        net = self.network
        fit({"content": net.content_scale, "speaker": net.speaker_scale, "f0": net.f0_scale}, data, self.device)

    def step(self, batch: Batch, rng: np.random.Generator) -> float:
        """Discriminators, then generator; the loss of the generator."""
        samples, made = self._made(batch, rng)
        self.optimizer.zero_grad()
        loss = discriminator_loss(self.discriminators(samples), self.discriminators(made.detach()))
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.discriminators.requires_grad_(False)
        with torch.no_grad():
            real = self.discriminators(samples)
        verdicts = self.discriminators(made)
        loss = (
            adversarial_loss(verdicts) + matching_loss(real, verdicts) + SPECTRAL_WEIGHT * self._spectral(made, samples)
        )
        loss.backward()  # type: ignore[no-untyped-call]
        self.discriminators.requires_grad_(True)
        self.optimizer.step()
        return float(loss.detach())

    def validate(self, batch: Batch, rng: np.random.Generator) -> float:
        """Return the spectral loss."""
        samples, made = self._made(batch, rng)
        return float(self._spectral(made, samples).detach())

    def record(self) -> dict[str, Any]:
        """Return the size."""
        return dict(self.network.size)

    def _made(self, batch: Batch, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return the recordings, and what the generator makes of their features."""
        samples, content, f0, speaker = tensors(batch, self.device)
        if isinstance(self.network, HnSincNsf):
            return samples, self.network(content, f0, speaker, generator=seeded(rng))
        return samples, self.network(content, f0, speaker)

    def _spectral(self, made: Tensor, samples: Tensor) -> Tensor:
        return stft_loss(made, samples, power=1) if isinstance(self.network, HnSincNsf) else mel_loss(made, samples)
