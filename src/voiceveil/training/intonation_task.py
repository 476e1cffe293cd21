"""Training of the predictors of voicing and of F0 contours, which are standardized over each crop."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from voiceveil.models.nets.intonation import Intonation, Voicing
from voiceveil.models.nets.soft_codes import k_means
from voiceveil.training.single_loss_task import SingleLossTask
from voiceveil.training.synthesis_data import SynthesisBatch, SynthesisData

__all__ = ["IntonationTask", "VoicingTask", "contours"]

#: Vectors of content from which the codes are computed by k-means.
_VECTORS = 100_000
#: Smallest standard deviation of ln F0 by which a contour is divided, so that a monotone voice stays monotone.
_MINIMUM_DEVIATION = 0.05
#: Contours are clipped at so many deviations from the mean; beyond are mostly errors of the pitch tracker.
_MAXIMUM = 3.0


class _CodesTask(SingleLossTask[SynthesisBatch]):
    """A network whose input is codes of content."""

    network: Intonation | Voicing

    def __init__(self, network: Intonation | Voicing, device: str = "cpu") -> None:
        super().__init__(network, device)

    def prepare(self, data: SynthesisData) -> None:
        """Compute the codes by k-means."""
        codes = self.network.codes.codes
        centers = k_means(data.content_vectors(_VECTORS), len(codes), np.random.default_rng(0))
        codes.copy_(torch.from_numpy(centers))

    def inputs(self, batch: SynthesisBatch) -> tuple[Tensor, Tensor]:
        """Return content (B, T, D) and voicing (B, T), 1 in voiced frames."""
        voiced = (batch.f0 > 0).astype(np.float32)
        return torch.from_numpy(batch.content).to(self.device), torch.from_numpy(voiced).to(self.device)


class IntonationTask(_CodesTask):
    """L1 distance of predicted and recorded contours in voiced frames."""

    kind = "intonation of words"

    def loss(self, batch: SynthesisBatch, rng: np.random.Generator) -> Tensor:
        """Return the mean absolute difference in deviations."""
        content, voiced = self.inputs(batch)
        target = torch.from_numpy(contours(batch.f0)).to(self.device)
        predicted: Tensor = self.network(content, voiced)
        return ((predicted - target).abs() * voiced).sum() / voiced.sum().clamp_min(1)


class VoicingTask(_CodesTask):
    """Cross-entropy of voicing."""

    kind = "voicing of words"

    def loss(self, batch: SynthesisBatch, rng: np.random.Generator) -> Tensor:
        """Return the mean cross-entropy over frames in nats."""
        content, voiced = self.inputs(batch)
        return functional.binary_cross_entropy_with_logits(self.network(content), voiced)


def contours(f0: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ln F0 (B, T), standardized over the voiced frames of each row; 0 in unvoiced frames (F0 0)."""
    voiced = f0 > 0
    count = np.maximum(voiced.sum(axis=1, keepdims=True), 1)
    log_f0 = np.log(np.where(voiced, f0, 1.0))
    centered = np.where(voiced, log_f0 - log_f0.sum(axis=1, keepdims=True) / count, 0.0)
    deviation = np.sqrt((centered**2).sum(axis=1, keepdims=True) / count)
    contour = np.clip(centered / np.maximum(deviation, _MINIMUM_DEVIATION), -_MAXIMUM, _MAXIMUM)
    return np.asarray(contour, dtype=np.float32)
