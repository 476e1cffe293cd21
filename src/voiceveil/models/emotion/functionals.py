"""Acoustic functionals of an utterance for emotion recognition: statistics of pitch, loudness, voice and spectrum.

Modeled on eGeMAPS (F. Eyben et al., "The Geneva minimalistic acoustic parameter set", IEEE Trans. Affective Computing
7(2), 2016), with cepstra as in ComParE; the definitions differ, so that values are not those of openSMILE.

Conventions: 16 kHz mono; frames are 10 ms apart, 25 ms long (Hann), on the grid of the pitch track. *Voiced* frames
have a pitch (60 to 600 Hz); *speech* is within 35 dB of the loud frames (their 95th percentile), a *pause* is a run of
other frames of at least 50 ms between speech. The level of a recording is normalized first, because anonymization
systems and microphones change it. Values that an utterance does not have (such as the pitch of a whisper) are NaN.
Means and standard deviations ("sd") are over frames.

The functionals, in this order (names: :func:`functional_names`):

=========================  =========================================================================================
f0                         semitones above 27.5 Hz, voiced: mean, sd, 20th, 50th, 80th percentile, 20-to-80 range;
                           mean and sd of the slopes of rising and of falling stretches (semitones per second)
loudness                   sum of mel energies to the power 0.3, over its mean, speech: sd, percentiles, range and
                           slopes as above; its peaks per second
jitter, shimmer            mean absolute change from frame to frame of the period (relative) and of the level (dB),
                           voiced; from frame to frame, not from one glottal period to the next
hnr                        harmonics-to-noise ratio below 900 Hz in dB, voiced: mean, sd
alpha                      50-1000 Hz over 1-5 kHz, dB: voiced mean, sd; mean of unvoiced speech (also the next three)
hammarberg                 strongest bin below over strongest above 2 kHz, dB
slope_low, slope_high      slope of the spectrum from 0 to 500 and from 500 to 1500 Hz, dB per kHz
h1_h2, h1_a3               first harmonic over the second, over the strongest bin of 2.3-3.5 kHz, dB, voiced: mean, sd
centroid, flux             center of the spectrum (kHz); change of the normalized mel spectrum; speech: mean, sd
mfcc1 ... mfcc14           voiced: mean, sd; speech: sd of the change from frame to frame
voiced_share, pause_share  of all frames between the first and the last speech
pause_rate, voiced_rate    pauses and voiced stretches per second
voiced_length,             seconds of a stretch: mean, sd
unvoiced_length
=========================  =========================================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.dsp.kaldi import mel_banks
from voiceveil.dsp.pitch import track_pitch

__all__ = ["Functionals", "functional_names", "functionals"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

RATE, STEP, LENGTH, FFT = 16000, 0.01, 400, 512  # Hz; seconds between frames; samples of a window; points
FLOOR, CEILING = 60.0, 600.0  # F0 in Hz
BANDS, CEPSTRA = 26, 14
_TINY = 1e-10
_FREQUENCY = np.arange(FFT // 2 + 1) * RATE / FFT  # of each bin, Hz


def functionals(wave: Waveform) -> dict[str, float]:
    """Return name -> value of every functional of a recording at 16 kHz; NaN for values that it does not have."""
    track = track_pitch(_low_band(wave), RATE, floor=FLOOR, ceiling=CEILING, step=STEP)
    power = _power(wave, track.first, len(track.f0))
    energy = power.sum(axis=1)
    speech = energy > np.percentile(energy, 95) * 10**-3.5
    power = power / max(float(energy[speech].mean()) if speech.any() else 0.0, _TINY)
    voiced = (track.f0 > 0) & speech
    with warnings.catch_warnings():  # means of no frames are NaN on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        return {
            **dict(_pitch(track.f0, voiced)),
            **dict(_loudness(power, speech)),
            **dict(_voice(track.f0, track.periodicity, power, voiced)),
            **dict(_tilt(power, track.f0, voiced, speech & ~voiced)),
            **dict(_timbre(power, voiced, speech)),
            **dict(_rhythm(voiced, speech)),
        }


def _low_band(wave: Waveform) -> Array:
    """Return the band from 50 to 900 Hz, without delay: above it, anonymized speech may be too noisy to track F0."""
    from scipy.signal import butter, sosfiltfilt

    return np.asarray(sosfiltfilt(butter(4, [50, 900], "bandpass", fs=RATE, output="sos"), wave.samples, padlen=0))


def _power(wave: Waveform, first: float, frames: int) -> Array:
    """Return power spectra (frames, bins) at the frames of the pitch track, which begins at ``first`` seconds."""
    starts = np.round((first + STEP * np.arange(frames)) * RATE).astype(np.int64)
    padded = np.pad(wave.samples.astype(np.float64), LENGTH // 2)
    window = np.hanning(LENGTH)
    return np.abs(np.fft.rfft(padded[starts[:, None] + np.arange(LENGTH)] * window, FFT)) ** 2


@lru_cache(maxsize=1)
def _banks() -> Array:
    return mel_banks(RATE, FFT, BANDS, 20.0, 8000.0)


def _mel(power: Array) -> Array:
    banks = _banks()
    return power[:, : len(banks)] @ banks


def _moments(name: str, values: Array) -> Iterator[tuple[str, float]]:
    yield f"{name}_mean", float(np.mean(values))
    yield f"{name}_sd", float(np.std(values))


def _range(name: str, values: Array) -> Iterator[tuple[str, float]]:
    low, middle, high = np.percentile(values, [20, 50, 80]) if len(values) else [np.nan] * 3
    yield f"{name}_p20", float(low)
    yield f"{name}_p50", float(middle)
    yield f"{name}_p80", float(high)
    yield f"{name}_range", float(high - low)


def _slopes(name: str, values: Array, mask: Mask) -> Iterator[tuple[str, float]]:
    """Yield moments of the slopes, in units per second, of stretches of masked frames that only rise or only fall."""
    slopes: dict[str, list[float]] = {"rise": [], "fall": []}
    for start, end in _runs(mask):
        change = np.diff(values[start:end])
        for direction, values_of in slopes.items():
            stretches = _runs(change > 0 if direction == "rise" else change < 0)
            values_of.extend(float(change[a:b].mean()) / STEP for a, b in stretches if b - a >= 2)
    for direction, values_of in slopes.items():
        yield from _moments(f"{name}_{direction}", np.array(values_of))


def _runs(mask: Mask) -> NDArray[np.int64]:
    """Return (start, end) of each run of true values, shape (runs, 2)."""
    edges = np.diff(np.concatenate([[0], mask.astype(np.int8), [0]]))
    return np.stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)], axis=1)


def _pitch(f0: Array, voiced: Mask) -> Iterator[tuple[str, float]]:
    semitones = 12 * np.log2(np.where(f0 > 0, f0, 27.5) / 27.5)
    yield from _moments("f0", semitones[voiced])
    yield from _range("f0", semitones[voiced])
    yield from _slopes("f0", semitones, voiced)


def _loudness(power: Array, speech: Mask) -> Iterator[tuple[str, float]]:
    loudness = (_mel(power) ** 0.3).sum(axis=1)
    loudness = loudness / max(float(loudness[speech].mean()) if speech.any() else 0.0, _TINY)
    yield "loudness_sd", float(np.std(loudness[speech]))
    yield from _range("loudness", loudness[speech])
    yield from _slopes("loudness", loudness, speech)
    smooth = np.convolve(loudness, np.hanning(9) / np.hanning(9).sum(), "same")
    peaks = (smooth[1:-1] > smooth[:-2]) & (smooth[1:-1] >= smooth[2:]) & speech[1:-1]
    yield "loudness_peaks", float(peaks.sum() / (STEP * max(speech.sum(), 1)))


def _voice(f0: Array, periodicity: Array, power: Array, voiced: Mask) -> Iterator[tuple[str, float]]:
    both_voiced = voiced[1:] & voiced[:-1]
    period = 1 / np.where(f0 > 0, f0, np.nan)
    level = 10 * np.log10(power.sum(axis=1) + _TINY)
    yield "jitter", float(np.mean((np.abs(np.diff(period)) / period[1:])[both_voiced]))
    yield "shimmer", float(np.mean(np.abs(np.diff(level))[both_voiced]))
    r = np.clip(periodicity[voiced], 1e-3, 1 - 1e-5)
    yield from _moments("hnr", 10 * np.log10(r / (1 - r)))


def _band(power: Array, low: float, high: float) -> Array:
    return power[:, (low <= _FREQUENCY) & (high > _FREQUENCY)]


def _slope(decibel: Array, low: float, high: float) -> Array:
    """Return the least-squares slope (frames,) of each spectrum between two frequencies, in dB per kHz."""
    inside = (low <= _FREQUENCY) & (high >= _FREQUENCY)
    x = _FREQUENCY[inside] / 1000
    x = x - x.mean()
    slope: Array = decibel[:, inside] @ x / (x @ x)
    return slope


def _tilt(power: Array, f0: Array, voiced: Mask, unvoiced: Mask) -> Iterator[tuple[str, float]]:
    decibel = 10 * np.log10(power + _TINY)
    tilts = {
        "alpha": 10
        * np.log10((_band(power, 50, 1000).sum(axis=1) + _TINY) / (_band(power, 1000, 5000).sum(axis=1) + _TINY)),
        "hammarberg": _band(decibel, 0, 2000).max(axis=1) - _band(decibel, 2000, 5000).max(axis=1),
        "slope_low": _slope(decibel, 0, 500),
        "slope_high": _slope(decibel, 500, 1500),
    }
    for name, values in tilts.items():
        yield from _moments(name, values[voiced])
        yield f"{name}_unvoiced", float(np.mean(values[unvoiced]))
    rows, pitch = np.flatnonzero(voiced), f0[voiced]
    first, second = (decibel[rows, np.round(n * pitch * FFT / RATE).astype(int)] for n in (1, 2))
    yield from _moments("h1_h2", first - second)
    yield from _moments("h1_a3", first - _band(decibel, 2300, 3500)[rows].max(axis=1))


def _timbre(power: Array, voiced: Mask, speech: Mask) -> Iterator[tuple[str, float]]:
    yield from _moments("centroid", (power @ _FREQUENCY / (power.sum(axis=1) + _TINY) / 1000)[speech])
    mel = _mel(power)
    shape = mel / (mel.sum(axis=1, keepdims=True) + _TINY)
    yield from _moments("flux", np.abs(np.diff(shape, axis=0)).sum(axis=1)[speech[1:]])
    k = np.arange(1, CEPSTRA + 1)
    transform = np.sqrt(2 / BANDS) * np.cos(np.pi / BANDS * np.outer(np.arange(BANDS) + 0.5, k))
    cepstra = np.log(mel + 1e-7) @ transform
    change = np.std(np.diff(cepstra, axis=0)[speech[1:]], axis=0)
    for c in range(CEPSTRA):
        yield from _moments(f"mfcc{c + 1}", cepstra[voiced, c])
        yield f"mfcc{c + 1}_change", float(change[c])


def _rhythm(voiced: Mask, speech: Mask) -> Iterator[tuple[str, float]]:
    spoken = np.flatnonzero(speech)
    inside = slice(spoken[0], spoken[-1] + 1) if len(spoken) else slice(0, 0)
    voiced, speech = voiced[inside], speech[inside]
    frames = max(len(speech), 1)
    pauses = [end - start for start, end in _runs(~speech) if end - start >= 5]
    yield "voiced_share", float(voiced.sum() / frames)
    yield "pause_share", float(sum(pauses) / frames)
    yield "pause_rate", len(pauses) / (STEP * frames)
    yield "voiced_rate", len(_runs(voiced)) / (STEP * frames)
    for name, mask in (("voiced_length", voiced), ("unvoiced_length", ~voiced)):
        yield from _moments(name, STEP * np.diff(_runs(mask), axis=1).astype(np.float64))


@lru_cache(maxsize=1)
def functional_names() -> tuple[str, ...]:
    """Return the names of all functionals, in order."""
    return tuple(functionals(Waveform(np.zeros(RATE, dtype=np.float32), RATE)))


@dataclass(frozen=True)
class Functionals:
    """Evaluator that returns the functionals as a float64 vector, in the order of :func:`functional_names`."""

    rate: ClassVar[int] = RATE
    minimum: ClassVar[float] = 0.2
    version: ClassVar[int] = 1  # increase it whenever a value changes: cached results are stored under it

    def fingerprint(self) -> str:
        """Return the version of the definitions in this module."""
        return f"voiceveil functionals {self.version}"

    def __call__(self, wave: Waveform) -> Array:
        """Return the vector of one utterance, shape (94,), NaN for values that it does not have."""
        if wave.rate != RATE or wave.duration < self.minimum:
            problem = f"functionals of {wave.duration:.3f} s of audio at {wave.rate} Hz cannot be computed"
            raise InputError(problem, fix=f"give at least {self.minimum} s at {RATE} Hz")
        if not np.isfinite(wave.samples).all():
            raise InputError("the audio has a sample that is not finite", fix="repair the recording")
        return np.array(list(functionals(wave).values()))
