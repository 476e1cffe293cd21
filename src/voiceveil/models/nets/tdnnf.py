"""The factorised TDNN that gives B1 its content: 256 bottleneck features a frame (Povey et al., Interspeech 2018).

Conventions: B utterances, T frames of 10 ms; ``features`` (B, T, 40), MFCC of high resolution; ``utterance`` (B, 100),
a vector of the whole utterance: Kaldi's recipe has i-vectors, here any will do. Natural logarithms of probabilities.

=============== ==========================================================================================
input           frames t-1, t, t+1 and the utterance vector, 220 (Kaldi's LDA is left out: inputs are standardized)
first layer     1536
16 TDNN-F       1536, factorised through 160, with 0.66 of the input added: 3 see t-1 to t+1, one sees t, 12 see
                t-3 to t+3; with the first layer, the "17 layers" of the challenge
``prefinal-l``  256, linear: the bottleneck features
two heads       256 to 1536 to 256 to the outputs, each
=============== ==========================================================================================

The first factor of each TDNN-F layer and ``prefinal-l`` are kept semi-orthogonal: call :meth:`Tdnnf.constrain` after
every fourth update, as Kaldi does. A layer is affine, ReLU, batch normalization without scale and offset. In training
and recognition every third frame has an output; features are extracted for each frame, from the same weights.

The criteria are CTC, and cross-entropy on the alignments that CTC's own outputs give. Kaldi's LF-MMI is not offered:
it needs a phone language model and a denominator graph. So the outputs are characters or phones, not the 6,032
triphones of the challenge. The edges of an utterance go on as they are, as in Kaldi; there is no dropout.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.standardize import Standardize
from voiceveil.models.nets.xvector import NORM_EPSILON

__all__ = ["SUBSAMPLING", "Tdnnf", "orthogonality", "semi_orthogonal_step"]

SUBSAMPLING = 3
_BYPASS = 0.66


class _Factorised(nn.Module):
    """(B, dim, T) to (B, dim, T - 2 stride): frames t-s and t through the bottleneck, then those of t and t+s."""

    def __init__(self, dim: int, bottleneck: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        kernel = 2 if stride else 1
        self.linear = nn.Conv1d(dim, bottleneck, kernel, bias=False)
        self.affine = nn.Conv1d(bottleneck, dim, kernel)
        self.norm = nn.BatchNorm1d(dim, eps=NORM_EPSILON, affine=False)

    def forward(self, x: Tensor, step: int) -> Tensor:
        """``step``: frames from one of ``x`` to the next."""
        gap = self.stride // step
        narrow = functional.conv1d(x, self.linear.weight, dilation=max(gap, 1))
        wide = functional.conv1d(narrow, self.affine.weight, self.affine.bias, dilation=max(gap, 1))
        return cast(Tensor, self.norm(torch.relu(wide)) + _BYPASS * x[:, :, gap : x.shape[2] - gap])


class _Head(nn.Module):
    """(B, T, bottleneck) to (B, T, outputs), logarithms of probabilities."""

    def __init__(self, bottleneck: int, dim: int, outputs: int) -> None:
        super().__init__()
        self.affine, self.linear = nn.Linear(bottleneck, dim), nn.Linear(dim, bottleneck, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm1d(n, eps=NORM_EPSILON, affine=False) for n in (dim, bottleneck))
        self.output = nn.Linear(bottleneck, outputs)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.norms[0](torch.relu(self.affine(x)).transpose(1, 2)).transpose(1, 2)
        narrow = self.norms[1](self.linear(wide).transpose(1, 2)).transpose(1, 2)
        return torch.log_softmax(self.output(narrow), dim=2)


class Tdnnf(nn.Module):
    """``forward(features, utterance)`` to the logarithms of both heads; ``bottleneck(features, utterance)``.

    ``outputs`` counts the blank, which is output 0. ``size`` holds the arguments that make the same network again.
    """

    def __init__(
        self,
        outputs: int,
        features: int = 40,
        utterance: int = 100,
        dim: int = 1536,
        factor: int = 160,
        bottleneck: int = 256,
        strides: tuple[int, ...] = (1, 1, 1, 0, *(12 * (3,))),
    ) -> None:
        super().__init__()
        if sorted(strides, key=(1, 0, 3).index) != list(strides):
            raise ValueError(f"strides {strides}: first those of 1, then 0, then 3")
        self.size = {
            "outputs": outputs, "features": features, "utterance": utterance, "dim": dim, "factor": factor,
            "bottleneck": bottleneck, "strides": list(strides),
        }  # fmt: skip
        self.feature_scale, self.utterance_scale = Standardize(features), Standardize(utterance)
        self.first = nn.Conv1d(3 * features + utterance, dim, 1)
        self.first_norm = nn.BatchNorm1d(dim, eps=NORM_EPSILON, affine=False)
        self.layers = nn.ModuleList(_Factorised(dim, factor, stride) for stride in strides)
        self.prefinal = nn.Linear(dim, bottleneck, bias=False)
        self.ctc, self.ce = _Head(bottleneck, dim, outputs), _Head(bottleneck, dim, outputs)
        #: Frames on each side that an output depends on.
        self.context = 1 + sum(strides)

    @classmethod
    def small(cls, outputs: int, utterance: int = 192) -> Tdnnf:
        """Return a network that one core runs at ten times real time and more, extraction of every frame included."""
        return cls(outputs, 40, utterance, dim=256, factor=64, strides=(1, 1, 0, *(6 * (3,))))

    def forward(self, features: Tensor, utterance: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the probabilities (B, ceil(T / 3), outputs), of the CTC and of the cross-entropy head."""
        hidden = self.bottleneck(features, utterance, subsampling=SUBSAMPLING)
        return self.ctc(hidden), self.ce(hidden)

    def bottleneck(self, features: Tensor, utterance: Tensor, *, subsampling: int = 1) -> Tensor:
        """Bottleneck features (B, T, 256), or (B, ceil(T / 3), 256) with a ``subsampling`` of 3."""
        x = self.feature_scale(features).transpose(1, 2)
        x = functional.pad(x, (self.context, self.context), mode="replicate")
        spliced = torch.cat([x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:]], dim=1)
        voice = self.utterance_scale(utterance).unsqueeze(2).expand(-1, -1, spliced.shape[2])
        x = self.first_norm(torch.relu(self.first(torch.cat([spliced, voice], dim=1))))
        step = 1
        for layer in self.layers:
            if cast(_Factorised, layer).stride == 3 and step < subsampling:
                x, step = x[:, :, ::subsampling], subsampling  # the frames that the outputs' frames depend on
            x = layer(x, step)
        return cast(Tensor, self.prefinal(x[:, :, :: subsampling // step].transpose(1, 2)))

    @torch.no_grad()
    def constrain(self) -> None:
        """One step of every constrained matrix towards a semi-orthogonal one."""
        for layer in self.layers:
            weight = cast(_Factorised, layer).linear.weight
            weight.copy_(semi_orthogonal_step(weight.flatten(1)).view_as(weight))
        self.prefinal.weight.copy_(semi_orthogonal_step(self.prefinal.weight))


def orthogonality(weight: Tensor) -> float:
    """How far a matrix (rows <= columns) is from a multiple of a semi-orthogonal one: 1 if it is one, else more."""
    product = (weight @ weight.T).detach()
    return float(len(product) * product.square().sum() / product.trace().square())


def semi_orthogonal_step(weight: Tensor) -> Tensor:
    """A step towards ``M M^T = a^2 I`` with floating a (Povey et al., section 2.3); slower when far away, as Kaldi's.

    ``M - (4 nu / a^2) (M M^T - a^2 I) M`` with nu = 1/8 and ``a^2 = tr(P P^T) / tr(P)``, P = M M^T.
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
