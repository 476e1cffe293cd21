"""How the recognizer of M1 learns, and that of M1c1, which learns to mask the speaker as well.

The criterion is half CTC, half the speller's cross entropy. With a teacher, the content is also to be what the teacher
hears: 1 - the correlation of every feature over an utterance. It says something of every frame, where the text of a few
hours says little, and a decoder that knows the teacher's content then knows this one.

M1c1: an adversary tells the speaker's embedding from the content; the encoder is trained to make its answer useless, a
cosine of 0 to the truth, on every other step ("semi-adversarial": the steps between keep the words). Our decisions:
embeddings, not numbers of speakers, so that a corpus with few utterances a speaker will do; and the adversary hears the
content as a synthesizer gets it, without mean and scale over the utterance, all frames of it.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.ctc_attention import CtcAttention
from voiceveil.models.nets.standardize import Standardize
from voiceveil.training.recognition_data import RecognitionData, SpeechBatch

__all__ = ["CtcAttentionTask"]

_CTC = 0.5
_STATISTICS_STEPS = 10


class _Adversary(nn.Module):
    """Normalized content (B, R, width) and which rows count (B, R, 1) to embeddings (B, speaker), less their mean."""

    def __init__(self, width: int, speaker: int) -> None:
        super().__init__()
        self.center = Standardize(speaker)
        self.frame, self.voice = nn.Linear(width, 256), nn.Linear(256, speaker)

    def forward(self, content: Tensor, inside: Tensor) -> Tensor:
        heard = torch.relu(self.frame(content)) * inside
        return cast(Tensor, self.voice(heard.sum(dim=1) / inside.sum(dim=1)))


class CtcAttentionTask:
    """``masking``: the weight of hiding the speaker, 0 for M1; ``speaker``: the length of embeddings.

    ``imitation``: the weight of the teacher, if the data have one; ``spelt``: utterances of a batch that the speller,
    the slowest part, learns from (None: all).
    """

    kind = "CTC/attention recogniser"
    imitation = 0.0

    def __init__(
        self,
        network: CtcAttention,
        device: str = "cpu",
        *,
        masking: float = 0.0,
        speaker: int = 192,
        spelt: int | None = None,
    ) -> None:
        self.device, self.masking, self.spelt = device, masking, spelt
        self.network: CtcAttention = network.to(device)
        self.adversary = _Adversary(int(network.size["width"]), speaker if masking else 1).to(device)
        self._modules = nn.ModuleList([self.network, self.adversary] if masking else [self.network])
        self.optimizer = torch.optim.AdamW(self._modules.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)

    @property
    def modules(self) -> nn.Module:
        """All that learns, the adversary too."""
        return self._modules

    def prepare(self, data: RecognitionData) -> None:
        """Means and deviations of the features; the mean of the embeddings."""
        batches = [data.batch(step, 8) for step in range(_STATISTICS_STEPS)]
        features = [f[:n] for b in batches for f, n in zip(b.features, b.frames, strict=True)]
        self.network.feature_scale.fit(torch.from_numpy(np.concatenate(features)))
        if self.masking:
            mean = torch.from_numpy(np.concatenate([b.utterance for b in batches]).mean(axis=0))
            self.adversary.center.set(mean, torch.ones_like(mean))

    def step(self, batch: SpeechBatch, rng: np.random.Generator) -> float:
        """Return one step of AdamW."""
        self.optimizer.zero_grad()
        content, loss = self._loss(batch)
        total = loss
        if self.masking:
            inside = self._inside(content, batch)
            heard, truth = _normalized(content, inside), self._truth(batch)
            answer = self.adversary(heard.detach(), inside)
            total = total + (1 - functional.cosine_similarity(answer, truth)).mean()
            if rng.random() < 0.5:
                total = total + self.masking * self._told(heard, inside, truth)
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._modules.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def validate(self, batch: SpeechBatch, rng: np.random.Generator) -> float:
        """Return the loss of words and teacher alone."""
        return float(self._loss(batch)[1].detach())

    def record(self) -> dict[str, Any]:
        """Return the size."""
        return dict(self.network.size)

    def _loss(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        frames = torch.from_numpy(batch.frames)
        content = self.network.content(torch.from_numpy(batch.features).to(self.device), frames)
        tokens = [torch.from_numpy(t) for t in batch.tokens]
        ctc, spelling = self.network.losses(content, frames, tokens, self.spelt)
        loss = _CTC * ctc + (1 - _CTC) * spelling
        if self.imitation and batch.taught:
            loss = loss + self.imitation * self._otherwise(content, batch)
        return content, loss

    def _otherwise(self, content: Tensor, batch: SpeechBatch) -> Tensor:
        """1 - the correlation of content and what was taught, a mean over features and utterances."""
        inside = self._inside(content, batch)
        taught = nn.utils.rnn.pad_sequence([torch.from_numpy(t) for t in batch.taught], batch_first=True)
        both = _normalized(content, inside) * _normalized(taught.to(content), inside)
        return 1 - (both.sum(dim=1) / inside.sum(dim=1)).mean()

    def _inside(self, content: Tensor, batch: SpeechBatch) -> Tensor:
        """1 for rows of an utterance, 0 behind its end: (B, R, 1)."""
        rows = self.network.rows_of(torch.from_numpy(batch.frames))
        return (torch.arange(content.shape[1]) < rows[:, None]).unsqueeze(2).to(content)

    def _truth(self, batch: SpeechBatch) -> Tensor:
        return cast(Tensor, self.adversary.center(torch.from_numpy(batch.utterance).to(self.device)))

    def _told(self, heard: Tensor, inside: Tensor, truth: Tensor) -> Tensor:
        """How much the adversary, as it is, tells of the speakers: the mean square of cosines."""
        still = {name: value.detach() for name, value in self.adversary.named_parameters()}
        answers = torch.func.functional_call(self.adversary, still, (heard, inside))
        return functional.cosine_similarity(answers, truth).square().mean()


def _normalized(content: Tensor, inside: Tensor) -> Tensor:
    """Content (B, R, D) of mean 0 and deviation 1 over the rows of each utterance, as a synthesizer gets it."""
    count = inside.sum(dim=1, keepdim=True)
    centered = (content - (content * inside).sum(dim=1, keepdim=True) / count) * inside
    return centered / (centered.square().sum(dim=1, keepdim=True) / count + 1e-8).sqrt()
