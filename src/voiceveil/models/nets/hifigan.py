"""The generator of HiFi-GAN (Kong, Kim and Bae, NeurIPS 2020) for content, F0 and speaker: joint_hifigan.

Conventions: B recordings, T frames of 10 ms, 16 kHz. ``content`` (B, T, D), ``f0`` (B, T) in Hz with 0 = unvoiced,
``speaker`` (B, E), waveform (B, 160 T). There is no chance in it: the same input gives the same output.

========== ========================================= ==============================================================
            V1 at 22.05 kHz (Kong et al., table 5)    here, as joint_hifigan of VoicePrivacy 2022
========== ========================================= ==============================================================
inputs      80 mel                                    256 + 512 + 1, standardized
rates       8, 8, 2, 2 (256 samples a frame)          8, 5, 2, 2 (160 samples a frame)
kernels     16, 16, 4, 4                              16, 9, 4, 4
channels    512, halved at each rate                  512, halved at each rate
blocks      kernels 3, 7, 11, dilations 1, 3, 5       the same
========== ========================================= ==============================================================

The discriminators and the losses are in :mod:`voiceveil.training.discriminators`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

from voiceveil.models.nets.nsf_source import FRAME
from voiceveil.models.nets.standardize import Standardize

__all__ = ["HifiGan"]

_SLOPE = 0.1


def _normed(layer: nn.Module) -> nn.Module:
    """With weights as length times direction; the direction begins small, as the authors' does."""
    nn.init.normal_(layer.weight, std=0.01)  # type: ignore[arg-type]
    return cast(nn.Module, weight_norm(layer))


class _Residual(nn.Module):
    """Pairs of convolutions (B, C, N), the first of each dilated, with a sum around each pair."""

    def __init__(self, channels: int, kernel: int, dilations: Sequence[int]) -> None:
        super().__init__()
        half = (kernel - 1) // 2
        self.dilated = nn.ModuleList(
            _normed(nn.Conv1d(channels, channels, kernel, dilation=d, padding=half * d)) for d in dilations
        )
        self.plain = nn.ModuleList(_normed(nn.Conv1d(channels, channels, kernel, padding=half)) for _ in dilations)

    def forward(self, x: Tensor) -> Tensor:
        for dilated, plain in zip(self.dilated, self.plain, strict=True):
            inner = dilated(functional.leaky_relu(x, _SLOPE))
            x = x + plain(functional.leaky_relu(inner, _SLOPE))
        return x


class HifiGan(nn.Module):
    """``forward(content, f0, speaker)`` to the waveform. ``size`` holds the arguments that make the same network."""

    def __init__(
        self,
        content: int = 256,
        speaker: int = 512,
        channels: int = 512,
        rates: Sequence[int] = (8, 5, 2, 2),
        kernels: Sequence[int] = (16, 9, 4, 4),
        block_kernels: Sequence[int] = (3, 7, 11),
        dilations: Sequence[int] = (1, 3, 5),
    ) -> None:
        super().__init__()
        if prod(rates) != FRAME or any((k - r) % 2 for k, r in zip(kernels, rates, strict=True)):
            raise ValueError(f"rates {rates} must multiply to {FRAME}, and differ from {kernels} by even numbers")
        self.size = {
            "content": content, "speaker": speaker, "channels": channels, "rates": list(rates),
            "kernels": list(kernels), "block_kernels": list(block_kernels), "dilations": list(dilations),
        }  # fmt: skip
        self.content_scale, self.speaker_scale = Standardize(content), Standardize(speaker)
        self.f0_scale = Standardize(1)
        self.before = weight_norm(nn.Conv1d(content + speaker + 1, channels, 7, padding=3))
        self.upsample, self.blocks = nn.ModuleList(), nn.ModuleList()
        for rate, kernel in zip(rates, kernels, strict=True):
            layer = nn.ConvTranspose1d(channels, channels // 2, kernel, rate, padding=(kernel - rate) // 2)
            self.upsample.append(_normed(layer))
            channels //= 2
            self.blocks.append(nn.ModuleList(_Residual(channels, k, dilations) for k in block_kernels))
        self.after = _normed(nn.Conv1d(channels, 1, 7, padding=3))

    @classmethod
    def small(cls, content: int = 288, speaker: int = 192) -> HifiGan:
        """Return a network that one core runs at ten times real time and more."""
        return cls(content, speaker, channels=96, block_kernels=(3, 7), dilations=(1, 3))

    def forward(self, content: Tensor, f0: Tensor, speaker: Tensor) -> Tensor:
        """Return the waveform (B, 160 T), in [-1, 1]."""
        voice = self.speaker_scale(speaker).unsqueeze(1).expand(-1, content.shape[1], -1)
        inputs = torch.cat([self.content_scale(content), voice, self.f0_scale(f0.unsqueeze(2))], dim=2)
        x = self.before(inputs.transpose(1, 2))
        for upsample, blocks in zip(self.upsample, self.blocks, strict=True):
            x = upsample(functional.leaky_relu(x, _SLOPE))
            x = torch.stack([block(x) for block in cast(nn.ModuleList, blocks)]).mean(dim=0)
        return torch.tanh(self.after(functional.leaky_relu(x))).squeeze(1)

    def fuse(self) -> HifiGan:
        """Length times direction multiplied out, for synthesis: the same output, sooner. Not to be trained after."""
        for layer in self.modules():
            if parametrize.is_parametrized(layer):
                parametrize.remove_parametrizations(layer, "weight")
        return self
