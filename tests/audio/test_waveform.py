"""Waveforms: conversion to 16 bits, invalid samples and rates, resampling."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.audio_files import noise, tone
from voiceveil.audio import Waveform, load, resample, save
from voiceveil.core.errors import InputError


def slow_int16(sample: float) -> int:
    """Nearest whole number of steps, ties to even, within the range."""
    return max(-32768, min(32767, round(sample * 32768)))


@given(st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=50))
def test_int16_rounds_and_clips_as_a_plain_loop(samples: list[float]) -> None:
    assert Waveform(np.array(samples), 16000).int16().tolist() == [slow_int16(x) for x in samples]


def test_int16_equals_the_plain_loop_at_every_half_step() -> None:
    halves = (np.arange(-65540, 65541) / 65536).astype(np.float32)
    assert Waveform(halves, 16000).int16().tolist() == [slow_int16(x) for x in halves.tolist()]


@pytest.mark.parametrize("rate", [0, -16000, 16000.5, math.nan, math.inf])
def test_invalid_rates_are_rejected(rate: float) -> None:
    with pytest.raises(InputError, match="positive whole number of Hz"):
        Waveform(np.zeros(3), rate)  # type: ignore[arg-type]


def test_invalid_samples_are_rejected() -> None:
    with pytest.raises(InputError, match=r"one dimension, not shape \(3, 2\)"):
        Waveform(np.zeros((3, 2), dtype=np.float32), 16000)
    with pytest.raises(InputError, match=r"not int16 \(divide int16 by 32768"):
        Waveform(np.zeros(3, dtype=np.int16), 16000)


def test_waveform_has_length_and_duration() -> None:
    wave = Waveform(np.zeros(8000), np.int64(16000))  # type: ignore[arg-type]
    assert (len(wave), wave.duration, type(wave.rate)) == (8000, 0.5, int)
    assert wave.samples.dtype == np.float32
    assert wave.resampled(16000) is wave


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
@pytest.mark.parametrize("new_rate", [8000, 16000, 24000, 44100, 48000])
def test_resampling_keeps_a_tone(rate: int, new_rate: int) -> None:
    wave = tone(1000, 2.0, rate).resampled(new_rate)
    assert abs(len(wave) - 2 * new_rate) <= 1
    middle = wave.samples[new_rate // 2 : 3 * new_rate // 2]  # one second: bins of 1 Hz
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) == 1000
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.5 / np.sqrt(2), rel=1e-3)
    outside = np.delete(spectrum, slice(990, 1011))
    assert outside.max() < 1e-4 * spectrum.max()  # -80 dB


def test_resampling_removes_content_above_the_new_nyquist() -> None:
    wave = tone(6000, 1.0, 16000)
    assert np.abs(wave.resampled(8000).samples[400:-400]).max() < 1e-4, "6 kHz cannot be had at 8 kHz, not even folded"
    up = Waveform(0.3 * noise(8000), 8000).resampled(48000).samples
    spectrum = np.abs(np.fft.rfft(up * np.hanning(len(up)))) ** 2
    assert spectrum[4200:].sum() < 1e-6 * spectrum.sum()


@pytest.mark.parametrize("count", [0, 1, 2, 5, 100])
def test_resampling_works_on_few_samples(count: int) -> None:
    assert abs(len(resample(np.ones(count), 16000, 44100)) - round(count * 44100 / 16000)) <= 1


def test_load_resamples(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", tone(440, 1.0, 44100))
    assert (load(tmp_path / "a.wav", rate=16000).rate, len(load(tmp_path / "a.wav", rate=16000))) == (16000, 16000)
