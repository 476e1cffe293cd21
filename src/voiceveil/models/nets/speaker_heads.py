"""Losses that teach an encoder to tell speakers apart.

Conventions: a head takes embeddings ``(B, E)`` and speaker numbers ``(B,)`` and gives the loss, a scalar, and the
logits ``(B, speakers)`` without margin, of which the largest is the decision.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["AamSoftmax", "Softmax", "SpeakerHead"]


class SpeakerHead(nn.Module):
    """The layer that training adds on top of an encoder."""

    def forward(self, embeddings: Tensor, speakers: Tensor) -> tuple[Tensor, Tensor]:
        """``(B, E)`` and ``(B,)`` to the mean loss and the logits ``(B, speakers)``."""
        raise NotImplementedError


class AamSoftmax(SpeakerHead):
    """Additive angular margin softmax (Deng et al. 2019, equation 3).

    Cross-entropy of ``scale * cos(angle)`` between embedding and speaker weights, where the true speaker's angle is
    first made larger by ``margin`` radians. Past angle + margin = pi the cosine would rise again; there the penalty
    goes on in a straight line, cos(angle) - margin * sin(margin), as ArcFace's authors do.
    """

    def __init__(self, dimension: int, speakers: int, margin: float = 0.2, scale: float = 30.0) -> None:
        super().__init__()
        self.margin, self.scale = margin, scale
        self.weight = nn.Parameter(torch.empty(speakers, dimension))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, embeddings: Tensor, speakers: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and scaled cosines."""
        cosine = functional.linear(functional.normalize(embeddings), functional.normalize(self.weight))
        rows = torch.arange(len(speakers), device=cosine.device)
        true = cosine[rows, speakers]
        sine = (1.0 - true**2).clamp(min=1e-12).sqrt()  # the square root has no slope at 0
        harder = true * math.cos(self.margin) - sine * math.sin(self.margin)
        harder = torch.where(true > -math.cos(self.margin), harder, true - self.margin * math.sin(self.margin))
        logits = self.scale * cosine.index_put((rows, speakers), harder)
        return functional.cross_entropy(logits, speakers), self.scale * cosine


class Softmax(SpeakerHead):
    """Plain softmax cross-entropy after the rest of the network: that of the x-vector."""

    def __init__(self, dimension: int, speakers: int, before: nn.Module | None = None) -> None:
        super().__init__()
        self.before = nn.Identity() if before is None else before
        self.output = nn.Linear(dimension, speakers)

    def forward(self, embeddings: Tensor, speakers: Tensor) -> tuple[Tensor, Tensor]:
        """Loss and logits."""
        logits = cast(Tensor, self.output(self.before(embeddings)))
        return functional.cross_entropy(logits, speakers), logits
