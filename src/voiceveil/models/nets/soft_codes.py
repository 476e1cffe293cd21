"""A bottleneck of content: every vector is replaced by a mean of the codes next to it, or moved towards it.

With few codes and one neighbor this is vector quantization, as in the baselines B5 and B6 of 2024; with thousands of
codes and a few neighbors it keeps the words and still loses much of how this speaker says a sound: all speakers'
sounds are made of the same codes, as in voice conversion by nearest neighbors (Baas, van Niekerk and Kamper 2023).
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["SoftCodes", "k_means"]


class SoftCodes(nn.Module):
    """Vectors (..., T, D) to the mean of their ``nearest`` codes, weighted by 1 / squared distance.

    ``strength``: 0 keeps the vectors, 1 replaces them by codes. ``mean_removal``: how far (0 to 1) the mean of the
    codes over time is brought to that of the vectors. It shows which codes a speaker prefers, even where the mean
    of the vectors is the same for all speakers.
    """

    codes: Tensor

    def __init__(
        self, count: int, dimension: int, nearest: int, strength: float = 1.0, mean_removal: float = 0.0
    ) -> None:
        super().__init__()
        self.nearest, self.strength, self.mean_removal = nearest, strength, mean_removal
        self.register_buffer("codes", torch.zeros(count, dimension))

    def forward(self, vectors: Tensor) -> Tensor:
        """The same shape."""
        if self.strength == 0:
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
        if self.mean_removal:
            mean = mean + self.mean_removal * (vectors - mean).mean(dim=-2, keepdim=True)
        return torch.lerp(vectors, mean, self.strength)


def k_means(
    vectors: NDArray[np.float32], count: int, rng: np.random.Generator, *, rounds: int = 12
) -> NDArray[np.float32]:
    """Return ``count`` codes (count, d) of vectors (n, d), by Lloyd's algorithm from vectors drawn at random."""
    from scipy.cluster.vq import kmeans2

    start = vectors[rng.choice(len(vectors), size=count, replace=len(vectors) < count)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a code that loses all its vectors stays where it is
        codes, _ = kmeans2(vectors, start, iter=rounds, minit="matrix", missing="warn")
    return np.asarray(codes, dtype=np.float32)
