"""Standardized inputs: mean and deviation of the training data travel with the weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Standardize"]

_SMALLEST = 1e-5  # a feature that never changes stays where it is


class Standardize(nn.Module):
    """``(x - mean) / deviation`` on the last dimension; 0 and 1 until :meth:`set` is called."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("deviation", torch.ones(width))

    def set(self, mean: Tensor, deviation: Tensor) -> None:
        """Take the statistics of the training data, (width,) each."""
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(deviation > _SMALLEST, deviation, torch.ones_like(deviation)))

    def fit(self, x: Tensor) -> None:
        """Take the statistics of ``x`` (..., width)."""
        rows = x.reshape(-1, x.shape[-1]).double()
        self.set(rows.mean(dim=0).float(), rows.std(dim=0, correction=0).float())

    def forward(self, x: Tensor) -> Tensor:
        """Standardized."""
        return (x - self.mean) / self.deviation

    def invert(self, x: Tensor) -> Tensor:
        """Back to the scale of the data."""
        return x * self.deviation + self.mean
