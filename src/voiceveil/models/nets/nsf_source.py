"""The excitation of a neural source-filter model: sines at F0 and its harmonics, and noise (Wang et al. 2019).

Conventions: 16 kHz, 160 samples per frame; ``f0`` (B, T) in Hz, one value per frame, 0 = unvoiced; signals
(B, 1, 160 T). Phases are in cycles.

F0 is constant within a frame, so that the phase has a closed form: the phase at the beginning of the frame, summed over
frames in double precision, plus the samples of the frame. It does not drift in long recordings, and any part of a
recording can be computed without what precedes it. For this also, noise is drawn in blocks of a second, each from its
own seed, on the CPU: equal seeds give equal excitation, computed at once or in chunks, on every device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from voiceveil.dsp.excitation import FRAME, RATE
from voiceveil.models.nets.double_precision import as_float64

__all__ = ["FRAME", "RATE", "SeededExcitation", "SineSource", "draw_seed", "frame_phases"]

_BLOCK = 100  # frames of noise that are drawn together
_SEEDS = 2**40


def draw_seed(generator: torch.Generator | None = None) -> int:
    """Return a seed for :class:`SeededExcitation` from ``generator``, by default torch's global one."""
    return int(torch.randint(_SEEDS, (1,), generator=generator))


def frame_phases(f0: Tensor) -> Tensor:
    """Return the phase of the fundamental at the beginning of each frame, in cycles in [0, 1), (B, T) float64."""
    cycles = torch.cumsum(as_float64(f0) * (FRAME / RATE), dim=1)
    return torch.nn.functional.pad(cycles, (1, 0))[:, :-1].remainder(1.0)


@dataclass(frozen=True)
class SeededExcitation:
    """The random part of an excitation, drawn from a seed: initial phases of the harmonics, and noise."""

    seed: int

    def phases(self, rows: int, sines: int) -> Tensor:
        """Return the initial phase of each sine in cycles, (rows, sines); that of the fundamental is 0."""
        initial = torch.rand(rows, sines, generator=_generator(self.seed, -1))
        initial[:, 0] = 0.0
        return initial

    def noise(self, first: int, frames: int, rows: int, channels: int) -> Tensor:
        """Return white noise of standard deviation 1, shape (rows, channels, 160 frames).

        Parameters
        ----------
        first
            Number of the first frame.
        frames
            Number of frames.
        rows, channels
            Recordings in the batch, and noise signals of each.
        """
        blocks = range(first // _BLOCK, (first + frames - 1) // _BLOCK + 1)
        parts = [_noise_block(self.seed, block, rows, channels) for block in blocks]
        skipped = (first - blocks[0] * _BLOCK) * FRAME
        return torch.cat(parts, dim=2)[:, :, skipped : skipped + frames * FRAME]


def _generator(seed: int, block: int) -> torch.Generator:
    return torch.Generator().manual_seed((seed * 1_000_003 + block + 1) % 2**63)


@lru_cache(maxsize=4)
def _noise_block(seed: int, block: int, rows: int, channels: int) -> Tensor:
    """Return the noise of a block of frames; cached, because the next chunk of a recording begins in it."""
    with torch.inference_mode(False):
        return torch.randn(rows, channels, _BLOCK * FRAME, generator=_generator(seed, block))


class SineSource(nn.Module):
    """Excitations of the harmonic and the noise branch from F0, (B, 1, 160 T) each.

    In voiced frames there are sines of ``amplitude`` at F0, 2 F0, ..., plus noise of deviation ``noise``; in unvoiced
    frames noise with a third of the amplitude as deviation. A trained layer and tanh merge them into one signal. The
    noise branch gets white noise throughout.
    """

    def __init__(self, harmonics: int = 7, amplitude: float = 0.1, noise: float = 0.003) -> None:
        super().__init__()
        self.harmonics, self.amplitude, self.noise = harmonics, amplitude, noise
        self.merge = nn.Linear(harmonics + 1, 1)

    def sines(self, f0: Tensor, frame_phases: Tensor, initial: Tensor) -> Tensor:
        """Return sines of amplitude 1, (B, harmonics + 1, 160 T), zero where unvoiced or above 8 kHz.

        Parameters
        ----------
        f0
            (B, T) in Hz.
        frame_phases
            See :func:`frame_phases`.
        initial
            Initial phase of each sine in cycles (B, harmonics + 1).
        """
        exact = as_float64(f0)
        times = torch.arange(1, FRAME + 1, device=exact.device, dtype=torch.float64) / RATE
        cycles = (frame_phases.unsqueeze(2) + exact.unsqueeze(2) * times).flatten(1)  # (B, 160 T)
        multiples = torch.arange(1, self.harmonics + 2, device=exact.device, dtype=torch.float64)
        phases = cycles.unsqueeze(1) * multiples[:, None] + initial.to(cycles).unsqueeze(2)
        voiced = (f0 > 0).repeat_interleave(FRAME, dim=1).unsqueeze(1)
        below_nyquist = multiples.to(f0)[:, None] * f0.repeat_interleave(FRAME, dim=1).unsqueeze(1) < RATE / 2
        return torch.sin(phases.remainder(1.0).to(f0) * (2.0 * math.pi)) * (voiced & below_nyquist)

    def forward(
        self, f0: Tensor, excitation: SeededExcitation, first: int = 0, phases: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return harmonic and noise excitation, (B, 1, 160 T) each.

        Parameters
        ----------
        f0
            (B, T) in Hz, of consecutive frames.
        excitation
            Random part of the recording.
        first
            Number of the first frame in the recording.
        phases
            :func:`frame_phases` of these frames; None: they are the beginning of the recording.
        """
        rows, frames = f0.shape
        count = self.harmonics + 1
        with torch.no_grad():
            phases = frame_phases(f0) if phases is None else phases
            sines = self.amplitude * self.sines(f0, phases, excitation.phases(rows, count))
            noise = excitation.noise(first, frames, rows, count + 1).to(f0.device)
            voiced = (f0 > 0).repeat_interleave(FRAME, dim=1).unsqueeze(1)
            level = torch.where(voiced, self.noise, self.amplitude / 3)
            sines = sines + level * noise[:, :count]
        merged = torch.tanh(self.merge(sines.transpose(1, 2))).transpose(1, 2)
        return merged, noise[:, count:] * (self.amplitude / 3)
