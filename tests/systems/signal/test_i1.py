"""I1 of VoicePrivacy 2020: each step of signal processing, and the targets of all together."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import find_peaks, lfilter

from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import Waveform, load
from voiceveil.dsp.formants import Voice, lpc_from_power, measure_voice, resonance_spacing
from voiceveil.dsp.pitch import track_pitch
from voiceveil.dsp.psola import overlap_add, pitch_marks
from voiceveil.systems import system
from voiceveil.systems.signal.i1 import pink_noise, swap_bands, target_voices, warp_formants
from voiceveil.testing import synthetic_voice
from voiceveil.testing.change import correlation, envelope_distance
from voiceveil.testing.voices import whispered

RATE = 16000
Array = NDArray[np.float64]


def vowel(f0: float, formants: tuple[float, ...], seconds: float = 1.0) -> Array:
    """Return pulses with a falling spectrum through resonances of 80 Hz bandwidth: a voice with known properties."""
    source = np.diff(np.floor(np.arange(int(seconds * RATE)) * f0 / RATE), prepend=0.0)
    source = lfilter([1.0], [1.0, -0.95], source)
    rng = np.random.default_rng(0)
    for formant in formants:
        radius = np.exp(-np.pi * 80 / RATE)
        source = lfilter([1.0], [1, -2 * radius * np.cos(2 * np.pi * formant / RATE), radius**2], source)
    return np.asarray(0.3 * source / np.abs(source).max() + 1e-6 * rng.standard_normal(len(source)))


def resonances(samples: Array) -> Array:
    """Return the peaks in Hz of the LPC envelope of order 18 of the whole signal, unlike `measure_voice`."""
    frames = samples[: len(samples) // 1024 * 1024].reshape(-1, 1024) * np.hanning(1024)
    power = np.mean(np.abs(np.fft.rfft(np.diff(frames, axis=1), 2048, axis=1)) ** 2, axis=0)
    envelope = 1 / np.abs(np.fft.rfft(lpc_from_power(power[None], 18)[0], 4096))
    return find_peaks(envelope)[0] * RATE / 4096


TUBE = (520.0, 1490.0, 2450.0, 3350.0, 4200.0)


def test_formants_and_pitch_of_a_known_vowel_are_found() -> None:
    voice, _ = measure_voice(vowel(120, TUBE).astype(np.float32), RATE)
    assert voice is not None
    assert voice.f0 == pytest.approx(120, rel=0.02)
    np.testing.assert_allclose(voice.formants, TUBE, rtol=0.05)
    assert resonance_spacing(TUBE) == pytest.approx(478, rel=0.01)


def test_syllables_are_counted() -> None:
    loud = np.concatenate([np.hanning(3200), np.zeros(800)])  # four a second
    voice, _ = measure_voice((np.tile(loud, 8) * vowel(150, TUBE, 2.0)).astype(np.float32), RATE)
    assert voice is not None
    assert voice.rate == pytest.approx(8 / 1.6, rel=0.3)  # of the time that is no pause


def test_formants_of_a_whisper_are_found() -> None:
    formants = (800.0, *TUBE[1:])
    noise = np.random.default_rng(0).standard_normal(RATE)
    for formant in formants:
        radius = np.exp(-np.pi * 150 / RATE)
        noise = lfilter([1.0], [1, -2 * radius * np.cos(2 * np.pi * formant / RATE), radius**2], noise)
    voice, _ = measure_voice((0.3 * noise / np.abs(noise).max()).astype(np.float32), RATE)
    assert voice is not None
    assert voice.f0 == 0.0
    np.testing.assert_allclose(voice.formants, formants, rtol=0.08)


def test_audio_without_formants_gets_those_of_a_tube() -> None:
    noise = (0.1 * np.random.default_rng(0).standard_normal(1200)).astype(np.float32)  # 75 ms: too few frames
    voice, _ = measure_voice(noise, RATE)
    assert voice is not None
    assert voice.formants == (500.0, 1500.0, 2500.0, 3500.0, 4500.0)
    assert measure_voice(noise[:300], RATE) == (None, None)


def test_predictors_solve_the_normal_equations() -> None:
    frames = np.random.default_rng(1).standard_normal((3, 64))
    predictors = lpc_from_power(np.abs(np.fft.rfft(frames, 128, axis=1)) ** 2, 6)
    for frame, predictor in zip(frames, predictors, strict=True):
        lags = np.array([frame[: 64 - k] @ frame[k:] for k in range(7)])
        matrix = np.array([[lags[abs(i - j)] for j in range(6)] for i in range(6)])
        np.testing.assert_allclose(predictor[1:], np.linalg.solve(matrix, -lags[1:]), atol=1e-6)


# --- Overlap-add --------------------------------------------------------------------------------------------------


def test_overlap_add_without_changes_is_the_identity() -> None:
    speech = vowel(110, TUBE)
    output = overlap_add(speech, np.full(len(speech), 110.0), RATE, pitch=1, duration=1)
    inner = slice(1600, -1600)
    assert np.corrcoef(output[inner], speech[inner])[0, 1] > 0.98


@pytest.mark.parametrize(("pitch", "duration"), [(1.3, 1.0), (0.8, 1.0), (1.0, 1.4), (1.0, 0.7), (1.2, 0.8)])
def test_overlap_add_changes_pitch_and_duration_and_keeps_formants(pitch: float, duration: float) -> None:
    speech = vowel(120, TUBE)
    output = overlap_add(speech, np.full(len(speech), 120.0), RATE, pitch=pitch, duration=duration)
    assert len(output) == round(duration * len(speech))
    voice, _ = measure_voice(output.astype(np.float32), RATE)
    assert voice is not None
    assert voice.f0 == pytest.approx(120 * pitch, rel=0.03)
    np.testing.assert_allclose(voice.formants, TUBE, rtol=0.08)


def test_pitch_marks_are_a_period_apart_in_voiced_speech() -> None:
    speech = vowel(125, TUBE)
    f0 = np.where(np.arange(len(speech)) < RATE // 2, 125.0, 0.0)
    marks = pitch_marks(speech, f0, RATE)
    distances = np.diff(marks)
    voiced = distances[(marks[:-1] > 200) & (marks[1:] < RATE // 2)]
    assert abs(np.median(voiced) - RATE / 125) <= 1
    assert set(distances[marks[:-1] > RATE // 2 + 300].tolist()) == {80}


# --- Bands --------------------------------------------------------------------------------------------------------


def test_formants_are_moved_to_their_targets() -> None:
    target = (600.0, 1400.0, 2600.0, 3500.0, 4300.0)
    np.testing.assert_allclose(resonances(vowel(170, TUBE))[:5], TUBE, rtol=0.06)
    output = warp_formants(vowel(170, TUBE), TUBE, target, RATE)
    np.testing.assert_allclose(resonances(output)[:5], target, rtol=0.06)


def test_two_bands_are_swapped_and_the_rest_is_kept() -> None:
    time = np.arange(RATE) / RATE
    for before, after in ((3500, 4500), (4500, 3500), (1000, 1000), (6000, 6000), (3600, 4600)):
        spectrum = np.abs(np.fft.rfft(swap_bands(np.cos(2 * np.pi * before * time), 3500, 4500, RATE)))
        assert int(np.argmax(spectrum)) == after


def test_noise_is_pink_above_its_edge_at_the_speech_level() -> None:
    rng = np.random.default_rng(0)
    speech = 0.1 * rng.standard_normal(4 * RATE) * np.repeat([1.0, 0.1], 2 * RATE)
    noise = pink_noise(speech, 5000, RATE, 1.0, rng)
    power = np.abs(np.fft.rfft(noise)) ** 2
    band = slice(4 * 5400, 4 * 7900)
    assert power[: 4 * 5000].sum() < 0.01 * power.sum()
    speech_power = (np.abs(np.fft.rfft(speech)) ** 2)[band].sum()
    assert power[band].sum() == pytest.approx(speech_power, rel=0.2)
    assert np.std(noise[: 2 * RATE]) == pytest.approx(10 * np.std(noise[2 * RATE :]), rel=0.2)
    assert power[4 * 5500 : 4 * 5900].mean() > 1.2 * power[4 * 7500 : 4 * 7900].mean()
    assert not pink_noise(speech, 5000, RATE, 0.0, rng).any()


# --- The system ---------------------------------------------------------------------------------------------------


def test_table_has_all_253_speakers_with_plausible_voices() -> None:
    table = target_voices()
    assert len(table) == 253
    for voice in table:
        assert 70 < voice.f0 < 300
        assert list(voice.formants) == sorted(voice.formants)
        assert 1 < voice.rate < 10
    women, men = table[:128], table[128:]
    assert np.mean([v.f0 for v in women]) > 1.4 * np.mean([v.f0 for v in men])
    spacing = [np.mean([resonance_spacing(v.formants) for v in voices]) for voices in (women, men)]
    assert spacing[0] > 1.05 * spacing[1]


def test_speech_takes_on_the_voice_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Voice(210.0, tuple(1.1 * f for f in (540.0, 1440.0, 2550.0, 3350.0, 4200.0)), 4.0)
    monkeypatch.setattr("voiceveil.systems.signal.i1.target_voices", lambda: (target,))
    speech = vowel(170, TUBE, 2.0).astype(np.float32)
    output = system("i1", noise=0.0, tempo=1.0).transform(speech, np.random.default_rng(0))
    assert abs(len(output) - len(speech)) < 3
    f0 = track_pitch(output, RATE).f0
    assert np.median(f0[f0 > 0]) == pytest.approx(210, rel=0.04)
    np.testing.assert_allclose(resonances(output.astype(np.float64))[:3], target.formants[:3], rtol=0.08)


def test_speaking_rate_changes_the_length_within_its_limits() -> None:
    speech = synthetic_voice(seconds=1.5).samples
    lengths = [len(system("i1").transform(speech, np.random.default_rng(seed))) / len(speech) for seed in range(4)]
    assert all(1 / 1.19 < ratio < 1 / 0.84 for ratio in lengths)
    assert len(set(lengths)) > 1
    assert not system("i1").keeps_length


@pytest.mark.parametrize("pitch", [0.0, 60.0, 450.0])
def test_voiceless_very_low_and_very_high_voices_change(pitch: float) -> None:
    """Whispered speech and very high voices used to be almost unchanged (a correlation of 0.96)."""
    for speaker in range(4):
        wave = synthetic_voice(speaker, seconds=1.5, pitch=pitch)
        output = system("i1").transform(wave.samples, np.random.default_rng(speaker))
        assert correlation(wave.samples, output) < 0.4
        assert envelope_distance(wave.samples, output, RATE) > 1.5


def test_whisper_takes_on_the_formants_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Voice(210.0, tuple(1.15 * f for f in TUBE), 4.0)
    monkeypatch.setattr("voiceveil.systems.signal.i1.target_voices", lambda: (target,))
    whisper = whispered(Waveform(vowel(110, TUBE, 2.0).astype(np.float32), RATE))
    output = system("i1", noise=0.0, tempo=1.0).transform(whisper.samples, np.random.default_rng(0))
    np.testing.assert_allclose(resonances(whisper.samples.astype(np.float64))[:3], TUBE[:3], rtol=0.08)
    np.testing.assert_allclose(resonances(output.astype(np.float64))[:3], target.formants[:3], rtol=0.08)


def test_whispered_versions_of_real_speech_change() -> None:
    for path in sorted((SPEECH / "demo_enrolls" / "audio").glob("*.opus"))[::20]:
        wave = whispered(load(path, rate=RATE))
        output = system("i1").transform(wave.samples, np.random.default_rng(0))
        assert correlation(wave.samples, output) < 0.4
        assert envelope_distance(wave.samples, output, RATE) > 1.5
