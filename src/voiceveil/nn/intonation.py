"""The intonation that is expected of the words: content and voicing to a contour of F0.

Whoever reads a sentence aloud raises the voice where others do, and lets it fall in the end. A network that hears
nothing but codes of content learns this part of intonation, which belongs to the words; what is the speaker's own it
cannot know.

Conventions: frames of 10 ms. Tensors: content (B, T, D), voiced (B, T) of 0 and 1, contour (B, T) of ln F0 in
deviations of a recording about its mean.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from voiceveil.nn.soft_codes import SoftCodes
from voiceveil.nn.source_filter import doubled, halved

__all__ = ["Intonation"]


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
        """The contour (B, T)."""
        frames = content.shape[1]
        missing = -frames % 4  # fours of frames are joined
        content = torch.cat([content, content[:, -1:].expand(-1, missing, -1)], dim=1)
        voiced = torch.cat([voiced, voiced[:, -1:].expand(-1, missing)], dim=1).unsqueeze(-1)
        spoken = halved(self.codes(halved(content)))
        hidden, _ = self.phrase(self.content(torch.cat([spoken, 2 * halved(halved(voiced)) - 1], dim=-1)))
        return doubled(doubled(self.contour(hidden)))[:, :frames, 0]
