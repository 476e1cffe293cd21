"""The discriminators of HiFi-GAN and the adversarial losses (Kong, Kim and Bae, NeurIPS 2020), also used for B1.b.

Conventions: waveforms (B, N). A discriminator returns scores of parts of the waveform (1: real, 0: generated) and the
outputs of its layers, which generated speech is to match.

* five see every 2nd, 3rd, 5th, 7th, 11th sample (:class:`PeriodDiscriminator`)
* three see the waveform and its means over 2 and 4 samples (:class:`ScaleDiscriminator`)

``width`` 1 is the published size; smaller values make the layers narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

__all__ = [
    "DiscriminatorOutput",
    "Discriminators",
    "PeriodDiscriminator",
    "ScaleDiscriminator",
    "adversarial_loss",
    "discriminator_loss",
    "matching_loss",
]

_SLOPE = 0.1
PERIODS = (2, 3, 5, 7, 11)
#: Channels, kernel, stride, groups of the layers of a scale discriminator.
_SCALE_LAYERS = (
    (128, 15, 1, 1), (128, 41, 2, 4), (256, 41, 2, 16), (512, 41, 4, 16), (1024, 41, 4, 16), (1024, 41, 1, 16),
    (1024, 5, 1, 1),
)  # fmt: skip


@dataclass(frozen=True)
class DiscriminatorOutput:
    """Scores of parts of the waveform (B, parts), and the outputs of the layers."""

    scores: Tensor
    layers: tuple[Tensor, ...]


def _apply_layers(x: Tensor, layers: nn.ModuleList, last: nn.Module) -> DiscriminatorOutput:
    outputs = []
    for layer in layers:
        x = functional.leaky_relu(layer(x), _SLOPE)
        outputs.append(x)
    x = last(x)
    return DiscriminatorOutput(x.flatten(1), (*outputs, x))


class PeriodDiscriminator(nn.Module):
    """See the samples folded by a period, as an image (B, 1, N / period, period)."""

    def __init__(self, period: int, width: float = 1.0) -> None:
        super().__init__()
        self.period = period
        channels = [1, *(max(1, round(width * c)) for c in (32, 128, 512, 1024, 1024))]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, (5, 1), (3 if i < 4 else 1, 1), padding=(2, 0)))
            for i, (a, b) in enumerate(pairwise(channels))
        )
        self.last = weight_norm(nn.Conv2d(channels[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, samples: Tensor) -> DiscriminatorOutput:
        """Return the scores and the outputs of the layers."""
        padded = functional.pad(samples.unsqueeze(1), (0, -samples.shape[1] % self.period), mode="reflect")
        return _apply_layers(padded.reshape(len(samples), 1, -1, self.period), self.layers, self.last)


class ScaleDiscriminator(nn.Module):
    """See the waveform averaged over ``2**halvings`` samples; spectrally normalized weights without averaging."""

    def __init__(self, halvings: int, width: float = 1.0) -> None:
        super().__init__()
        self.halvings = halvings
        norm: Callable[[nn.Module], nn.Module] = weight_norm if halvings else spectral_norm
        self.layers = nn.ModuleList()
        before = 1
        for channels, kernel, stride, groups in _SCALE_LAYERS:
            after = max(16, round(width * channels / 16) * 16)  # whole groups
            self.layers.append(norm(nn.Conv1d(before, after, kernel, stride, (kernel - 1) // 2, groups=groups)))
            before = after
        self.last = norm(nn.Conv1d(before, 1, 3, padding=1))

    def forward(self, samples: Tensor) -> DiscriminatorOutput:
        """Return the scores and the outputs of the layers."""
        x = samples.unsqueeze(1)
        for _ in range(self.halvings):
            x = functional.avg_pool1d(x, 4, 2, padding=2)
        return _apply_layers(x, self.layers, self.last)


class Discriminators(nn.Module):
    """All eight discriminators."""

    def __init__(self, width: float = 1.0) -> None:
        super().__init__()
        self.members = nn.ModuleList(
            [*(PeriodDiscriminator(p, width) for p in PERIODS), *(ScaleDiscriminator(h, width) for h in range(3))]
        )

    def forward(self, samples: Tensor) -> list[DiscriminatorOutput]:
        """Return the output of each discriminator for waveforms (B, N)."""
        return [member(samples) for member in self.members]


def discriminator_loss(real: Sequence[DiscriminatorOutput], generated: Sequence[DiscriminatorOutput]) -> Tensor:
    """Return the least-squares loss of the discriminators: real speech is 1, generated speech 0 (equation 1)."""
    return torch.stack(
        [(1 - r.scores).square().mean() + m.scores.square().mean() for r, m in zip(real, generated, strict=True)]
    ).sum()


def adversarial_loss(generated: Sequence[DiscriminatorOutput]) -> Tensor:
    """Return the least-squares loss of the generator: its speech is to score 1 (equation 2)."""
    return torch.stack([(1 - m.scores).square().mean() for m in generated]).sum()


def matching_loss(real: Sequence[DiscriminatorOutput], generated: Sequence[DiscriminatorOutput]) -> Tensor:
    """Return twice the sum over all layers of the mean absolute difference of their outputs (equations 3 and 5)."""
    differences = [
        (r - m).abs().mean()
        for a, b in zip(real, generated, strict=True)
        for r, m in zip(a.layers, b.layers, strict=True)
    ]
    return 2.0 * torch.stack(differences).sum()
