"""ResNet34 at half width, the second speaker encoder of the 2022 challenge (He et al. 2016; Zeinali et al. 2019).

Conventions: B utterances, D features, T frames of 10 ms. The network maps ``(B, T, D)`` to ``(B, 256)``; inside, an
utterance is an image with a row for each feature, ``(B, C, D, T)``.

Four stages of 3, 4, 6 and 3 blocks with 32, 64, 128 and 256 channels; each stage after the first halves features and
frames. Then mean and standard deviation over time, and one affine layer: 6.63 million parameters, as published for
this shape. (The challenge's alternative weights the frames by attention before it pools them.)
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["BasicBlock", "ResNet34"]

VARIANCE_FLOOR = 1e-7


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with a skip connection: ``(B, C_in, D, T)`` to ``(B, C_out, D / stride, T / stride)``."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the output (B, C_out, D / stride, T / stride)."""
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class ResNet34(nn.Module):
    """The network: ``(B, T, features)`` to speaker embeddings ``(B, dimension)``, not normalized in length."""

    #: After halving three times, two frames are left, the fewest that have a standard deviation.
    minimum_frames = 9

    def __init__(self, features: int = 80, channels: int = 32, dimension: int = 256) -> None:
        super().__init__()
        self.dimension = dimension
        self.conv = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        blocks: list[nn.Module] = []
        inputs = channels
        for stage, depth in enumerate((3, 4, 6, 3)):
            outputs = channels << stage
            for index in range(depth):
                blocks.append(BasicBlock(inputs, outputs, stride=2 if stage and index == 0 else 1))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.embed = nn.Linear(2 * inputs * (-(-features // 8)), dimension)

    def forward(self, x: Tensor) -> Tensor:
        """Return the embeddings."""
        y = torch.relu(self.norm(self.conv(x.transpose(1, 2).unsqueeze(1))))
        y = self.blocks(y).flatten(1, 2)  # (B, channels * features, frames)
        mean = y.mean(dim=2)
        variance = ((y - mean.unsqueeze(2)) ** 2).mean(dim=2)
        return cast(Tensor, self.embed(torch.cat([mean, variance.clamp(min=VARIANCE_FLOOR).sqrt()], dim=1)))
