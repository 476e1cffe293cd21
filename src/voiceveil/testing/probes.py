"""Inputs of the conformance checks, and what they check in every output."""

# ruff: noqa: S101 -- checks are assertions

from __future__ import annotations

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.systems.contract import Anonymizer
from voiceveil.testing.voices import synthetic_voice

__all__ = ["FRAME", "convert", "fresh", "rng", "sound", "speech"]

#: Input and output may differ in length by this, in seconds.
FRAME = 0.020


def rng(seed: int = 0) -> np.random.Generator:
    """Return a generator as the runner would give it."""
    return np.random.default_rng(seed)


def speech(rate: int = 16000, utterance: int = 0) -> Waveform:
    """Return a second and a half of one voice."""
    return synthetic_voice(1, utterance, seconds=1.5, rate=rate)


def fresh(system: Anonymizer) -> Anonymizer:
    """Return an instance with the same parameters that has not converted anything."""
    return type(system)(**system.parameters())


def convert(system: Anonymizer, seed: int = 0, utterance: int = 0) -> Samples:
    """Return synthetic speech at the system's rate, converted with a generator of ``seed``."""
    return system.convert(speech(system.rate, utterance), rng(seed)).samples


def sound(system: Anonymizer, samples: np.ndarray, rate: int | None = None) -> Waveform:
    """Convert samples, and check properties of every output: finite, mono float32, declared rate and length."""
    wave = Waveform(samples.astype(np.float32, copy=False), rate or system.rate)  # no copy: it may be read-only
    result = system.convert(wave, rng())
    assert isinstance(result, Waveform), f"convert returned {type(result).__name__}, not a Waveform"
    assert result.samples.dtype == np.float32, f"the samples are {result.samples.dtype}, not float32"
    assert result.rate == system.rate, f"the output is at {result.rate} Hz, the system declares {system.rate}"
    assert np.isfinite(result.samples).all(), "the output is not finite"
    longer = abs(result.duration - wave.duration)
    allowed = FRAME + 1 / system.rate if system.keeps_length else wave.duration / 2 + FRAME
    assert longer <= allowed, f"the length changed by {1000 * longer:.1f} ms"
    return result
