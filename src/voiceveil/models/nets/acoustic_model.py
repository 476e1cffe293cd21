"""The acoustic model of B1.a: content, F0 and speaker to mel spectra, frame after frame (VoicePrivacy 2022, table 4).

Conventions: B recordings, T frames of 10 ms. ``content`` (B, T, D), ``f0`` (B, T) in Hz with 0 = unvoiced, ``speaker``
(B, E), ``mel`` (B, T, 80) natural logarithms (:mod:`voiceveil.models.nets.mel`).

========== ==========================================================================================
base       two layers of 512, tanh; BLSTM, 128 each way
feedback   the previous mel frame, times 0.1, gated tanh; two layers of 80; beside the base's 256
recurrent  two LSTM of 512; a layer to 80
postnet    five causal convolutions over 5 frames, with gated tanh between them
========== ==========================================================================================

A gated tanh is ``tanh(x) sigmoid(noise)`` with noise uniform in [-1, 1]. The criterion is the mean square error of
standardized mel, before and after the postnet, with the true previous frame as feedback.

Where the challenge's two implementations differ: table 4 and the first (CURRENNT) have a highway postnet, the second
(torch) a sum: ``postnet="highway"`` or ``"residual"``. Where ours differs: in synthesis the gates have their mean, one
half, so that it is no matter of chance; the first frame's feedback is zero in training too, where the torch code
rolls the last frame in; ``dropout`` hides the feedback of that share of frames in training (Wang, Takaki and Yamagishi
2018), without which a small network learns to copy the previous frame.
"""

from __future__ import annotations

from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.mel import BANDS
from voiceveil.models.nets.standardize import Standardize

__all__ = ["AcousticModel"]

_FEEDBACK_SCALE = 0.1
State = tuple[Tensor, ...]


def _step(lstm: nn.LSTM, x: Tensor, state: State) -> State:
    """Return one frame (B, C) through the LSTM: its new state, of which the first part is the output."""
    weights = [cast(Tensor, w) for w in (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)]
    return torch.lstm_cell(x, state, *weights)


class _GatedTanh(nn.Module):
    """``tanh(x) sigmoid(u)``: u uniform in [-1, 1] in training, 0 otherwise."""

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(2.0 * torch.rand_like(x) - 1.0) if self.training else 0.5
        return torch.tanh(x) * gate


class _Causal(nn.Conv1d):
    """A convolution (B, C, T) that sees a frame and those before it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.pad(x, (self.kernel_size[0] - 1, 0)))


class _Postnet(nn.Module):
    """Refines (B, T, bands); ``highway``: what it makes and its input are mixed by a trained gate."""

    def __init__(self, bands: int, layers: int, highway: bool) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for layer in range(layers):
            parts += [_GatedTanh()] if layer else []
            parts.append(_Causal(bands, bands, 5))
        self.layers = nn.Sequential(*parts)
        self.gate = nn.Linear(bands, bands) if highway else None
        if self.gate is not None:
            nn.init.constant_(self.gate.bias, -1.0)  # begins near its input, as highway networks do

    def forward(self, x: Tensor) -> Tensor:
        made = self.layers(x.transpose(1, 2)).transpose(1, 2)
        if self.gate is None:
            return cast(Tensor, x + made)
        return torch.lerp(x, made, torch.sigmoid(self.gate(x)))


class AcousticModel(nn.Module):
    """``forward(content, f0, speaker, mel)`` in training, ``generate(content, f0, speaker)`` in synthesis.

    ``size`` holds the arguments that make the same network again.
    """

    def __init__(
        self,
        content: int = 256,
        speaker: int = 512,
        hidden: int = 512,
        base: int = 256,
        recurrent: int = 512,
        postnet: Literal["highway", "residual"] = "highway",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.size = {
            "content": content, "speaker": speaker, "hidden": hidden, "base": base, "recurrent": recurrent,
            "postnet": postnet, "dropout": dropout,
        }  # fmt: skip
        self.content_scale, self.speaker_scale = Standardize(content), Standardize(speaker)
        self.f0_scale, self.mel_scale = Standardize(1), Standardize(BANDS)
        self.dropout = dropout
        self.feed_forward = nn.Sequential(
            nn.Linear(content + speaker + 1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh()
        )
        self.base = nn.LSTM(hidden, base // 2, batch_first=True, bidirectional=True)
        self.gate = _GatedTanh()
        self.feedback = nn.Sequential(nn.Linear(BANDS, BANDS), nn.Linear(BANDS, BANDS))
        self.first = nn.LSTM(base + BANDS, recurrent, batch_first=True)
        self.second = nn.LSTM(recurrent, recurrent, batch_first=True)
        self.output = nn.Linear(recurrent, BANDS)
        self.postnet = _Postnet(BANDS, 5, postnet == "highway")

    @classmethod
    def small(cls, content: int = 288, speaker: int = 192) -> AcousticModel:
        """Return a network that trains on one core; it runs far faster than real time, as the large one does."""
        return cls(content, speaker, hidden=256, base=192, recurrent=192, dropout=0.5)

    def forward(self, content: Tensor, f0: Tensor, speaker: Tensor, mel: Tensor | None = None) -> Tensor:
        """Mel spectra (B, T, 80): each frame after the true one before it, or, without ``mel``, after its own."""
        if mel is None:
            return self.generate(content, f0, speaker)
        return self.mel_scale.invert(self._forced(content, f0, speaker, self.mel_scale(mel))[1])

    def loss(self, content: Tensor, f0: Tensor, speaker: Tensor, mel: Tensor) -> Tensor:
        """Mean square error of standardized mel, before and after the postnet, added."""
        target = self.mel_scale(mel)
        before, after = self._forced(content, f0, speaker, target)
        return functional.mse_loss(before, target) + functional.mse_loss(after, target)

    @torch.inference_mode()
    def generate(self, content: Tensor, f0: Tensor, speaker: Tensor) -> Tensor:
        """Mel spectra (B, T, 80), each frame made after the one that was made before it."""
        return self.mel_scale.invert(self.postnet(self._own(content, f0, speaker)))

    def _own(self, content: Tensor, f0: Tensor, speaker: Tensor) -> Tensor:
        """Standardized mel before the postnet, its own feedback."""
        base = self._base(content, f0, speaker)
        first, second = (tuple(base.new_zeros(2, len(base), lstm.hidden_size)) for lstm in (self.first, self.second))
        frame = base.new_zeros(len(base), BANDS)
        frames = []
        for t in range(base.shape[1]):
            first = _step(self.first, torch.cat([base[:, t], self._fed_back(frame)], dim=1), first)
            second = _step(self.second, first[0], second)
            frame = self.output(second[0])
            frames.append(frame)
        return torch.stack(frames, dim=1)

    def _forced(self, content: Tensor, f0: Tensor, speaker: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Standardized mel before and after the postnet, with the true frames as feedback."""
        previous = functional.pad(target, (0, 0, 1, 0))[:, :-1]
        if self.training and self.dropout:
            previous = previous * (torch.rand_like(previous[..., :1]) >= self.dropout)
        inputs = torch.cat([self._base(content, f0, speaker), self._fed_back(previous)], dim=2)
        before = self.output(self.second(self.first(inputs)[0])[0])
        return before, self.postnet(before)

    def _base(self, content: Tensor, f0: Tensor, speaker: Tensor) -> Tensor:
        """What does not depend on feedback, (B, T, base)."""
        voice = self.speaker_scale(speaker).unsqueeze(1).expand(-1, content.shape[1], -1)
        inputs = torch.cat([self.content_scale(content), voice, self.f0_scale(f0.unsqueeze(2))], dim=2)
        return cast(Tensor, self.base(self.feed_forward(inputs))[0])

    def _fed_back(self, frame: Tensor) -> Tensor:
        return cast(Tensor, self.feedback(self.gate(_FEEDBACK_SCALE * frame)))
