"""The factorized TDNN for the content of B1: 256 bottleneck features per frame (Povey et al., Interspeech 2018).

Conventions: B utterances, T frames of 10 ms; ``features`` (B, T, 40), MFCC of high resolution; ``utterance`` (B, 100),
a vector of the whole utterance: an i-vector in Kaldi's recipe, here of any kind. Natural logarithms of probabilities.

=============== ==========================================================================================
input           frames t-1, t, t+1 and the utterance vector, 220 (Kaldi's LDA is left out: inputs are standardized)
first layer     1536
16 TDNN-F       1536, factorized through 160, with 0.66 of the input added: 3 see t-1 to t+1, one sees t, 12 see
                t-3 to t+3; with the first layer, the "17 layers" of the challenge
``prefinal-l``  256, linear: the bottleneck features
two heads       256 to 1536 to 256 to the outputs, each
=============== ==========================================================================================

The first factor of each TDNN-F layer and ``prefinal-l`` are kept semi-orthogonal: call :meth:`Tdnnf.constrain` after
every fourth update, as Kaldi does. A layer is affine, ReLU, batch normalization without scale and offset. In training
and recognition every third frame has an output; features are extracted for every frame, with the same weights.

The criteria are CTC, and cross-entropy on alignments from the outputs of CTC. Kaldi's LF-MMI is not implemented: it
needs a phone language model and a denominator graph. Therefore the outputs are characters or phones, not the 6,032
triphones of the challenge. As in Kaldi, the first and last frame are repeated beyond the edges; there is no dropout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.standardize import Standardize
from voiceveil.models.nets.xvector import NORM_EPSILON

__all__ = ["SUBSAMPLING", "Tdnnf", "TdnnfSize", "orthogonality", "semi_orthogonal_step"]

SUBSAMPLING = 3
_BYPASS = 0.66


class _Factorized(nn.Module):
    """A TDNN-F layer, (B, dim, T) to (B, dim, T - 2 stride).

    The first factor joins frames t - stride and t, the second its outputs at t and t + stride.
    """

    def __init__(self, dim: int, bottleneck: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        kernel = 2 if stride else 1
        self.linear = nn.Conv1d(dim, bottleneck, kernel, bias=False)
        self.affine = nn.Conv1d(bottleneck, dim, kernel)
        self.norm = nn.BatchNorm1d(dim, eps=NORM_EPSILON, affine=False)

    def forward(self, x: Tensor, step: int) -> Tensor:
        """Return the output for ``x``, whose frames are ``step`` frames of the recording apart."""
        gap = self.stride // step
        narrow = functional.conv1d(x, self.linear.weight, dilation=max(gap, 1))
        wide = functional.conv1d(narrow, self.affine.weight, self.affine.bias, dilation=max(gap, 1))
        return cast(Tensor, self.norm(torch.relu(wide)) + _BYPASS * x[:, :, gap : x.shape[2] - gap])


class _Head(nn.Module):
    """An output head: (B, T, bottleneck) to log probabilities (B, T, outputs)."""

    def __init__(self, bottleneck: int, dim: int, outputs: int) -> None:
        super().__init__()
        self.affine, self.linear = nn.Linear(bottleneck, dim), nn.Linear(dim, bottleneck, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm1d(n, eps=NORM_EPSILON, affine=False) for n in (dim, bottleneck))
        self.output = nn.Linear(bottleneck, outputs)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.norms[0](torch.relu(self.affine(x)).transpose(1, 2)).transpose(1, 2)
        narrow = self.norms[1](self.linear(wide).transpose(1, 2)).transpose(1, 2)
        return torch.log_softmax(self.output(narrow), dim=2)


@dataclass(frozen=True)
class TdnnfSize:
    """Dimensions of the inputs, the outputs and the network; the defaults are those of the challenge."""

    outputs: int  # tokens, the blank included, which is output 0
    features: int = 40
    utterance: int = 100  # of the utterance vector
    dim: int = 1536  # of a layer
    factor: int = 160  # of the bottleneck inside a factorized layer
    bottleneck: int = 256
    strides: Sequence[int] = (1, 1, 1, 0, *(12 * (3,)))  # frames to each side that a layer sees

    def __post_init__(self) -> None:
        if sorted(self.strides, key=(1, 0, 3).index) != list(self.strides):
            raise ValueError(f"strides must be in the order 1, 0, 3, not {self.strides}")

    @classmethod
    def small(cls, outputs: int, utterance: int = 192) -> TdnnfSize:
        """Return the size of a network that one core runs at ten times real time or faster, at every frame."""
        return cls(outputs, 40, utterance, dim=256, factor=64, strides=(1, 1, 0, *(6 * (3,))))


class Tdnnf(nn.Module):
    """``forward(features, utterance)`` to the log probabilities of both heads; ``bottleneck(features, utterance)``."""

    def __init__(self, size: TdnnfSize) -> None:
        super().__init__()
        self.size = size
        dim = size.dim
        self.feature_scale, self.utterance_scale = Standardize(size.features), Standardize(size.utterance)
        self.first = nn.Conv1d(3 * size.features + size.utterance, dim, 1)
        self.first_norm = nn.BatchNorm1d(dim, eps=NORM_EPSILON, affine=False)
        self.layers = nn.ModuleList(_Factorized(dim, size.factor, stride) for stride in size.strides)
        self.prefinal = nn.Linear(dim, size.bottleneck, bias=False)
        self.ctc, self.ce = (_Head(size.bottleneck, dim, size.outputs) for _ in range(2))
        #: Frames on each side that an output depends on.
        self.context = 1 + sum(size.strides)

    def forward(self, features: Tensor, utterance: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log probabilities (B, ceil(T / 3), outputs) of the CTC head and of the cross-entropy head."""
        hidden = self.bottleneck(features, utterance, subsampling=SUBSAMPLING)
        return self.ctc(hidden), self.ce(hidden)

    def bottleneck(self, features: Tensor, utterance: Tensor, *, subsampling: int = 1) -> Tensor:
        """Return bottleneck features (B, T, 256), or (B, ceil(T / 3), 256) with a ``subsampling`` of 3."""
        x = self.feature_scale(features).transpose(1, 2)
        x = functional.pad(x, (self.context, self.context), mode="replicate")
        spliced = torch.cat([x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:]], dim=1)
        repeated = self.utterance_scale(utterance).unsqueeze(2).expand(-1, -1, spliced.shape[2])
        x = self.first_norm(torch.relu(self.first(torch.cat([spliced, repeated], dim=1))))
        step = 1
        for layer in self.layers:
            if cast(_Factorized, layer).stride == 3 and step < subsampling:
                x, step = x[:, :, ::subsampling], subsampling  # only these are needed from here on
            x = layer(x, step)
        return cast(Tensor, self.prefinal(x[:, :, :: subsampling // step].transpose(1, 2)))

    @torch.no_grad()
    def constrain(self) -> None:
        """Move every constrained matrix one step towards a semi-orthogonal one."""
        for layer in self.layers:
            weight = cast(_Factorized, layer).linear.weight
            weight.copy_(semi_orthogonal_step(weight.flatten(1)).view_as(weight))
        self.prefinal.weight.copy_(semi_orthogonal_step(self.prefinal.weight))


def orthogonality(weight: Tensor) -> float:
    """Return 1 for a multiple of a semi-orthogonal matrix (rows <= columns), and more the farther it is from one."""
    product = (weight @ weight.T).detach()
    return float(len(product) * product.square().sum() / product.trace().square())


def semi_orthogonal_step(weight: Tensor) -> Tensor:
    """Return the matrix M, moved one step towards ``M M^T = a^2 I`` with any a (Povey et al., section 2.3).

    The result is ``M - (4 nu / a^2) (M M^T - a^2 I) M`` with nu = 1/8 and ``a^2 = tr(P P^T) / tr(P)``, P = M M^T. As in
    Kaldi, nu is smaller when M is far from semi-orthogonal.
    """
    if weight.shape[0] > weight.shape[1]:
        return semi_orthogonal_step(weight.T).T
    product = weight @ weight.T
    scale = product.square().sum() / product.trace()
    speed, ratio = 0.125, orthogonality(weight)
    if ratio > 1.02:
        speed *= 0.5
    if ratio > 1.1:
        speed *= 0.5
    product = product - scale * torch.eye(len(product), dtype=weight.dtype, device=weight.device)
    return weight - (4.0 * speed / scale) * (product @ weight)
