"""PyanNet: which of up to three local speakers are active, for every 17 ms of a window of ten seconds.

Bredin, "pyannote.audio 2.1 speaker diarization pipeline", Interspeech 2023; Plaquet and Bredin, "Powerset multi-class
cross entropy loss for neural speaker diarization", Interspeech 2023. Layers have the names of the published weights,
segmentation-3.0.

Conventions: samples (batch, n) at 16 kHz; frames every 270 samples, of 991 samples each; log probabilities
(batch, frames, 7) of the sets of active speakers in :data:`POWERSET`.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["LOCAL_SPEAKERS", "POWERSET", "PyanNet"]

LOCAL_SPEAKERS = 3
#: Sets of active speakers, in the order of the network's outputs.
POWERSET: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2))


class SincFilters(nn.Module):
    """Band-pass filters in quadrature whose cutoff frequencies are learned (Ravanelli and Bengio 2018)."""

    low_hz_: Tensor
    band_hz_: Tensor
    window_: Tensor
    n_: Tensor

    def __init__(self, bands: int = 40, taps: int = 251, lowest: float = 50.0, narrowest: float = 50.0) -> None:
        super().__init__()
        self._lowest, self._narrowest = lowest, narrowest
        for name, shape in (("low_hz_", (bands, 1)), ("band_hz_", (bands, 1))):
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
        self.register_buffer("window_", torch.zeros(taps // 2))
        self.register_buffer("n_", torch.zeros(1, taps // 2))  # 2 pi t of the taps before the center, t in seconds

    def forward(self) -> Tensor:
        """Return the impulse responses (2 * bands, 1, taps), the even ones first."""
        low = self._lowest + self.low_hz_.abs()
        high = (low + self._narrowest + self.band_hz_.abs()).clamp(self._lowest, 8000)
        band = high - low
        even = (torch.sin(high * self.n_) - torch.sin(low * self.n_)) / (self.n_ / 2) * self.window_
        odd = (torch.cos(low * self.n_) - torch.cos(high * self.n_)) / (self.n_ / 2) * self.window_
        even = torch.cat([even, 2 * band, even.flip(1)], dim=1)
        odd = torch.cat([odd, torch.zeros_like(band), -odd.flip(1)], dim=1)
        return torch.cat([even / (2 * band), odd / (2 * band)])[:, None]


class SincEncoder(nn.Module):
    """The first layer: sinc filters, one output every ten samples."""

    def __init__(self) -> None:
        super().__init__()
        self.filterbank = SincFilters()

    def forward(self, samples: Tensor) -> Tensor:
        """Return (batch, 80, steps) of (batch, 1, n)."""
        return F.conv1d(samples, self.filterbank(), stride=10)


class SincNet(nn.Module):
    """Features (batch, 60, frames) of samples (batch, 1, n)."""

    def __init__(self) -> None:
        super().__init__()
        self.wav_norm1d = nn.InstanceNorm1d(1, affine=True)
        self.conv1d = nn.ModuleList([SincEncoder(), nn.Conv1d(80, 60, 5), nn.Conv1d(60, 60, 5)])
        self.norm1d = nn.ModuleList([nn.InstanceNorm1d(size, affine=True) for size in (80, 60, 60)])

    def forward(self, samples: Tensor) -> Tensor:
        """Return the features."""
        features = self.wav_norm1d(samples)
        for layer, (convolution, norm) in enumerate(zip(self.conv1d, self.norm1d, strict=True)):
            features = convolution(features)
            features = F.leaky_relu(norm(F.max_pool1d(features.abs() if layer == 0 else features, 3)))
        return cast(Tensor, features)


class PyanNet(nn.Module):
    """SincNet, four bidirectional LSTM layers, two linear layers, a classifier of sets of speakers."""

    def __init__(self) -> None:
        super().__init__()
        self.sincnet = SincNet()
        self.lstm = nn.LSTM(60, 128, num_layers=4, bidirectional=True, batch_first=True)
        self.linear = nn.ModuleList([nn.Linear(256, 128), nn.Linear(128, 128)])
        self.classifier = nn.Linear(128, len(POWERSET))

    def forward(self, samples: Tensor) -> Tensor:
        """Return log probabilities (batch, frames, 7) of sets of speakers, for samples (batch, n)."""
        features, _ = self.lstm(self.sincnet(samples[:, None]).transpose(1, 2))
        for layer in self.linear:
            features = F.leaky_relu(layer(features))
        return F.log_softmax(self.classifier(features), dim=-1)
