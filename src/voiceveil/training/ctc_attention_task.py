"""Training of the recognizer of M1, and of M1c1, whose content is also to hide the speaker.

The loss is the mean of the CTC loss and of the speller's cross-entropy. With a teacher, 1 - the correlation of each
content feature with the teacher's over an utterance is added: this constrains every frame, which the transcripts of a
few hours do not, and a decoder trained on the teacher's content then also works with this content.

M1c1: an adversary predicts the speaker embedding from the content, and in every other step on average the encoder is
trained to make the prediction useless, a cosine of 0 to the true embedding ("semi-adversarial": the other steps train
the recognition alone). Two decisions are ours: embeddings instead of speaker numbers, so that a corpus with few
utterances per speaker can be used; and the adversary gets the content as a synthesizer does, standardized over the
utterance, and all frames of it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.ctc_attention import CtcAttention
from voiceveil.models.nets.standardize import Standardize
from voiceveil.training.recognition_data import RecognitionData, SpeechBatch, stacked_features

__all__ = ["CtcAttentionTask", "standardized_content"]

_CTC_WEIGHT = 0.5
_STATISTICS_STEPS = 10  # batches from which means and deviations are estimated


class _Adversary(nn.Module):
    """Standardized content (B, R, width) and its mask (B, R, 1) to centered embeddings (B, speaker)."""

    def __init__(self, width: int, speaker: int) -> None:
        super().__init__()
        self.center = Standardize(speaker)
        self.frame, self.voice = nn.Linear(width, 256), nn.Linear(256, speaker)

    def forward(self, content: Tensor, mask: Tensor) -> Tensor:
        hidden = torch.relu(self.frame(content)) * mask
        return cast(Tensor, self.voice(hidden.sum(dim=1) / mask.sum(dim=1)))


class CtcAttentionTask:
    """CTC and attention losses, optionally with a teacher and an adversary.

    Parameters
    ----------
    network
        The recognizer.
    device
        Device of torch.
    adversary_loss
        Weight of hiding the speaker; 0 trains without an adversary (M1).
    speaker
        Dimension of the speaker embeddings.
    spelled
        Utterances of each batch that train the speller, which is the slowest part (None: all).

    Attributes
    ----------
    teacher_loss : float
        Weight of the imitation of the teacher, if the data have one.
    """

    kind = "CTC/attention recogniser"  # the spelling of saved weights
    teacher_loss = 0.0

    def __init__(
        self,
        network: CtcAttention,
        device: str = "cpu",
        *,
        adversary_loss: float = 0.0,
        speaker: int = 192,
        spelled: int | None = None,
    ) -> None:
        self.device, self.adversary_loss, self.spelled = device, adversary_loss, spelled
        self.network: CtcAttention = network.to(device)
        self.adversary = _Adversary(network.size.width, speaker if adversary_loss else 1).to(device)
        self._modules = nn.ModuleList([self.network, self.adversary] if adversary_loss else [self.network])
        self.optimizer = torch.optim.AdamW(self._modules.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)

    @property
    def modules(self) -> nn.Module:
        """The recognizer, and the adversary if there is one."""
        return self._modules

    def prepare(self, data: RecognitionData) -> None:
        """Fit the standardization of the features and the mean of the embeddings."""
        batches = [data.batch(step, 8) for step in range(_STATISTICS_STEPS)]
        self.network.feature_scale.fit(stacked_features(batches))
        if self.adversary_loss:
            mean = torch.from_numpy(np.concatenate([b.utterance for b in batches]).mean(axis=0))
            self.adversary.center.set(mean, torch.ones_like(mean))

    def step(self, batch: SpeechBatch, rng: np.random.Generator) -> float:
        """Update recognizer and adversary by one step of AdamW; return the loss of :meth:`validate` before it."""
        self.optimizer.zero_grad()
        content, loss = self.content_and_loss(batch)
        total = loss
        if self.adversary_loss:
            mask = self.mask(content, batch)
            inputs, target = standardized_content(content, mask), self._centered_embeddings(batch)
            prediction = self.adversary(inputs.detach(), mask)
            total = total + (1 - functional.cosine_similarity(prediction, target)).mean()
            if rng.random() < 0.5:
                total = total + self.adversary_loss * self.speaker_leakage(content, batch)
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._modules.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def validate(self, batch: SpeechBatch, rng: np.random.Generator) -> float:
        """Return the loss of recognition and teacher, without the adversary."""
        return float(self.content_and_loss(batch)[1].detach())

    def record(self) -> dict[str, Any]:
        """Return the size of the network."""
        return asdict(self.network.size)

    def content_and_loss(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        """Return the content (B, R, width) of a batch, and the loss of recognition and teacher."""
        frames = torch.from_numpy(batch.frames)
        content = self.network.content(torch.from_numpy(batch.features).to(self.device), frames)
        with_text = [row for row, tokens in enumerate(batch.tokens) if len(tokens)]
        loss = content.new_zeros(())
        if with_text:
            tokens = [torch.from_numpy(batch.tokens[row]) for row in with_text]
            rows = torch.tensor(with_text, device=self.device)
            spoken = content.index_select(0, rows)
            ctc, spelling = self.network.losses(spoken, frames[with_text], tokens, self.spelled)
            loss = _CTC_WEIGHT * ctc + (1 - _CTC_WEIGHT) * spelling
        if self.teacher_loss and batch.teacher_content:
            loss = loss + self.teacher_loss * self.teacher_distance(content, batch)
        return content, loss

    def teacher_distance(self, content: Tensor, batch: SpeechBatch) -> Tensor:
        """Return 1 - the correlation of content with the teacher's, averaged over features and utterances."""
        mask = self.mask(content, batch)
        teacher = nn.utils.rnn.pad_sequence([torch.from_numpy(t) for t in batch.teacher_content], batch_first=True)
        products = standardized_content(content, mask) * standardized_content(teacher.to(content), mask)
        return 1 - (products.sum(dim=1) / mask.sum(dim=1)).mean()

    def speaker_leakage(self, content: Tensor, batch: SpeechBatch) -> Tensor:
        """Return the mean squared cosine of the adversary's predictions to the embeddings; its weights are fixed."""
        mask = self.mask(content, batch)
        fixed = {name: value.detach() for name, value in self.adversary.named_parameters()}
        inputs = (standardized_content(content, mask), mask)
        predictions = torch.func.functional_call(self.adversary, fixed, inputs)
        return functional.cosine_similarity(predictions, self._centered_embeddings(batch)).square().mean()

    def mask(self, content: Tensor, batch: SpeechBatch) -> Tensor:
        """Return 1 for rows of an utterance and 0 for padding, (B, R, 1)."""
        rows = self.network.output_lengths(torch.from_numpy(batch.frames))
        return (torch.arange(content.shape[1]) < rows[:, None]).unsqueeze(2).to(content)

    def _centered_embeddings(self, batch: SpeechBatch) -> Tensor:
        return cast(Tensor, self.adversary.center(torch.from_numpy(batch.utterance).to(self.device)))


def standardized_content(content: Tensor, mask: Tensor) -> Tensor:
    """Return content (B, R, D) with mean 0 and deviation 1 over the rows of each utterance; 0 where ``mask`` is."""
    count = mask.sum(dim=1, keepdim=True)
    centered = (content - (content * mask).sum(dim=1, keepdim=True) / count) * mask
    return centered / (centered.square().sum(dim=1, keepdim=True) / count + 1e-8).sqrt()
