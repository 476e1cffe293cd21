"""An end-to-end recognizer with CTC and attention, whose encoder gives the content of M1 and M1c1 of VoicePrivacy 2020.

Champion et al. (2020) took hidden layers of a hybrid CTC/attention network (Watanabe et al. 2017) for B1's bottleneck
features; M1c1 learns, besides, to mask who speaks ("semi-adversarial" training). Neither says more in the overview, so
that the sizes are those of ESPnet's LibriSpeech recipe of the time.

    MFCC (B, T, 40) -> convolutions, a quarter of the frames -> BLSTM with projections -> content (B, T / 4, width)
    content -> CTC;  content -> attention with location (Chorowski et al. 2015) and an LSTM that spells

So that little speech is enough to learn from, the network may stand on a layer of another recognizer instead of MFCC
and convolutions (``channels`` = 0); its content then has as many frames as that layer, which also goes
past the BLSTM to the content, through a matrix.

Conventions: tokens count from 1, 0 is CTC's blank, and in the decoder begin and end of a text. ``frames`` (B,) are the
lengths of the utterances in frames of the features, for MFCC of 10 ms; what is behind them has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from voiceveil.models.nets.standardize import Standardize

__all__ = ["SUBSAMPLING", "CtcAttention"]

#: Frames of MFCC for each of the content.
SUBSAMPLING = 4


class _Attention(nn.Module):
    """Weights over rows (B, R) from what is to be spelled, the rows, and where it looked last."""

    def __init__(self, width: int, query: int, hidden: int) -> None:
        super().__init__()
        self.rows, self.query = nn.Linear(width, hidden), nn.Linear(query, hidden, bias=False)
        self.place = nn.Conv1d(1, 8, 31, padding=15, bias=False)
        self.located, self.score = nn.Linear(8, hidden, bias=False), nn.Linear(hidden, 1, bias=False)

    def forward(self, keys: Tensor, query: Tensor, before: Tensor, hidden_rows: Tensor) -> Tensor:
        place = self.located(self.place(before.unsqueeze(1)).transpose(1, 2))
        scores = self.score(torch.tanh(keys + self.query(query).unsqueeze(1) + place)).squeeze(2)
        return torch.softmax(scores.masked_fill(hidden_rows, -1e9), dim=1)


class _BothWays(nn.Module):
    """An LSTM from the first row to the last and one from the last to the first: (B, R, D) to (B, R, 2 hidden).

    Packed sequences would do the same, but the way back through them is forty times as slow on a CPU.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.ahead, self.back = (nn.LSTM(inputs, hidden, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        place = torch.arange(x.shape[1])
        turned = torch.where(place < rows[:, None], rows[:, None] - 1 - place, place).unsqueeze(2).to(x.device)
        back = self.back(x.gather(1, turned.expand_as(x)))[0]
        return torch.cat([self.ahead(x)[0], back.gather(1, turned.expand_as(back))], dim=2)


class CtcAttention(nn.Module):
    """``content(features, frames)``; ``losses(features, frames, tokens)`` in training. ``size`` makes it again."""

    def __init__(
        self,
        outputs: int,
        features: int = 40,
        channels: int = 64,
        hidden: int = 1024,
        layers: int = 5,
        width: int = 1024,
        attention: int = 320,
    ) -> None:
        super().__init__()
        self.size = {
            "outputs": outputs, "features": features, "channels": channels, "hidden": hidden, "layers": layers,
            "width": width, "attention": attention,
        }  # fmt: skip
        self.subsampling = SUBSAMPLING if channels else 1
        self.feature_scale = Standardize(features)
        parts: list[nn.Module] = []
        for before, after in ((1, channels), (channels, 2 * channels)) if channels else ():
            for first in (before, after):
                parts += [nn.Conv2d(first, after, 3, padding=1), nn.ReLU()]
            parts.append(nn.MaxPool2d(2, ceil_mode=True))
        self.front = nn.Sequential(*parts)
        flat = 2 * channels * -(-features // SUBSAMPLING) if channels else features
        self.recurrent = nn.ModuleList(_BothWays(flat if i == 0 else width, hidden) for i in range(layers))
        self.projections = nn.ModuleList(nn.Linear(2 * hidden, width) for _ in range(layers))
        self.bypass = None if channels else nn.Linear(features, width, bias=False)
        self.ctc = nn.Linear(width, outputs)
        self.embedding = nn.Embedding(outputs, hidden)
        self.attention = _Attention(width, hidden, min(hidden, attention))
        self.speller = nn.LSTMCell(hidden + width, hidden)
        self.spelled = nn.Linear(hidden + width, outputs)

    @classmethod
    def small(cls, outputs: int, width: int = 128) -> CtcAttention:
        """Return a network that trains on one core."""
        return cls(outputs, channels=16, hidden=128, layers=2, width=width)

    @classmethod
    def on(cls, outputs: int, features: int, width: int) -> CtcAttention:
        """Return a network on the features of another one; it trains on one core."""
        return cls(outputs, features, channels=0, hidden=192, layers=1, width=width, attention=32)

    def content(self, features: Tensor, frames: Tensor) -> Tensor:
        """(B, ceil(T / 4), width); without convolutions (B, T, width)."""
        inside = torch.arange(features.shape[1]) < frames[:, None]
        x = self.feature_scale(features) * inside.unsqueeze(2).to(features.device)
        x = self.front(x.unsqueeze(1)).transpose(1, 2).flatten(2) if len(self.front) else x
        rows = self.rows_of(frames)
        first = x
        for recurrent, projection in zip(self.recurrent, self.projections, strict=True):
            last = projection(recurrent(x, rows))
            x = torch.tanh(last)
        return cast(Tensor, x if self.bypass is None else torch.tanh(last + self.bypass(first)))

    def rows_of(self, frames: Tensor) -> Tensor:
        """How many vectors of content utterances of so many frames have."""
        return (frames + self.subsampling - 1) // self.subsampling

    def losses(
        self, content: Tensor, frames: Tensor, tokens: Sequence[Tensor], spelt: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """CTC, and the cross entropy of the speller after the true token before; both for each token.

        The speller, which goes token by token and is slow, has the first ``spelt`` utterances alone.
        """
        rows, counts = self.rows_of(frames), torch.tensor([len(t) for t in tokens])
        scores = functional.log_softmax(self.ctc(content), dim=2).transpose(0, 1).cpu()
        ctc = functional.ctc_loss(
            scores, torch.cat(list(tokens)).cpu(), rows, counts, reduction="sum", zero_infinity=True
        )
        content, rows, tokens = content[:spelt], rows[:spelt], tokens[:spelt]
        end = torch.zeros(1, dtype=torch.long)
        given = pad_sequence([torch.cat([end, t.cpu()]) for t in tokens], batch_first=True).to(content.device)
        wanted = pad_sequence([torch.cat([t.cpu(), end]) for t in tokens], batch_first=True, padding_value=-1)
        guesses = self._spelled(content, rows, given)
        spelling = functional.cross_entropy(guesses.flatten(0, 1), wanted.flatten().to(content.device), ignore_index=-1)
        return ctc.to(content.device) / counts.sum(), spelling

    def _spelled(self, content: Tensor, rows: Tensor, given: Tensor) -> Tensor:
        """Scores (B, N, outputs) of the next token after each of the given ones (B, N)."""
        hidden_rows = (torch.arange(content.shape[1]) >= rows[:, None]).to(content.device)
        keys, embedded = self.attention.rows(content), self.embedding(given)
        weights = (~hidden_rows).float() / (~hidden_rows).sum(dim=1, keepdim=True)
        state = content.new_zeros(len(content), self.speller.hidden_size)
        cell, made = state, []
        for n in range(given.shape[1]):
            weights = self.attention(keys, state, weights, hidden_rows)
            heard = torch.einsum("br,brw->bw", weights, content)
            state, cell = self.speller(torch.cat([embedded[:, n], heard], dim=1), (state, cell))
            made.append(self.spelled(torch.cat([state, heard], dim=1)))
        return torch.stack(made, dim=1)
