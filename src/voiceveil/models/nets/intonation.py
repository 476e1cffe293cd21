"""Intonation and voicing predicted from content: the part of F0 that depends on the words, not on the speaker.

Different speakers who read a sentence aloud raise and lower their F0 at similar places, and voice the same sounds.
Networks whose only input is quantized content learn this common part; they have no information about the speaker's own
intonation.

Conventions: frames of 10 ms. Tensors: content (B, T, D); voiced (B, T), 0 or 1; contour (B, T), ln F0 standardized over
the recording.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.soft_codes import SoftCodes
from voiceveil.models.nets.source_filter import double_frame_rate, halve_frame_rate

__all__ = ["Intonation", "Voicing"]


class Intonation(nn.Module):
    """Predicts the F0 contour with a bidirectional GRU at 25 frames per second.

    Parameters
    ----------
    content
        Length of a content vector.
    width, layers
        Of the GRU.
    codes, nearest
        Number of codes, and number of them that replace a content vector (:class:`SoftCodes`).
    """

    def __init__(
        self, content: int = 288, *, width: int = 128, layers: int = 2, codes: int = 512, nearest: int = 4
    ) -> None:
        super().__init__()
        self.size = {"content": content, "width": width, "layers": layers, "codes": codes, "nearest": nearest}
        self.codes = SoftCodes(codes, content, nearest)
        self.content = nn.Sequential(nn.Linear(content + 1, width), nn.GELU())
        self.phrase = nn.GRU(width, width, layers, batch_first=True, bidirectional=True)
        self.contour = nn.Linear(2 * width, 1)

    def forward(self, content: Tensor, voiced: Tensor) -> Tensor:
        """Return the contour (B, T)."""
        frames = content.shape[1]
        missing = -frames % 4  # four frames are averaged into one
        content = torch.cat([content, content[:, -1:].expand(-1, missing, -1)], dim=1)
        voiced = torch.cat([voiced, voiced[:, -1:].expand(-1, missing)], dim=1).unsqueeze(-1)
        codes = halve_frame_rate(self.codes(halve_frame_rate(content)))
        hidden, _ = self.phrase(
            self.content(torch.cat([codes, 2 * halve_frame_rate(halve_frame_rate(voiced)) - 1], dim=-1))
        )
        return double_frame_rate(double_frame_rate(self.contour(hidden)))[:, :frames, 0]


class Voicing(nn.Module):
    """Predicts which frames are voiced, with convolutions over five frames at 50 frames per second.

    Parameters
    ----------
    content
        Length of a content vector.
    width, layers
        Of the convolutions.
    codes, nearest
        Number of codes, and number of them that replace a content vector (:class:`SoftCodes`).
    """

    def __init__(
        self, content: int = 288, *, width: int = 96, layers: int = 3, codes: int = 512, nearest: int = 4
    ) -> None:
        super().__init__()
        self.size = {"content": content, "width": width, "layers": layers, "codes": codes, "nearest": nearest}
        self.codes = SoftCodes(codes, content, nearest)
        self.content = nn.Linear(content, width)
        self.around = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(layers))
        self.voiced = nn.Linear(width, 2)  # both frames of a pair

    def forward(self, content: Tensor) -> Tensor:
        """Return the log odds (B, T) that a frame is voiced."""
        frames = content.shape[1]
        content = torch.cat([content, content[:, -1:].expand(-1, frames % 2, -1)], dim=1)
        hidden = functional.gelu(self.content(self.codes(halve_frame_rate(content)))).transpose(1, 2)
        for layer in self.around:
            hidden = hidden + functional.gelu(layer(hidden))
        odds: Tensor = self.voiced(hidden.transpose(1, 2)).flatten(1)
        return odds[:, :frames]
