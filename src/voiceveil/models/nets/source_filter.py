"""A compact source-filter decoder from content, F0 and speaker to a waveform, fast on one core.

Based on neural source-filter models (Wang, Takaki and Yamagishi 2019) and the neural homomorphic vocoder (Liu, Chen and
Yu 2020): band-limited pulses at F0, and white noise, are each filtered and then added; a network predicts the two
filters of every frame. It has no upsampling layers: it works at 50 and 100 frames per second.

Conventions: 16 kHz, frames of 160 samples (10 ms), frame ``j`` is centered at sample 160 j + 80. Tensors: content
(B, T, D), F0 in Hz (B, T) with 0 for unvoiced, speaker (B, E), waveform (B, 160 T).

The training loss is on magnitudes of the filtered spectra of frames, before overlap-add, which costs a quarter of a
loss on waveforms and is as good. In synthesis the filters have minimum phase. Filters are predicted as natural
logarithms of gains at 128 frequencies, equally spaced in mel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.dsp.excitation import FRAME, RATE, continuous_f0, pulse_train
from voiceveil.models.nets.soft_codes import SoftCodes
from voiceveil.models.nets.standardize import Standardize

__all__ = [
    "Excitation",
    "MelSourceFilter",
    "SourceFilter",
    "SourceFilterSize",
    "attenuate_pauses",
    "double_frame_rate",
    "halve_frame_rate",
    "mel_to_linear",
    "minimum_phase",
    "spectra",
]

#: Samples of the analysis window, and points of its Fourier transform; the zeros leave room for the filter's response.
WINDOW, POINTS = 640, 1024
GAINS = 128
#: Frames this far below the loudest one count as pauses, in nepers: 26 dB.
_PAUSE = 3.0


@dataclass(frozen=True)
class SourceFilterSize:
    """Dimensions of the inputs and of the network."""

    content: int = 288
    speaker: int = 192
    width: int = 224
    blocks: int = 5  # at 50 frames a second
    fine_blocks: int = 2  # at 100
    codes: int = 0  # of the content's bottleneck; 0: no bottleneck
    nearest: int = 4  # codes that replace a vector
    bottleneck_strength: float = 1.0  # 0: content unchanged, 1: codes only
    mean_removal: float = 0.0  # see SoftCodes

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SourceFilterSize:
        """Return the size in the record of a checkpoint, which may have former names of the fields."""
        former = {"share": "bottleneck_strength", "centred": "mean_removal"}
        return cls(**{former.get(name, name): value for name, value in record.items()})


class Excitation(NamedTuple):
    """The two sources, of unit power: pulses and noise, (B, samples) each."""

    pulses: Tensor
    noise: Tensor


class SourceFilter(nn.Module):
    """Predicts the gains of the two filters from content, F0 and speaker, and synthesizes."""

    def __init__(self, size: SourceFilterSize) -> None:
        super().__init__()
        self.size = size
        width = size.width
        self.codes: nn.Module = nn.Identity()
        if size.codes:
            self.codes = SoftCodes(size.codes, size.content, size.nearest, size.bottleneck_strength, size.mean_removal)
        self.content = nn.Linear(size.content, width)
        self.pitch = nn.Linear(2, width)
        self.speaker = nn.Sequential(nn.Linear(size.speaker, width), nn.SiLU())
        self.blocks = nn.ModuleList(Block(width, width) for _ in range(size.blocks))
        self.fine_pitch = nn.Linear(2, width)
        self.fine_blocks = nn.ModuleList(Block(width, width) for _ in range(size.fine_blocks))
        self.norm = nn.LayerNorm(width)
        self.gains = nn.Linear(width, 2 * GAINS)
        nn.init.constant_(self.gains.bias, -5.0)  # the level of speech, approximately
        self.register_buffer("spread", torch.from_numpy(mel_to_linear(POINTS)), persistent=False)

    def record(self) -> dict[str, Any]:
        """Return the fields of the size, as a checkpoint records them."""
        return asdict(self.size)

    def forward(self, content: Tensor, f0: Tensor, speaker: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log gains of the filters of pulses and noise, (B, T, 128) each.

        Parameters
        ----------
        content
            (B, T, D).
        f0
            (B, T) in Hz, 0 where unvoiced.
        speaker
            Embeddings (B, E); their length has no effect.
        """
        pitch = _pitch_features(f0)
        voice = self.speaker(functional.normalize(speaker, dim=-1) * math.sqrt(self.size.speaker))
        if content.shape[1] % 2:  # pairs of frames are averaged below
            content, pitch = (torch.cat([x, x[:, -1:]], dim=1) for x in (content, pitch))
        hidden = (
            self.content(self.codes(halve_frame_rate(content)))
            + self.pitch(halve_frame_rate(pitch))
            + voice.unsqueeze(1)
        )
        for block in self.blocks:
            hidden = block(hidden, voice)
        hidden = double_frame_rate(hidden) + self.fine_pitch(pitch)
        for block in self.fine_blocks:
            hidden = block(hidden, voice)
        both = self.gains(self.norm(hidden))[:, : f0.shape[1]]
        return both[..., :GAINS], both[..., GAINS:]

    def waveform(self, content: Tensor, f0: Tensor, speaker: Tensor, source: Excitation) -> Tensor:
        """Return the waveform (B, 160 T); see :meth:`forward` for content, F0 and speaker."""
        pulses, noise = self(content, f0, speaker)
        return self.waveform_from_gains(pulses, noise, source)

    def waveform_from_gains(self, pulses: Tensor, noise: Tensor, source: Excitation) -> Tensor:
        """Return the waveform (B, 160 T) of the sources filtered with log gains (B, T, 128), by overlap-add."""
        frames = self.output_spectra(*attenuate_pauses(pulses, noise), source)
        return _overlap_add(torch.fft.irfft(frames, n=POINTS), pulses.shape[1])

    def output_spectra(self, pulses: Tensor, noise: Tensor, source: Excitation) -> Tensor:
        """Return the spectra (B, T, 513) of the frames of the output, from log gains (B, T, 128) and the sources."""
        spread: Tensor = self.spread  # type: ignore[assignment]
        voiced, unvoiced = spectra(source.pulses, WINDOW, POINTS), spectra(source.noise, WINDOW, POINTS)
        return minimum_phase(pulses @ spread) * voiced + minimum_phase(noise @ spread) * unvoiced


class MelSourceFilter(SourceFilter):
    """A vocoder whose content is mel spectra (:mod:`voiceveil.models.nets.mel`), which it standardizes."""

    def __init__(self, size: SourceFilterSize) -> None:
        super().__init__(size)
        self.scale = Standardize(size.content)

    def forward(self, content: Tensor, f0: Tensor, speaker: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log gains, (B, T, 128) each, for mel spectra (B, T, 80)."""
        return super().forward(self.scale(content), f0, speaker)


class Block(nn.Module):
    """A ConvNeXt block over time, whose scale and shift depend on the speaker."""

    def __init__(self, width: int, voice: int) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.randn(7, width) / math.sqrt(7))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.adapt = nn.Linear(voice, 2 * width)
        self.expand = nn.Linear(width, 3 * width)
        self.contract = nn.Linear(3 * width, width)
        nn.init.normal_(self.adapt.weight, std=0.02)
        nn.init.zeros_(self.adapt.bias)
        nn.init.zeros_(self.contract.bias)
        self.contract.weight.data *= 0.3

    def forward(self, hidden: Tensor, voice: Tensor) -> Tensor:
        """Return (B, T, width) for hidden features (B, T, width) and speaker features (B, voice)."""
        frames = hidden.shape[1]
        padded = functional.pad(hidden, (0, 0, 3, 3))
        mixed = padded[:, :frames] * self.taps[0]
        for tap in range(1, 7):  # depthwise; faster than a grouped convolution on a CPU
            mixed = mixed + padded[:, tap : tap + frames] * self.taps[tap]
        scale, shift = self.adapt(voice).unsqueeze(1).chunk(2, dim=-1)
        inner = self.norm(mixed) * (1 + scale) + shift
        result: Tensor = hidden + self.contract(functional.gelu(self.expand(inner)))
        return result


def spectra(samples: Tensor, window: int, points: int) -> Tensor:
    """Return the Fourier transforms (B, T, points / 2 + 1) of the frames of samples (B, 160 T), in Hann windows.

    Parameters
    ----------
    samples
        (B, 160 T).
    window
        Length of the windows in samples, centered at the frames.
    points
        Of the transform.
    """
    margin = window // 2 - FRAME // 2
    frames = functional.pad(samples, (margin, margin)).unfold(1, window, FRAME)
    return torch.fft.rfft(frames * torch.hann_window(window, device=samples.device), n=points)  # type: ignore[no-any-return]


def attenuate_pauses(pulses: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return log gains (B, T, 128) with quieter pauses: the distance beyond 26 dB below the loudest frame is doubled.

    Otherwise pauses have the room noise of the training speech.
    """
    level = 0.5 * torch.logaddexp(2 * pulses, 2 * noise).mean(dim=-1, keepdim=True)
    below = (level.amax(dim=1, keepdim=True) - level - _PAUSE).clamp_min(0)
    return pulses - below, noise - below


def minimum_phase(log_magnitudes: Tensor) -> Tensor:
    """Return the spectra (..., 513) of the minimum-phase filters with these log magnitudes, by folding their cepstra.

    Like a vocal tract, they ring only after a pulse; zero-phase filters also ring before it, which blurs onsets.
    """
    cepstrum = torch.fft.irfft(log_magnitudes, n=POINTS)
    half = POINTS // 2
    folded = torch.cat([cepstrum[..., :1], 2 * cepstrum[..., 1:half], cepstrum[..., half : half + 1]], dim=-1)
    return torch.exp(torch.fft.rfft(folded, n=POINTS))


def _overlap_add(frames: Tensor, count: int) -> Tensor:
    """Return the recording (B, 160 count) of frames (B, count, 1024), whose last 384 samples are filter ringing."""
    total = (count - 1) * FRAME + POINTS
    summed = functional.fold(frames.transpose(1, 2), (1, total), (1, POINTS), stride=(1, FRAME)).flatten(1)
    start = WINDOW // 2 - FRAME // 2
    # Hann windows of 640 samples, 160 samples apart, sum to 2.
    return summed[:, start : start + count * FRAME] / (WINDOW / FRAME / 2)


def _pitch_features(f0: Tensor) -> Tensor:
    """Return (B, T, 2): log F0 relative to 150 Hz, interpolated through unvoiced frames, and voicing as -1 or 1."""
    voiced = (f0 > 0).to(f0.dtype)
    filled = torch.from_numpy(np.stack([continuous_f0(row) for row in f0.cpu().numpy()])).to(f0)
    return torch.stack([3.0 * torch.log(filled / 150.0), 2.0 * voiced - 1.0], dim=-1)


def halve_frame_rate(frames: Tensor) -> Tensor:
    """Return the means of pairs of frames: (B, T, D) to (B, T / 2, D), for even T."""
    return 0.5 * (frames[:, ::2] + frames[:, 1::2])


def double_frame_rate(frames: Tensor) -> Tensor:
    """Return linearly interpolated frames: (B, T, D) to (B, 2 T, D)."""
    return functional.interpolate(
        frames.transpose(1, 2), scale_factor=2.0, mode="linear", align_corners=False
    ).transpose(1, 2)


def mel_to_linear(points: int) -> NDArray[np.float32]:
    """Return the matrix (128, points / 2 + 1) that interpolates gains, equally spaced in mel to 8 kHz, at the bins."""
    bins = 2595 * np.log10(1 + np.linspace(0, RATE / 2, points // 2 + 1) / 700)
    positions = bins / bins[-1] * (GAINS - 1)
    left = np.minimum(positions.astype(np.int64), GAINS - 2)
    matrix = np.zeros((GAINS, points // 2 + 1), dtype=np.float32)
    columns = np.arange(points // 2 + 1)
    matrix[left, columns] = 1 - (positions - left)
    matrix[left + 1, columns] += positions - left
    return matrix


def excitation(f0: NDArray[np.float32], rng: np.random.Generator) -> Excitation:
    """Return pulses at F0 (B, T) in Hz, which continue through unvoiced frames, and white noise.

    ``rng`` draws the initial phase of the pulses and the noise.
    """
    pulses = np.stack([pulse_train(continuous_f0(row), phase=float(rng.random())) for row in f0])
    noise = rng.standard_normal(pulses.shape, dtype=np.float32)
    return Excitation(torch.from_numpy(pulses), torch.from_numpy(noise))
