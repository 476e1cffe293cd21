"""A recognizer with CTC and attention, whose encoder gives the content features of M1 and M1c1 of VoicePrivacy 2020.

Champion et al. (2020) replaced the bottleneck features of B1 by hidden layers of a hybrid CTC/attention network
(Watanabe et al. 2017); in M1c1 it is also trained to mask the speaker ("semi-adversarial" training). The sizes were not
published; the defaults are those of ESPnet's LibriSpeech recipe of that time.

    MFCC (B, T, 40) -> convolutions, a quarter of the frames -> BLSTM with projections -> content (B, T / 4, width)
    content -> CTC;  content -> location-aware attention (Chorowski et al. 2015) -> LSTM decoder

To be trained on little speech, the network may take a layer of another recognizer as input, without convolutions
(``channels`` = 0); its content then has as many frames as that layer, which is also added to the output of the BLSTM
through a matrix.

Conventions: tokens count from 1; 0 is the blank of CTC, and start and end of a text for the decoder. ``frames`` (B,)
are the lengths of the utterances in frames of the features (10 ms for MFCC); padding beyond them has no effect. R is
the number of rows, that is of content vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from voiceveil.models.nets.standardize import Standardize

__all__ = ["SUBSAMPLING", "CtcAttention", "CtcAttentionSize"]

#: Frames of MFCC for each vector of content.
SUBSAMPLING = 4


class _Attention(nn.Module):
    """Location-aware attention: weights (B, R) from the decoder's state, the content and the previous weights."""

    def __init__(self, width: int, query: int, hidden: int) -> None:
        super().__init__()
        self.rows, self.query = nn.Linear(width, hidden), nn.Linear(query, hidden, bias=False)
        self.place = nn.Conv1d(1, 8, 31, padding=15, bias=False)
        self.located, self.score = nn.Linear(8, hidden, bias=False), nn.Linear(hidden, 1, bias=False)

    def forward(self, keys: Tensor, query: Tensor, previous: Tensor, padding: Tensor) -> Tensor:
        location = self.located(self.place(previous.unsqueeze(1)).transpose(1, 2))
        scores = self.score(torch.tanh(keys + self.query(query).unsqueeze(1) + location)).squeeze(2)
        return torch.softmax(scores.masked_fill(padding, -1e9), dim=1)


class _BidirectionalLstm(nn.Module):
    """A bidirectional LSTM over padded rows: (B, R, D) to (B, R, 2 hidden).

    It equals torch's LSTM on packed sequences, whose backward pass is forty times as slow on a CPU.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.ahead, self.back = (nn.LSTM(inputs, hidden, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        index = torch.arange(x.shape[1])
        reversed_index = torch.where(index < rows[:, None], rows[:, None] - 1 - index, index).unsqueeze(2).to(x.device)
        back = self.back(x.gather(1, reversed_index.expand_as(x)))[0]
        return torch.cat([self.ahead(x)[0], back.gather(1, reversed_index.expand_as(back))], dim=2)


@dataclass(frozen=True)
class CtcAttentionSize:
    """Dimensions of the inputs, the outputs and the network; the defaults are those of ESPnet's LibriSpeech recipe."""

    outputs: int  # tokens, the blank included
    features: int = 40
    channels: int = 64  # of the first convolutions; 0: no convolutions
    hidden: int = 1024  # units of an LSTM in one direction, and of the decoder
    layers: int = 5
    width: int = 1024  # of the content
    attention: int = 320

    @classmethod
    def small(cls, outputs: int, width: int = 128) -> CtcAttentionSize:
        """Return the size of a network on MFCC that can be trained on one core."""
        return cls(outputs, channels=16, hidden=128, layers=2, width=width)

    @classmethod
    def on_features(cls, outputs: int, features: int, width: int) -> CtcAttentionSize:
        """Return the size of a network on the features of another recognizer; it can be trained on one core."""
        return cls(outputs, features, channels=0, hidden=192, layers=1, width=width, attention=32)


class CtcAttention(nn.Module):
    """``content(features, frames)`` in inference; ``losses(content, frames, tokens)`` in training."""

    def __init__(self, size: CtcAttentionSize) -> None:
        super().__init__()
        self.size = size
        channels, hidden, width = size.channels, size.hidden, size.width
        self.subsampling = SUBSAMPLING if channels else 1
        self.feature_scale = Standardize(size.features)
        parts: list[nn.Module] = []
        for before, after in ((1, channels), (channels, 2 * channels)) if channels else ():
            for first in (before, after):
                parts += [nn.Conv2d(first, after, 3, padding=1), nn.ReLU()]
            parts.append(nn.MaxPool2d(2, ceil_mode=True))
        self.front = nn.Sequential(*parts)
        flat = 2 * channels * -(-size.features // SUBSAMPLING) if channels else size.features
        self.recurrent = nn.ModuleList(
            _BidirectionalLstm(flat if i == 0 else width, hidden) for i in range(size.layers)
        )
        self.projections = nn.ModuleList(nn.Linear(2 * hidden, width) for _ in range(size.layers))
        self.bypass = None if channels else nn.Linear(size.features, width, bias=False)
        self.ctc = nn.Linear(width, size.outputs)
        self.embedding = nn.Embedding(size.outputs, hidden)
        self.attention = _Attention(width, hidden, min(hidden, size.attention))
        self.speller = nn.LSTMCell(hidden + width, hidden)
        self.spelled = nn.Linear(hidden + width, size.outputs)

    def content(self, features: Tensor, frames: Tensor) -> Tensor:
        """Return content features (B, ceil(T / 4), width); without convolutions (B, T, width).

        Parameters
        ----------
        features
            (B, T, D), padded.
        frames
            Lengths (B,) of the utterances.
        """
        inside = torch.arange(features.shape[1]) < frames[:, None]
        x = self.feature_scale(features) * inside.unsqueeze(2).to(features.device)
        x = self.front(x.unsqueeze(1)).transpose(1, 2).flatten(2) if len(self.front) else x
        rows = self.output_lengths(frames)
        first = x
        for recurrent, projection in zip(self.recurrent, self.projections, strict=True):
            last = projection(recurrent(x, rows))
            x = torch.tanh(last)
        return cast(Tensor, x if self.bypass is None else torch.tanh(last + self.bypass(first)))

    def output_lengths(self, frames: Tensor) -> Tensor:
        """Return the numbers of content vectors (B,) of utterances with these numbers of frames (B,)."""
        return (frames + self.subsampling - 1) // self.subsampling

    def losses(
        self, content: Tensor, frames: Tensor, tokens: Sequence[Tensor], decoded: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the CTC loss, and the cross entropy of the decoder with teacher forcing; both per token.

        Parameters
        ----------
        content
            Content features (B, R, width).
        frames
            Lengths (B,) of the utterances.
        tokens
            Of each utterance.
        decoded
            Number of utterances, the first ones, for the decoder, which is slow; None: all.
        """
        rows, counts = self.output_lengths(frames), torch.tensor([len(t) for t in tokens])
        scores = functional.log_softmax(self.ctc(content), dim=2).transpose(0, 1).cpu()
        ctc = functional.ctc_loss(
            scores, torch.cat(list(tokens)).cpu(), rows, counts, reduction="sum", zero_infinity=True
        )
        content, rows, tokens = content[:decoded], rows[:decoded], tokens[:decoded]
        end = torch.zeros(1, dtype=torch.long)
        inputs = pad_sequence([torch.cat([end, t.cpu()]) for t in tokens], batch_first=True).to(content.device)
        targets = pad_sequence([torch.cat([t.cpu(), end]) for t in tokens], batch_first=True, padding_value=-1)
        logits = self._decoder_logits(content, rows, inputs)
        decoder = functional.cross_entropy(logits.flatten(0, 1), targets.flatten().to(content.device), ignore_index=-1)
        return ctc.to(content.device) / counts.sum(), decoder

    def _decoder_logits(self, content: Tensor, rows: Tensor, inputs: Tensor) -> Tensor:
        """Return the logits (B, N, outputs) of the next token after each input token (B, N)."""
        padding = (torch.arange(content.shape[1]) >= rows[:, None]).to(content.device)
        keys, embedded = self.attention.rows(content), self.embedding(inputs)
        weights = (~padding).float() / (~padding).sum(dim=1, keepdim=True)
        state = content.new_zeros(len(content), self.speller.hidden_size)
        cell, logits = state, []
        for n in range(inputs.shape[1]):
            weights = self.attention(keys, state, weights, padding)
            context = torch.einsum("br,brw->bw", weights, content)
            state, cell = self.speller(torch.cat([embedded[:, n], context], dim=1), (state, cell))
            logits.append(self.spelled(torch.cat([state, context], dim=1)))
        return torch.stack(logits, dim=1)
