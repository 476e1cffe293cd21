"""Synthetic voices: no speech, but what matters of it to a signal-processing system.

A glottal pulse train with a falling melody and jitter, five formants that move from vowel to vowel, noise for
consonants, pauses, and a noise floor. The speaker sets the pitch and the length of the vocal tract. Without a pitch
vowels are whispered: noise instead of pulses.
"""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from voiceveil.audio import Waveform
from voiceveil.dsp.formants import lpc_from_power

__all__ = ["synthetic_voice", "whispered"]

# Formant frequencies in Hz of five vowels (Peterson and Barney, 1952, men; F4 and F5 of a uniform tube).
_VOWELS = np.array(
    [
        [270, 2290, 3010, 3500, 4500],
        [530, 1840, 2480, 3500, 4500],
        [730, 1090, 2440, 3500, 4500],
        [570, 840, 2410, 3500, 4500],
        [300, 870, 2240, 3500, 4500],
    ]
)
_BANDWIDTHS = np.array([60, 90, 120, 175, 250])


def synthetic_voice(
    speaker: int = 0, utterance: int = 0, *, seconds: float = 2.0, rate: int = 16000, pitch: float | None = None
) -> Waveform:
    """Return synthetic speech.

    Parameters
    ----------
    speaker
        Seed of the voice: pitch and vocal tract.
    utterance
        Seed of the sounds.
    seconds, rate
        Length, and sampling rate in Hz.
    pitch
        Mean F0 in Hz instead of the speaker's; 0 is a whisper.
    """
    person = np.random.default_rng([speaker, 1])
    usual = person.uniform(85, 240)  # Hz
    pitch = usual if pitch is None else pitch
    tract = person.uniform(0.88, 1.18)  # factor on all formants
    rng = np.random.default_rng([speaker, utterance, 2])
    count = round(seconds * rate)
    pieces: list[np.ndarray] = []
    while sum(map(len, pieces)) < count:
        length = int(rng.uniform(0.08, 0.25) * rate)
        kind = rng.choice(["vowel", "vowel", "vowel", "noise", "pause"])
        fade = np.minimum(1, np.minimum(np.arange(length), np.arange(length)[::-1]) / (0.01 * rate))
        if kind == "pause":
            piece = np.zeros(length)
        elif kind == "noise":
            piece = 0.05 * np.diff(rng.standard_normal(length + 1)) * fade
        else:
            formants = tract * _VOWELS[rng.integers(len(_VOWELS))]
            melody = pitch * rng.uniform(0.9, 1.2) * np.linspace(1.05, 0.92, length)
            piece = _vowel(melody, formants, rate, rng) * fade
        pieces.append(piece)
    samples = np.concatenate([*pieces, np.zeros(0)])[:count]
    samples = 0.5 * samples / max(float(np.abs(samples).max(initial=0.0)), 1e-9)
    return Waveform((samples + 1e-4 * rng.standard_normal(count)).astype(np.float32), rate)


def _vowel(melody: np.ndarray, formants: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    phase = np.cumsum(melody * (1 + 0.01 * rng.standard_normal(len(melody))) / rate)
    source = np.diff(np.floor(phase), prepend=0.0) + 0.005 * rng.standard_normal(len(melody))
    samples, damping = lfilter([1.0], [1.0, -0.9], source), 1  # -6 dB an octave
    if not melody.any():  # a whisper: flat noise, and an open glottis, which damps all resonances
        samples, damping = 0.1 * rng.standard_normal(len(melody)), 3
    for frequency, bandwidth in zip(formants, damping * _BANDWIDTHS, strict=True):
        if frequency < 0.45 * rate:
            radius = np.exp(-np.pi * bandwidth / rate)
            angle = 2 * np.pi * frequency / rate
            denominator = [1.0, -2 * radius * np.cos(angle), radius**2]
            samples = lfilter([sum(denominator)], denominator, samples)
    return np.asarray(samples)


def whispered(wave: Waveform) -> Waveform:
    """Return a whispered version of speech: noise through its resonances, 150 Hz wider for an open glottis."""
    from scipy.signal import istft, stft

    points, hop, order = 512, 128, 18
    if len(wave) < points:
        return wave

    def spectra(samples: np.ndarray) -> np.ndarray:
        return np.asarray(stft(samples, nperseg=points, noverlap=points - hop)[2].T)

    powers = np.abs(spectra(wave.samples.astype(np.float64))) ** 2
    wider = np.exp(-np.pi * 150 / wave.rate) ** np.arange(order + 1)
    envelope = 1 / np.abs(np.fft.rfft(lpc_from_power(powers, order) * wider, points, axis=1))
    level = np.sqrt(powers.sum(axis=1) / (envelope**2).sum(axis=1))
    noise = spectra(np.random.default_rng(0).standard_normal(len(wave)))
    whisper = istft((noise * envelope * level[:, None]).T, nperseg=points, noverlap=points - hop)[1][: len(wave)]
    whisper *= float(np.abs(wave.samples).max()) / max(1e-9, float(np.abs(whisper).max()))
    return Waveform(whisper.astype(np.float32), wave.rate)
