"""The harmonic-plus-noise source-filter model with sinc filters, hn-sinc-NSF (Wang and Yamagishi, SSW 2019).

Vocoder of B1.a (content = 80 mel, speaker = x-vector) and, trained with discriminators, generator of B1.b
(content = 256 bottleneck features; VoicePrivacy 2022, table 4).

Conventions: B recordings, T frames of 10 ms, 16 kHz. ``content`` (B, T, D), ``f0`` (B, T) in Hz with 0 = unvoiced,
``speaker`` (B, E), waveform (B, 160 T). Inside, signals are (B, channels, 160 T).

=========== ================================================================================================
condition   BLSTM 64 (32 each way), convolution over 3 frames to 64, tanh; repeated 160 times and smoothed twice
            over 160 samples. 63 channels and the standardized F0 are the context; one sets the cutoff
source      see :mod:`voiceveil.models.nets.nsf_source`
filters     5 blocks of 10 causal convolutions, kernel 3, dilation 1, 2, 4, ... 512, for the harmonics; 1 of 5 for noise
sinc        a low-pass filter for the harmonics and a high-pass filter for the noise, order 31, one for each sample:
            cutoff 0.5 to 0.9 of 8 kHz where voiced, 0.1 to 0.5 elsewhere, smoothed over 640 samples
=========== ================================================================================================

Everything after the BLSTM of the condition depends on a bounded past and a few future frames. Therefore
:meth:`HnSincNsf.synthesize` computes long recordings in chunks, in bounded memory, with the output of ``forward``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.double_precision import as_float64
from voiceveil.models.nets.nsf_source import FRAME, SeededExcitation, SineSource, draw_seed, frame_phases
from voiceveil.models.nets.standardize import Standardize

__all__ = ["FilterBlock", "HnSincNsf", "HnSincNsfSize", "sinc_filter", "sinc_filters"]

_CUTOFF_SMOOTHING = 4 * FRAME  # samples
_SCALE = 0.1  # inside a filter block, as in the authors' code
_LOOKAHEAD = (2 * FRAME + _CUTOFF_SMOOTHING) // (2 * FRAME) + 1  # frames before and after a frame that smoothing uses


class _Convolution(nn.Module):
    """A causal convolution as one matrix product, which is faster on a CPU for few channels."""

    def __init__(self, channels: int, dilation: int, kernel: int = 3) -> None:
        super().__init__()
        self.dilation = dilation
        self.weight = nn.Parameter(torch.empty(kernel, channels, channels))
        bound = 1.0 / math.sqrt(kernel * channels)
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        kernel, channels, _ = self.weight.shape
        padded = functional.pad(x, ((kernel - 1) * self.dilation, 0))
        taps = [padded[:, :, k * self.dilation :][:, :, : x.shape[2]] for k in range(kernel)]
        weight = self.weight.transpose(0, 1).reshape(1, channels, -1).expand(len(x), -1, -1)
        return torch.bmm(weight, torch.cat(taps, dim=1))  # matmul would copy the tensors first


class FilterBlock(nn.Module):
    """Filters a signal (B, 1, N) with dilated convolutions, adding the context (B, C, N) to each of their outputs."""

    def __init__(self, channels: int = 64, convolutions: int = 10, kernel: int = 3) -> None:
        super().__init__()
        self.expand = nn.Conv1d(1, channels, 1, bias=False)
        self.convolutions = nn.ModuleList(_Convolution(channels, 2**i, kernel) for i in range(convolutions))
        self.compress = nn.Conv1d(channels, channels // 4, 1, bias=False)
        self.output = nn.Conv1d(channels // 4, 1, 1, bias=False)
        self.context_samples = (kernel - 1) * (2**convolutions - 1)

    def forward(self, signal: Tensor, context: Tensor) -> Tensor:
        """Return the filtered signal (B, 1, N): the input plus the output of the convolutions."""
        hidden = torch.tanh(self.expand(signal))
        for convolution in self.convolutions:
            hidden = hidden + torch.tanh(convolution(hidden)) + context
        return signal + torch.tanh(self.output(torch.tanh(self.compress(_SCALE * hidden))))


def sinc_filters(cutoff: Tensor, order: int = 31) -> tuple[Tensor, Tensor]:
    """Return low-pass and high-pass coefficients (B, order, N), in a Hamming window.

    Their gains are 1 at 0 Hz and at half the sampling rate, respectively.

    Parameters
    ----------
    cutoff
        (B, 1, N), as a fraction of half the sampling rate.
    order
        Odd.
    """
    half = (order - 1) // 2
    n = torch.arange(1, half + 1, device=cutoff.device, dtype=cutoff.dtype)[:, None]
    window = 0.54 + 0.46 * torch.cos(2.0 * math.pi * n / (2 * half + 1))
    side = torch.sin(math.pi * cutoff * n) / (math.pi * n) * window  # one side of the symmetric filters
    sign = torch.where(n % 2 == 0, 1.0, -1.0)
    low_gain = cutoff + 2.0 * side.sum(dim=1, keepdim=True)
    high_gain = 1.0 - cutoff - 2.0 * (sign * side).sum(dim=1, keepdim=True)
    low = torch.cat([side.flip(1), cutoff, side], dim=1) / low_gain
    high = torch.cat([-side.flip(1), 1.0 - cutoff, -side], dim=1) / high_gain
    return low, high


def sinc_filter(signal: Tensor, coefficients: Tensor) -> Tensor:
    """Return a signal (B, 1, N), filtered with one filter (B, order, N) per sample and delayed by half the order."""
    order = coefficients.shape[1]
    past = functional.pad(signal, (order - 1, 0)).unfold(2, order, 1)  # (B, 1, N, order), the newest last
    return (past[:, 0] * coefficients.flip(1).transpose(1, 2)).sum(dim=2).unsqueeze(1)


@dataclass(frozen=True)
class HnSincNsfSize:
    """Dimensions of the inputs and of the network; the defaults are those of the challenge."""

    content: int = 256
    speaker: int = 512  # 0: no speaker embedding, as in a plain vocoder
    hidden: int = 64  # channels of the condition and of the filter blocks
    blocks: int = 5  # of the harmonic branch
    convolutions: int = 10  # of a harmonic block; the noise block has half as many
    harmonics: int = 7  # above the fundamental
    order: int = 31  # of the sinc filters
    recurrent: int = 64  # outputs of the BLSTM, both directions together

    @classmethod
    def small(cls, content: int = 80, speaker: int = 192) -> HnSincNsfSize:
        """Return the size of a network that one core runs at ten times real time or faster."""
        return cls(content, speaker, hidden=16, blocks=3, convolutions=7, harmonics=23, recurrent=128)


class HnSincNsf(nn.Module):
    """The whole model: ``forward(content, f0, speaker)`` returns the waveform."""

    def __init__(self, size: HnSincNsfSize) -> None:
        super().__init__()
        self.size = size
        self.content_scale, self.speaker_scale = Standardize(size.content), Standardize(size.speaker)
        self.f0_scale = Standardize(1)
        inputs = size.content + size.speaker + 1
        self.recurrent = nn.LSTM(inputs, size.recurrent // 2, batch_first=True, bidirectional=True)
        self.condition = nn.Conv1d(size.recurrent, size.hidden, 3, padding=1)
        self.source = SineSource(size.harmonics)
        self.harmonic_blocks = nn.ModuleList(FilterBlock(size.hidden, size.convolutions) for _ in range(size.blocks))
        self.noise_block = FilterBlock(size.hidden, size.convolutions // 2)
        samples = size.blocks * (2 * (2**size.convolutions - 1)) + size.order - 1
        #: Frames before a chunk that it depends on.
        self.context_frames = math.ceil(samples / FRAME) + _LOOKAHEAD

    def forward(
        self, content: Tensor, f0: Tensor, speaker: Tensor | None = None, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the waveform (B, 160 T).

        Parameters
        ----------
        content
            (B, T, D).
        f0
            (B, T) in Hz, 0 where unvoiced.
        speaker
            Embeddings (B, E); None for a model without speaker.
        generator
            Seeds initial phases and noise; default: torch's global generator.
        """
        excitation = SeededExcitation(draw_seed(generator))
        hidden, scaled_f0 = self._condition(content, f0, speaker)
        return self._synthesize_frames(hidden, scaled_f0, f0, frame_phases(f0), excitation, 0)

    @torch.inference_mode()
    def synthesize(
        self,
        content: Tensor,
        f0: Tensor,
        speaker: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        chunk: int = 1000,
    ) -> Tensor:
        """Return the output of :meth:`forward`, computed in chunks of ``chunk`` frames."""
        excitation = SeededExcitation(draw_seed(generator))
        hidden, scaled_f0 = self._condition(content, f0, speaker)
        phases = frame_phases(f0)
        chunks = []
        for start in range(0, f0.shape[1], chunk):
            first, last = max(start - self.context_frames, 0), min(start + chunk + _LOOKAHEAD, f0.shape[1])
            wave = self._synthesize_frames(
                hidden[:, :, first:last], scaled_f0[:, :, first:last], f0[:, first:last], phases[:, first:last],
                excitation, first,
            )  # fmt: skip
            chunks.append(wave[:, (start - first) * FRAME : (start - first + chunk) * FRAME])
        return torch.cat(chunks, dim=1)

    def _condition(self, content: Tensor, f0: Tensor, speaker: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return hidden features (B, hidden, T), of which the last sets the cutoff, and standardized F0 (B, 1, T)."""
        scaled_f0 = self.f0_scale(f0.unsqueeze(2))
        inputs = [self.content_scale(content), scaled_f0]
        if speaker is not None:
            inputs.insert(1, self.speaker_scale(speaker).unsqueeze(1).expand(-1, content.shape[1], -1))
        hidden, _ = self.recurrent(torch.cat(inputs, dim=2))
        return torch.tanh(self.condition(hidden.transpose(1, 2))), scaled_f0.transpose(1, 2)

    def _synthesize_frames(
        self, hidden: Tensor, scaled_f0: Tensor, f0: Tensor, phases: Tensor, excitation: SeededExcitation, first: int
    ) -> Tensor:
        """Return the waveform of consecutive frames, the first of which has the number ``first``."""
        smooth = _upsample(torch.cat([hidden, scaled_f0], dim=1))
        context = torch.cat([smooth[:, :-2], smooth[:, -1:]], dim=1)
        voiced = (f0 > 0).repeat_interleave(FRAME, dim=1).unsqueeze(1).to(smooth.dtype)
        cutoff = _moving_average(0.2 * smooth[:, -2:-1] + 0.4 * voiced + 0.3, _CUTOFF_SMOOTHING)
        harmonic, noise = self.source(f0, excitation, first, phases)
        for block in self.harmonic_blocks:
            harmonic = block(harmonic, context)
        noise = self.noise_block(noise, context)
        low, high = sinc_filters(cutoff, self.size.order)
        return (sinc_filter(harmonic, low) + sinc_filter(noise, high)).squeeze(1)


@lru_cache(maxsize=1)
def _spline() -> Tensor:
    """Return the weights (3, 160) of the previous, this and the next frame for each sample of a frame.

    Repeating a frame 160 times and taking the mean over 160 samples twice is interpolation by a quadratic spline.
    """
    window = np.ones(FRAME) / FRAME
    response = np.convolve(np.convolve(np.ones(FRAME), window), window)  # of a frame, on samples -158 to 319
    weights = np.pad(response, (2, 0)).reshape(3, FRAME)[::-1].astype(np.float32)
    with torch.inference_mode(False):  # cached, and also used in training
        return torch.from_numpy(weights)


def _upsample(frames: Tensor) -> Tensor:
    """Return frames (B, C, T) interpolated to samples (B, C, 160 T), held constant at both ends."""
    around = functional.pad(frames, (1, 1), mode="replicate").unfold(2, 3, 1)  # (B, C, T, 3)
    return (around @ _spline().to(frames)).flatten(2)


def _moving_average(x: Tensor, window: int) -> Tensor:
    """Return the mean (B, C, N) over the ``window`` samples around each sample; at the ends over fewer."""
    left, count = window // 2, x.shape[2]
    sums = functional.pad(torch.cumsum(as_float64(x), dim=2), (1, 0))
    t = torch.arange(count, device=sums.device)
    begin, end = (t - left).clamp(min=0), (t - left + window).clamp(max=count)
    return ((sums[:, :, end] - sums[:, :, begin]) / (end - begin)).to(x)
