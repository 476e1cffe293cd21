"""Classification layers and losses for the training of speaker encoders.

Conventions: a head takes embeddings ``(B, E)`` and speaker numbers ``(B,)`` and returns the loss, a scalar, and the
logits ``(B, speakers)`` without margin; the largest is the decision.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["AamSoftmax", "Softmax", "SpeakerHead"]


class SpeakerHead(nn.Module):
    """Base of the classification layers that training adds to an encoder."""

    def forward(self, embeddings: Tensor, speakers: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss and the logits ``(B, speakers)`` for ``(B, E)`` and ``(B,)``."""
        raise NotImplementedError


class AamSoftmax(SpeakerHead):
    """Additive angular margin softmax (Deng et al. 2019, equation 3).

    Cross-entropy of ``scale * cos(angle)`` between embedding and speaker weights, where the true speaker's angle is
    first increased by ``margin`` radians. Beyond angle + margin = pi the cosine would increase again; there it is
    replaced by cos(angle) - margin * sin(margin), as in ArcFace's code.
    """

    def __init__(self, dimension: int, speakers: int, margin: float = 0.2, scale: float = 30.0) -> None:
        super().__init__()
        self.margin, self.scale = margin, scale
        self.weight = nn.Parameter(torch.empty(speakers, dimension))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, embeddings: Tensor, speakers: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss and the scaled cosines ``(B, speakers)``."""
        cosine = functional.linear(functional.normalize(embeddings), functional.normalize(self.weight))
        rows = torch.arange(len(speakers), device=cosine.device)
        true = cosine[rows, speakers]
        sine = (1.0 - true**2).clamp(min=1e-12).sqrt()  # the square root has no derivative at 0
        with_margin = true * math.cos(self.margin) - sine * math.sin(self.margin)
        beyond = true - self.margin * math.sin(self.margin)
        with_margin = torch.where(true > -math.cos(self.margin), with_margin, beyond)
        logits = self.scale * cosine.index_put((rows, speakers), with_margin)
        return functional.cross_entropy(logits, speakers), self.scale * cosine


class Softmax(SpeakerHead):
    """Softmax cross-entropy, with layers ``before`` the output layer, as for the x-vector."""

    def __init__(self, dimension: int, speakers: int, before: nn.Module | None = None) -> None:
        super().__init__()
        self.before = nn.Identity() if before is None else before
        self.output = nn.Linear(dimension, speakers)

    def forward(self, embeddings: Tensor, speakers: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss and the logits ``(B, speakers)``."""
        logits = cast(Tensor, self.output(self.before(embeddings)))
        return functional.cross_entropy(logits, speakers), logits
