"""CAM++ for fast inference on one utterance at a time, from the weights of the trainable network.

Conventions: as in :mod:`voiceveil.models.nets.campplus`. Batch normalizations are folded into convolutions, dense
blocks write into one array instead of concatenating, and the 2-D front end runs piece by piece.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceveil.models.nets.campplus import GROWTH, SEGMENT, CamPlusPlusNet, DenseLayer, Transition

__all__ = ["FastCamPlusPlus"]


class FastCamPlusPlus:
    """CAM++ for inference on one utterance; up to rounding, its results are those of :class:`CamPlusPlusNet`.

    All channels of a dense block are in one array ``(C, t)``, to which each layer writes its 32 rows, so that nothing
    is concatenated. Batch normalizations after a convolution are folded into it; those before it cannot be, because a
    ReLU is between them.
    """

    #: Frames that the front end processes together, and frames on each side that they depend on.
    _PIECE, _MARGIN = 1000, 10

    def __init__(self, net: CamPlusPlusNet) -> None:
        head, back = net.head, cast(Any, net.xvector)
        self._stem = _folded(head.conv1, head.bn1)
        self._residual = [
            (
                _folded(block.conv1, block.bn1),
                _folded(block.conv2, block.bn2),
                _folded(block.shortcut[0], block.shortcut[1]) if len(block.shortcut) else None,
            )
            for block in (*head.layer1, *head.layer2)
        ]
        self._neck = _folded(head.conv2, head.bn2)
        self._tdnn = _folded(back["tdnn"].linear, back["tdnn"].nonlinear.batchnorm)
        self._blocks = [
            ([_FastLayer(layer) for layer in back[f"block{i}"]], _FastTransition(back[f"transit{i}"]))
            for i in (1, 2, 3)
        ]
        self._last = _scale_and_shift(back["out_nonlinear"].batchnorm)
        scale, shift = _scale_and_shift(back["dense"].nonlinear.batchnorm)
        self.weight, self.bias = back["dense"].linear.weight.detach()[:, :, 0] * scale, shift[:, 0]

    def __call__(self, features: Tensor) -> Tensor:
        """Return the embedding ``(192,)`` of mean-normalized filterbank energies ``(T, 80)``."""
        return self.embed(self.statistics(features))

    def embed(self, statistics: Tensor) -> Tensor:
        """Return the embeddings ``(..., 192)`` of statistics ``(..., 1024)``: the last layer."""
        return F.linear(statistics, self.weight, self.bias)

    def statistics(self, features: Tensor) -> Tensor:
        """Return mean and standard deviation over time ``(1024,)`` of the frames before the last layer."""
        x = F.conv1d(self._front_end(features), *self._tdnn, stride=2, padding=2).relu_()[0]
        for layers, transition in self._blocks:
            inputs = x.shape[0]
            channels = x.new_empty(inputs + GROWTH * len(layers), x.shape[1])
            channels[:inputs] = x
            for layer in layers:
                layer(channels[:inputs], out=channels[inputs : inputs + GROWTH])
                inputs += GROWTH
            x = transition(channels)
        x = _activated(x, self._last)
        return torch.cat([x.mean(dim=-1), x.std(dim=-1)])

    def _front_end(self, features: Tensor) -> Tensor:
        """Return the output ``(1, 320, T)`` of the front end, computed in pieces that overlap by their margins."""
        count, pieces = features.shape[0], []
        for start in range(0, count, self._PIECE):
            first, last = max(start - self._MARGIN, 0), min(start + self._PIECE + self._MARGIN, count)
            piece = self._convolve(features[first:last])
            pieces.append(piece[..., start - first : start - first + self._PIECE])
        return torch.cat(pieces, dim=-1)

    def _convolve(self, features: Tensor) -> Tensor:
        x = features.t()[None, None].contiguous(memory_format=torch.channels_last)
        x = F.conv2d(x, *self._stem, padding=1).relu_()
        for first, second, shortcut in self._residual:
            stride = (1, 1) if shortcut is None else (2, 1)
            y = F.conv2d(x, *first, stride=stride, padding=1).relu_()
            y = F.conv2d(y, *second, padding=1)
            x = (y.add_(x) if shortcut is None else y.add_(F.conv2d(x, *shortcut, stride=stride))).relu_()
        return F.conv2d(x, *self._neck, stride=(2, 1), padding=1).relu_().contiguous().flatten(1, 2)


class _FastLayer:
    """A dense layer on one utterance, from ``(C, t)`` to ``(32, t)``."""

    def __init__(self, layer: DenseLayer) -> None:
        mask = layer.cam_layer
        self.norm = _scale_and_shift(layer.nonlinear1.batchnorm)
        weight, bias = _folded(layer.linear1, layer.nonlinear2.batchnorm)
        self.linear = (weight[:, :, 0].contiguous(), bias[:, None])
        self.local, self.dilation = mask.linear_local.weight.detach(), int(mask.linear_local.dilation[0])
        self.first = (mask.linear1.weight.detach()[:, :, 0], cast(Tensor, mask.linear1.bias).detach()[:, None])
        self.second = (mask.linear2.weight.detach()[:, :, 0], cast(Tensor, mask.linear2.bias).detach()[:, None])

    def __call__(self, x: Tensor, out: Tensor) -> None:
        weight, bias = self.linear
        y = torch.addmm(bias, weight, _activated(x, self.norm)).relu_()
        segments = F.avg_pool1d(y[None], SEGMENT, SEGMENT, ceil_mode=True)[0]
        context = y.mean(dim=-1, keepdim=True) + segments
        hidden = torch.addmm(self.first[1], self.first[0], context).relu_()
        mask = torch.addmm(self.second[1], self.second[0], hidden).sigmoid_()
        local = F.conv1d(y[None], self.local, padding=self.dilation, dilation=self.dilation)[0]
        torch.mul(local, mask.repeat_interleave(SEGMENT, dim=-1)[:, : y.shape[1]], out=out)


class _FastTransition:
    """A transition layer on one utterance."""

    def __init__(self, layer: Transition) -> None:
        self.norm = _scale_and_shift(layer.nonlinear.batchnorm)
        self.weight = layer.linear.weight.detach()[:, :, 0].contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        return self.weight @ _activated(x, self.norm)


def _activated(x: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
    """Return batch normalization and ReLU of ``(C, t)``."""
    scale, shift = norm
    return torch.addcmul(shift, x, scale).relu_()


def _scale_and_shift(norm: Any) -> tuple[Tensor, Tensor]:
    """Return scale and shift (C, 1) of a batch normalization in inference, ``x * scale + shift``."""
    scale: Tensor = torch.rsqrt(norm.running_var + norm.eps)
    if norm.affine:
        scale = scale * norm.weight.detach()
    shift: Tensor = -norm.running_mean * scale + (norm.bias.detach() if norm.affine else 0.0)
    return scale[:, None], shift[:, None]


def _folded(conv: Any, norm: Any) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a convolution with the batch normalization after it."""
    scale, shift = _scale_and_shift(norm)
    weight: Tensor = conv.weight.detach()
    weight = weight * scale[:, 0].reshape(-1, *[1] * (weight.dim() - 1))
    layout = torch.channels_last if weight.dim() == 4 else torch.contiguous_format
    return weight.contiguous(memory_format=layout), shift[:, 0].contiguous()
