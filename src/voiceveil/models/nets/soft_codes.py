"""A bottleneck of content: every vector is replaced by a mean of the codes next to it, or moved towards it.

With few codes and one neighbour this is vector quantisation, as in the baselines B5 and B6 of 2024; with thousands of
codes and a few neighbours it keeps the words and still loses much of how this speaker says a sound: all speakers'
sounds are made of the same codes, as in voice conversion by nearest neighbours (Baas, van Niekerk and Kamper 2023).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["SoftCodes", "k_means"]


class SoftCodes(nn.Module):
    """Vectors (..., T, D) to the mean of their ``nearest`` codes, weighted by 1 / squared distance.

    ``share``: how far, from 0 for the vectors as they are to 1 for nothing but codes. ``centred``: how far the mean of
    the codes over time is brought to that of the vectors, 0 to 1. Which codes a speaker prefers is to be heard in it,
    even where the mean of the vectors is the same for all speakers.
    """

    codes: Tensor

    def __init__(self, count: int, dimension: int, nearest: int, share: float = 1.0, centred: float = 0.0) -> None:
        super().__init__()
        self.nearest, self.share, self.centred = nearest, share, centred
        self.register_buffer("codes", torch.zeros(count, dimension))

    def forward(self, vectors: Tensor) -> Tensor:
        """The same shape."""
        if self.share == 0:
            return vectors
        codes, flat = self.codes, vectors.reshape(-1, vectors.shape[-1])
        squares = (codes**2).sum(dim=1) - 2 * flat @ codes.T
        closest, which = squares.topk(self.nearest, dim=1, largest=False)
        weights = 1 / (closest + (flat**2).sum(dim=1, keepdim=True)).clamp_min(1e-3)
        weights = weights / weights.sum(dim=1, keepdim=True)
        mean = torch.zeros_like(flat)
        for place in range(self.nearest):
            mean = mean + weights[:, place : place + 1] * codes[which[:, place]]
        mean = mean.reshape(vectors.shape)
        if self.centred:
            mean = mean + self.centred * (vectors - mean).mean(dim=-2, keepdim=True)
        return torch.lerp(vectors, mean, self.share)


def k_means(
    vectors: NDArray[np.float32], count: int, rng: np.random.Generator, *, rounds: int = 12
) -> NDArray[np.float32]:
    """Lloyd's algorithm from vectors drawn at random; a code that loses all its vectors starts anew at a random one."""
    codes = vectors[rng.choice(len(vectors), size=count, replace=len(vectors) < count)].copy()
    for _ in range(rounds):
        nearest = np.concatenate(
            [
                ((codes**2).sum(axis=1) - 2 * block @ codes.T).argmin(axis=1)
                for block in np.array_split(vectors, max(1, len(vectors) // 4096))
            ]
        )
        sums = np.zeros_like(codes, dtype=np.float64)
        np.add.at(sums, nearest, vectors)
        members = np.bincount(nearest, minlength=count)
        codes = np.where(
            members[:, None] > 0,
            sums / np.maximum(members, 1)[:, None],
            vectors[rng.integers(len(vectors), size=count)],
        ).astype(np.float32)
    return np.asarray(codes, dtype=np.float32)
