"""The generator of HiFi-GAN (Kong, Kim and Bae, NeurIPS 2020) for content, F0 and speaker: joint_hifigan.

Conventions: B recordings, T frames of 10 ms, 16 kHz. ``content`` (B, T, D), ``f0`` (B, T) in Hz with 0 = unvoiced,
``speaker`` (B, E), waveform (B, 160 T). The generator is deterministic.

========== ========================================= ==============================================================
            V1 at 22.05 kHz (Kong et al., table 5)    here, as joint_hifigan of VoicePrivacy 2022
========== ========================================= ==============================================================
inputs      80 mel                                    256 + 512 + 1, standardized
rates       8, 8, 2, 2 (256 samples per frame)        8, 5, 2, 2 (160 samples per frame)
kernels     16, 16, 4, 4                              16, 9, 4, 4
channels    512, halved at each rate                  512, halved at each rate
blocks      kernels 3, 7, 11, dilations 1, 3, 5       as V1
========== ========================================= ==============================================================

The discriminators and the losses are in :mod:`voiceveil.training.discriminators`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

from voiceveil.models.nets.nsf_source import FRAME
from voiceveil.models.nets.standardize import Standardize

__all__ = ["HifiGan", "HifiGanSize"]

_SLOPE = 0.1


def _weight_normed(layer: nn.Module) -> nn.Module:
    """Return the layer with weight normalization and small initial weights, as in the authors' code."""
    nn.init.normal_(layer.weight, std=0.01)  # type: ignore[arg-type]
    return cast(nn.Module, weight_norm(layer))


class _Residual(nn.Module):
    """Pairs of convolutions (B, C, N), the first of each dilated, with a skip connection around each pair."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        half = (kernel - 1) // 2
        self.dilated = nn.ModuleList(
            _weight_normed(nn.Conv1d(channels, channels, kernel, dilation=d, padding=half * d)) for d in dilations
        )
        self.plain = nn.ModuleList(
            _weight_normed(nn.Conv1d(channels, channels, kernel, padding=half)) for _ in dilations
        )

    def forward(self, x: Tensor) -> Tensor:
        for dilated, plain in zip(self.dilated, self.plain, strict=True):
            inner = dilated(functional.leaky_relu(x, _SLOPE))
            x = x + plain(functional.leaky_relu(inner, _SLOPE))
        return x


@dataclass(frozen=True)
class HifiGanSize:
    """Dimensions of the inputs and of the network; the defaults are those of joint_hifigan."""

    content: int = 256
    speaker: int = 512
    channels: int = 512  # before the first upsampling
    rates: Sequence[int] = (8, 5, 2, 2)  # factors of upsampling
    kernels: Sequence[int] = (16, 9, 4, 4)  # of the transposed convolutions
    block_kernels: Sequence[int] = (3, 7, 11)
    dilations: Sequence[int] = (1, 3, 5)

    def __post_init__(self) -> None:
        if prod(self.rates) != FRAME or any((k - r) % 2 for k, r in zip(self.kernels, self.rates, strict=True)):
            raise ValueError(
                f"the product of rates {self.rates} must be {FRAME}, and kernels {self.kernels} must differ from them "
                "by even numbers"
            )

    @classmethod
    def small(cls, content: int = 288, speaker: int = 192) -> HifiGanSize:
        """Return the size of a network that one core runs at ten times real time or faster."""
        return cls(content, speaker, channels=96, block_kernels=(3, 7), dilations=(1, 3))


class HifiGan(nn.Module):
    """The generator: ``forward(content, f0, speaker)`` returns the waveform."""

    def __init__(self, size: HifiGanSize) -> None:
        super().__init__()
        self.size = size
        self.content_scale, self.speaker_scale = Standardize(size.content), Standardize(size.speaker)
        self.f0_scale = Standardize(1)
        channels = size.channels
        self.before = weight_norm(nn.Conv1d(size.content + size.speaker + 1, channels, 7, padding=3))
        self.upsample, self.blocks = nn.ModuleList(), nn.ModuleList()
        for rate, kernel in zip(size.rates, size.kernels, strict=True):
            layer = nn.ConvTranspose1d(channels, channels // 2, kernel, rate, padding=(kernel - rate) // 2)
            self.upsample.append(_weight_normed(layer))
            channels //= 2
            self.blocks.append(nn.ModuleList(_Residual(channels, k, size.dilations) for k in size.block_kernels))
        self.after = _weight_normed(nn.Conv1d(channels, 1, 7, padding=3))

    def forward(self, content: Tensor, f0: Tensor, speaker: Tensor) -> Tensor:
        """Return the waveform (B, 160 T), in [-1, 1]."""
        embedding = self.speaker_scale(speaker).unsqueeze(1).expand(-1, content.shape[1], -1)
        inputs = torch.cat([self.content_scale(content), embedding, self.f0_scale(f0.unsqueeze(2))], dim=2)
        x = self.before(inputs.transpose(1, 2))
        for upsample, blocks in zip(self.upsample, self.blocks, strict=True):
            x = upsample(functional.leaky_relu(x, _SLOPE))
            x = torch.stack([block(x) for block in cast(nn.ModuleList, blocks)]).mean(dim=0)
        return torch.tanh(self.after(functional.leaky_relu(x))).squeeze(1)

    def fuse(self) -> HifiGan:
        """Remove the weight normalization and return itself: faster, with equal output, but no longer trainable."""
        for layer in self.modules():
            if parametrize.is_parametrized(layer):
                parametrize.remove_parametrizations(layer, "weight")
        return self
