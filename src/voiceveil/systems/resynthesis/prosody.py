"""What a source loses beside its voice, or keeps: register and reach of F0, its own sounds, rhythm, loudness.

A voice is known by more than its timbre, and a feeling is heard in more than words. All that is done here is drawn or
measured once a recording.

Conventions: F0 (T,) in Hz with 0 for unvoiced; frames of 10 ms; positions in frames, from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples
from voiceveil.dsp.effort import balance, effort, raised
from voiceveil.dsp.excitation import continuous_f0
from voiceveil.models.content.features import interpolated
from voiceveil.systems.parameters import Range
from voiceveil.systems.resynthesis.speaking_style import SPREAD, TYPICAL, Heights, Manner, Register, mixed

__all__ = ["Disguise", "at_places", "stretched", "with_loudness"]

Array = NDArray[np.float32]
_LOWEST, _HIGHEST = 50.0, 600.0  # Hz
#: A contour that is expected hardly moves if its deviation is less, of those that were learned: half of what is usual.
_HARDLY = 0.3
#: Frames: rhythm changes this slowly, and not at all this near to an end, where pieces of a recording are joined.
_SLOWLY, _STILL = 40, 100
#: Loudness: samples of a frame, frames over which it is averaged (half a second), dB that it is changed by at most.
_FRAME, _SMOOTH, _MOST = 160, 51, 12.0


@dataclass(frozen=True)
class Disguise:
    """Changes to prosody.

    Parameters
    ----------
    intonation
        "source": F0 unchanged; "moved": shifted to the pseudo-speaker's mean; "leveled": moved, with a common F0 range.
    f0_range_kept
        Fraction of the source's F0 movement about its mean that is kept, if F0 is moved.
    speeds
        Range of playback speeds at which content is extracted.
    rhythm
        Standard deviation of the log local tempo; the total duration does not change.
    tempo
        Largest change of the log duration.
    arousal_threshold
        Arousal, in standard deviations between speakers, below which mean F0, F0 range, voicing and vocal effort of the
        source are replaced by those of the new voice and the words; see
        :mod:`voiceveil.systems.resynthesis.speaking_style`.
    loudness
        Fraction of the slow loudness changes that is kept; the decoder generates the rest.
    predicted_f0_weight
        Amount of F0 movement that is predicted from the words.
    voicing
        How far voicing is predicted from the words, 0 to 1.
    """

    intonation: Literal["source", "moved", "leveled"] = "source"
    f0_range_kept: float = 1.0
    speeds: Range = (1.0, 1.0)
    rhythm: float = 0.0
    tempo: float = 0.0
    arousal_threshold: float = math.inf
    loudness: float = 0.0
    predicted_f0_weight: float = 0.0
    voicing: float = 0.0

    def speed(self, rng: np.random.Generator) -> float:
        """Return one of the range, equally spread over its logarithm, of two digits."""
        low, high = self.speeds
        return low if low == high else round(float(np.exp(rng.uniform(np.log(low), np.log(high)))), 2)

    def pace(self, rng: np.random.Generator) -> float:
        """How many times as long a recording becomes, equally spread over its logarithm."""
        return float(np.exp(rng.uniform(-self.tempo, self.tempo)))

    def f0(
        self,
        f0: Array,
        source: Register | None,
        target: float,
        heights: Heights | None = None,
        manner: Manner | None = None,
        expected: Array | None = None,
    ) -> Array:
        """Return the intonation of a source with this register about the ``target``, a mean of ln F0.

        ``manner``: that of the source, ``heights``: those of the target's gender, if it may stay. ``expected``: the
        contour (T,) of the melody, in deviations of those that were learned.
        """
        if self.intonation == "source" or source is None:
            return f0
        manner = manner or Manner()
        share = manner.emotion_weight(self.arousal_threshold)
        reach = source.reach
        if self.intonation == "leveled":
            reach = TYPICAL * math.exp(SPREAD * mixed(manner.reach, 0.0, share))
        if heights is not None:
            target = heights.at(mixed(manner.height, heights.deviations(target), share))
        voiced = f0 > 0
        own = (np.log(np.where(voiced, f0, 1.0)) - source.mean) / source.reach
        movement = mixed(1.0, self.f0_range_kept, share) * own
        if expected is not None and voiced.any():
            movement += (1 - share) * self.predicted_f0_weight * _standardized(expected, voiced)
        moved = np.clip(np.exp(target + reach * movement), _LOWEST, _HIGHEST)
        return np.where(voiced, moved, 0.0).astype(np.float32)

    def voiced(self, f0: Array, expected: Array, manner: Manner) -> Array:
        """F0 (T,) that is voiced where the source is, or where ``expected``, a probability (T,), says that words are.

        It goes on through frames that the source did not voice. A whisper stays one, and so does the creak or the
        breath of a ``manner`` that is a feeling's.
        """
        voiced = f0 > 0
        if not voiced.any():
            return f0
        amount = self.voicing * (1 - manner.emotion_weight(self.arousal_threshold))
        decided = (1 - amount) * voiced + amount * expected > 0.5
        return np.where(decided, continuous_f0(f0), 0.0).astype(np.float32)

    def effort(self, made: Samples, voiced: NDArray[np.bool_], manner: Manner) -> Samples:
        """Samples with the vocal effort of a manner, as far as it is a feeling's."""
        share = manner.emotion_weight(self.arousal_threshold)
        found = None if share == 0 or manner.effort is None else balance(made, voiced)
        if found is None:
            return made
        own = effort(found)
        return raised(made, mixed(manner.effort, own, share) - own)

    def places(self, frames: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Where in the source every frame of a result of its length is from: growing, from the first to the last."""
        still = np.arange(frames, dtype=np.float64)
        inner = frames - 2 * _STILL
        if self.rhythm == 0 or inner < 2 * _SLOWLY:
            return still
        knots = rng.normal(scale=self.rhythm, size=inner // _SLOWLY + 2)
        tempo = np.exp(np.interp(np.arange(inner) / _SLOWLY, np.arange(len(knots)), knots))
        along = np.concatenate([[0.0], np.cumsum(tempo)])
        still[_STILL : _STILL + inner + 1] = _STILL + along * (inner / along[-1])
        return still


def stretched(places: NDArray[np.float64], frames: int) -> NDArray[np.float64]:
    """So many places along the same way."""
    return np.interp(np.linspace(0, len(places) - 1, frames), np.arange(len(places)), places)


def at_places(track: Array, places: NDArray[np.float64]) -> Array:
    """Rows of a track (T, ...) at places between its frames: of F0 the nearest, of content a mean of two."""
    if track.ndim == 1:  # between voiced and unvoiced there is nothing
        return np.asarray(track[np.rint(places).astype(np.int64)])
    return interpolated(track, places)


def with_loudness(made: Array, source: Array, amount: float) -> Array:
    """Samples (N,) whose slow changes of loudness are those of the source, so far as ``amount``, 0 to 1, says.

    A source of another length is played at another tempo.
    """
    frames, heard = len(made) // _FRAME, len(source) // _FRAME
    if amount == 0 or min(frames, heard) < 2:
        return made
    wanted = np.interp(np.linspace(0, heard - 1, frames), np.arange(heard), _slow_level(source, heard))
    gains = np.clip(amount * (wanted - _slow_level(made, frames)), -_MOST, _MOST)
    at = (np.arange(len(made)) - (_FRAME - 1) / 2) / _FRAME
    return np.asarray(made * 10 ** (np.interp(at, np.arange(frames), gains) / 20), dtype=np.float32)


def _standardized(contour: Array, voiced: NDArray[np.bool_]) -> Array:
    """About its mean where it is voiced, and of deviation 1, unless it hardly moves.

    What is expected moves less than what is said, which nobody can quite foresee.
    """
    centered = contour - contour[voiced].mean()
    return np.asarray(centered / max(_HARDLY, float(centered[voiced].std())), dtype=np.float32)


def _slow_level(samples: Array, frames: int) -> NDArray[np.float64]:
    """Power in dB of every frame with those around it, relative to the whole; 40 dB below it at least."""
    power = np.square(samples[: frames * _FRAME].reshape(frames, _FRAME), dtype=np.float64).mean(axis=1)
    window = np.hanning(_SMOOTH + 2)[1:-1]
    around = np.convolve(power, window)[_SMOOTH // 2 : _SMOOTH // 2 + frames]
    share = np.convolve(np.ones(frames), window)[_SMOOTH // 2 : _SMOOTH // 2 + frames]
    whole = max(float(power.mean()), 1e-30)
    return np.asarray(10 * np.log10(np.maximum(around / share / whole, 1e-4)))
