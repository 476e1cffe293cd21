"""Recordings as they are played: equally loud, never clipped, without clicks; and the tones of the checks.

Conventions: the level of speech is the mean power of its active 20 ms frames, those within 35 dB of the loudest, in dB
relative to full scale. A recording is brought to a common level unless its peaks would exceed -1 dB of full scale: then
it stays softer. It fades in and out over 5 ms and has 0.1 s of silence at both ends, as some players cut the start.

The headphone check is that of Woods et al. (2017): of three tones of 200 Hz one is 6 dB softer, and another has its
right channel inverted; between loudspeakers the inverted one cancels out, so that it seems the softest. The attention
check asks for the number of tones. Neither needs a language.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil import audio
from voiceveil.audio import Samples, Waveform
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError

__all__ = ["EXCERPT", "active_level", "beeps", "headphone_tones", "noise", "prepare", "write_stereo"]

EXCERPT = 3.0  # seconds of each utterance in a panel (Tomashenko et al. 2022)
_PEAK = 10.0 ** (-1 / 20)
_ACTIVE = 10.0 ** (-35 / 10)
_FADE, _SILENCE = 0.005, 0.1  # seconds
_RATE = 44100  # of the tones


def active_level(wave: Waveform) -> float:
    """Return the level of the speech in dB relative to full scale; minus infinity for silence."""
    size = max(1, round(0.02 * wave.rate))
    frames = wave.samples[: len(wave) // size * size].reshape(-1, size).astype(np.float64)
    power = (frames**2).mean(axis=1) if len(frames) else np.zeros(1)
    active = power[power >= power.max() * _ACTIVE]
    return float(10 * np.log10(active.mean())) if power.max() > 0 else -np.inf


def prepare(path: Path, *, start: float = 0.0, duration: float | None = None, level: float | None) -> Waveform:
    """Return a recording ready to be played.

    Parameters
    ----------
    path
        Audio file.
    start, duration
        Part of the file in seconds; None for all of the rest.
    level
        Target level in dB relative to full scale; None keeps the level.
    """
    wave = audio.load(path, start=start, duration=duration)
    if not np.isfinite(wave.samples).all():
        raise InputError("some samples are not finite numbers", where=path, fix="repair the file, or leave it out")
    now, peak = active_level(wave), float(np.abs(wave.samples).max(initial=0.0))
    if not np.isfinite(now):
        raise InputError("the recording is silent", where=path, fix="leave it out of the corpus")
    gain = 1.0 if level is None else 10.0 ** ((level - now) / 20)
    return Waveform(_framed(wave.samples * np.float32(min(gain, _PEAK / peak)), wave.rate), wave.rate)


def _framed(samples: Samples, rate: int) -> Samples:
    """Fade samples in and out, and add silence at both ends."""
    fade = min(round(_FADE * rate), len(samples) // 2)
    ramp = np.ones(len(samples), dtype=np.float32)
    ramp[:fade] = np.linspace(0.0, 1.0, fade, endpoint=False)
    ramp[len(samples) - fade :] = ramp[:fade][::-1]
    pause = np.zeros(round(_SILENCE * rate), dtype=np.float32)
    return np.concatenate([pause, samples * ramp, pause])


def _tone(frequency: float, seconds: float, gain: float = 0.25) -> NDArray[np.float64]:
    time = np.arange(round(seconds * _RATE)) / _RATE
    edge = np.minimum(np.minimum(time, seconds - time) / 0.05, 1.0).clip(0.0)
    return np.asarray(gain * np.sin(np.pi / 2 * edge) ** 2 * np.sin(2 * np.pi * frequency * time))


def headphone_tones(softest: int, inverted: int) -> NDArray[np.float64]:
    """Return three tones, shape (n, 2): number ``softest`` (0 to 2) is 6 dB softer, ``inverted`` is out of phase."""
    pause = np.zeros((round(0.4 * _RATE), 2))
    parts = [pause]
    for number in range(3):
        tone = _tone(200.0, 0.9, 0.25 * (10 ** (-6 / 20) if number == softest else 1.0))
        parts += [np.stack([tone, -tone if number == inverted else tone], axis=1), pause]
    return np.concatenate(parts)


def beeps(count: int) -> NDArray[np.float64]:
    """Return ``count`` short tones with pauses, shape (samples, 2)."""
    pause = np.zeros(round(0.3 * _RATE))
    mono = np.concatenate([pause, *(part for _ in range(count) for part in (_tone(660.0, 0.25), pause))])
    return np.stack([mono, mono], axis=1)


def noise(level: float, rng: np.random.Generator, seconds: float = 3.0) -> NDArray[np.float64]:
    """Return noise with the spectral slope of speech at ``level``, to adjust the volume; shape (n, 2)."""
    count = round(seconds * _RATE)
    spectrum = np.fft.rfft(rng.normal(size=count))
    frequency = np.fft.rfftfreq(count, 1 / _RATE)
    spectrum *= np.where(frequency < 100, 0.0, np.minimum(1.0, 500 / np.maximum(frequency, 1.0)))
    mono = np.fft.irfft(spectrum, count)
    mono *= min(10 ** (level / 20) / np.sqrt((mono**2).mean()), _PEAK / np.abs(mono).max())
    mono *= np.minimum(np.minimum(np.arange(count), np.arange(count)[::-1]) / (0.1 * _RATE), 1.0)
    return np.stack([mono, mono], axis=1)


def write_stereo(path: Path, samples: NDArray[np.float64]) -> None:
    """Write the tones of a check, shape (n, 2), as 16-bit WAV."""
    import soundfile

    with atomic_path(path) as part:
        soundfile.write(part, audio.to_int16(samples), _RATE, subtype="PCM_16", format="WAV")
