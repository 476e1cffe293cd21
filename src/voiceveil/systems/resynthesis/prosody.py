"""Changes to prosody: F0, voicing, vocal effort, rhythm, tempo and loudness of the source.

A speaker can be recognized by prosody as well as by timbre, and prosody also carries emotion. Each change is drawn or
measured once for a recording.

Conventions: F0 (T,) in Hz with 0 for unvoiced; frames of 10 ms; positions in frames of the source, from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples
from voiceveil.dsp.effort import change_effort, spectral_balance, vocal_effort
from voiceveil.dsp.excitation import continuous_f0
from voiceveil.models.content.features import interpolate
from voiceveil.models.content.phone_path import phone_path, retimed_positions
from voiceveil.systems.parameters import Range
from voiceveil.systems.resynthesis.speaking_style import (
    DEVIATION_SPREAD,
    TYPICAL_DEVIATION,
    F0Population,
    F0Statistics,
    SpeakingStyle,
    blend,
)

__all__ = ["ProsodyChange", "at_positions", "match_loudness", "resample_positions"]

Array = NDArray[np.float32]
_LOWEST_F0, _HIGHEST_F0 = 50.0, 600.0  # Hz
#: Smallest deviation that a predicted F0 contour is divided by, in deviations of the training data: half the usual one.
_LEAST_DEVIATION = 0.3
#: Frames between two changes of the local tempo, and frames at either end without any, where pieces are joined.
_TEMPO_STEP, _STEADY_ENDS = 40, 100
#: Loudness: samples per frame, frames of the smoothing window (half a second), largest change in dB.
_FRAME, _WINDOW, _LARGEST_GAIN = 160, 51, 12.0


@dataclass(frozen=True)
class ProsodyChange:
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
    durations
        How far durations of phones and pauses are those of an average reader, 0 to 1; needs phones as content.
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
    durations: float = 0.0

    def draw_speed(self, rng: np.random.Generator) -> float:
        """Draw a playback speed log-uniformly from ``speeds``, rounded to two decimals."""
        low, high = self.speeds
        return low if low == high else round(float(np.exp(rng.uniform(np.log(low), np.log(high)))), 2)

    def draw_duration_factor(self, rng: np.random.Generator) -> float:
        """Draw the ratio of output to input duration log-uniformly."""
        return float(np.exp(rng.uniform(-self.tempo, self.tempo)))

    def convert_f0(
        self,
        f0: Array,
        source: F0Statistics | None,
        target: float,
        population: F0Population | None = None,
        style: SpeakingStyle | None = None,
        predicted: Array | None = None,
    ) -> Array:
        """Return the F0 contour of the output.

        Parameters
        ----------
        f0
            F0 of the source (T,) in Hz.
        source
            Statistics of the source's F0; None: it is never voiced, and ``f0`` is returned.
        target
            Mean ln F0 of the pseudo-speaker.
        population
            Speakers of the pseudo-speaker's gender; None: the target does not depend on ``style``.
        style
            Speaking style of the source.
        predicted
            Contour (T,) predicted from the words, in standard deviations.
        """
        if self.intonation == "source" or source is None:
            return f0
        style = style or SpeakingStyle()
        weight = style.emotion_weight(self.arousal_threshold)
        f0_range = source.f0_range
        if self.intonation == "leveled":
            f0_range = TYPICAL_DEVIATION * math.exp(DEVIATION_SPREAD * blend(style.f0_range, 0.0, weight))
        if population is not None:
            target = population.from_z_score(blend(style.mean_f0, population.z_score(target), weight))
        voiced = f0 > 0
        own = (np.log(np.where(voiced, f0, 1.0)) - source.mean) / source.f0_range
        movement = blend(1.0, self.f0_range_kept, weight) * own
        if predicted is not None and voiced.any():
            movement += (1 - weight) * self.predicted_f0_weight * _standardized(predicted, voiced)
        moved = np.clip(np.exp(target + f0_range * movement), _LOWEST_F0, _HIGHEST_F0)
        return np.where(voiced, moved, 0.0).astype(np.float32)

    def convert_voicing(self, f0: Array, predicted: Array, style: SpeakingStyle) -> Array:
        """Return F0 (T,) with voicing blended between the source's and the one predicted from the words.

        F0 is interpolated through frames that only the prediction voices. Whispered speech, which has no voiced frame,
        and the voicing of emotional speech are kept.

        Parameters
        ----------
        f0
            F0 of the source (T,) in Hz.
        predicted
            Probability of voicing (T,).
        style
            Speaking style of the source.
        """
        voiced = f0 > 0
        if not voiced.any():
            return f0
        amount = self.voicing * (1 - style.emotion_weight(self.arousal_threshold))
        decided = (1 - amount) * voiced + amount * predicted > 0.5
        return np.where(decided, continuous_f0(f0), 0.0).astype(np.float32)

    def convert_effort(self, samples: Samples, voiced: NDArray[np.bool_], style: SpeakingStyle) -> Samples:
        """Return synthesized samples with the vocal effort of the source, as far as its style is emotional."""
        weight = style.emotion_weight(self.arousal_threshold)
        balance = None if weight == 0 or style.effort is None else spectral_balance(samples, voiced)
        if balance is None:
            return samples
        own = vocal_effort(balance)
        return change_effort(samples, blend(style.effort, own, weight) - own)

    def convert_durations(
        self, content: Array, predictor: Callable[[Array], Array], style: SpeakingStyle
    ) -> NDArray[np.float64]:
        """Return positions in the source (T,), not decreasing, at which phones last as long as an average reader's.

        Pace and total duration stay as they are, and so does the timing of emotional speech.

        Parameters
        ----------
        content
            Posteriors of phone states (T, 118).
        predictor
            Numbers of phones (N,) to log durations (N,), relative to the pace.
        style
            Speaking style of the source.
        """
        amount = self.durations * (1 - style.emotion_weight(self.arousal_threshold))
        path = phone_path(content)
        spoken = path.phones > 0
        if amount == 0 or not spoken.any():
            return np.arange(len(content), dtype=np.float64)
        logs = np.log(path.durations)
        predicted = predictor(path.phones.astype(np.float32))
        predicted = predicted - predicted[spoken].mean() + logs[spoken].mean()
        return retimed_positions(path, np.exp((1 - amount) * logs + amount * predicted), len(content))

    def draw_positions(self, frames: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw a rhythm: the position in the source of every output frame, increasing, first and last unchanged."""
        positions = np.arange(frames, dtype=np.float64)
        inner = frames - 2 * _STEADY_ENDS
        if self.rhythm == 0 or inner < 2 * _TEMPO_STEP:
            return positions
        knots = rng.normal(scale=self.rhythm, size=inner // _TEMPO_STEP + 2)
        tempo = np.exp(np.interp(np.arange(inner) / _TEMPO_STEP, np.arange(len(knots)), knots))
        elapsed = np.concatenate([[0.0], np.cumsum(tempo)])
        positions[_STEADY_ENDS : _STEADY_ENDS + inner + 1] = _STEADY_ENDS + elapsed * (inner / elapsed[-1])
        return positions


def resample_positions(positions: NDArray[np.float64], frames: int) -> NDArray[np.float64]:
    """Return ``frames`` positions on the same path, evenly spaced: a change of the tempo."""
    return np.interp(np.linspace(0, len(positions) - 1, frames), np.arange(len(positions)), positions)


def at_positions(track: Array, positions: NDArray[np.float64]) -> Array:
    """Return a track at fractional positions: F0 (T,) of the nearest frame, content (T, D) interpolated."""
    if track.ndim == 1:  # values between voiced and unvoiced frames would be meaningless
        return np.asarray(track[np.rint(positions).astype(np.int64)])
    return interpolate(track, positions)


def match_loudness(samples: Array, source: Array, amount: float) -> Array:
    """Return the samples with the slow loudness changes of the source.

    Parameters
    ----------
    samples
        Synthesized speech (N,).
    source
        The source (M,); if it has another length, its loudness contour is stretched.
    amount
        0 keeps the loudness of ``samples``, 1 takes that of the source.
    """
    frames, source_frames = len(samples) // _FRAME, len(source) // _FRAME
    if amount == 0 or min(frames, source_frames) < 2:
        return samples
    wanted = np.interp(
        np.linspace(0, source_frames - 1, frames), np.arange(source_frames), _slow_level(source, source_frames)
    )
    gains = np.clip(amount * (wanted - _slow_level(samples, frames)), -_LARGEST_GAIN, _LARGEST_GAIN)
    position = (np.arange(len(samples)) - (_FRAME - 1) / 2) / _FRAME
    return np.asarray(samples * 10 ** (np.interp(position, np.arange(frames), gains) / 20), dtype=np.float32)


def _standardized(contour: Array, voiced: NDArray[np.bool_]) -> Array:
    """Return the contour with mean 0 and deviation 1 over voiced frames; a nearly flat one stays flatter.

    Predicted contours move less than real ones, since words do not determine F0 completely.
    """
    centered = contour - contour[voiced].mean()
    return np.asarray(centered / max(_LEAST_DEVIATION, float(centered[voiced].std())), dtype=np.float32)


def _slow_level(samples: Array, frames: int) -> NDArray[np.float64]:
    """Return the smoothed power of every frame in dB relative to the mean, not below -40 dB."""
    power = np.square(samples[: frames * _FRAME].reshape(frames, _FRAME), dtype=np.float64).mean(axis=1)
    window = np.hanning(_WINDOW + 2)[1:-1]
    smoothed = np.convolve(power, window)[_WINDOW // 2 : _WINDOW // 2 + frames]
    weights = np.convolve(np.ones(frames), window)[_WINDOW // 2 : _WINDOW // 2 + frames]
    mean = max(float(power.mean()), 1e-30)
    return np.asarray(10 * np.log10(np.maximum(smoothed / weights / mean, 1e-4)))
