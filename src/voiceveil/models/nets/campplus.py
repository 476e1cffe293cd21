"""CAM++, a densely connected TDNN with context-aware masking (Wang, Zheng, Chen, Cheng and Chen, Interspeech 2023).

Conventions: B utterances, T frames of 10 ms, t = T / 2 frames of 20 ms, C channels. The network maps mean-normalized
filterbank energies ``(B, T, 80)`` to embeddings ``(B, 192)``. Its parameters have the names of the published model, so
that the published weights can be loaded. :mod:`voiceveil.models.nets.campplus_inference` is faster on one utterance.

The network: a small 2-D ResNet over time and frequency; a strided TDNN layer; three blocks of 12, 24 and 16 densely
connected layers, with transition layers that halve the channels; mean and standard deviation over time; one linear
layer. Each dense layer adds 32 channels, which are masked by a function of their context: the average over the whole
utterance plus that over 2 s (section 2.2 of the paper).
"""

from __future__ import annotations

from typing import Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["DIMENSION", "GROWTH", "SEGMENT", "CamPlusPlusNet", "DenseLayer", "Transition", "TunableCamPlusPlus"]

DIMENSION = 192
#: Channels that a dense layer adds, channels before its mask, and frames of 20 ms in a segment of its context.
GROWTH, _BOTTLENECK, SEGMENT = 32, 128, 100
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
        """Return the output (B, 32, F / stride, T)."""
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
        """Return all channels and frequencies of each frame in one dimension."""
        x = features.transpose(1, 2).unsqueeze(1)
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(self.layer2(self.layer1(x)))))
        return x.flatten(1, 2)


class ContextMask(nn.Module):
    """A convolution whose output is masked by a function of the context: ``(B, 128, t)`` to ``(B, 32, t)``."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.linear_local = nn.Conv1d(_BOTTLENECK, GROWTH, 3, padding=dilation, dilation=dilation, bias=False)
        self.linear1 = nn.Conv1d(_BOTTLENECK, _BOTTLENECK // 2, 1)
        self.linear2 = nn.Conv1d(_BOTTLENECK // 2, GROWTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the masked channels; the mask is constant over each segment of 2 s."""
        segments = F.avg_pool1d(x, SEGMENT, SEGMENT, ceil_mode=True)  # the last segment may be shorter
        context = x.mean(dim=-1, keepdim=True) + segments
        mask = torch.sigmoid(self.linear2(torch.relu(self.linear1(context))))
        local: Tensor = self.linear_local(x)
        return local * mask.repeat_interleave(SEGMENT, dim=-1)[..., : x.shape[-1]]


class DenseLayer(nn.Module):
    """Adds 32 masked channels to its input: ``(B, C, t)`` to ``(B, C + 32, t)``."""

    def __init__(self, inputs: int, dilation: int) -> None:
        super().__init__()
        self.nonlinear1 = _nonlinear(inputs)
        self.linear1 = nn.Conv1d(inputs, _BOTTLENECK, 1, bias=False)
        self.nonlinear2 = _nonlinear(_BOTTLENECK)
        self.cam_layer = ContextMask(dilation)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input with the new channels appended."""
        return torch.cat([x, self.cam_layer(self.nonlinear2(self.linear1(self.nonlinear1(x))))], dim=1)


class Transition(nn.Module):
    """Halves the channels: ``(B, C, t)`` to ``(B, C / 2, t)``."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.nonlinear = _nonlinear(inputs)
        self.linear = nn.Conv1d(inputs, inputs // 2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output (B, C / 2, t)."""
        return cast(Tensor, self.linear(self.nonlinear(x)))


class CamPlusPlusNet(nn.Module):
    """The trainable network: mean-normalized filterbank energies ``(B, T, 80)`` to embeddings ``(B, 192)``."""

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
                channels += GROWTH
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
        """Return the frames before pooling over time: ``(B, T, 80)`` to ``(B, 512, t)``."""
        x = self.head(features)
        for name, stage in self.xvector.items():
            if name == "dense":
                break
            x = stage(x)
        return cast(Tensor, x)

    def forward(self, features: Tensor) -> Tensor:
        """Return the embeddings; 3 frames are needed at least, so that two of 20 ms have a standard deviation."""
        return cast(Tensor, self.xvector["dense"](self.statistics(features).unsqueeze(-1)).squeeze(-1))

    def statistics(self, features: Tensor) -> Tensor:
        """Return mean and standard deviation over time ``(B, 1024)`` of the frames before the last layer."""
        x = self.frames(features)
        return torch.cat([x.mean(dim=-1), x.std(dim=-1)], dim=1)


_FROZEN = ("tdnn", "block1", "transit1", "block2", "transit2")


class TunableCamPlusPlus(CamPlusPlusNet):
    """CAM++ for fine-tuning on little speech, with its first two thirds frozen.

    The 2-D front end and the first two dense blocks are frozen; the third block, its transition and the embedding layer
    are trained: three of seven million parameters, and no gradient passes through the expensive front end. Batch
    normalizations keep the statistics of the published model, which are better than those of batches of few speakers.
    """

    dimension, minimum_frames = DIMENSION, 3

    def __init__(self) -> None:
        super().__init__()
        for stage in (self.head, *(self.xvector[name] for name in _FROZEN)):
            stage.requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        """Set training mode, except for the batch normalizations."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.eval()
        return self

    def frames(self, features: Tensor) -> Tensor:
        """Return the frames before pooling over time, without gradients of the frozen layers."""
        with torch.no_grad():
            x = self.head(features)
            for name in _FROZEN:
                x = self.xvector[name](x)
        for name in ("block3", "transit3", "out_nonlinear"):
            x = self.xvector[name](x)
        return torch.as_tensor(x)
