"""Vocal effort: against a plain twin, what a voice that is raised measures, and that the level is none of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil.dsp import effort as module
from voiceveil.dsp.effort import EFFORT_STEP, MEAN_BALANCE, change_effort, spectral_balance, vocal_effort, voiced_levels

RATE = 16000


def voice(tilt: float = -12.0, seconds: float = 1.0, seed: int = 0) -> np.ndarray:
    """Harmonics of 120 Hz that fall by ``tilt`` dB an octave, and a little noise."""
    time = np.arange(int(seconds * RATE)) / RATE
    rng = np.random.default_rng(seed)
    harmonics = np.arange(1, 60)
    tones = np.sin(2 * np.pi * 120 * np.outer(harmonics, time) + rng.uniform(0, 6, (59, 1)))
    signal = (10 ** (tilt * np.log2(harmonics) / 20)) @ tones + 1e-3 * rng.standard_normal(len(time))
    return np.asarray(0.1 * signal / np.abs(signal).max(), dtype=np.float32)


def all_voiced(samples: np.ndarray) -> np.ndarray:
    return np.ones(-(-len(samples) // 160), dtype=bool)


def plain_level(samples: np.ndarray, frame: int, band: int) -> float:
    """dB of one band in one frame, by the definitions: a Hann window of 25 ms, a triangle in mel."""
    start = 160 * frame + 80 - 200
    cut = samples[start : start + 400].astype(np.float64) * 32768
    cut = (cut - cut.mean()) * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399))
    power = np.abs(np.fft.rfft(cut, 512)) ** 2

    def mel(hertz: float) -> float:
        return float(1127 * np.log(1 + hertz / 700))

    width = (mel(4500) - mel(60)) / 21
    center = mel(60) + (band + 1) * width
    total = sum(max(0, 1 - abs(mel(k * RATE / 512) - center) / width) * power[k] for k in range(256))
    return float(10 * np.log10(total))


def test_levels_equal_a_plain_loop() -> None:
    samples = voice()
    levels = voiced_levels(samples, all_voiced(samples))
    assert levels.shape == (100, 20)
    for frame, band in ((10, 0), (33, 5), (50, 19), (80, 12)):
        assert levels[frame, band] == pytest.approx(plain_level(samples, frame, band), abs=0.01)


def test_balance_uses_voiced_frames_only() -> None:
    low, high = voice(-18), voice(-6)
    both = np.concatenate([low, high])
    voiced = np.arange(200) < 97  # away from the border
    balance, alone = spectral_balance(both, voiced), spectral_balance(low[: 97 * 160 + 200], np.arange(98) < 97)
    assert balance is not None
    assert alone is not None
    np.testing.assert_allclose(balance, alone, atol=0.05)
    assert balance.mean() == pytest.approx(0, abs=1e-9)


def test_balance_is_none_with_few_voiced_frames() -> None:
    samples = voice()
    assert spectral_balance(samples, np.arange(100) < 19) is None
    assert spectral_balance(samples, np.arange(100) < 20) is not None
    assert spectral_balance(samples[:0], np.zeros(0, dtype=bool)) is None
    assert spectral_balance(np.zeros(16000, dtype=np.float32), np.zeros(100, dtype=bool)) is None


@given(st.floats(-4, 4))
def test_effort_is_the_projection_on_its_step(by: float) -> None:
    assert vocal_effort(MEAN_BALANCE + by * EFFORT_STEP) == pytest.approx(by)
    other = np.random.default_rng(0).standard_normal(20)
    other -= (other @ EFFORT_STEP) / (EFFORT_STEP @ EFFORT_STEP) * EFFORT_STEP  # what is no effort
    assert vocal_effort(MEAN_BALANCE + by * EFFORT_STEP + other) == pytest.approx(by)


def test_flatter_spectrum_means_more_effort() -> None:
    balances = [spectral_balance(samples, all_voiced(samples)) for samples in map(voice, (-18, -12, -6))]
    low, middle, high = (vocal_effort(balance) for balance in balances if balance is not None)
    assert low < middle < high


def test_effort_is_independent_of_level() -> None:
    samples = voice()
    loud, quiet = (
        spectral_balance(samples, all_voiced(samples)),
        spectral_balance(np.float32(0.01) * samples, all_voiced(samples)),
    )
    assert loud is not None
    assert quiet is not None
    assert vocal_effort(quiet) == pytest.approx(vocal_effort(loud), abs=0.01)


@settings(deadline=None, max_examples=20)
@given(st.floats(-3, 3))
def test_raised_voice_measures_the_added_effort(by: float) -> None:
    samples = np.random.default_rng(1).standard_normal(2 * RATE).astype(np.float32) * np.float32(0.05)
    before, after = (spectral_balance(x, all_voiced(x)) for x in (samples, change_effort(samples, by)))
    assert before is not None
    assert after is not None
    assert vocal_effort(after) - vocal_effort(before) == pytest.approx(by, abs=0.02 + 0.1 * abs(by))


def test_raising_has_no_delay() -> None:
    samples = voice(seconds=0.5)
    assert change_effort(samples, 0.0) is samples
    assert change_effort(samples, 1.0).shape == samples.shape
    inner = slice(1000, -1000)
    np.testing.assert_allclose(change_effort(change_effort(samples, 2.0), -2.0)[inner], samples[inner], atol=1e-4)
    np.testing.assert_allclose(change_effort(2 * samples, 1.5), 2 * change_effort(samples, 1.5), atol=1e-6)


def gains(by: float) -> np.ndarray:
    """dB at the middle of every band, from the answer to an impulse."""
    impulse = np.zeros(2 * RATE, dtype=np.float32)
    impulse[RATE] = 1
    middles = 700 * np.expm1(np.linspace(np.log1p(60 / 700), np.log1p(4500 / 700), 22)[1:-1])
    spectrum = np.abs(np.fft.rfft(change_effort(impulse, by)))
    return np.asarray(20 * np.log10(spectrum[np.rint(2 * middles).astype(int)]))


def test_every_band_gets_its_gain() -> None:
    for by in (-2.0, 0.5, 3.0):
        np.testing.assert_allclose(gains(by), by * EFFORT_STEP, atol=0.1)


def test_gain_of_a_band_is_limited() -> None:
    assert np.abs(gains(-50.0)).max() < module._LARGEST_GAIN + 0.1
