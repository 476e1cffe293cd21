"""The harmonic-plus-noise source-filter model with sinc filters, hn-sinc-NSF (Wang and Yamagishi, SSW 2019).

Vocoder of B1.a (content = 80 mel, speaker = x-vector) and, trained with discriminators, generator of B1.b
(content = 256 bottleneck features; VoicePrivacy 2022, table 4).

Conventions: B recordings, T frames of 10 ms, 16 kHz. ``content`` (B, T, D), ``f0`` (B, T) in Hz with 0 = unvoiced,
``speaker`` (B, E), waveform (B, 160 T). Inside, signals are (B, channels, 160 T).

=========== ================================================================================================
condition   BLSTM 64 (32 each way), convolution over 3 frames to 64, tanh; repeated 160 times and smoothed twice
            over 160 samples. 63 channels and the standardized F0 are the context; one sets the cut-off
source      see :mod:`voiceveil.models.nets.nsf_source`
filters     5 blocks of 10 causal convolutions, kernel 3, dilation 1, 2, 4, ... 512, for the harmonics; 1 of 5 for noise
sinc        a low pass for the harmonics and a high pass for the noise, order 31, for each sample of its own: cut-off
            0.5 to 0.9 of 8 kHz where voiced, 0.1 to 0.5 elsewhere, smoothed over 640 samples
=========== ================================================================================================

Everything after the condition's BLSTM looks a bounded stretch back and a few frames ahead, so :meth:`synthesize` makes
a long recording in parts, in memory that does not grow with it, and gives what :meth:`forward` gives.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.nsf_source import FRAME, Excitation, SineSource, cycles_before, draw_seed
from voiceveil.models.nets.standardize import Standardize

__all__ = ["FilterBlock", "HnSincNsf", "sinc_filter", "sinc_filters"]

_CUTOFF_SMOOTHING = 4 * FRAME  # samples
_SCALE = 0.1  # inside a filter block, as in the authors' code
_AHEAD = (2 * FRAME + _CUTOFF_SMOOTHING) // (2 * FRAME) + 1  # frames that smoothing looks ahead and back


class _Convolution(nn.Module):
    """A causal convolution as one matrix product, which a CPU does faster than a convolution of few channels."""

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
        return torch.bmm(weight, torch.cat(taps, dim=1))  # matmul would copy to fold the rows into one product


class FilterBlock(nn.Module):
    """A signal (B, 1, N) to a signal: dilated convolutions, to each of whose outputs the context (B, C, N) is added."""

    def __init__(self, channels: int = 64, convolutions: int = 10, kernel: int = 3) -> None:
        super().__init__()
        self.expand = nn.Conv1d(1, channels, 1, bias=False)
        self.convolutions = nn.ModuleList(_Convolution(channels, 2**i, kernel) for i in range(convolutions))
        self.compress = nn.Conv1d(channels, channels // 4, 1, bias=False)
        self.output = nn.Conv1d(channels // 4, 1, 1, bias=False)
        self.context_samples = (kernel - 1) * (2**convolutions - 1)

    def forward(self, signal: Tensor, context: Tensor) -> Tensor:
        """Return the signal and what the block adds to it."""
        hidden = torch.tanh(self.expand(signal))
        for convolution in self.convolutions:
            hidden = hidden + torch.tanh(convolution(hidden)) + context
        return signal + torch.tanh(self.output(torch.tanh(self.compress(_SCALE * hidden))))


def sinc_filters(cutoff: Tensor, order: int = 31) -> tuple[Tensor, Tensor]:
    """Low-pass and high-pass coefficients (B, order, N) for ``cutoff`` (B, 1, N), a fraction of half the rate.

    Windowed (Hamming) and scaled to gain 1 at 0 Hz and at half the rate.
    """
    half = (order - 1) // 2
    n = torch.arange(1, half + 1, device=cutoff.device, dtype=cutoff.dtype)[:, None]
    window = 0.54 + 0.46 * torch.cos(2.0 * math.pi * n / (2 * half + 1))
    side = torch.sin(math.pi * cutoff * n) / (math.pi * n) * window  # the filters are symmetric: one side will do
    sign = torch.where(n % 2 == 0, 1.0, -1.0)
    low_gain = cutoff + 2.0 * side.sum(dim=1, keepdim=True)
    high_gain = 1.0 - cutoff - 2.0 * (sign * side).sum(dim=1, keepdim=True)
    low = torch.cat([side.flip(1), cutoff, side], dim=1) / low_gain
    high = torch.cat([-side.flip(1), 1.0 - cutoff, -side], dim=1) / high_gain
    return low, high


def sinc_filter(signal: Tensor, coefficients: Tensor) -> Tensor:
    """Filter (B, 1, N) with one filter (B, order, N) a sample; the output is half the order late, as in the paper."""
    order = coefficients.shape[1]
    past = functional.pad(signal, (order - 1, 0)).unfold(2, order, 1)  # (B, 1, N, order), the newest last
    return (past[:, 0] * coefficients.flip(1).transpose(1, 2)).sum(dim=2).unsqueeze(1)


class HnSincNsf(nn.Module):
    """``forward(content, f0, speaker)`` to the waveform. ``speaker=0``: there is none, as in a plain vocoder.

    ``size`` holds the arguments that make the same network again.
    """

    def __init__(
        self,
        content: int = 256,
        speaker: int = 512,
        hidden: int = 64,
        blocks: int = 5,
        convolutions: int = 10,
        harmonics: int = 7,
        order: int = 31,
        recurrent: int = 64,
    ) -> None:
        super().__init__()
        self.size = {
            "content": content, "speaker": speaker, "hidden": hidden, "blocks": blocks, "convolutions": convolutions,
            "harmonics": harmonics, "order": order, "recurrent": recurrent,
        }  # fmt: skip
        self.content_scale, self.speaker_scale = Standardize(content), Standardize(speaker)
        self.f0_scale = Standardize(1)
        self.order = order
        self.recurrent = nn.LSTM(content + speaker + 1, recurrent // 2, batch_first=True, bidirectional=True)
        self.condition = nn.Conv1d(recurrent, hidden, 3, padding=1)
        self.source = SineSource(harmonics)
        self.harmonic_blocks = nn.ModuleList(FilterBlock(hidden, convolutions) for _ in range(blocks))
        self.noise_block = FilterBlock(hidden, convolutions // 2)
        samples = blocks * (2 * (2**convolutions - 1)) + order - 1
        #: Frames before a part that it depends on.
        self.context_frames = math.ceil(samples / FRAME) + _AHEAD

    @classmethod
    def small(cls, content: int = 80, speaker: int = 192) -> HnSincNsf:
        """Return a network that one core runs at ten times real time and more."""
        return cls(content, speaker, hidden=16, blocks=3, convolutions=7, harmonics=23, recurrent=128)

    def forward(
        self, content: Tensor, f0: Tensor, speaker: Tensor | None = None, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return the waveform (B, 160 T). Phases and noise follow from ``generator`` (default: torch's own)."""
        excitation = Excitation(draw_seed(generator))
        hidden, tone = self._condition(content, f0, speaker)
        return self._part(hidden, tone, f0, cycles_before(f0), excitation, 0)

    @torch.inference_mode()
    def synthesize(
        self,
        content: Tensor,
        f0: Tensor,
        speaker: Tensor | None = None,
        *,
        generator: torch.Generator | None = None,
        part: int = 1000,
    ) -> Tensor:
        """As :meth:`forward`, ``part`` frames at a time."""
        excitation = Excitation(draw_seed(generator))
        hidden, tone = self._condition(content, f0, speaker)
        before = cycles_before(f0)
        made = []
        for start in range(0, f0.shape[1], part):
            first, last = max(start - self.context_frames, 0), min(start + part + _AHEAD, f0.shape[1])
            wave = self._part(
                hidden[:, :, first:last], tone[:, :, first:last], f0[:, first:last], before[:, first:last],
                excitation, first,
            )  # fmt: skip
            made.append(wave[:, (start - first) * FRAME : (start - first + part) * FRAME])
        return torch.cat(made, dim=1)

    def _condition(self, content: Tensor, f0: Tensor, speaker: Tensor | None) -> tuple[Tensor, Tensor]:
        """A frame each: hidden features (B, hidden, T), the last for the cut-off, and standardized F0 (B, 1, T)."""
        tone = self.f0_scale(f0.unsqueeze(2))
        inputs = [self.content_scale(content), tone]
        if speaker is not None:
            inputs.insert(1, self.speaker_scale(speaker).unsqueeze(1).expand(-1, content.shape[1], -1))
        hidden, _ = self.recurrent(torch.cat(inputs, dim=2))
        return torch.tanh(self.condition(hidden.transpose(1, 2))), tone.transpose(1, 2)

    def _part(
        self, hidden: Tensor, tone: Tensor, f0: Tensor, before: Tensor, excitation: Excitation, first: int
    ) -> Tensor:
        """Return the waveform of some frames, from frame number ``first``."""
        smooth = _spread(torch.cat([hidden, tone], dim=1))
        context = torch.cat([smooth[:, :-2], smooth[:, -1:]], dim=1)
        voiced = (f0 > 0).repeat_interleave(FRAME, dim=1).unsqueeze(1).to(smooth.dtype)
        cutoff = _smoothed(0.2 * smooth[:, -2:-1] + 0.4 * voiced + 0.3, _CUTOFF_SMOOTHING)
        harmonic, noise = self.source(f0, excitation, first, before)
        for block in self.harmonic_blocks:
            harmonic = block(harmonic, context)
        noise = self.noise_block(noise, context)
        low, high = sinc_filters(cutoff, self.order)
        return (sinc_filter(harmonic, low) + sinc_filter(noise, high)).squeeze(1)


@lru_cache(maxsize=1)
def _spline() -> Tensor:
    """(3, 160): the weights of the frame before, the frame and the frame after for each sample of the frame.

    Repeating a frame 160 times and taking the mean over 160 samples twice is interpolation by a quadratic spline.
    """
    window = np.ones(FRAME) / FRAME
    response = np.convolve(np.convolve(np.ones(FRAME), window), window)  # of a frame, on samples -158 to 319
    weights = np.pad(response, (2, 0)).reshape(3, FRAME)[::-1].astype(np.float32)
    with torch.inference_mode(False):  # it is kept, for training too
        return torch.from_numpy(weights)


def _spread(frames: Tensor) -> Tensor:
    """(B, C, T) to (B, C, 160 T), smooth; beyond the ends the frames go on as they are there."""
    around = functional.pad(frames, (1, 1), mode="replicate").unfold(2, 3, 1)  # (B, C, T, 3)
    return (around @ _spline().to(frames)).flatten(2)


def _smoothed(x: Tensor, window: int) -> Tensor:
    """Return the mean over ``window`` samples around each of (B, C, N); at the ends, over those that are there."""
    left, count = window // 2, x.shape[2]
    sums = functional.pad(torch.cumsum(x.double(), dim=2), (1, 0))
    t = torch.arange(count, device=x.device)
    begin, end = (t - left).clamp(min=0), (t - left + window).clamp(max=count)
    return ((sums[:, :, end] - sums[:, :, begin]) / (end - begin)).to(x.dtype)
