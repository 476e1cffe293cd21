"""A compact source-filter decoder: content, F0 and speaker to a waveform, quick on one core.

After the neural source-filter models (Wang, Takaki and Yamagishi 2019) and the neural homomorphic vocoder (Liu, Chen
and Yu 2020): a train of band-limited pulses at F0 and white noise each go through a filter that a network predicts for
every frame, and are added. The network has no upsampling part: it works at 50 and 100 frames a second.

Conventions: 16 kHz, frames of 160 samples (10 ms), frame ``j`` is centered at sample 160 j + 80. Tensors: content
(B, T, D), F0 in Hz (B, T) with 0 for unvoiced, speaker (B, E), waveform (B, 160 T).

The loss is taken on the magnitudes of the filtered spectra, before they are put together again: a quarter of the cost
of a step, and as good. Synthesis gives the filters their minimum phase. Filters are predicted as logarithmic gains at
128 frequencies, equally spaced in mel.
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

from voiceveil.dsp.excitation import continuous_f0, pulse_train
from voiceveil.models.nets.soft_codes import SoftCodes
from voiceveil.models.nets.standardize import Standardize

__all__ = [
    "Excitation",
    "MelSourceFilter",
    "SourceFilter",
    "SourceFilterSize",
    "doubled",
    "halved",
    "mel_to_linear",
    "minimum_phase",
    "quiet_pauses",
    "spectra",
]

FRAME = 160
RATE = 16000
#: Samples of the analysis window and points of its Fourier transform: zeros leave room for the filter's response.
WINDOW, POINTS = 640, 1024
GAINS = 128
#: Nepers below the loudest frame (26 dB) where pauses begin.
_PAUSE = 3.0


@dataclass(frozen=True)
class SourceFilterSize:
    """Dimensions of the inputs and of the network."""

    content: int = 288
    speaker: int = 192
    width: int = 224
    blocks: int = 5  # at 50 frames a second
    fine_blocks: int = 2  # at 100
    codes: int = 0  # of the content's bottleneck; 0: none
    nearest: int = 4  # codes that a vector is replaced by
    bottleneck_strength: float = 1.0  # 0: content as it is, 1: codes only
    mean_removal: float = 0.0  # how far the mean of the codes over a recording is brought to that of its vectors

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SourceFilterSize:
        """Return the size that a checkpoint records, also under the former names of its fields."""
        former = {"share": "bottleneck_strength", "centred": "mean_removal"}
        return cls(**{former.get(name, name): value for name, value in record.items()})


class Excitation(NamedTuple):
    """The two sources, of unit power: pulses and noise, each (B, samples)."""

    pulses: Tensor
    noise: Tensor


class SourceFilter(nn.Module):
    """Content, F0 and speaker to the gains of the two filters."""

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
        nn.init.constant_(self.gains.bias, -5.0)  # about the level of speech
        self.register_buffer("spread", torch.from_numpy(mel_to_linear(POINTS)), persistent=False)

    def record(self) -> dict[str, Any]:
        """What :func:`SourceFilterSize` needs to make the same network again."""
        return asdict(self.size)

    def forward(self, content: Tensor, f0: Tensor, speaker: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithmic gains of the pulses' and of the noise's filter, each (B, T, 128)."""
        pitch = _pitch_features(f0)
        voice = self.speaker(functional.normalize(speaker, dim=-1) * math.sqrt(self.size.speaker))
        even = content.shape[1] % 2
        if even:  # pairs of frames are joined
            content, pitch = (torch.cat([x, x[:, -1:]], dim=1) for x in (content, pitch))
        hidden = self.content(self.codes(halved(content))) + self.pitch(halved(pitch)) + voice.unsqueeze(1)
        for block in self.blocks:
            hidden = block(hidden, voice)
        hidden = doubled(hidden) + self.fine_pitch(pitch)
        for block in self.fine_blocks:
            hidden = block(hidden, voice)
        both = self.gains(self.norm(hidden))[:, : f0.shape[1]]
        return both[..., :GAINS], both[..., GAINS:]

    def waveform(self, content: Tensor, f0: Tensor, speaker: Tensor, source: Excitation) -> Tensor:
        """Synthesis (B, 160 T): each frame of the sources is filtered, and the frames are added up."""
        pulses, noise = self(content, f0, speaker)
        return self.sounding(pulses, noise, source)

    def sounding(self, pulses: Tensor, noise: Tensor, source: Excitation) -> Tensor:
        """Return the waveform (B, 160 T) that the gains (B, T, 128) make of the sources."""
        frames = self.filtered(*quiet_pauses(pulses, noise), source)
        return _overlap_add(torch.fft.irfft(frames, n=POINTS), pulses.shape[1])

    def filtered(self, pulses: Tensor, noise: Tensor, source: Excitation) -> Tensor:
        """Spectra (B, T, 513) of the output's frames, from the gains."""
        spread: Tensor = self.spread  # type: ignore[assignment]
        voiced, unvoiced = spectra(source.pulses, WINDOW, POINTS), spectra(source.noise, WINDOW, POINTS)
        return minimum_phase(pulses @ spread) * voiced + minimum_phase(noise @ spread) * unvoiced


class MelSourceFilter(SourceFilter):
    """A vocoder of the same kind: its content is mel spectra (:mod:`voiceveil.models.nets.mel`) on a common scale."""

    def __init__(self, size: SourceFilterSize) -> None:
        super().__init__(size)
        self.scale = Standardize(size.content)

    def forward(self, content: Tensor, f0: Tensor, speaker: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithmic gains, each (B, T, 128), from mel spectra (B, T, 80)."""
        return super().forward(self.scale(content), f0, speaker)


class Block(nn.Module):
    """ConvNeXt in time: depthwise convolution of 7 frames, norm, scale and shift by the speaker, two dense layers."""

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
        """(B, T, width) and (B, voice) to (B, T, width)."""
        frames = hidden.shape[1]
        padded = functional.pad(hidden, (0, 0, 3, 3))
        mixed = padded[:, :frames] * self.taps[0]
        for tap in range(1, 7):  # quicker than a grouped convolution on a CPU
            mixed = mixed + padded[:, tap : tap + frames] * self.taps[tap]
        scale, shift = self.adapt(voice).unsqueeze(1).chunk(2, dim=-1)
        inner = self.norm(mixed) * (1 + scale) + shift
        result: Tensor = hidden + self.contract(functional.gelu(self.expand(inner)))
        return result


def spectra(samples: Tensor, window: int, points: int) -> Tensor:
    """Fourier transforms (B, T, points / 2 + 1) of the frames of samples (B, 160 T), in Hann windows."""
    reach = window // 2 - FRAME // 2
    frames = functional.pad(samples, (reach, reach)).unfold(1, window, FRAME)
    return torch.fft.rfft(frames * torch.hann_window(window, device=samples.device), n=points)  # type: ignore[no-any-return]


def quiet_pauses(pulses: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Gains (B, T, 128) with the pauses made quieter: 26 dB and more below the loudest frame, each dB becomes two.

    What is heard in pauses is the rooms of the training speech, which no listener wants.
    """
    level = 0.5 * torch.logaddexp(2 * pulses, 2 * noise).mean(dim=-1, keepdim=True)
    below = (level.amax(dim=1, keepdim=True) - level - _PAUSE).clamp_min(0)
    return pulses - below, noise - below


def minimum_phase(logarithmic: Tensor) -> Tensor:
    """Spectra (..., 513) of the causal filters that have these logarithmic magnitudes, by folding their cepstra.

    A vocal tract rings after each pulse and not before it; filters without phase ring on both sides, which blurs
    onsets.
    """
    cepstrum = torch.fft.irfft(logarithmic, n=POINTS)
    half = POINTS // 2
    folded = torch.cat([cepstrum[..., :1], 2 * cepstrum[..., 1:half], cepstrum[..., half : half + 1]], dim=-1)
    return torch.exp(torch.fft.rfft(folded, n=POINTS))


def _overlap_add(frames: Tensor, count: int) -> Tensor:
    """Frames of 1024 samples, the last 384 of which are the filter's response alone, to one recording."""
    total = (count - 1) * FRAME + POINTS
    summed = functional.fold(frames.transpose(1, 2), (1, total), (1, POINTS), stride=(1, FRAME)).flatten(1)
    start = WINDOW // 2 - FRAME // 2
    # Hann windows of 640 samples every 160 add up to 2.
    return summed[:, start : start + count * FRAME] / (WINDOW / FRAME / 2)


def _pitch_features(f0: Tensor) -> Tensor:
    """(B, T, 2): logarithmic F0 carried through unvoiced frames, about 150 Hz; and voicing."""
    voiced = (f0 > 0).to(f0.dtype)
    filled = torch.from_numpy(np.stack([continuous_f0(row) for row in f0.cpu().numpy()])).to(f0)
    return torch.stack([3.0 * torch.log(filled / 150.0), 2.0 * voiced - 1.0], dim=-1)


def halved(frames: Tensor) -> Tensor:
    """Pairs of frames, averaged."""
    return 0.5 * (frames[:, ::2] + frames[:, 1::2])


def doubled(frames: Tensor) -> Tensor:
    """Twice as many frames, linear between their centers."""
    return functional.interpolate(
        frames.transpose(1, 2), scale_factor=2.0, mode="linear", align_corners=False
    ).transpose(1, 2)


def mel_to_linear(points: int) -> NDArray[np.float32]:
    """(128, points / 2 + 1): linear interpolation from gains equally spaced in mel, 0 to 8 kHz, to the bins."""
    bins = 2595 * np.log10(1 + np.linspace(0, RATE / 2, points // 2 + 1) / 700)
    at = bins / bins[-1] * (GAINS - 1)
    left = np.minimum(at.astype(np.int64), GAINS - 2)
    matrix = np.zeros((GAINS, points // 2 + 1), dtype=np.float32)
    columns = np.arange(points // 2 + 1)
    matrix[left, columns] = 1 - (at - left)
    matrix[left + 1, columns] += at - left
    return matrix


def excitation(f0: NDArray[np.float32], rng: np.random.Generator) -> Excitation:
    """Return pulses at F0 (B, T) in Hz, which go on through unvoiced frames from a random phase, and white noise."""
    pulses = np.stack([pulse_train(continuous_f0(row), phase=float(rng.random())) for row in f0])
    noise = rng.standard_normal(pulses.shape, dtype=np.float32)
    return Excitation(torch.from_numpy(pulses), torch.from_numpy(noise))
