"""Training of the predictors of voicing and of F0 contours, which are standardized over each recording."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from voiceveil.models.nets.intonation import Intonation, Voicing
from voiceveil.models.nets.soft_codes import k_means
from voiceveil.training.b1_tasks import Descent
from voiceveil.training.synthesis_data import Batch, SynthesisData

__all__ = ["IntonationTask", "VoicingTask", "contours"]

#: Vectors of content that the codes are found from.
_VECTORS = 100_000
#: The smallest deviation of ln F0 that a contour is divided by: a monotone voice does not become a lively one.
_REACH = 0.05
#: Deviations: what is farther from the mean is an error of the tracker, most of the time.
_FARTHEST = 3.0


class _OfWords(Descent):
    """A network that hears codes of content."""

    network: Intonation | Voicing

    def __init__(self, network: Intonation | Voicing, device: str = "cpu") -> None:
        super().__init__(network, device)

    def prepare(self, data: SynthesisData) -> None:
        """Find the codes."""
        codes = self.network.codes.codes
        found = k_means(data.content_vectors(_VECTORS), len(codes), np.random.default_rng(0))
        codes.copy_(torch.from_numpy(found))

    def record(self) -> dict[str, Any]:
        """Return the size."""
        return dict(self.network.size)

    def inputs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Content (B, T, D), and what is voiced (B, T)."""
        voiced = (batch.f0 > 0).astype(np.float32)
        return torch.from_numpy(batch.content).to(self.device), torch.from_numpy(voiced).to(self.device)


class IntonationTask(_OfWords):
    """L1 between contours, where speech is voiced."""

    kind = "intonation of words"

    def loss(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        """Of the crops."""
        content, voiced = self.inputs(batch)
        wanted = torch.from_numpy(contours(batch.f0)).to(self.device)
        made: Tensor = self.network(content, voiced)
        return ((made - wanted).abs() * voiced).sum() / voiced.sum().clamp_min(1)


class VoicingTask(_OfWords):
    """Cross-entropy of what is voiced."""

    kind = "voicing of words"

    def loss(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        """Of the crops."""
        content, voiced = self.inputs(batch)
        return functional.binary_cross_entropy_with_logits(self.network(content), voiced)


def contours(f0: NDArray[np.float32]) -> NDArray[np.float32]:
    """ln F0 (B, T) in deviations of each row about its mean; 0 where nothing is voiced."""
    voiced = f0 > 0
    count = np.maximum(voiced.sum(axis=1, keepdims=True), 1)
    logarithm = np.log(np.where(voiced, f0, 1.0))
    centered = np.where(voiced, logarithm - logarithm.sum(axis=1, keepdims=True) / count, 0.0)
    deviation = np.sqrt((centered**2).sum(axis=1, keepdims=True) / count)
    contour = np.clip(centered / np.maximum(deviation, _REACH), -_FARTHEST, _FARTHEST)
    return np.asarray(contour, dtype=np.float32)
