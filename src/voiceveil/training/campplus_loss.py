"""CAM++ with its features in torch, through which the gradient of a speaker loss can flow back to the samples.

The features are those of :func:`voiceveil.models.speaker.campplus.features`: Kaldi's filterbank energies of samples in
[-1, 1], minus their mean over the recording.

Conventions: samples (B, N) at 16 kHz to embeddings (B, 192).
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn

from voiceveil.dsp.kaldi import Framing, analysis_window, mel_banks
from voiceveil.models.speaker.campplus import load_network

__all__ = ["DifferentiableCampplus", "differentiable_campplus"]

_FRAMING = Framing(scale=1.0)
_FLOOR = torch.finfo(torch.float32).eps


class DifferentiableCampplus(nn.Module):
    """The published network with its features: samples (B, N) to embeddings (B, 192)."""

    def __init__(self) -> None:
        super().__init__()
        self.network = load_network()
        banks = mel_banks(_FRAMING.rate, _FRAMING.padded, 80, 20.0, 0.0)
        self.register_buffer("banks", torch.tensor(banks, dtype=torch.float32))
        window = analysis_window(_FRAMING.window, _FRAMING.size)
        self.register_buffer("window", torch.tensor(window, dtype=torch.float32))

    def features(self, samples: Tensor) -> Tensor:
        """Return log filterbank energies (B, frames, 80), minus their mean over the frames."""
        banks: Tensor = self.banks  # type: ignore[assignment]
        window: Tensor = self.window  # type: ignore[assignment]
        frames = samples.unfold(1, _FRAMING.size, _FRAMING.step)
        frames = frames - frames.mean(dim=-1, keepdim=True)
        before = torch.cat([frames[..., :1], frames[..., :-1]], dim=-1)  # the first sample is its own predecessor
        frames = (frames - _FRAMING.preemphasis * before) * window
        spectrum = torch.fft.rfft(frames, n=_FRAMING.padded)[..., :-1]  # Kaldi's banks leave out the Nyquist bin
        energies = torch.log((torch.view_as_real(spectrum).square().sum(dim=-1) @ banks).clamp_min(_FLOOR))
        return energies - energies.mean(dim=1, keepdim=True)

    def forward(self, samples: Tensor) -> Tensor:
        """Return the embeddings."""
        embeddings: Tensor = self.network(self.features(samples))
        return embeddings


@lru_cache(maxsize=1)
def differentiable_campplus() -> DifferentiableCampplus:
    """Return CAM++ with the weights that ship; they are not trained, and stay in memory."""
    with torch.inference_mode(False):  # it is kept, and gradients flow through it later
        return DifferentiableCampplus().requires_grad_(False).eval()
