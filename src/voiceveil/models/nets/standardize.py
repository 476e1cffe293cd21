"""Standardization of inputs by the mean and deviation of the training data, which are stored with the weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from voiceveil.models.nets.double_precision import as_float64

__all__ = ["Standardize"]

_SMALLEST = 1e-5  # features with a smaller deviation are not scaled


class Standardize(nn.Module):
    """``(x - mean) / deviation`` on the last dimension; mean 0 and deviation 1 until :meth:`set` is called."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("deviation", torch.ones(width))

    def set(self, mean: Tensor, deviation: Tensor) -> None:
        """Set mean and deviation, (width,) each."""
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(deviation > _SMALLEST, deviation, torch.ones_like(deviation)))

    def fit(self, x: Tensor) -> None:
        """Set mean and deviation to those of ``x`` (..., width)."""
        rows = as_float64(x.reshape(-1, x.shape[-1]))
        self.set(rows.mean(dim=0).float(), rows.std(dim=0, correction=0).float())

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` (..., width), standardized."""
        return (x - self.mean) / self.deviation

    def invert(self, x: Tensor) -> Tensor:
        """Return standardized ``x`` (..., width) in the scale of the data."""
        return x * self.deviation + self.mean
