"""The systems b2, b2-2022, b2-2020 and d1: official output, official draws, defined behavior at the extremes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

import voiceveil as vv
from tests.dsp.test_mcadams import NOISE_SHA256, noise
from tests.support.paths import GOLDEN
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.dsp.mcadams import McAdams
from voiceveil.systems.signal.b2 import B2
from voiceveil.testing import synthetic_voice

# The official coefficients of 2024: the first utterances of every data set, and some speakers.
OFFICIAL_UTTERANCES = [
    0.6875880725850418,
    0.567471028445037,
    0.7592414130478444,
    0.8749947180705998,
    0.6147263878848099,
]
OFFICIAL_SPEAKERS = {"1272": 0.7757443611741475, "61": 0.8063680200443131, "Ses01F": 0.8088749532684881}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def official_alpha(index: int, level: str, speaker: str | None = None) -> float:
    utterance = Utterance("u", Path("u.wav"), speaker=speaker)
    return float(B2().official_rng(index, utterance, level).uniform(0.5, 0.9))


def test_official_draws_of_2024() -> None:
    assert [official_alpha(i, "utterance") for i in range(5)] == OFFICIAL_UTTERANCES
    assert {s: official_alpha(9, "speaker", s) for s in OFFICIAL_SPEAKERS} == OFFICIAL_SPEAKERS


def test_official_draws_of_2024_in_full() -> None:
    stored = json.loads((GOLDEN / "mcadams_draws.json").read_text())
    assert [official_alpha(i, "utterance") for i in range(20)] == stored["alpha_utt_first_20"]
    assert {s: official_alpha(0, "speaker", s) for s in stored["alpha_spk"]} == stored["alpha_spk"]


def test_official_draws_of_2022_are_rejected() -> None:
    with pytest.raises(InputError, match="cannot be reproduced"):
        vv.system("b2-2022").official_rng(0, Utterance("u", Path("u.wav")), "utterance")


@pytest.mark.parametrize(("name", "variant"), [("b2", "v2"), ("b2-2022", "v1")])
@pytest.mark.parametrize("alpha", [0.6, 0.8])
def test_official_edges_give_the_official_files(name: str, variant: str, alpha: float) -> None:
    """The output as 16-bit PCM equals the official file bit by bit."""
    stored = np.load(GOLDEN / "mcadams.npz")
    voice = vv.Waveform(stored["voice_int16"] / np.float32(32768), 16000)
    anonymized = vv.system(name, alpha=alpha, edges="official").convert(voice, rng())
    assert np.array_equal(anonymized.int16(), stored[f"voice_a{alpha}_{variant}_int16"])


@pytest.mark.parametrize(("name", "variant"), [("b2", "v2"), ("b2-2022", "v1")])
@pytest.mark.parametrize("alpha", [0.6, 0.8])
def test_official_edges_on_noise(name: str, variant: str, alpha: float) -> None:
    """The output equals official files on reproducible noise."""
    anonymized = vv.system(name, alpha=alpha, edges="official").convert(vv.Waveform(noise(), 16000), rng())
    assert hashlib.sha256(anonymized.int16().astype("<i2").tobytes()).hexdigest() == NOISE_SHA256[variant, alpha]


def test_b2_2020_starts_at_the_second_frame_as_2022() -> None:
    wave = vv.Waveform(noise(), 16000)
    first, second = (vv.system(n, alpha=0.8, edges="official").convert(wave, rng()) for n in ("b2-2020", "b2-2022"))
    np.testing.assert_allclose(first.samples * 32766 / 32768, second.samples, atol=1.01 / 32768)


def test_b2_2020_is_normalized_to_one() -> None:
    stored = np.load(GOLDEN / "mcadams.npz")
    official = stored["voice_a0.8_v1_float"]
    voice = vv.Waveform(stored["voice_int16"] / np.float32(32768), 16000)
    anonymized = vv.system("b2-2020", edges="official").convert(voice, rng())
    np.testing.assert_allclose(anonymized.samples, official / np.abs(official).max(), atol=1e-6)


def test_alpha_is_drawn_from_the_range() -> None:
    wave = synthetic_voice(1, seconds=0.3)
    alpha = rng(7).uniform(0.6, 0.7)
    fixed = vv.system("b2", alpha=alpha).convert(wave, rng())
    assert np.array_equal(vv.system("b2", alpha=(0.6, 0.7)).convert(wave, rng(7)).samples, fixed.samples)


def test_b2_2020_does_not_depend_on_the_draw() -> None:
    wave = synthetic_voice(1, seconds=0.3)
    first, second = (vv.system("b2-2020").convert(wave, rng(seed)).samples for seed in (1, 2))
    assert np.array_equal(first, second)


def test_d1_is_b2_with_shorter_radii() -> None:
    wave = synthetic_voice(1, seconds=0.5)
    raw = McAdams(0.8, radius=0.975, clip_angle=True, double=True)(wave.samples)
    expected = (raw / np.abs(raw).max()).astype(np.float32)
    assert np.array_equal(vv.system("d1").convert(wave, rng()).samples, expected)
    same = vv.system("d1", radius=1.0).convert(wave, rng()).samples
    assert np.array_equal(same, vv.system("b2-2020").convert(wave, rng()).samples)


def test_formants_move_and_pitch_stays() -> None:
    """Resonances move to angle**alpha, the period of the voice does not change."""
    pulses = np.zeros(16000)
    pulses[::160] = 1.0  # 100 Hz
    angle = 2 * np.pi * 700 / 16000
    vowel = lfilter([1.0], [1.0, -2 * 0.97 * np.cos(angle), 0.97**2], pulses).astype(np.float32)
    alpha = 0.8
    anonymized = vv.system("b2", alpha=alpha).convert(vv.Waveform(0.1 * vowel, 16000), rng()).samples[4000:12000]
    harmonics = np.abs(np.fft.rfft(anonymized))  # 2 Hz apart
    assert harmonics[::50].sum() > 0.9 * harmonics.sum()  # all at multiples of 100 Hz
    resonance = 100 * int(np.argmax(harmonics[::50]))
    assert resonance == pytest.approx(angle**alpha * 16000 / (2 * np.pi), abs=100)


@pytest.mark.parametrize("name", ["b2", "b2-2022", "b2-2020", "d1"])
@pytest.mark.parametrize("edges", ["whole", "official"])
def test_silence_stays_silence(name: str, edges: str) -> None:
    """Peak normalization would amplify the rounding noise of silence to full scale."""
    wave = vv.Waveform(np.zeros(8000, dtype=np.float32), 16000)
    assert not vv.system(name, edges=edges).convert(wave, rng()).samples.any()


def test_non_finite_input_is_rejected_with_its_time() -> None:
    samples = synthetic_voice(1, seconds=1.0).samples.copy()
    samples[8000] = np.nan
    with pytest.raises(InputError, match=r"0\.500 s"):
        vv.system("b2").convert(vv.Waveform(samples, 16000), rng())


@pytest.mark.parametrize("bad", [{"alpha": (0.9, 0.5)}, {"alpha": 0.0}, {"alpha": "x"}, {"edges": "hole"}, {"beta": 1}])
def test_invalid_parameters_are_rejected(bad: dict[str, object]) -> None:
    with pytest.raises(InputError):
        vv.system("b2", **bad)
