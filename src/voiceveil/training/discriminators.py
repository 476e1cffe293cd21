"""The discriminators of HiFi-GAN and the losses of the game (Kong, Kim and Bae, NeurIPS 2020), for B1.b too.

Conventions: waveforms (B, N). A discriminator gives its verdict on parts of the waveform (1: real, 0: made) and the
outputs of its layers, which generated speech is asked to match.

* five that look at every 2nd, 3rd, 5th, 7th, 11th sample (:class:`PeriodDiscriminator`)
* three that look at the waveform and at its means over 2 and 4 samples (:class:`ScaleDiscriminator`)

``width`` 1 is the published size, less makes them narrower.
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
    "Discriminators",
    "PeriodDiscriminator",
    "ScaleDiscriminator",
    "Verdict",
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
class Verdict:
    """What a discriminator says (B, parts), and the outputs of its layers."""

    parts: Tensor
    layers: tuple[Tensor, ...]


def _judged(x: Tensor, layers: nn.ModuleList, last: nn.Module) -> Verdict:
    seen = []
    for layer in layers:
        x = functional.leaky_relu(layer(x), _SLOPE)
        seen.append(x)
    x = last(x)
    return Verdict(x.flatten(1), (*seen, x))


class PeriodDiscriminator(nn.Module):
    """Looks at samples a period apart, as columns of a picture (B, 1, N / period, period)."""

    def __init__(self, period: int, width: float = 1.0) -> None:
        super().__init__()
        self.period = period
        channels = [1, *(max(1, round(width * c)) for c in (32, 128, 512, 1024, 1024))]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, (5, 1), (3 if i < 4 else 1, 1), padding=(2, 0)))
            for i, (a, b) in enumerate(pairwise(channels))
        )
        self.last = weight_norm(nn.Conv2d(channels[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, samples: Tensor) -> Verdict:
        """Return its verdict."""
        padded = functional.pad(samples.unsqueeze(1), (0, -samples.shape[1] % self.period), mode="reflect")
        return _judged(padded.reshape(len(samples), 1, -1, self.period), self.layers, self.last)


class ScaleDiscriminator(nn.Module):
    """Looks at the waveform, averaged over ``2**halvings`` samples; the one without averaging is spectrally normed."""

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

    def forward(self, samples: Tensor) -> Verdict:
        """Return its verdict."""
        x = samples.unsqueeze(1)
        for _ in range(self.halvings):
            x = functional.avg_pool1d(x, 4, 2, padding=2)
        return _judged(x, self.layers, self.last)


class Discriminators(nn.Module):
    """All eight: (B, N) to a list of verdicts."""

    def __init__(self, width: float = 1.0) -> None:
        super().__init__()
        self.members = nn.ModuleList(
            [*(PeriodDiscriminator(p, width) for p in PERIODS), *(ScaleDiscriminator(h, width) for h in range(3))]
        )

    def forward(self, samples: Tensor) -> list[Verdict]:
        """Their verdicts."""
        return [member(samples) for member in self.members]


def discriminator_loss(real: Sequence[Verdict], made: Sequence[Verdict]) -> Tensor:
    """Least squares: real speech is 1, generated speech 0 (Kong et al., equation 1)."""
    return torch.stack(
        [(1 - r.parts).square().mean() + m.parts.square().mean() for r, m in zip(real, made, strict=True)]
    ).sum()


def adversarial_loss(made: Sequence[Verdict]) -> Tensor:
    """Generated speech is to be taken for real (equation 2)."""
    return torch.stack([(1 - m.parts).square().mean() for m in made]).sum()


def matching_loss(real: Sequence[Verdict], made: Sequence[Verdict]) -> Tensor:
    """Mean absolute difference of the outputs of all layers, added, times 2 (equations 3 and 5)."""
    differences = [
        (r - m).abs().mean() for a, b in zip(real, made, strict=True) for r, m in zip(a.layers, b.layers, strict=True)
    ]
    return 2.0 * torch.stack(differences).sum()
