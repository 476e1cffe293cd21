"""A linear layer trained with the additive angular margin softmax (Deng et al. 2019): the smallest neural back-end.

Conventions: as in :mod:`voiceveil.attack.backends`. The layer starts from the identity, which is known to work, and is
held near it, so that few speakers suffice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voiceveil.attack.backends import Linear
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.covariances import Codes, Floats

__all__ = ["MarginSoftmax"]


@dataclass(frozen=True)
class MarginSoftmax:
    """AAM-softmax with ``margin`` and ``scale`` on a square layer.

    ``pull`` weighs the squared distance from the start; full batches, Adam with a rate that falls as a cosine.
    """

    margin: float = 0.2
    scale: float = 30.0
    steps: int = 150
    rate: float = 0.003
    pull: float = 0.1
    seed: int = 0

    @property
    def name(self) -> str:
        """What the tables call it."""
        return "aam-softmax"

    def fit(self, embeddings: Floats, speaker: Codes) -> Linear:
        """Learn to tell the training speakers apart; speakers with one utterance are left out."""
        try:
            import torch
        except ImportError as error:
            raise InputError("the neural back-end needs torch", fix="pip install 'voiceveil[asv]'") from error
        torch.set_num_threads(1)
        _, codes, counts = np.unique(speaker, return_inverse=True, return_counts=True)
        several = counts[codes] > 1
        label = torch.from_numpy(np.unique(codes[several], return_inverse=True)[1])
        mean, spread = embeddings.mean(axis=0), embeddings.std(axis=0) + 1e-6
        x = torch.from_numpy(((embeddings[several] - mean) / spread).astype(np.float32))
        first = torch.from_numpy(np.diag(spread).astype(np.float32))  # undoes the standardisation
        change = torch.zeros_like(first, requires_grad=True)
        with torch.no_grad():  # the classes start at the speakers' means
            sums = torch.zeros(int(label.max()) + 1, len(first)).index_add_(0, label, x @ first.T)
        classes = torch.nn.functional.normalize(sums).clone().requires_grad_(True)
        optimizer = torch.optim.Adam([change, classes], lr=self.rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.steps):
            kept = (torch.rand(x.shape, generator=generator) > 0.1) / 0.9
            y = torch.nn.functional.normalize((x * kept) @ (first + change).T)
            cosine = (y @ torch.nn.functional.normalize(classes).T).clamp(-0.9999, 0.9999)
            moved = torch.cos(torch.acos(cosine) + self.margin)
            own = torch.nn.functional.one_hot(label, len(classes)).bool()
            loss = torch.nn.functional.cross_entropy(self.scale * torch.where(own, moved, cosine), label)
            loss = loss + self.pull * change.square().sum() / first.square().sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        learned = (first + change).detach().numpy().astype(np.float64)
        return Linear(mean, (learned / spread).T)
