"""How the recogniser of M1 learns, and that of M1c1, which learns to mask the speaker as well.

The criterion is half CTC, half the speller's cross entropy. M1c1: an adversary tells the speaker's embedding from the
mean of the content over an utterance; the encoder is trained to make its answer useless, a cosine of 0 to the truth, on
every other step ("semi-adversarial": the steps between keep the words). Our decision: embeddings, not numbers of
speakers, so that a corpus with few utterances a speaker will do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.nn.ctc_attention import CtcAttention
from voiceveil.nn.recognition_data import RecognitionData, SpeechBatch

__all__ = ["CtcAttentionTask"]

_CTC = 0.5
_STATISTICS_STEPS = 10


class CtcAttentionTask:
    """``masking``: the weight of hiding the speaker, 0 for M1; ``speaker``: the length of embeddings."""

    kind = "CTC/attention recogniser"

    def __init__(self, network: CtcAttention, device: str = "cpu", *, masking: float = 0.0, speaker: int = 192) -> None:
        self.device, self.masking = device, masking
        self.network: CtcAttention = network.to(device)
        width = network.size["width"]
        self.adversary = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, speaker)).to(device)
        self._modules = nn.ModuleList([self.network, self.adversary] if masking else [self.network])
        self.optimizer = torch.optim.AdamW(self._modules.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)

    @property
    def modules(self) -> nn.Module:
        """All that learns, the adversary too."""
        return self._modules

    def prepare(self, data: RecognitionData) -> None:
        """Means and deviations of the features."""
        batches = [data.batch(step, 8) for step in range(_STATISTICS_STEPS)]
        features = [f[:n] for b in batches for f, n in zip(b.features, b.frames, strict=True)]
        self.network.feature_scale.fit(torch.from_numpy(np.concatenate(features)))

    def step(self, batch: SpeechBatch, rng: np.random.Generator) -> float:
        """One step of AdamW."""
        self.optimizer.zero_grad()
        content, loss = self._loss(batch)
        total = loss
        if self.masking:
            pooled, truth = self._pooled(content, batch)
            total = total + (1 - functional.cosine_similarity(self.adversary(pooled.detach()), truth)).mean()
            if rng.random() < 0.5:
                total = total + self.masking * self._told(pooled, truth)
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._modules.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def validate(self, batch: SpeechBatch, rng: np.random.Generator) -> float:
        """The loss of the words alone."""
        return float(self._loss(batch)[1].detach())

    def record(self) -> dict[str, Any]:
        """The size."""
        return dict(self.network.size)

    def _loss(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        frames = torch.from_numpy(batch.frames)
        content = self.network.content(torch.from_numpy(batch.features).to(self.device), frames)
        ctc, spelling = self.network.losses(content, frames, [torch.from_numpy(t) for t in batch.tokens])
        return content, _CTC * ctc + (1 - _CTC) * spelling

    def _pooled(self, content: Tensor, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        """The mean of the content of each utterance, and its embedding."""
        rows = self.network.rows_of(torch.from_numpy(batch.frames))
        pooled = torch.stack([c[:n].mean(dim=0) for c, n in zip(content, rows.tolist(), strict=True)])
        return pooled, torch.from_numpy(batch.utterance).to(self.device)

    def _told(self, pooled: Tensor, truth: Tensor) -> Tensor:
        """How much the adversary, as it is, tells of the speakers: the mean square of cosines."""
        still = {name: value.detach() for name, value in self.adversary.named_parameters()}
        answers = torch.func.functional_call(self.adversary, still, (pooled,))
        return functional.cosine_similarity(answers, truth).square().mean()
