"""I1 of VoicePrivacy 2020: formants, F0 and speaking rate of another speaker, by signal processing alone.

The overview of the challenge (section 3.2.3) on Dubagunta et al. (2020): the playback speed is adjusted to shift
formants linearly; individual formants are then shifted to targets chosen from randomly chosen speakers; F0 and speaking
rate are adjusted by pitch-synchronous overlap-add; the F4 and F5 bands are exchanged with Hann filters; modulated pink
noise is added in the F6 to F9 bands.

What that left to us. The targets are those of one speaker of a table (`voices.tsv`, 120 LibriSpeech speakers, made by
`scripts/measure_voices.py`), so that they fit each other; gender is not looked at. A formant is moved by warping the
envelope of linear prediction between the medians of the source and the targets. Bands are exchanged by shifting the
spectrum under two Hann windows that touch half-way. The noise has the power that speech has there, at every moment.
Ratios are limited, lest speech become a caricature. Whispered speech gets all steps but the change of F0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.dsp.formants import Voice, lpc_of_powers, measure, spacing
from voiceveil.dsp.psola import overlap_add
from voiceveil.systems.contract import Anonymizer, register
from voiceveil.systems.parameters import Range, parameter

__all__ = ["I1", "exchanged", "pink_noise", "voices", "warped"]

Array = NDArray[np.float64]

#: Half a step of 16-bit PCM.
_SILENCE = 2.0**-16
_POINTS, _HOP, _ORDER = 512, 128, 18
#: The envelope is changed by no more than this factor, either way.
_MOST = 6.0


@register("i1")
@dataclass(frozen=True)
class I1(Anonymizer):
    """Formants, F0 and speaking rate of another speaker; upper bands exchanged and masked with noise (team I).

    Published: playback speed shifts all formants, single formants go to targets from real speakers, overlap-add changes
    F0 and speaking rate, F4 and F5 are exchanged, pink noise masks F6 to F9. Our decisions: all targets are of one
    speaker of a table of 120, limits on all ratios, noise as strong as the speech in its band.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2.3, I1 (Dubagunta et al.)"
    keeps_length: ClassVar[bool] = False

    shift: Range = parameter((0.8, 1.25), "limits of the change of all formants, by playback speed", low=0.5, high=2)
    pitch: Range = parameter((0.6, 1.7), "limits of the change of F0", low=0.25, high=4)
    tempo: Range = parameter((0.85, 1.18), "limits of the change of speaking rate", low=0.5, high=2)
    noise: float = parameter(1.0, "power of the noise in the F6 to F9 bands, relative to the speech", low=0, high=10)

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Return one speaker of the table, and all five steps."""
        target = voices()[int(rng.integers(len(voices())))]
        if np.abs(samples).max() < _SILENCE:
            return np.zeros_like(samples)
        voice, track = measure(samples, self.rate)
        made = samples.astype(np.float64)
        if voice is not None and track is not None:
            played = float(np.clip(spacing(target.formants) / spacing(voice.formants), *self.shift))
            pitch = float(np.clip(target.f0 / voice.f0, *self.pitch)) if voice.f0 else 1.0
            tempo = float(np.clip(target.rate / voice.rate, *self.tempo))
            fast, f0 = _played(samples, track.f0, track.first, track.step, played, self.rate)
            made = overlap_add(fast, f0, self.rate, pitch=pitch / played, duration=played / tempo)
            made = warped(made, [played * f for f in voice.formants], target.formants, self.rate)
        made = exchanged(made, target.formants[3], target.formants[4], self.rate)
        made = made + pink_noise(made, 10 * spacing(target.formants), self.rate, self.noise, rng)
        made *= np.sqrt(np.mean(np.square(samples, dtype=np.float64)) / max(1e-12, float(np.mean(made**2))))
        return np.asarray(made / max(1.0, float(np.abs(made).max()) / 0.999), dtype=np.float32)


def _played(
    samples: Samples, f0: Array, first: float, step: float, speed: float, rate: int
) -> tuple[NDArray[np.floating[Any]], Array]:
    """Return a recording played so much faster, and its F0 at every sample."""
    fast = Waveform(samples, round(rate * speed)).resampled(rate).samples
    frame = np.rint((np.arange(len(fast)) * speed / rate - first) / step).astype(np.int64)
    return fast, speed * f0[np.clip(frame, 0, len(f0) - 1)] * ((frame >= 0) & (frame < len(f0)))


def warped(samples: NDArray[np.floating[Any]], before: Any, after: Any, rate: int) -> Array:
    """Speech whose formants ``before`` (Hz) are ``after``: the envelopes of frames of 32 ms are stretched between."""
    from scipy.signal import istft, stft

    if len(samples) < _POINTS:
        return np.asarray(samples, dtype=np.float64)
    _, _, spectra = stft(samples.astype(np.float64), rate, nperseg=_POINTS, noverlap=_POINTS - _HOP)
    envelope = 1 / np.abs(np.fft.rfft(lpc_of_powers(np.abs(spectra.T) ** 2, _ORDER), _POINTS, axis=1))
    frequencies = np.fft.rfftfreq(_POINTS, 1 / rate)
    edges = [0.0, *np.maximum.accumulate(after).tolist(), rate / 2]
    origin = np.interp(frequencies, edges, [0.0, *before, rate / 2]) * _POINTS / rate
    left = np.minimum(origin.astype(np.int64), _POINTS // 2 - 1)
    logarithm = np.log(envelope)
    moved = logarithm[:, left] + (origin - left) * (logarithm[:, left + 1] - logarithm[:, left])
    gain = np.exp(np.clip(moved - logarithm, -np.log(_MOST), np.log(_MOST)))
    _, made = istft(spectra * gain.T, rate, nperseg=_POINTS, noverlap=_POINTS - _HOP)
    return np.asarray(made[: len(samples)], dtype=np.float64)


def exchanged(samples: NDArray[np.floating[Any]], low: float, high: float, rate: int) -> Array:
    """Speech in which the bands about two formants (Hz) have changed places; Hann windows that touch half-way."""
    spectrum = np.fft.rfft(samples)
    bins = np.arange(len(spectrum)) * rate / max(1, len(samples))
    reach = (high - low) / 2
    bands = [
        np.where(np.abs(bins - f) < reach, 0.5 + 0.5 * np.cos(np.pi * (bins - f) / reach), 0.0) for f in (low, high)
    ]
    shift = round((high - low) * len(samples) / rate)
    made = spectrum * (1 - bands[0] - bands[1])
    if shift and high + reach <= rate / 2:
        made += np.roll(spectrum * bands[0], shift) + np.roll(spectrum * bands[1], -shift)
    else:
        made = spectrum
    return np.asarray(np.fft.irfft(made, len(samples)))


def pink_noise(samples: Array, above: float, rate: int, power: float, rng: np.random.Generator) -> Array:
    """Noise of 1/f spectrum above a frequency (Hz), with the envelope that the speech has there, times ``power``."""
    bins = np.fft.rfftfreq(len(samples), 1 / rate)
    edge = np.clip((bins - above) / 400.0, 0, 1)
    high = 0.5 - 0.5 * np.cos(np.pi * edge)  # the half of a Hann window
    band = np.fft.irfft(np.fft.rfft(samples) * high, len(samples))
    white = np.fft.rfft(rng.standard_normal(len(samples)))
    pink = np.fft.irfft(white * high / np.sqrt(np.maximum(bins, 1.0)), len(samples))
    pink /= max(1e-12, float(np.sqrt(np.mean(pink**2))))
    window = np.hanning(rate // 50 + 2)[1:-1]
    envelope = np.sqrt(np.convolve(band**2, window / window.sum(), mode="same").clip(min=0))
    return np.asarray(np.sqrt(power) * envelope[: len(samples)] * pink)


@lru_cache(maxsize=1)
def voices() -> tuple[Voice, ...]:
    """Return the speakers that targets are taken from."""
    text = (files("voiceveil.systems.signal") / "voices.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:] if line]
    return tuple(Voice(float(f0), tuple(map(float, formants)), float(rate)) for _, f0, *formants, rate in rows)
