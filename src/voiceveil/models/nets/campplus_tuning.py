"""CAM++ for fine-tuning on little speech: what it knows of sounds stays as it is, the last third learns new voices.

Conventions: as in :mod:`voiceveil.models.nets.campplus`. The 2-D front end and the first two dense blocks are frozen;
the third block, its transition and the embedding layer are trained: three of seven million parameters, and no gradient
has to pass through the expensive front. Batch normalizations keep the statistics of the published model: those of a
batch of few speakers would be worse.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from voiceveil.models.nets.campplus import DIMENSION, CamPlusPlusNet

__all__ = ["TunableCamPlusPlus"]

_FROZEN = ("tdnn", "block1", "transit1", "block2", "transit2")


class TunableCamPlusPlus(CamPlusPlusNet):
    """The network with a frozen front: filterbank energies ``(B, T, 80)`` to embeddings ``(B, 192)``."""

    dimension, minimum_frames = DIMENSION, 3

    def __init__(self) -> None:
        super().__init__()
        for stage in (self.head, *(self.xvector[name] for name in _FROZEN)):
            stage.requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        """Training mode; but the batch normalizations go on as in inference."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.eval()
        return self

    def frames(self, features: Tensor) -> Tensor:
        """What the last layer sees: ``(B, T, 80)`` to ``(B, 512, t)``."""
        with torch.no_grad():
            x = self.head(features)
            for name in _FROZEN:
                x = self.xvector[name](x)
        for name in ("block3", "transit3", "out_nonlinear"):
            x = self.xvector[name](x)
        return torch.as_tensor(x)
