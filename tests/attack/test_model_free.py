"""What needs no model: signals whose cues are known."""

from __future__ import annotations

import numpy as np
import pytest

from voiceveil.attack.model_free import CUES, Cues, Distance, mean_f0, silence_pattern
from voiceveil.audio import Waveform
from voiceveil.testing import synthetic_voice


@pytest.mark.parametrize("hertz", [80.0, 123.0, 210.0, 333.0])
def test_f0_of_a_pulse_train(hertz: float) -> None:
    t = np.arange(16000) / 16000
    buzz = np.sum([np.sin(2 * np.pi * hertz * k * t) / k for k in range(1, 12)], axis=0)
    mean, spread = mean_f0(0.1 * buzz.astype(np.float32))
    assert np.exp(mean) == pytest.approx(hertz, rel=0.01)
    assert spread < 0.01


def test_f0_of_a_glide_has_a_spread() -> None:
    t = np.arange(32000) / 16000
    hertz = 100.0 * 2 ** (t / 2)  # 100 to 200 Hz, evenly in log
    phase = 2 * np.pi * np.cumsum(hertz) / 16000
    mean, spread = mean_f0(np.sum([np.sin(k * phase) for k in range(1, 6)], axis=0).astype(np.float32))
    assert np.exp(mean) == pytest.approx(np.sqrt(2) * 100, rel=0.02)
    assert spread == pytest.approx(np.log(2) / np.sqrt(12), rel=0.05)


def test_noise_and_silence_have_no_f0() -> None:
    noise = np.random.default_rng(0).standard_normal(16000).astype(np.float32)
    for samples in (noise, np.zeros(16000, np.float32), np.zeros(100, np.float32)):
        np.testing.assert_array_equal(mean_f0(samples), [0.0, 0.0])


def test_silence_pattern_equals_hand_computation() -> None:
    """0.3 s of silence, 0.5 s of noise, 0.2 s pause, 0.5 s of noise, 0.05 s (no pause), 0.25 s of noise, 0.2 s."""
    rng = np.random.default_rng(0)
    parts = [(0.3, 0), (0.5, 1), (0.2, 0), (0.5, 1), (0.05, 0), (0.25, 1), (0.2, 0)]
    samples = np.concatenate([on * rng.standard_normal(round(16000 * length)) for length, on in parts])
    share, pause, rate, before, after = silence_pattern(samples.astype(np.float32))
    assert share == pytest.approx(0.75 / 2.0)
    assert np.exp(pause) == pytest.approx(0.2)
    assert rate == pytest.approx(0.5)
    assert np.exp(before) == pytest.approx(0.31)
    assert np.exp(after) == pytest.approx(0.21)


def test_cues_of_any_audio_are_finite() -> None:
    for wave in (synthetic_voice(1), synthetic_voice(2, seconds=0.045), Waveform(np.zeros(16000, np.float32), 16000)):
        cues = Cues()(wave)
        assert cues.shape == (8,)
        assert np.isfinite(cues).all()
    assert np.exp(Cues()(synthetic_voice(1, seconds=3.0))[CUES["duration"]]) == pytest.approx(3.0)


def test_distance_equals_hand_computation() -> None:
    distance = Distance.of(np.array([[0.0, 5.0], [4.0, 5.0]]))  # spreads 2 and 0
    scores = distance(np.array([[1.0, 5.0]]), np.array([3]), np.array([[1.0, 5.0], [5.0, 5.0], [1.0, 8.0]]))
    np.testing.assert_allclose(scores, [[0.0, -2.0, -3.0]])
