"""Random changes of a voice and of a recording channel that leave the words as they are.

An encoder that is to hear words and not people never sees the clean voice alone: vocal-tract length, pitch and tempo
(playback speed), formants (McAdams coefficient), spectral balance, bandwidth, noise and reverberation change at random.

Conventions: samples (N,) float32 at 16 kHz; everything random is drawn from one generator. The playback speed changes
the length; the other changes do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.dsp.mcadams import McAdams

__all__ = ["PerturbationSettings", "at_playback_speed", "perturb_channel"]

Array = NDArray[np.float32]
RATE = 16000
#: Frequencies in Hz -> gains.
Gains = Callable[[NDArray[np.floating[Any]]], NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class PerturbationSettings:
    """Probabilities and ranges of the changes.

    Parameters
    ----------
    speeds
        Range of the playback speed.
    formants
        Probability and range of the McAdams coefficient.
    balance
        Probability and largest gain, in dB, of a smooth random equalizer.
    telephone
        Probability of a telephone's band, 300 to 3,400 Hz.
    noise
        Probability and range of the signal-to-noise ratio, in dB, of colored noise.
    room
        Probability and range of the reverberation time in seconds.
    """

    speeds: tuple[float, float] = (0.8, 1.25)
    formants: tuple[float, float, float] = (0.4, 0.75, 1.1)
    balance: tuple[float, float] = (0.6, 8.0)
    telephone: float = 0.08
    noise: tuple[float, float, float] = (0.5, 5.0, 30.0)
    room: tuple[float, float, float] = (0.25, 0.1, 0.6)

    def draw_speed(self, rng: np.random.Generator) -> float:
        """Draw a playback speed log-uniformly."""
        low, high = self.speeds
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def at_playback_speed(samples: Array, speed: float) -> Array:
    """Return the samples played ``speed`` times as fast, by linear interpolation of a band-limited signal.

    Above 1 the spectrum is cut at the new Nyquist frequency first.
    """
    count = int(len(samples) / speed)
    if speed > 1:
        spectrum = np.fft.rfft(samples)
        spectrum[int(len(spectrum) / speed) :] = 0
        samples = np.fft.irfft(spectrum, len(samples)).astype(np.float32)
    positions = np.arange(count) * speed
    return np.asarray(np.interp(positions, np.arange(len(samples)), samples), dtype=np.float32)


def perturb_channel(samples: Array, rng: np.random.Generator, settings: PerturbationSettings) -> Array:
    """Return the samples with random formants, equalizer, room, noise and bandwidth, at their original level."""
    level = float(np.sqrt(np.mean(np.square(samples)))) + 1e-9
    probability, low, high = settings.formants
    if rng.random() < probability:
        samples = McAdams(float(rng.uniform(low, high)))(samples).astype(np.float32)
    if rng.random() < settings.room[0]:
        samples = _reverberated(samples, rng, float(rng.uniform(*settings.room[1:])))
    if rng.random() < settings.balance[0]:
        samples = _filtered(samples, _smooth_gains(rng, settings.balance[1]))
    if rng.random() < settings.noise[0]:
        samples = _with_noise(samples, rng, float(rng.uniform(*settings.noise[1:])))
    if rng.random() < settings.telephone:
        samples = _filtered(samples, lambda hertz: ((hertz > 300) & (hertz < 3400)).astype(np.float64))
    return np.asarray(samples * (level / (float(np.sqrt(np.mean(np.square(samples)))) + 1e-9)), dtype=np.float32)


def _filtered(samples: Array, gains: Gains) -> Array:
    """Return the samples with their spectrum multiplied by a function of the frequency in Hz."""
    spectrum = np.fft.rfft(samples)
    return np.fft.irfft(spectrum * gains(np.fft.rfftfreq(len(samples), 1 / RATE)), len(samples)).astype(np.float32)


def _smooth_gains(rng: np.random.Generator, largest: float) -> Gains:
    """Draw an equalizer of eight bands, equally spaced in the logarithm of the frequency."""
    knots = np.log(np.geomspace(60.0, 8000.0, 8))
    decibels = rng.uniform(-largest, largest, size=8)
    return lambda hertz: 10 ** (np.interp(np.log(np.maximum(hertz, 30.0)), knots, decibels) / 20)


def _with_noise(samples: Array, rng: np.random.Generator, ratio: float) -> Array:
    """Return the samples with noise of a random color, ``ratio`` dB below them."""
    color = rng.uniform(0.0, 1.5)  # 0: white, 1: pink
    noise = _filtered(
        rng.standard_normal(len(samples)).astype(np.float32), lambda hertz: np.maximum(hertz, 30.0) ** (-color / 2)
    )
    powers = np.mean(np.square(samples)), np.mean(np.square(noise)) + 1e-20
    return samples + noise * np.float32(np.sqrt(powers[0] / powers[1] * 10 ** (-ratio / 10)))


def _reverberated(samples: Array, rng: np.random.Generator, seconds: float) -> Array:
    """Return the samples in a simulated room: a direct path and exponentially decaying noise."""
    count = int(seconds * RATE)
    response = rng.standard_normal(count) * np.exp(-6.9 * np.arange(count) / count)
    response *= rng.uniform(0.1, 0.6) / np.sqrt(np.sum(response**2))
    response[0] = 1.0
    size = 1 << int(np.ceil(np.log2(len(samples) + count)))
    spectrum = np.fft.rfft(samples, size) * np.fft.rfft(response, size)
    return np.fft.irfft(spectrum, size)[: len(samples)].astype(np.float32)
