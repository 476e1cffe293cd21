"""I1 of VoicePrivacy 2020: formants, F0 and speaking rate of another speaker, by signal processing alone.

As published (overview of the challenge, section 3.2.3, on Dubagunta et al. 2020): the playback speed is adjusted to
shift formants linearly; individual formants are then shifted to targets chosen from randomly chosen speakers; F0 and
speaking rate are adjusted by pitch-synchronous overlap-add; the F4 and F5 bands are exchanged with Hann filters;
modulated pink noise is added in the F6 to F9 bands.

Our decisions: all targets are those of one speaker of a table (`voices.tsv`, 253 LibriSpeech speakers, made by
`scripts/measure_voices.py`), so that they are consistent; gender is ignored. Formants are moved by warping the LPC
envelope between the medians of the source and the targets. Bands are exchanged by shifting the spectrum under two Hann
windows that meet half-way. The noise follows the power of the speech in its band. All ratios are limited, to avoid
caricatures. Whispered speech gets all steps except the change of F0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.dsp.formants import Voice, lpc_from_power, measure_voice, resonance_spacing
from voiceveil.dsp.pitch import PitchTrack
from voiceveil.dsp.psola import overlap_add
from voiceveil.systems.contract import Anonymizer, register
from voiceveil.systems.parameters import Range, parameter
from voiceveil.systems.resources import Resource, resources_of

__all__ = ["I1", "pink_noise", "swap_bands", "target_voices", "warp_formants"]

Array = NDArray[np.float64]

#: Half a step of 16-bit PCM: a recording with a lower peak is silence.
_SILENCE = 2.0**-16
_POINTS, _HOP, _ORDER = 512, 128, 18
#: Largest factor by which the envelope is raised or lowered.
_LARGEST_GAIN = 6.0


@register("i1")
@dataclass(frozen=True)
class I1(Anonymizer):
    """Formants, F0 and speaking rate of another speaker; upper bands exchanged and masked with noise (team I).

    Published: playback speed shifts all formants, single formants go to targets from real speakers, overlap-add changes
    F0 and speaking rate, F4 and F5 are exchanged, pink noise masks F6 to F9. Our decisions: all targets are of one
    speaker of a table of 253, limits on all ratios, noise as strong as the speech in its band.
    """

    source: ClassVar[str] = "VoicePrivacy 2020, section 3.2.3, I1 (Dubagunta et al.)"
    keeps_length: ClassVar[bool] = False

    shift: Range = parameter((0.8, 1.25), "limits of the factor on all formants, by playback speed", low=0.5, high=2)
    pitch: Range = parameter((0.6, 1.7), "limits of the factor on F0", low=0.25, high=4)
    tempo: Range = parameter((0.85, 1.18), "limits of the factor on the speaking rate", low=0.5, high=2)
    noise: float = parameter(1.0, "power of the noise in the F6 to F9 bands, relative to the speech", low=0, high=10)

    def with_timing_kept(self) -> I1:
        """Return this system without a change of speaking rate."""
        return replace(self, tempo=(1.0, 1.0))

    def resources(self) -> tuple[Resource, ...]:
        """Return the corpus that the table of voices was measured on."""
        return resources_of(["table of voices"])

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Draw a target speaker and apply all steps."""
        targets = target_voices()
        target = targets[int(rng.integers(len(targets)))]
        if np.abs(samples).max() < _SILENCE:
            return np.zeros_like(samples)
        voice, track = measure_voice(samples, self.rate)
        output = samples.astype(np.float64)
        if voice is not None and track is not None:
            speed = float(np.clip(resonance_spacing(target.formants) / resonance_spacing(voice.formants), *self.shift))
            pitch = float(np.clip(target.f0 / voice.f0, *self.pitch)) if voice.f0 else 1.0
            tempo = float(np.clip(target.rate / voice.rate, *self.tempo))
            fast, f0 = _change_speed(samples, track, speed, self.rate)
            # At a tempo of 1 exactly as long as the recording: rounded rates would be 0.1 s off after an hour.
            duration = len(samples) / len(fast) if self.tempo == (1.0, 1.0) else speed / tempo
            output = overlap_add(fast, f0, self.rate, pitch=pitch / speed, duration=duration)
            output = warp_formants(output, [speed * f for f in voice.formants], target.formants, self.rate)
        output = swap_bands(output, target.formants[3], target.formants[4], self.rate)
        output = output + pink_noise(output, 10 * resonance_spacing(target.formants), self.rate, self.noise, rng)
        output *= np.sqrt(np.mean(np.square(samples, dtype=np.float64)) / max(1e-12, float(np.mean(output**2))))
        return np.asarray(output / max(1.0, float(np.abs(output).max()) / 0.999), dtype=np.float32)


def _change_speed(
    samples: Samples, track: PitchTrack, speed: float, rate: int
) -> tuple[NDArray[np.floating[Any]], Array]:
    """Return a recording played ``speed`` times as fast, and its F0 at every sample in Hz."""
    fast = Waveform(samples, round(rate * speed)).resampled(rate).samples
    frame = np.rint((np.arange(len(fast)) * speed / rate - track.first) / track.step).astype(np.int64)
    return fast, speed * track.f0[np.clip(frame, 0, len(track.f0) - 1)] * ((frame >= 0) & (frame < len(track.f0)))


def warp_formants(samples: NDArray[np.floating[Any]], before: Any, after: Any, rate: int) -> Array:
    """Return speech with moved formants: the LPC envelopes of frames of 32 ms are warped.

    Parameters
    ----------
    samples
        Signal (n,) at ``rate`` Hz.
    before, after
        Formants of the signal and of the result in Hz.
    rate
        Sampling rate in Hz.
    """
    from scipy.signal import istft, stft

    if len(samples) < _POINTS:
        return np.asarray(samples, dtype=np.float64)
    _, _, spectra = stft(samples.astype(np.float64), rate, nperseg=_POINTS, noverlap=_POINTS - _HOP)
    envelope = 1 / np.abs(np.fft.rfft(lpc_from_power(np.abs(spectra.T) ** 2, _ORDER), _POINTS, axis=1))
    frequencies = np.fft.rfftfreq(_POINTS, 1 / rate)
    edges = [0.0, *np.maximum.accumulate(after).tolist(), rate / 2]
    origin = np.interp(frequencies, edges, [0.0, *before, rate / 2]) * _POINTS / rate
    left = np.minimum(origin.astype(np.int64), _POINTS // 2 - 1)
    logarithm = np.log(envelope)
    moved = logarithm[:, left] + (origin - left) * (logarithm[:, left + 1] - logarithm[:, left])
    gain = np.exp(np.clip(moved - logarithm, -np.log(_LARGEST_GAIN), np.log(_LARGEST_GAIN)))
    _, output = istft(spectra * gain.T, rate, nperseg=_POINTS, noverlap=_POINTS - _HOP)
    return np.asarray(output[: len(samples)], dtype=np.float64)


def swap_bands(samples: NDArray[np.floating[Any]], low: float, high: float, rate: int) -> Array:
    """Return speech with the bands around two formants ``low`` and ``high`` (Hz) exchanged, under Hann windows."""
    spectrum = np.fft.rfft(samples)
    bins = np.arange(len(spectrum)) * rate / max(1, len(samples))
    half_width = (high - low) / 2
    bands = [
        np.where(np.abs(bins - f) < half_width, 0.5 + 0.5 * np.cos(np.pi * (bins - f) / half_width), 0.0)
        for f in (low, high)
    ]
    shift = round((high - low) * len(samples) / rate)
    swapped = spectrum * (1 - bands[0] - bands[1])
    if shift and high + half_width <= rate / 2:
        swapped += np.roll(spectrum * bands[0], shift) + np.roll(spectrum * bands[1], -shift)
    else:
        swapped = spectrum
    return np.asarray(np.fft.irfft(swapped, len(samples)))


def pink_noise(samples: Array, above: float, rate: int, power: float, rng: np.random.Generator) -> Array:
    """Return pink noise with the temporal envelope of the speech in its band.

    Parameters
    ----------
    samples
        Speech (n,).
    above
        Lower limit of the band in Hz.
    rate
        Sampling rate in Hz.
    power
        Power relative to the speech in the band.
    rng
        Source of the noise.
    """
    bins = np.fft.rfftfreq(len(samples), 1 / rate)
    edge = np.clip((bins - above) / 400.0, 0, 1)
    high = 0.5 - 0.5 * np.cos(np.pi * edge)  # half of a Hann window
    band = np.fft.irfft(np.fft.rfft(samples) * high, len(samples))
    white = np.fft.rfft(rng.standard_normal(len(samples)))
    pink = np.fft.irfft(white * high / np.sqrt(np.maximum(bins, 1.0)), len(samples))
    pink /= max(1e-12, float(np.sqrt(np.mean(pink**2))))
    window = np.hanning(rate // 50 + 2)[1:-1]
    envelope = np.sqrt(np.convolve(band**2, window / window.sum(), mode="same").clip(min=0))
    return np.asarray(np.sqrt(power) * envelope[: len(samples)] * pink)


@lru_cache(maxsize=1)
def target_voices() -> tuple[Voice, ...]:
    """Return the speakers of the table that targets are drawn from."""
    text = (files("voiceveil.systems.signal") / "voices.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:] if line]
    return tuple(Voice(float(f0), tuple(map(float, formants)), float(rate)) for _, f0, *formants, rate in rows)
