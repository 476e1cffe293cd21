"""CAM++, a densely connected TDNN with context-aware masking (Wang, Zheng, Chen, Cheng and Chen, Interspeech 2023).

Conventions: B utterances, T frames of 10 ms, t = T / 2 frames of 20 ms, C channels. :class:`CamPlusPlusNet` takes
mean-normalized filterbank energies ``(B, T, 80)`` and gives embeddings ``(B, 192)``. It can be trained; its parameters
are called as in the published model, so that this loads. :class:`FastCamPlusPlus` holds the same weights for inference
on one utterance: batch normalizations folded into convolutions, no concatenation, the 2-D front end in pieces.

The network: a small 2-D ResNet over time and frequency; a strided TDNN layer; three blocks of 12, 24 and 16 densely
connected layers, with transition layers that halve the channels; mean and standard deviation over time; one linear
layer. Each dense layer adds 32 channels, which are masked by a function of their context: the average over the whole
utterance plus that over 2 s (section 2.2 of the paper).
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["DIMENSION", "CamPlusPlusNet", "FastCamPlusPlus"]

DIMENSION = 192
_GROWTH, _BOTTLENECK, _SEGMENT = 32, 128, 100  # channels a layer, channels before the mask, frames of 20 ms
_BLOCKS = ((12, 1), (24, 2), (16, 2))  # layers, dilation


def _nonlinear(channels: int) -> nn.Sequential:
    layers = nn.Sequential()
    layers.add_module("batchnorm", nn.BatchNorm1d(channels))
    layers.add_module("relu", nn.ReLU())
    return layers


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut; the first may halve the frequencies: ``(B, 32, F, T)``."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, (stride, 1), 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut.extend([nn.Conv2d(channels, channels, 1, (stride, 1), bias=False), nn.BatchNorm2d(channels)])

    def forward(self, x: Tensor) -> Tensor:
        """Return the block."""
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class FrontEnd(nn.Module):
    """The 2-D convolutional head: ``(B, T, 80)`` to ``(B, 320, T)``, 32 channels at each of 10 frequencies."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, channels, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.layer1 = nn.Sequential(ResidualBlock(channels, 2), ResidualBlock(channels, 1))
        self.layer2 = nn.Sequential(ResidualBlock(channels, 2), ResidualBlock(channels, 1))
        self.conv2 = nn.Conv2d(channels, channels, 3, (2, 1), 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, features: Tensor) -> Tensor:
        """Channels and frequencies of each frame, side by side."""
        x = features.transpose(1, 2).unsqueeze(1)
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(self.layer2(self.layer1(x)))))
        return x.flatten(1, 2)


class ContextMask(nn.Module):
    """A convolution whose output is masked by a function of the context: ``(B, 128, t)`` to ``(B, 32, t)``."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.linear_local = nn.Conv1d(_BOTTLENECK, _GROWTH, 3, padding=dilation, dilation=dilation, bias=False)
        self.linear1 = nn.Conv1d(_BOTTLENECK, _BOTTLENECK // 2, 1)
        self.linear2 = nn.Conv1d(_BOTTLENECK // 2, _GROWTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Every frame of a segment of 2 s has the same mask."""
        segments = F.avg_pool1d(x, _SEGMENT, _SEGMENT, ceil_mode=True)  # a shorter last segment: its own mean
        context = x.mean(dim=-1, keepdim=True) + segments
        mask = torch.sigmoid(self.linear2(torch.relu(self.linear1(context))))
        local: Tensor = self.linear_local(x)
        return local * mask.repeat_interleave(_SEGMENT, dim=-1)[..., : x.shape[-1]]


class DenseLayer(nn.Module):
    """Adds 32 masked channels to its input: ``(B, C, t)`` to ``(B, C + 32, t)``."""

    def __init__(self, inputs: int, dilation: int) -> None:
        super().__init__()
        self.nonlinear1 = _nonlinear(inputs)
        self.linear1 = nn.Conv1d(inputs, _BOTTLENECK, 1, bias=False)
        self.nonlinear2 = _nonlinear(_BOTTLENECK)
        self.cam_layer = ContextMask(dilation)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input and what is new."""
        return torch.cat([x, self.cam_layer(self.nonlinear2(self.linear1(self.nonlinear1(x))))], dim=1)


class Transition(nn.Module):
    """Halves the channels: ``(B, C, t)`` to ``(B, C / 2, t)``."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.nonlinear = _nonlinear(inputs)
        self.linear = nn.Conv1d(inputs, inputs // 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer."""
        return cast(Tensor, self.linear(self.nonlinear(x)))


class CamPlusPlusNet(nn.Module):
    """The whole network: filterbank energies ``(B, T, 80)``, mean-normalized, to embeddings ``(B, 192)``."""

    def __init__(self) -> None:
        super().__init__()
        self.head = FrontEnd()
        self.xvector = nn.ModuleDict()
        tdnn = nn.Sequential()
        tdnn.add_module("linear", nn.Conv1d(320, 128, 5, stride=2, padding=2, bias=False))
        tdnn.add_module("nonlinear", _nonlinear(128))
        self.xvector["tdnn"] = tdnn
        channels = 128
        for number, (layers, dilation) in enumerate(_BLOCKS, start=1):
            block = nn.Sequential()
            for layer in range(1, layers + 1):
                block.add_module(f"tdnnd{layer}", DenseLayer(channels, dilation))
                channels += _GROWTH
            self.xvector[f"block{number}"] = block
            self.xvector[f"transit{number}"] = Transition(channels)
            channels //= 2
        self.xvector["out_nonlinear"] = _nonlinear(channels)
        dense, norm = nn.Sequential(), nn.Sequential()
        norm.add_module("batchnorm", nn.BatchNorm1d(DIMENSION, affine=False))
        dense.add_module("linear", nn.Conv1d(2 * channels, DIMENSION, 1, bias=False))
        dense.add_module("nonlinear", norm)
        self.xvector["dense"] = dense

    def frames(self, features: Tensor) -> Tensor:
        """What the last layers see: ``(B, T, 80)`` to ``(B, 512, t)``."""
        x = self.head(features)
        for name, stage in self.xvector.items():
            if name == "dense":
                break
            x = stage(x)
        return cast(Tensor, x)

    def forward(self, features: Tensor) -> Tensor:
        """Embeddings; at least 3 frames are needed, two of 20 ms for a standard deviation."""
        x = self.frames(features)
        statistics = torch.cat([x.mean(dim=-1), x.std(dim=-1)], dim=1)
        return cast(Tensor, self.xvector["dense"](statistics.unsqueeze(-1)).squeeze(-1))


class FastCamPlusPlus:
    """The network for inference on one utterance; the result is that of :class:`CamPlusPlusNet` but for rounding.

    Inside a dense block all channels stand in one array ``(C, t)``, and each layer writes its 32 rows: nothing is
    concatenated. The batch normalization before a convolution cannot be folded (ReLU stands between); those after can.
    """

    #: The front end takes so many frames at once, and sees ``_MARGIN`` more on each side: its reach is ten frames.
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
        """Filterbank energies ``(T, 80)``, mean-normalized, to the embedding ``(192,)``."""
        return self.embed(self.statistics(features))

    def embed(self, statistics: Tensor) -> Tensor:
        """Return the last layer: statistics ``(..., 1024)`` to embeddings ``(..., 192)``."""
        return F.linear(statistics, self.weight, self.bias)

    def statistics(self, features: Tensor) -> Tensor:
        """Mean and standard deviation over time of what the last layer but one gives, ``(1024,)``."""
        x = F.conv1d(self._front_end(features), *self._tdnn, stride=2, padding=2).relu_()[0]
        for layers, transition in self._blocks:
            inputs = x.shape[0]
            channels = x.new_empty(inputs + _GROWTH * len(layers), x.shape[1])
            channels[:inputs] = x
            for layer in layers:
                layer(channels[:inputs], out=channels[inputs : inputs + _GROWTH])
                inputs += _GROWTH
            x = transition(channels)
        x = _activated(x, self._last)
        return torch.cat([x.mean(dim=-1), x.std(dim=-1)])

    def _front_end(self, features: Tensor) -> Tensor:
        """``(T, 80)`` to ``(1, 320, T)``, in pieces that overlap by the reach of the convolutions."""
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
    """A dense layer on one utterance: reads ``(C, t)``, writes ``(32, t)``."""

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
        segments = F.avg_pool1d(y[None], _SEGMENT, _SEGMENT, ceil_mode=True)[0]
        context = y.mean(dim=-1, keepdim=True) + segments
        hidden = torch.addmm(self.first[1], self.first[0], context).relu_()
        mask = torch.addmm(self.second[1], self.second[0], hidden).sigmoid_()
        local = F.conv1d(y[None], self.local, padding=self.dilation, dilation=self.dilation)[0]
        torch.mul(local, mask.repeat_interleave(_SEGMENT, dim=-1)[:, : y.shape[1]], out=out)


class _FastTransition:
    """A transition layer on one utterance."""

    def __init__(self, layer: Transition) -> None:
        self.norm = _scale_and_shift(layer.nonlinear.batchnorm)
        self.weight = layer.linear.weight.detach()[:, :, 0].contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        return self.weight @ _activated(x, self.norm)


def _activated(x: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
    """Batch normalization and ReLU of ``(C, t)``."""
    scale, shift = norm
    return torch.addcmul(shift, x, scale).relu_()


def _scale_and_shift(norm: Any) -> tuple[Tensor, Tensor]:
    """Batch normalization in inference is ``x * scale + shift``, both of shape (C, 1)."""
    scale: Tensor = torch.rsqrt(norm.running_var + norm.eps)
    if norm.affine:
        scale = scale * norm.weight.detach()
    shift: Tensor = -norm.running_mean * scale + (norm.bias.detach() if norm.affine else 0.0)
    return scale[:, None], shift[:, None]


def _folded(conv: Any, norm: Any) -> tuple[Tensor, Tensor]:
    """Weight and bias of the convolution that does both."""
    scale, shift = _scale_and_shift(norm)
    weight: Tensor = conv.weight.detach()
    weight = weight * scale[:, 0].reshape(-1, *[1] * (weight.dim() - 1))
    layout = torch.channels_last if weight.dim() == 4 else torch.contiguous_format
    return weight.contiguous(memory_format=layout), shift[:, 0].contiguous()
