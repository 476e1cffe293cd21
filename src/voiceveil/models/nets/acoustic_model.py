"""The acoustic model of B1.a, which predicts mel spectra from content, F0 and speaker (VoicePrivacy 2022, table 4).

Conventions: B recordings, T frames of 10 ms. ``content`` (B, T, D), ``f0`` (B, T) in Hz with 0 = unvoiced, ``speaker``
(B, E), ``mel`` (B, T, 80) natural logarithms (:mod:`voiceveil.models.nets.mel`).

========== ==========================================================================================
base       two layers of 512, tanh; BLSTM, 128 each way
feedback   the previous mel frame, times 0.1, gated tanh; two layers of 80; concatenated with the base's 256
recurrent  two LSTM of 512; a layer to 80
postnet    five causal convolutions over 5 frames, with gated tanh between them
========== ==========================================================================================

A gated tanh is ``tanh(x) sigmoid(noise)`` with noise uniform in [-1, 1]. The criterion is the mean square error of
standardized mel spectra, before and after the postnet, with the true previous frame as feedback (teacher forcing).

The challenge's two implementations differ: table 4 and the first (CURRENNT) have a highway postnet, the second (torch)
a sum: ``postnet="highway"`` or ``"residual"``. Differences from both: in synthesis the gates have their mean, one half,
so that synthesis is deterministic; the feedback of the first frame is zero in training too, where the torch code uses
the last frame; ``dropout`` hides the feedback of that fraction of frames in training (Wang, Takaki and Yamagishi 2018),
because without it a small network learns to copy the previous frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.mel import BANDS
from voiceveil.models.nets.standardize import Standardize

__all__ = ["AcousticModel", "AcousticModelSize"]

_FEEDBACK_SCALE = 0.1
State = tuple[Tensor, ...]


def _lstm_step(lstm: nn.LSTM, x: Tensor, state: State) -> State:
    """Return the state of an LSTM after one frame (B, C); its first part is the output."""
    weights = [cast(Tensor, w) for w in (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)]
    return torch.lstm_cell(x, state, *weights)


class _GatedTanh(nn.Module):
    """``tanh(x) sigmoid(u)``: u uniform in [-1, 1] in training, 0 otherwise."""

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(2.0 * torch.rand_like(x) - 1.0) if self.training else 0.5
        return torch.tanh(x) * gate


class _CausalConv(nn.Conv1d):
    """A convolution (B, C, T) over a frame and those before it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.pad(x, (self.kernel_size[0] - 1, 0)))


class _Postnet(nn.Module):
    """Refines mel spectra (B, T, bands); with ``highway``, a trained gate mixes its output and its input."""

    def __init__(self, bands: int, layers: int, highway: bool) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for layer in range(layers):
            parts += [_GatedTanh()] if layer else []
            parts.append(_CausalConv(bands, bands, 5))
        self.layers = nn.Sequential(*parts)
        self.gate = nn.Linear(bands, bands) if highway else None
        if self.gate is not None:
            nn.init.constant_(self.gate.bias, -1.0)  # at first the output is near the input, as in highway networks

    def forward(self, x: Tensor) -> Tensor:
        refined = self.layers(x.transpose(1, 2)).transpose(1, 2)
        if self.gate is None:
            return cast(Tensor, x + refined)
        return torch.lerp(x, refined, torch.sigmoid(self.gate(x)))


@dataclass(frozen=True)
class AcousticModelSize:
    """Dimensions of the inputs and of the network; the defaults are those of the challenge."""

    content: int = 256
    speaker: int = 512
    hidden: int = 512  # units of the feed-forward layers
    base: int = 256  # outputs of the BLSTM, both directions together
    recurrent: int = 512  # units of the LSTMs
    postnet: Literal["highway", "residual"] = "highway"
    dropout: float = 0.0  # fraction of frames whose feedback is hidden in training

    @classmethod
    def small(cls, content: int = 288, speaker: int = 192) -> AcousticModelSize:
        """Return the size of a network that can be trained on one core."""
        return cls(content, speaker, hidden=256, base=192, recurrent=192, dropout=0.5)


class AcousticModel(nn.Module):
    """``forward(content, f0, speaker, mel)`` in training, ``generate(content, f0, speaker)`` in synthesis."""

    def __init__(self, size: AcousticModelSize) -> None:
        super().__init__()
        self.size = size
        self.content_scale, self.speaker_scale = Standardize(size.content), Standardize(size.speaker)
        self.f0_scale, self.mel_scale = Standardize(1), Standardize(BANDS)
        self.feed_forward = nn.Sequential(
            nn.Linear(size.content + size.speaker + 1, size.hidden),
            nn.Tanh(),
            nn.Linear(size.hidden, size.hidden),
            nn.Tanh(),
        )
        self.base = nn.LSTM(size.hidden, size.base // 2, batch_first=True, bidirectional=True)
        self.gate = _GatedTanh()
        self.feedback = nn.Sequential(nn.Linear(BANDS, BANDS), nn.Linear(BANDS, BANDS))
        self.first = nn.LSTM(size.base + BANDS, size.recurrent, batch_first=True)
        self.second = nn.LSTM(size.recurrent, size.recurrent, batch_first=True)
        self.output = nn.Linear(size.recurrent, BANDS)
        self.postnet = _Postnet(BANDS, 5, size.postnet == "highway")

    def forward(self, content: Tensor, f0: Tensor, speaker: Tensor, mel: Tensor | None = None) -> Tensor:
        """Return mel spectra (B, T, 80), with feedback of the true frames ``mel``, or, without them, of its own."""
        if mel is None:
            return self.generate(content, f0, speaker)
        return self.mel_scale.invert(self._teacher_forced(content, f0, speaker, self.mel_scale(mel))[1])

    def loss(self, content: Tensor, f0: Tensor, speaker: Tensor, mel: Tensor) -> Tensor:
        """Return the mean square error of standardized mel spectra, before plus after the postnet."""
        target = self.mel_scale(mel)
        before, after = self._teacher_forced(content, f0, speaker, target)
        return functional.mse_loss(before, target) + functional.mse_loss(after, target)

    @torch.inference_mode()
    def generate(self, content: Tensor, f0: Tensor, speaker: Tensor) -> Tensor:
        """Return mel spectra (B, T, 80); each frame depends on the one generated before it."""
        return self.mel_scale.invert(self.postnet(self._free_running(content, f0, speaker)))

    def _free_running(self, content: Tensor, f0: Tensor, speaker: Tensor) -> Tensor:
        """Return standardized mel spectra before the postnet, with feedback of its own frames."""
        base = self._base_features(content, f0, speaker)
        first, second = (tuple(base.new_zeros(2, len(base), lstm.hidden_size)) for lstm in (self.first, self.second))
        frame = base.new_zeros(len(base), BANDS)
        frames = []
        for t in range(base.shape[1]):
            first = _lstm_step(self.first, torch.cat([base[:, t], self._feedback_features(frame)], dim=1), first)
            second = _lstm_step(self.second, first[0], second)
            frame = self.output(second[0])
            frames.append(frame)
        return torch.stack(frames, dim=1)

    def _teacher_forced(self, content: Tensor, f0: Tensor, speaker: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return standardized mel spectra before and after the postnet, with feedback of the true frames."""
        previous = functional.pad(target, (0, 0, 1, 0))[:, :-1]
        if self.training and self.size.dropout:
            previous = previous * (torch.rand_like(previous[..., :1]) >= self.size.dropout)
        inputs = torch.cat([self._base_features(content, f0, speaker), self._feedback_features(previous)], dim=2)
        before = self.output(self.second(self.first(inputs)[0])[0])
        return before, self.postnet(before)

    def _base_features(self, content: Tensor, f0: Tensor, speaker: Tensor) -> Tensor:
        """Return the features (B, T, base) that do not depend on feedback."""
        embedding = self.speaker_scale(speaker).unsqueeze(1).expand(-1, content.shape[1], -1)
        inputs = torch.cat([self.content_scale(content), embedding, self.f0_scale(f0.unsqueeze(2))], dim=2)
        return cast(Tensor, self.base(self.feed_forward(inputs))[0])

    def _feedback_features(self, frame: Tensor) -> Tensor:
        return cast(Tensor, self.feedback(self.gate(_FEEDBACK_SCALE * frame)))
