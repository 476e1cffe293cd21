"""A soft vector quantization of content: every vector is replaced by a mean of its nearest codes, or moved towards it.

With few codes and one neighbor this is vector quantization, as in the baselines B5 and B6 of 2024. With thousands of
codes and a few neighbors it keeps the words but removes much of the speaker's pronunciation, because the sounds of all
speakers are composed of the same codes, as in nearest-neighbor voice conversion (Baas, van Niekerk and Kamper 2023).
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["SoftCodes", "k_means"]


class SoftCodes(nn.Module):
    """Replaces vectors (..., T, D) by the mean of their nearest codes, weighted by 1 / squared distance.

    Parameters
    ----------
    count, dimension
        Number of codes, and their length.
    nearest
        Number of codes that replace a vector.
    strength
        0 keeps the vectors, 1 replaces them by codes.
    mean_removal
        0 to 1: fraction of the difference between the mean over time of the codes and that of the vectors that is
        removed. The mean of the codes depends on the codes that a speaker prefers, even if the mean of the vectors is
        equal for all speakers.
    """

    codes: Tensor

    def __init__(
        self, count: int, dimension: int, nearest: int, strength: float = 1.0, mean_removal: float = 0.0
    ) -> None:
        super().__init__()
        self.nearest, self.strength, self.mean_removal = nearest, strength, mean_removal
        self.register_buffer("codes", torch.zeros(count, dimension))

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the vectors after quantization, of the same shape."""
        if self.strength == 0:
            return vectors
        codes, flat = self.codes, vectors.reshape(-1, vectors.shape[-1])
        partial_distances = (codes**2).sum(dim=1) - 2 * flat @ codes.T  # squared, without the norms of the vectors
        smallest, indices = partial_distances.topk(self.nearest, dim=1, largest=False)
        weights = 1 / (smallest + (flat**2).sum(dim=1, keepdim=True)).clamp_min(1e-3)
        weights = weights / weights.sum(dim=1, keepdim=True)
        mean = torch.zeros_like(flat)
        for k in range(self.nearest):
            mean = mean + weights[:, k : k + 1] * codes[indices[:, k]]
        mean = mean.reshape(vectors.shape)
        if self.mean_removal:
            mean = mean + self.mean_removal * (vectors - mean).mean(dim=-2, keepdim=True)
        return torch.lerp(vectors, mean, self.strength)


def k_means(
    vectors: NDArray[np.float32], count: int, rng: np.random.Generator, *, rounds: int = 12
) -> NDArray[np.float32]:
    """Return the centers (count, d) of vectors (n, d) by Lloyd's algorithm, starting from random vectors.

    Parameters
    ----------
    vectors
        (n, d).
    count
        Number of centers.
    rng
        Draws the initial centers.
    rounds
        Iterations.
    """
    from scipy.cluster.vq import kmeans2

    start = vectors[rng.choice(len(vectors), size=count, replace=len(vectors) < count)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty cluster keeps its center
        codes, _ = kmeans2(vectors, start, iter=rounds, minit="matrix", missing="warn")
    return np.asarray(codes, dtype=np.float32)
