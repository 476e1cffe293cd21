"""Random changes of voice and channel."""

from __future__ import annotations

import numpy as np
import pytest

from voiceveil.training.voice_perturbation import PerturbationSettings, at_playback_speed, perturb_channel

RATE = 16000
NOTHING = PerturbationSettings(
    formants=(0.0, 1.0, 1.0), balance=(0.0, 0.0), telephone=0.0, noise=(0.0, 0.0, 0.0), room=(0.0, 0.1, 0.1)
)


def _tone(hertz: float, seconds: float = 1.0) -> np.ndarray:
    return (0.1 * np.sin(2 * np.pi * hertz * np.arange(int(RATE * seconds)) / RATE)).astype(np.float32)


def _peak(samples: np.ndarray) -> float:
    return float(np.abs(np.fft.rfft(samples * np.hanning(len(samples)))).argmax() * RATE / len(samples))


@pytest.mark.parametrize("speed", [0.8, 1.0, 1.25])
def test_playback_speed_changes_pitch_and_length(speed: float) -> None:
    output = at_playback_speed(_tone(500.0), speed)
    assert len(output) == int(RATE / speed)
    assert _peak(output) == pytest.approx(500.0 * speed, abs=2.0)


def test_fast_playback_has_no_aliases() -> None:
    output = at_playback_speed(_tone(7000.0), 1.25)  # 8,750 Hz cannot be represented
    assert np.abs(output[100:-100]).max() < 0.01


@pytest.mark.parametrize(
    "change",
    [
        {"formants": (1.0, 0.8, 0.8)},
        {"balance": (1.0, 8.0)},
        {"telephone": 1.0},
        {"noise": (1.0, 10.0, 10.0)},
        {"room": (1.0, 0.3, 0.3)},
    ],
)
def test_changes_keep_length_and_level(change: dict[str, object]) -> None:
    from dataclasses import replace

    speech = _tone(200.0) + _tone(2200.0) + _tone(5000.0)
    output = perturb_channel(speech, np.random.default_rng(1), replace(NOTHING, **change))  # type: ignore[arg-type]
    assert output.shape == speech.shape
    assert output.dtype == np.float32
    assert np.std(output) == pytest.approx(np.std(speech), rel=0.01)
    assert np.abs(output - speech).max() > 0.01
    again = perturb_channel(speech, np.random.default_rng(1), replace(NOTHING, **change))  # type: ignore[arg-type]
    assert np.array_equal(output, again)


def test_without_changes_the_speech_is_as_before() -> None:
    speech = _tone(300.0)
    assert np.allclose(perturb_channel(speech, np.random.default_rng(0), NOTHING), speech, atol=1e-6)


def test_noise_has_the_ratio_that_was_asked_for() -> None:
    from dataclasses import replace

    speech = _tone(300.0, 4.0)
    noisy = perturb_channel(speech, np.random.default_rng(2), replace(NOTHING, noise=(1.0, 10.0, 10.0)))
    gain = float(noisy @ speech / (speech @ speech))  # the level of the whole is kept, hence the speech is quieter
    noise = noisy - gain * speech
    assert 10 * np.log10(np.sum((gain * speech) ** 2) / np.sum(noise**2)) == pytest.approx(10.0, abs=0.3)


def test_telephone_keeps_its_band_only() -> None:
    from dataclasses import replace

    speech = _tone(1000.0) + _tone(5000.0)
    output = perturb_channel(speech, np.random.default_rng(0), replace(NOTHING, telephone=1.0))
    spectrum = np.abs(np.fft.rfft(output))
    assert spectrum[5000] < 1e-3 * spectrum[1000]
