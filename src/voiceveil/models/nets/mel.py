"""Logarithmic mel spectra for synthesis, and the losses on spectra that the B1 synthesizers are trained with.

Conventions: waveforms (B, 160 T) at 16 kHz; mel spectra (B, T, 80), natural logarithms of magnitudes, 25 ms Hann
windows of which one stands in the middle of each frame of 10 ms, 20 to 8,000 Hz.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from voiceveil.dsp.kaldi import mel_banks
from voiceveil.models.nets.source_filter import spectra

__all__ = ["BANDS", "log_mel", "mel_loss", "stft_loss"]

BANDS = 80
_WINDOW, _POINTS = 400, 1024
#: Smallest magnitude of a mel band: 60 dB below speech at the common level.
_FLOOR = 1e-3
#: Points, window and hop in samples (Wang and Yamagishi 2019; the same in the code of B1.a and B1.b).
RESOLUTIONS = ((512, 320, 80), (128, 80, 40), (2048, 1920, 640))
_POWER_FLOOR = 1e-5
#: The weight of a spectral loss beside the adversarial ones (Kong et al. 2020, equation 6).
SPECTRAL_WEIGHT = 45.0


@lru_cache(maxsize=2)
def _banks(device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # they are kept, for training too
        return torch.tensor(mel_banks(16000, _POINTS, BANDS, 20.0, 0.0), dtype=torch.float32, device=device)


def log_mel(samples: Tensor) -> Tensor:
    """(B, 160 T) to (B, T, 80)."""
    magnitudes = torch.sqrt(spectra(samples, _WINDOW, _POINTS).abs().square() + 1e-12)
    return torch.log((magnitudes[..., :-1] @ _banks(samples.device)).clamp(min=_FLOOR))


def mel_loss(made: Tensor, real: Tensor) -> Tensor:
    """Mean absolute difference of logarithmic mel spectra (Kong et al. 2020, equation 4)."""
    return (log_mel(made) - log_mel(real)).abs().mean()


def stft_loss(made: Tensor, real: Tensor, *, power: int = 2) -> Tensor:
    """Distance of logarithmic power spectra at three resolutions, their mean, for waveforms (B, N).

    ``power`` 2: mean square, the criterion of B1.a's vocoder (Wang and Yamagishi 2019, equation 2); 1: mean absolute
    difference, which the code of B1.b uses beside the adversarial losses.
    """
    total = torch.zeros((), device=made.device)
    for points, window, hop in RESOLUTIONS:
        difference = _log_power(made, points, window, hop) - _log_power(real, points, window, hop)
        total = total + (difference.square() if power == 2 else difference.abs()).mean()
    return total / len(RESOLUTIONS)


def _log_power(samples: Tensor, points: int, window: int, hop: int) -> Tensor:
    reach = window // 2
    frames = functional.pad(samples, (reach, reach)).unfold(1, window, hop)
    spectrum = torch.fft.rfft(frames * torch.hann_window(window, device=samples.device), n=points)
    return torch.log(spectrum.real.square() + spectrum.imag.square() + _POWER_FLOOR)
