"""Durations of phones predicted from the phones alone: how long an average reader holds each of them.

Conventions: phones (B, N) are numbers of :data:`voiceveil.models.asr.alignment.PHONES`; log durations (B, N) are
natural logarithms of seconds, relative to the pace of the recording.
"""

from __future__ import annotations

from torch import Tensor, nn

from voiceveil.models.asr.alignment import PHONES

__all__ = ["Durations"]


class Durations(nn.Module):
    """A bidirectional GRU over phones.

    Parameters
    ----------
    width, layers
        Of the GRU.
    """

    def __init__(self, width: int = 96, layers: int = 2) -> None:
        super().__init__()
        self.size = {"width": width, "layers": layers}
        self.phones = nn.Embedding(len(PHONES), width)
        self.context = nn.GRU(width, width, layers, batch_first=True, bidirectional=True)
        self.durations = nn.Linear(2 * width, 1)

    def forward(self, phones: Tensor) -> Tensor:
        """Return the log durations (B, N) of phones (B, N)."""
        hidden, _ = self.context(self.phones(phones))
        output: Tensor = self.durations(hidden)[..., 0]
        return output
