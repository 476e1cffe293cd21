"""Logarithmic mel spectra for synthesis, and the spectral losses of the B1 synthesizers.

Conventions: waveforms (B, 160 T) at 16 kHz; mel spectra (B, T, 80), natural logarithms of magnitudes from 20 to
8,000 Hz, in Hann windows of 25 ms at the centers of the frames of 10 ms.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from voiceveil.dsp.kaldi import mel_banks
from voiceveil.models.nets.source_filter import spectra

__all__ = ["BANDS", "MEL_WEIGHT", "log_mel", "mel_loss", "stft_loss"]

BANDS = 80
_WINDOW, _POINTS = 400, 1024
#: Smallest magnitude of a mel band: 60 dB below speech at the level of training.
_FLOOR = 1e-3
#: Points, window and hop in samples (Wang and Yamagishi 2019; the same in the code of B1.a).
RESOLUTIONS = ((512, 320, 80), (128, 80, 40), (2048, 1920, 640))
_POWER_FLOOR = 1e-5
#: Weight of the mel loss relative to the adversarial ones (Kong et al. 2020, equation 6).
MEL_WEIGHT = 45.0


@lru_cache(maxsize=2)
def _banks(device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # cached, and also used in training
        return torch.tensor(mel_banks(16000, _POINTS, BANDS, 20.0, 0.0), dtype=torch.float32, device=device)


def log_mel(samples: Tensor) -> Tensor:
    """Return the log mel spectra (B, T, 80) of waveforms (B, 160 T)."""
    magnitudes = torch.sqrt(spectra(samples, _WINDOW, _POINTS).abs().square() + 1e-12)
    return torch.log((magnitudes[..., :-1] @ _banks(samples.device)).clamp(min=_FLOOR))


def mel_loss(synthetic: Tensor, natural: Tensor) -> Tensor:
    """Return the mean absolute difference of the log mel spectra of two waveforms (Kong et al. 2020, equation 4)."""
    return (log_mel(synthetic) - log_mel(natural)).abs().mean()


def stft_loss(synthetic: Tensor, natural: Tensor) -> Tensor:
    """Return the mean squared difference of log power spectra of waveforms (B, N), averaged over three resolutions.

    The criterion of B1.a's vocoder (Wang and Yamagishi 2019, equation 2).
    """
    total = torch.zeros((), device=synthetic.device)
    for points, window, hop in RESOLUTIONS:
        difference = _log_power(synthetic, points, window, hop) - _log_power(natural, points, window, hop)
        total = total + difference.square().mean()
    return total / len(RESOLUTIONS)


def _log_power(samples: Tensor, points: int, window: int, hop: int) -> Tensor:
    half = window // 2
    frames = functional.pad(samples, (half, half)).unfold(1, window, hop)
    spectrum = torch.fft.rfft(frames * torch.hann_window(window, device=samples.device), n=points)
    return torch.log(spectrum.real.square() + spectrum.imag.square() + _POWER_FLOOR)
