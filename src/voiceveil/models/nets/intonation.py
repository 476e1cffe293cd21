"""The intonation that is expected of the words: content to what is voiced, and both to a contour of F0.

Whoever reads a sentence aloud raises the voice where others do, and lets it fall in the end; and the same sounds are
voiced, but for the creak of one voice and the breath of another. Networks that hear nothing but codes of content learn
this part of intonation, which belongs to the words; what is the speaker's own they cannot know.

Conventions: frames of 10 ms. Tensors: content (B, T, D), voiced (B, T) of 0 and 1, contour (B, T) of ln F0 in
deviations of a recording about its mean.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.soft_codes import SoftCodes
from voiceveil.models.nets.source_filter import doubled, halved

__all__ = ["Intonation", "Voicing"]


class Intonation(nn.Module):
    """Recurrent in both directions, at 25 frames a second: a phrase is as long as it is.

    ``content``: length of a vector of content; ``codes``: how many there are, of which ``nearest`` replace a vector.
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
        missing = -frames % 4  # fours of frames are joined
        content = torch.cat([content, content[:, -1:].expand(-1, missing, -1)], dim=1)
        voiced = torch.cat([voiced, voiced[:, -1:].expand(-1, missing)], dim=1).unsqueeze(-1)
        spoken = halved(self.codes(halved(content)))
        hidden, _ = self.phrase(self.content(torch.cat([spoken, 2 * halved(halved(voiced)) - 1], dim=-1)))
        return doubled(doubled(self.contour(hidden)))[:, :frames, 0]


class Voicing(nn.Module):
    """What is voiced: convolutions of five frames, at 50 frames a second.

    ``content``, ``codes``, ``nearest``: as above.
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
        """Log odds (B, T) that a frame is voiced."""
        frames = content.shape[1]
        content = torch.cat([content, content[:, -1:].expand(-1, frames % 2, -1)], dim=1)
        hidden = functional.gelu(self.content(self.codes(halved(content)))).transpose(1, 2)
        for layer in self.around:
            hidden = hidden + functional.gelu(layer(hidden))
        odds: Tensor = self.voiced(hidden.transpose(1, 2)).flatten(1)
        return odds[:, :frames]
