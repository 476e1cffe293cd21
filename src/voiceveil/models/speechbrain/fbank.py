"""Filterbank features of SpeechBrain: decibels of 80 triangular filters on a mel scale.

Conventions: samples at 16 kHz in [-1, 1], shape (B, N); features (B, T, filters) with T = 1 + N // 160, in dB. They
differ from Kaldi's (:mod:`voiceveil.dsp.kaldi`): a periodic Hamming window of 25 ms, frames centered with zeros
around, no pre-emphasis, filters as wide above as below their center, a floor 80 dB below the loudest value.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

__all__ = ["fbank", "filters", "subtract_sentence_mean"]

RATE = 16000
WINDOW, HOP = 400, 160  # samples
FLOOR, RANGE = 1e-10, 80.0  # energy; dB below the loudest value


@lru_cache(maxsize=4)
def filters(count: int = 80) -> Tensor:
    """Return the triangular filters (201, count), float32, on 0 to 8000 Hz in steps of 40 Hz.

    Each has height 1 at its center and the same slope on both sides: that to the center below.
    """
    top = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700, dtype=torch.float64))
    points = 700 * (10 ** (torch.linspace(0, float(top), count + 2) / 2595) - 1)
    center, width = points[1:-1], points[1:-1] - points[:-2]
    frequency = torch.linspace(0, RATE / 2, WINDOW // 2 + 1)
    return (1 - (frequency[:, None] - center).abs() / width).clamp(min=0)


def fbank(samples: Tensor, count: int = 80) -> Tensor:
    """Return the features (B, T, count) of samples (B, N)."""
    window = torch.hamming_window(WINDOW, device=samples.device)
    spectrum = torch.stft(
        samples, WINDOW, HOP, WINDOW, window, center=True, pad_mode="constant", return_complex=True
    ).transpose(1, 2)
    power = spectrum.real**2 + spectrum.imag**2
    decibels = 10 * torch.log10((power @ filters(count).to(samples.device)).clamp(min=FLOOR))
    return torch.maximum(decibels, decibels.amax(dim=(1, 2), keepdim=True) - RANGE)


def subtract_sentence_mean(features: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Return features (B, T, D) minus the mean of each filter over the utterance.

    Parameters
    ----------
    features : Tensor
        Shape (B, T, D).
    lengths : Tensor, optional
        Lengths of padded utterances as fractions of T, shape (B,): the mean is over round(length * T) frames.
    """
    if lengths is None:
        return features - features.mean(dim=1, keepdim=True)
    frames = features.shape[1]
    counts = torch.round(lengths * frames)
    inside = (torch.arange(frames, device=features.device) < counts[:, None]).unsqueeze(2)
    return features - (features * inside).sum(dim=1, keepdim=True) / counts[:, None, None]
