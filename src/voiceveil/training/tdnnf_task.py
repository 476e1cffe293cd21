"""How TDNN-F learns: CTC, and cross-entropy on the alignments that CTC's outputs give (Viterbi)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from voiceveil.models.nets.tdnnf import SUBSAMPLING, Tdnnf
from voiceveil.training.ctc_alignment import align
from voiceveil.training.recognition_data import RecognitionData, SpeechBatch

__all__ = ["TdnnfTask"]

_STATISTICS_STEPS = 10
_CE_WEIGHT = 0.3


class TdnnfTask:
    """Both losses per token and per frame; one update in four is followed by the semi-orthogonal constraint."""

    kind = "TDNN-F"

    def __init__(self, network: Tdnnf, device: str = "cpu") -> None:
        self.device = device
        self.network: Tdnnf = network.to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)

    @property
    def modules(self) -> torch.nn.Module:
        """All that learns."""
        return self.network

    def prepare(self, data: RecognitionData) -> None:
        """Means and deviations of features and utterance vectors."""
        batches = [data.batch(step, 8) for step in range(_STATISTICS_STEPS)]
        features = [f[:n] for b in batches for f, n in zip(b.features, b.frames, strict=True)]
        self.network.feature_scale.fit(torch.from_numpy(np.concatenate(features)))
        self.network.utterance_scale.fit(torch.from_numpy(np.concatenate([b.utterance for b in batches])))

    def step(self, batch: SpeechBatch, rng: np.random.Generator) -> float:
        """Return one step of AdamW."""
        self.optimizer.zero_grad()
        loss = self._loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        if rng.random() < 0.25:
            self.network.constrain()
        return float(loss.detach())

    def validate(self, batch: SpeechBatch, rng: np.random.Generator) -> float:
        """The same loss."""
        return float(self._loss(batch).detach())

    def record(self) -> dict[str, Any]:
        """Return the size."""
        return dict(self.network.size)

    def _loss(self, batch: SpeechBatch) -> Tensor:
        features, utterance = (torch.from_numpy(x).to(self.device) for x in (batch.features, batch.utterance))
        ctc, ce = self.network(features, utterance)
        rows = torch.from_numpy(-(-batch.frames // SUBSAMPLING))
        counts = torch.tensor([len(t) for t in batch.tokens])
        spelled = torch.from_numpy(np.concatenate(batch.tokens))
        scores = ctc.transpose(0, 1).cpu()  # few numbers, wherever the network is
        loss = functional.ctc_loss(scores, spelled, rows, counts, reduction="sum") / counts.sum()
        seen = ctc.detach().cpu().numpy()
        aligned = [align(s[:n], t) for s, n, t in zip(seen, rows.tolist(), batch.tokens, strict=True)]
        kept = torch.cat([row[:n] for row, n in zip(ce, rows.tolist(), strict=True)])
        target = torch.from_numpy(np.concatenate(aligned)).to(self.device)
        return loss.to(self.device) + _CE_WEIGHT * functional.nll_loss(kept, target)
