"""Training of TDNN-F: CTC, and cross-entropy on the frames as aligned by CTC's own outputs (Viterbi)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from voiceveil.models.asr.ctc_alignment import align
from voiceveil.models.nets.tdnnf import SUBSAMPLING, Tdnnf
from voiceveil.training.recognition_data import RecognitionData, SpeechBatch, stacked_features
from voiceveil.training.single_loss_task import SingleLossTask

__all__ = ["TdnnfTask"]

_STATISTICS_STEPS = 10  # batches from which means and deviations are estimated
_CROSS_ENTROPY_WEIGHT = 0.3
_CONSTRAINED_STEPS = 0.25  # share of the steps that are followed by the semi-orthogonal constraint


class TdnnfTask(SingleLossTask[SpeechBatch]):
    """CTC loss per token plus weighted cross-entropy per frame; the factors are kept semi-orthogonal."""

    kind = "TDNN-F"
    network: Tdnnf

    def __init__(self, network: Tdnnf, device: str = "cpu") -> None:
        super().__init__(network, device)

    def prepare(self, data: RecognitionData) -> None:
        """Fit the standardization of features and utterance embeddings."""
        batches = [data.batch(step, 8) for step in range(_STATISTICS_STEPS)]
        self.network.feature_scale.fit(stacked_features(batches))
        self.network.utterance_scale.fit(torch.from_numpy(np.concatenate([b.utterance for b in batches])))

    def step(self, batch: SpeechBatch, rng: np.random.Generator) -> float:
        """Update the weights, and apply the semi-orthogonal constraint in a quarter of the steps."""
        loss = super().step(batch, rng)
        if rng.random() < _CONSTRAINED_STEPS:
            self.network.constrain()
        return loss

    def loss(self, batch: SpeechBatch, rng: np.random.Generator) -> Tensor:
        """Return the sum of both losses in nats."""
        features, utterance = (torch.from_numpy(x).to(self.device) for x in (batch.features, batch.utterance))
        ctc, cross_entropy = self.network(features, utterance)
        rows = torch.from_numpy(-(-batch.frames // SUBSAMPLING))
        counts = torch.tensor([len(t) for t in batch.tokens])
        tokens = torch.from_numpy(np.concatenate(batch.tokens))
        scores = ctc.transpose(0, 1).cpu()  # small, on whatever device the network is
        loss = functional.ctc_loss(scores, tokens, rows, counts, reduction="sum") / counts.sum()
        log_probabilities = ctc.detach().cpu().numpy()
        aligned = [align(s[:n], t) for s, n, t in zip(log_probabilities, rows.tolist(), batch.tokens, strict=True)]
        outputs = torch.cat([row[:n] for row, n in zip(cross_entropy, rows.tolist(), strict=True)])
        target = torch.from_numpy(np.concatenate(aligned)).to(self.device)
        return loss.to(self.device) + _CROSS_ENTROPY_WEIGHT * functional.nll_loss(outputs, target)
