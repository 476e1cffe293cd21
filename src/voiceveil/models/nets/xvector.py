"""The x-vector TDNN of Kaldi, speaker encoder of the 2020 and 2022 challenges (Snyder et al., ICASSP 2018).

Conventions: B utterances, D features, T frames of 10 ms. The network maps ``(B, T, D)`` to ``(B, 512)``.

There are seven hidden layers. Five work on frames and see 15 of them (7 on each side), without padding; after mean and
standard deviation over time, two work on the whole utterance. The x-vector is the output of the affine part of the
sixth, Kaldi's ``tdnn6.affine``; the layers after it, :func:`segment_layers`, are used only in training. A layer is
affine, ReLU, batch normalization without scale and offset. Scores come from LDA and PLDA, not from the cosine.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["StatisticsPooling", "XVectorTdnn", "segment_layers"]

#: Floor of the variance in the pooling layer, and epsilon of batch normalization, as in Kaldi.
VARIANCE_FLOOR = 1e-10
NORM_EPSILON = 1e-3


class _FrameLayer(nn.Module):
    """An affine layer on ``kernel`` frames, ``dilation`` apart, with ReLU and batch normalization.

    ``(B, C_in, T)`` to ``(B, C_out, T - (kernel - 1) dilation)``.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.affine = nn.Conv1d(inputs, outputs, kernel, dilation=dilation)
        self.norm = nn.BatchNorm1d(outputs, eps=NORM_EPSILON, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.norm(torch.relu(self.affine(x))))


class StatisticsPooling(nn.Module):
    """Mean and standard deviation over time: ``(B, C, T)`` to ``(B, 2C)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the means, then the deviations."""
        mean = x.mean(dim=2)
        variance = ((x - mean.unsqueeze(2)) ** 2).mean(dim=2)
        return torch.cat([mean, variance.clamp(min=VARIANCE_FLOOR).sqrt()], dim=1)


class XVectorTdnn(nn.Module):
    """The network: ``(B, T, features)`` to x-vectors ``(B, dimension)``."""

    #: Frames that the five frame layers see.
    minimum_frames = 15

    def __init__(self, features: int = 30, channels: int = 512, wide: int = 1500, dimension: int = 512) -> None:
        super().__init__()
        self.dimension = dimension
        self.frames = nn.Sequential(
            _FrameLayer(features, channels, kernel=5),
            _FrameLayer(channels, channels, kernel=3, dilation=2),
            _FrameLayer(channels, channels, kernel=3, dilation=3),
            _FrameLayer(channels, channels),
            _FrameLayer(channels, wide),
        )
        self.pool = StatisticsPooling()
        self.tdnn6_affine = nn.Linear(2 * wide, dimension)

    def forward(self, x: Tensor) -> Tensor:
        """Return the x-vectors."""
        return cast(Tensor, self.tdnn6_affine(self.pool(self.frames(x.transpose(1, 2)))))


def segment_layers(dimension: int = 512) -> nn.Module:
    """Return the layers between the x-vector and the output layer: the rest of the sixth, and the seventh."""
    return nn.Sequential(
        nn.ReLU(),
        nn.BatchNorm1d(dimension, eps=NORM_EPSILON, affine=False),
        nn.Linear(dimension, dimension),
        nn.ReLU(),
        nn.BatchNorm1d(dimension, eps=NORM_EPSILON, affine=False),
    )
