"""Baseline B2 of VoicePrivacy 2020, 2022 and 2024, and system D1 of 2020: McAdams' coefficient.

The editions differ in the choice of alpha, the treatment of frames at the edges, and the normalization of the result.
By default the whole signal is covered; ``edges=official`` reproduces the official code, which zeroes the
last incomplete frame and, in 2020 and 2022, the first 10 ms as well.

The official normalization needs the peak of the whole recording. With ``level=follow`` the output has the loudness of
the input instead, as far as it is known at each moment, which live use needs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.dsp.loudness import LoudnessFollower
from voiceveil.dsp.mcadams import McAdams, McAdamsStream
from voiceveil.systems.contract import Anonymizer, Stream, register
from voiceveil.systems.parameters import Range, parameter
from voiceveil.systems.resources import Resource

__all__ = ["B2", "D1", "B2of2020", "B2of2022"]

Edges = Literal["whole", "official"]
Level = Literal["peak", "follow"]
# Half a step of 16-bit PCM. Normalizing the peak of something quieter would make full-scale noise out of silence.
_SILENCE = 2.0**-16


@register("b2")
@dataclass(frozen=True)
class B2(Anonymizer):
    """McAdams' coefficient, drawn anew for each utterance (VoicePrivacy 2024)."""

    source: ClassVar[str] = "VoicePrivacy 2024, section 5.2"
    preload: ClassVar[tuple[str, ...]] = ("voiceveil.systems.signal.preload",)
    attackers: ClassVar[tuple[str, ...]] = ("mcadams-inversion",)
    alpha: Range = parameter((0.5, 0.9), "McAdams' coefficient is drawn uniformly from this range", low=0.01, high=4)
    edges: Edges = parameter(
        "whole", "whole: transform the whole signal; official: zero its edges as the official code does"
    )
    level: Level = parameter(
        "peak", "peak: normalize the peak to full scale; follow: the loudness of the input, for live use"
    )

    _skip_first: ClassVar[bool] = False  # the official code of 2020 and 2022 starts at frame 1,
    _double: ClassVar[bool] = False  # sums in float64 and clips angles

    def resources(self) -> tuple[Resource, ...]:
        """Return nothing: no part of the system is trained."""
        return ()

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Move the poles, then normalize the peak."""
        mcadams = self._mcadams(rng)
        if self.level == "follow":
            following = _FollowingStream(mcadams, self.rate)
            return np.concatenate([following.push(samples), following.close()])
        if np.abs(samples).max() < _SILENCE:
            return np.zeros_like(samples)
        raw = mcadams(samples, self.rate)
        return self._normalized(raw, np.abs(raw).max())

    def stream(self, rng: np.random.Generator) -> Stream:
        """Return a stream that moves the poles block by block."""
        mcadams = self._mcadams(rng)
        return _FollowingStream(mcadams, self.rate) if self.level == "follow" else _B2Stream(self, mcadams)

    def latency(self) -> float | None:
        """Return one frame in seconds, or None if the peak of the whole recording is needed."""
        return 0.020 if self.level == "follow" else None

    def official_rng(self, index: int, utterance: Utterance, level: str) -> np.random.Generator:
        """Return the generator of 2024: a sequence per data set, seeded with 'VPC2024', or a seed from the speaker."""
        if level == "speaker":
            return np.random.default_rng(_official_seed(utterance.speaker or ""))
        bits = np.random.PCG64(_official_seed("VPC2024"))
        return np.random.Generator(bits.advance(index))

    def _mcadams(self, rng: np.random.Generator) -> McAdams:
        return McAdams(
            alpha=float(rng.uniform(*self.alpha)),
            radius=self._radius(),
            clip_angle=self._double,
            whole=self.edges == "whole",
            skip_first=self._skip_first,
            double=self._double,
        )

    def _radius(self) -> float:
        return 1.0

    def _normalized(self, raw: NDArray[np.floating[Any]], peak: np.floating[Any] | float) -> Samples:
        """Normalize the peak to 32766 and truncate to 16-bit steps, as in 2022 and 2024."""
        if peak == 0:
            return raw.astype(np.float32)
        steps: NDArray[np.floating[Any]] = np.trunc(raw / raw.dtype.type(peak) * 32766)
        return (steps / 32768).astype(np.float32)


@register("b2-2022")
@dataclass(frozen=True)
class B2of2022(B2):
    """McAdams' coefficient as in VoicePrivacy 2022 (differs from 2024 at the edges and in rounding)."""

    source: ClassVar[str] = "VoicePrivacy 2022, section 6.2"
    _skip_first: ClassVar[bool] = True
    _double: ClassVar[bool] = True

    def official_rng(self, index: int, utterance: Utterance, level: str) -> np.random.Generator:
        """Refuse official draws: they came from Python's salted string hash, or from an unseeded generator."""
        raise InputError(
            "the official draws of 2022 differ from run to run and cannot be reproduced",
            fix="use --seed or --key-file; --draws official works for b2 (2024)",
        )


@register("b2-2020")
@dataclass(frozen=True)
class B2of2020(B2):
    """McAdams' coefficient 0.8 for everybody (VoicePrivacy 2020)."""

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.1"
    alpha: Range = parameter((0.8, 0.8), "McAdams' coefficient is drawn uniformly from this range", low=0.01, high=4)
    _skip_first: ClassVar[bool] = True
    _double: ClassVar[bool] = True

    def official_rng(self, index: int, utterance: Utterance, level: str) -> np.random.Generator:
        """Return any generator: the official coefficient is a constant."""
        return np.random.default_rng(0)

    def _normalized(self, raw: NDArray[np.floating[Any]], peak: np.floating[Any] | float) -> Samples:
        """Normalize the peak to 1, float32, as in 2020."""
        return (raw / peak if peak else raw).astype(np.float32)


@register("d1")
@dataclass(frozen=True)
class D1(B2of2020):
    """McAdams' coefficient 0.8 and pole radii times 0.975 (VoicePrivacy 2020, team D).

    The paper does not say whether real poles shrink too; here all do, so that the whole envelope is flattened.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2, D1 (Gupta et al.)"
    radius: float = parameter(0.975, "factor on the radius of every pole", low=0.0, high=1.0)

    def _radius(self) -> float:
        return self.radius


class _B2Stream:
    def __init__(self, system: B2, mcadams: McAdams) -> None:
        self._system = system
        self._stream = McAdamsStream(mcadams, system.rate)
        self._silent = True

    def push(self, samples: Samples) -> Samples:
        self._silent = self._silent and (len(samples) == 0 or bool(np.abs(samples).max() < _SILENCE))
        return self._stream.push(samples).astype(np.float32)

    def close(self) -> Samples:
        return self._stream.close().astype(np.float32)

    def finish(self, samples: Samples, peak: float) -> Samples:
        if self._silent:
            return np.zeros_like(samples)
        return self._system._normalized(samples, peak)


class _FollowingStream:
    """Returns samples at most one frame later, at the loudness of the input."""

    def __init__(self, mcadams: McAdams, rate: int) -> None:
        self._stream = McAdamsStream(mcadams, rate)
        self._waiting = np.zeros(0, dtype=np.float32)  # input whose output is not finished
        self._follower = LoudnessFollower(rate // 100, rate, _initial_gain(mcadams, rate))

    def push(self, samples: Samples) -> Samples:
        self._waiting = np.concatenate([self._waiting, samples])
        return self._scaled(self._stream.push(samples))

    def close(self) -> Samples:
        return self._scaled(self._stream.close())

    def finish(self, samples: Samples, peak: float) -> Samples:
        return samples

    def _scaled(self, result: NDArray[np.floating[Any]]) -> Samples:
        source, self._waiting = self._waiting[: len(result)], self._waiting[len(result) :]
        return self._follower.push(source, result.astype(np.float32))


def _initial_gain(mcadams: McAdams, rate: int) -> float:
    """Return the initial gain: that for noise with roughly the spectrum of speech (-6 dB per octave)."""
    noise = np.fft.rfft(np.random.default_rng(0).standard_normal(rate // 4))
    phase = np.exp(-1j * np.linspace(0, np.pi, len(noise)))
    speechlike = np.fft.irfft(noise / (1 - 0.9 * phase))
    samples = (0.05 * speechlike / speechlike.std()).astype(np.float32)
    return float(np.sqrt(np.square(samples).sum() / np.square(mcadams(samples, rate)).sum()))


def _official_seed(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
