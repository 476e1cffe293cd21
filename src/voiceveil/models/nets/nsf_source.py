"""The excitation of a neural source-filter model: sines at the pitch and its harmonics, and noise (Wang et al. 2019).

Conventions: 16 kHz, 160 samples a frame; ``f0`` (B, T) in Hz, one value a frame, 0 = unvoiced; signals (B, 1, 160 T).
Phases are in cycles.

In a frame the pitch is constant, so the phase has a closed form: what has passed before the frame, summed over frames
in double precision, plus the samples of the frame. It does not drift in a long recording, and any part of a recording
can be made without what stands before it. For the same reason noise is drawn in blocks of a second, each from its own
seed, on the CPU: the same seed gives the same excitation in one piece, in parts, and on every device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

__all__ = ["FRAME", "RATE", "Excitation", "SineSource", "cycles_before", "draw_seed"]

RATE = 16000
FRAME = 160  # samples
_BLOCK = 100  # frames of noise that are drawn at once
_SEEDS = 2**40


def draw_seed(generator: torch.Generator | None = None) -> int:
    """Return a seed for an :class:`Excitation`, from ``generator`` or, without one, from torch's own."""
    return int(torch.randint(_SEEDS, (1,), generator=generator))


def cycles_before(f0: Tensor) -> Tensor:
    """Cycles of the pitch that have passed when each frame begins, in [0, 1): (B, T) to (B, T), float64."""
    passed = torch.cumsum(f0.double() * (FRAME / RATE), dim=1)
    return torch.nn.functional.pad(passed, (1, 0))[:, :-1].remainder(1.0)


@dataclass(frozen=True)
class Excitation:
    """What is random in an excitation: the phases with which the harmonics begin, and noise."""

    seed: int

    def phases(self, rows: int, sines: int) -> Tensor:
        """Where each sine begins, in cycles, (rows, sines); the fundamental begins at 0."""
        initial = torch.rand(rows, sines, generator=_generator(self.seed, -1))
        initial[:, 0] = 0.0
        return initial

    def noise(self, first: int, frames: int, rows: int, channels: int) -> Tensor:
        """White noise, standard deviation 1, for ``frames`` from the one with number ``first``: (rows, channels, N)."""
        blocks = range(first // _BLOCK, (first + frames - 1) // _BLOCK + 1)
        parts = [_noise_block(self.seed, block, rows, channels) for block in blocks]
        skipped = (first - blocks[0] * _BLOCK) * FRAME
        return torch.cat(parts, dim=2)[:, :, skipped : skipped + frames * FRAME]


def _generator(seed: int, block: int) -> torch.Generator:
    return torch.Generator().manual_seed((seed * 1_000_003 + block + 1) % 2**63)


@lru_cache(maxsize=4)
def _noise_block(seed: int, block: int, rows: int, channels: int) -> Tensor:
    """Kept for the next part of the recording, which begins in the same block."""
    with torch.inference_mode(False):
        return torch.randn(rows, channels, _BLOCK * FRAME, generator=_generator(seed, block))


class SineSource(nn.Module):
    """Pitch to the excitations of the harmonic and of the noise branch, both (B, 1, 160 T).

    The sines at F0, 2 F0, ... have ``amplitude`` where the frame is voiced, with a little noise; elsewhere there is
    noise alone, whose deviation is a third of the amplitude. One trained layer and tanh merge them. The noise branch
    gets white noise throughout.
    """

    def __init__(self, harmonics: int = 7, amplitude: float = 0.1, noise: float = 0.003) -> None:
        super().__init__()
        self.harmonics, self.amplitude, self.noise = harmonics, amplitude, noise
        self.merge = nn.Linear(harmonics + 1, 1)

    def sines(self, f0: Tensor, before: Tensor, initial: Tensor) -> Tensor:
        """The sines of all harmonics, amplitude 1: (B, harmonics + 1, 160 T); zero where unvoiced or above 8 kHz.

        ``before`` is :func:`cycles_before`, ``initial`` (B, harmonics + 1) where each sine begins.
        """
        within = torch.arange(1, FRAME + 1, device=f0.device, dtype=torch.float64) / RATE
        cycles = (before.unsqueeze(2) + f0.double().unsqueeze(2) * within).flatten(1)  # (B, 160 T)
        multiples = torch.arange(1, self.harmonics + 2, device=f0.device, dtype=torch.float64)
        phases = cycles.unsqueeze(1) * multiples[:, None] + initial.to(cycles).unsqueeze(2)
        voiced = (f0 > 0).repeat_interleave(FRAME, dim=1).unsqueeze(1)
        heard = multiples.float()[:, None] * f0.repeat_interleave(FRAME, dim=1).unsqueeze(1) < RATE / 2
        return torch.sin(phases.remainder(1.0).float() * (2.0 * math.pi)) * (voiced & heard)

    def forward(
        self, f0: Tensor, excitation: Excitation, first: int = 0, before: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The excitation of frames ``first`` and following; ``before``: their :func:`cycles_before`, if not the start.

        ``f0`` (B, T). Returns harmonic and noise excitation, (B, 1, 160 T) each.
        """
        rows, frames = f0.shape
        count = self.harmonics + 1
        with torch.no_grad():
            before = cycles_before(f0) if before is None else before
            sines = self.amplitude * self.sines(f0, before, excitation.phases(rows, count))
            noise = excitation.noise(first, frames, rows, count + 1).to(f0.device)
            voiced = (f0 > 0).repeat_interleave(FRAME, dim=1).unsqueeze(1)
            level = torch.where(voiced, self.noise, self.amplitude / 3)
            sines = sines + level * noise[:, :count]
        merged = torch.tanh(self.merge(sines.transpose(1, 2))).transpose(1, 2)
        return merged, noise[:, count:] * (self.amplitude / 3)
