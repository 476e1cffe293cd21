"""Changes to prosody: F0, voicing, rhythm, effort and loudness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.dsp.effort import spectral_balance, vocal_effort
from voiceveil.systems.resynthesis.prosody import ProsodyChange, at_positions, match_loudness, resample_positions
from voiceveil.systems.resynthesis.speaking_style import (
    DEVIATION_SPREAD,
    TYPICAL_DEVIATION,
    F0Population,
    F0Statistics,
    SpeakingStyle,
    f0_statistics,
)

tracks = st.lists(st.one_of(st.just(0.0), st.floats(70, 400)), min_size=1, max_size=60).map(
    lambda values: np.array(values, dtype=np.float32)
)
AROUSED, CALM = SpeakingStyle(3.0, 2.0, 3.0), SpeakingStyle(0.5, -0.5, 1.0)


def logarithms(f0: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(f0[f0 > 0], dtype=np.float64))


@given(tracks)
def test_kept_intonation_is_that_of_the_source(f0: np.ndarray) -> None:
    assert ProsodyChange().convert_f0(f0, f0_statistics(f0), np.log(120)) is f0


@given(tracks, st.floats(4.6, 5.4))
def test_moved_intonation_has_the_target_mean(f0: np.ndarray, target: float) -> None:
    """Voicing and intervals stay, the mean changes; checked frame by frame."""
    source = f0_statistics(f0)
    moved = ProsodyChange("moved").convert_f0(f0, source, target)
    for before, after in zip(f0, moved, strict=True):
        if before == 0:
            assert after == 0
        else:
            assert source is not None
            assert after == pytest.approx(np.clip(before * np.exp(target - source.mean), 50, 600), rel=1e-4)


def test_leveled_intonation_has_the_same_range_in_all_recordings() -> None:
    rng = np.random.default_rng(0)
    for f0_range in (0.1, 0.2, 0.4):
        f0 = np.exp(5 + f0_range * rng.standard_normal(2000)).astype(np.float32)
        converted = ProsodyChange("leveled", f0_range_kept=0.5).convert_f0(f0, f0_statistics(f0), 5.1)
        assert logarithms(converted).std() == pytest.approx(0.5 * TYPICAL_DEVIATION, rel=0.03)
        assert logarithms(converted).mean() == pytest.approx(5.1, abs=0.01)


def test_monotone_voice_stays_monotone() -> None:
    f0 = np.full(200, 100, dtype=np.float32)
    f0[::2] = 101
    converted = ProsodyChange("leveled").convert_f0(f0, f0_statistics(f0), 5.0)
    assert logarithms(converted).std() < 0.03


def test_zero_range_gives_constant_f0() -> None:
    f0 = np.array([0, 100, 150, 0, 220], dtype=np.float32)
    converted = ProsodyChange("moved", f0_range_kept=0).convert_f0(f0, f0_statistics(f0), np.log(180))
    np.testing.assert_allclose(converted, [0, 180, 180, 0, 180], rtol=1e-5)


def test_predicted_f0_replaces_that_of_the_source() -> None:
    """Two sources with the same words and different intonation: only their voicing is kept."""
    expected = np.array([9, 1, 0, 9, -0.5, 0.3], dtype=np.float32)  # where nothing is voiced it does not count
    chosen = ProsodyChange("leveled", f0_range_kept=0, predicted_f0_weight=0.5)
    for population in ([100, 150, 220, 140], [130, 90, 60, 80]):
        f0 = np.array([0, *population[:2], 0, *population[2:]], dtype=np.float32)
        converted = chosen.convert_f0(f0, f0_statistics(f0), np.log(180), predicted=expected)
        centered = np.array([1, 0, -0.5, 0.3]) - 0.2
        movement = 0.5 * TYPICAL_DEVIATION * centered / np.sqrt(np.mean(centered**2))
        np.testing.assert_allclose(converted[f0 > 0], 180 * np.exp(movement), rtol=1e-5)
        assert (converted[f0 == 0] == 0).all()
        hardly = chosen.convert_f0(f0, f0_statistics(f0), np.log(180), predicted=0.1 * expected)
        np.testing.assert_allclose(hardly[f0 > 0], 180 * np.exp(0.5 * TYPICAL_DEVIATION * centered / 3), rtol=1e-5)
    silence = np.zeros(6, dtype=np.float32)
    np.testing.assert_array_equal(chosen.convert_f0(silence, F0Statistics(5.0, 0.2), 5.0, predicted=expected), silence)


@pytest.mark.parametrize(
    ("voicing", "expected"),
    [
        (0.0, [0, 100, 0, 200, 0]),  # as the source was
        (0.4, [0, 100, 0, 200, 0]),  # nobody is so sure
        (0.8, [100, 100, 150, 200, 0]),  # but where it is more or less even
        (1.0, [100, 0, 150, 200, 0]),  # as is expected
    ],
)
def test_voicing_follows_prediction_and_source(voicing: float, expected: list[float]) -> None:
    f0 = np.array([0, 100, 0, 200, 0], dtype=np.float32)
    probable = np.array([0.9, 0.45, 0.8, 0.6, 0.3], dtype=np.float32)
    np.testing.assert_allclose(ProsodyChange(voicing=voicing).convert_voicing(f0, probable, CALM), expected, rtol=0.1)


def test_voicing_of_aroused_speech_is_kept() -> None:
    """Voicing of emotional speech is kept, and half of it at an emotion weight of one half."""
    f0 = np.array([0, 100, 0, 200, 0], dtype=np.float32)
    probable = np.array([0.9, 0.45, 0.8, 0.6, 0.3], dtype=np.float32)
    chosen = ProsodyChange(voicing=1.0, arousal_threshold=2.5)
    np.testing.assert_allclose(chosen.convert_voicing(f0, probable, AROUSED), f0, rtol=1e-6)
    half = SpeakingStyle(2.5, None, None)
    assert half.emotion_weight(2.5) == pytest.approx(0.5)
    np.testing.assert_array_equal(
        chosen.convert_voicing(f0, probable, half), ProsodyChange(voicing=0.5).convert_voicing(f0, probable, CALM)
    )


def test_whisper_stays_unvoiced() -> None:
    f0 = np.zeros(4, dtype=np.float32)
    assert ProsodyChange(voicing=1).convert_voicing(f0, np.ones(4, dtype=np.float32), CALM) is f0


def test_f0_stays_within_the_range_of_voices() -> None:
    f0 = np.array([60, 600], dtype=np.float32)
    for target in (3.0, 7.0):
        converted = ProsodyChange("moved").convert_f0(f0, F0Statistics(np.log(200), 0.2), target)
        assert converted.min() >= 50
        assert converted.max() <= 600


@given(st.integers(0, 2000), st.floats(0, 0.4), st.integers(0, 99))
def test_warped_time_is_monotone_with_fixed_ends(frames: int, rhythm: float, seed: int) -> None:
    """Positions increase, the duration stays, and the ends, where pieces are joined, do not move."""
    positions = ProsodyChange(rhythm=rhythm).draw_positions(frames, np.random.default_rng(seed))
    assert len(positions) == frames
    assert (np.diff(positions) > 0).all()
    ends = min(100, frames)
    np.testing.assert_allclose(positions[:ends], np.arange(ends))
    np.testing.assert_allclose(positions[frames - ends :], np.arange(frames - ends, frames), atol=1e-6)


def test_rhythm_moves_frames() -> None:
    positions = ProsodyChange(rhythm=0.2).draw_positions(1000, np.random.default_rng(0))
    assert np.abs(positions - np.arange(1000)).max() > 5


@given(st.integers(1, 300), st.integers(1, 300), st.floats(0, 0.4), st.integers(0, 99))
def test_stretched_time_is_monotone_with_the_wanted_length(frames: int, wanted: int, rhythm: float, seed: int) -> None:
    """The wanted number of increasing positions from first to last; the same number changes nothing."""
    positions = ProsodyChange(rhythm=rhythm).draw_positions(frames, np.random.default_rng(seed))
    resampled = resample_positions(positions, wanted)
    assert len(resampled) == wanted
    assert resampled[0] == positions[0]
    assert wanted == 1 or resampled[-1] == pytest.approx(positions[-1])
    assert (np.diff(resampled) >= 0).all()
    np.testing.assert_allclose(resample_positions(positions, frames), positions)


@given(st.floats(0, 0.5), st.integers(0, 999))
def test_tempo_is_drawn_within_its_range(tempo: float, seed: int) -> None:
    assert (
        -tempo - 1e-9
        <= np.log(ProsodyChange(tempo=tempo).draw_duration_factor(np.random.default_rng(seed)))
        <= tempo + 1e-9
    )


def test_tracks_are_interpolated_at_warped_times() -> None:
    content = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 40.0]], dtype=np.float32)
    expected = np.array([[0.0, 10.0], [0.5, 15.0], [1.25, 25.0], [2.0, 40.0]])
    np.testing.assert_allclose(at_positions(content, np.array([0, 0.5, 1.25, 2])), expected)
    f0 = np.array([0, 100, 200], dtype=np.float32)
    np.testing.assert_array_equal(at_positions(f0, np.array([0.4, 0.6, 1.4, 1.9])), [0, 100, 100, 200])
    single = np.ones((1, 3), dtype=np.float32)
    np.testing.assert_array_equal(at_positions(single, np.array([0.0])), single)


@given(st.integers(0, 999))
def test_speed_is_drawn_within_its_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert 0.8 <= ProsodyChange(speeds=(0.8, 1.25)).draw_speed(rng) <= 1.25
    before = rng.bit_generator.state
    assert ProsodyChange().draw_speed(rng) == 1.0
    assert rng.bit_generator.state == before  # nothing is drawn where nothing is to choose


@pytest.mark.parametrize(
    ("style", "threshold", "expected"),
    [
        (AROUSED, 0, 150 * np.exp(0.3)),  # nothing is threshold: as high as the source is
        (CALM, 0, 150 * np.exp(0.05)),
        (AROUSED, 2.5, 150 * np.exp(0.3)),
        (CALM, 2.5, 150 * np.exp(-0.15)),  # as high as the new voice is
        (AROUSED, np.inf, 150 * np.exp(-0.15)),
        (SpeakingStyle(None, 2.0, 3.0), 2.5, 150 * np.exp(-0.15)),  # nobody knows how high the source is
    ],
)
def test_mean_f0_of_a_calm_source_is_replaced(style: SpeakingStyle, threshold: float, expected: float) -> None:
    """The mean of the population is 150 Hz, and the new voice is lower."""
    f0 = np.array([0, 240, 240, 0], dtype=np.float32)
    converted = ProsodyChange("leveled", arousal_threshold=threshold).convert_f0(
        f0, f0_statistics(f0), np.log(150) - 0.15, F0Population(np.log(150), 0.1), style
    )
    np.testing.assert_allclose(converted, [0, expected, expected, 0], rtol=1e-5)


def test_zero_threshold_keeps_the_source_f0() -> None:
    f0 = np.exp(5 + 0.4 * np.random.default_rng(0).standard_normal(200)).clip(60, 500).astype(np.float32)
    statistics, population = f0_statistics(f0), F0Population(5.2, 0.15)
    assert statistics is not None
    converted = ProsodyChange("leveled", arousal_threshold=0).convert_f0(
        f0, statistics, 5.5, population, statistics.style(population, None)
    )
    np.testing.assert_allclose(converted, f0, rtol=1e-5)


def test_f0_range_and_movement_of_aroused_speech_are_kept() -> None:
    rng = np.random.default_rng(0)
    for factor in (0.4, 2.0):
        f0 = np.exp(5 + factor * TYPICAL_DEVIATION * rng.standard_normal(5000)).astype(np.float32)
        statistics = f0_statistics(f0)
        assert statistics is not None
        melody = rng.standard_normal(5000).astype(np.float32)
        chosen = ProsodyChange("leveled", f0_range_kept=0, predicted_f0_weight=1, arousal_threshold=2.5)
        f0_range = np.log(factor) / DEVIATION_SPREAD
        aroused, calm = (
            logarithms(chosen.convert_f0(f0, statistics, 5.0, style=style, predicted=melody))
            for style in (SpeakingStyle(2 * f0_range, f0_range, 2 * f0_range), SpeakingStyle(-f0_range, f0_range, 0.0))
        )
        assert aroused.std() == pytest.approx(factor * TYPICAL_DEVIATION, rel=0.05)
        assert np.corrcoef(aroused, logarithms(f0))[0, 1] > 0.99
        assert calm.std() == pytest.approx(TYPICAL_DEVIATION, rel=0.05)
        assert np.corrcoef(calm, melody)[0, 1] > 0.99


def test_effort_of_aroused_speech_is_kept() -> None:
    """On noise with the spectral slope of a voice: full effort, none, and unchanged."""
    rng = np.random.default_rng(0)
    spectrum = np.fft.rfft(rng.standard_normal(48000)) / np.maximum(1, np.arange(24001) / 600)
    samples = (0.1 * np.fft.irfft(spectrum)).astype(np.float32)
    voiced = np.ones(300, dtype=np.bool_)

    def effort_after(style: SpeakingStyle) -> float:
        balance = spectral_balance(ProsodyChange(arousal_threshold=2.5).convert_effort(samples, voiced, style), voiced)
        assert balance is not None
        return vocal_effort(balance)

    before = spectral_balance(samples, voiced)
    assert before is not None
    own = vocal_effort(before)
    for wanted in (own + 2, own - 2):
        assert effort_after(SpeakingStyle(3 * wanted, 9 * wanted, wanted)) == pytest.approx(
            wanted, abs=0.2
        )  # bands overlap
    for unchanged in (SpeakingStyle(0.0, 0.0, 2.0), SpeakingStyle(-3.0, 0.0, 3.0), SpeakingStyle(9.0, 9.0, None)):
        assert effort_after(unchanged) == own


def slow_loudness(samples: np.ndarray, at: int) -> float:
    """Level around a frame in dB, as a plain sum over half a second in a Hann window."""
    total = weights = 0.0
    for frame in range(max(0, at - 25), min(len(samples) // 160, at + 26)):
        weight = 0.5 + 0.5 * np.cos(np.pi * (frame - at) / 26)
        total += weight * np.mean(samples[160 * frame : 160 * frame + 160].astype(np.float64) ** 2)
        weights += weight
    return float(10 * np.log10(total / weights))


def test_loudness_follows_the_source() -> None:
    """The loudness of swelling noise is applied to steady noise, fully, half, and not at all."""
    rng = np.random.default_rng(0)
    swell = 10 ** (np.interp(np.arange(48000), [0, 24000, 48000], [-5, 5, -5]) / 20)
    source = (0.1 * swell * rng.standard_normal(48000)).astype(np.float32)
    plain = (0.1 * rng.standard_normal(48000)).astype(np.float32)
    for amount in (0.0, 0.5, 1.0):
        output = match_loudness(plain, source, amount)
        rise = slow_loudness(output, 150) - slow_loudness(output, 30)
        expected = amount * (slow_loudness(source, 150) - slow_loudness(source, 30))
        assert rise == pytest.approx(expected, abs=0.4)
    assert match_loudness(plain, source, 0.0) is plain


def test_loudness_follows_a_source_of_another_length() -> None:
    """The loudest moment is at the same fraction of the duration."""
    rng = np.random.default_rng(0)
    swell = 10 ** (np.interp(np.arange(48000), [0, 24000, 48000], [-5, 5, -5]) / 20)
    source = (0.1 * swell * rng.standard_normal(48000)).astype(np.float32)
    output = match_loudness((0.1 * rng.standard_normal(60000)).astype(np.float32), source, 1.0)
    rise = slow_loudness(output, 187) - slow_loudness(output, 37)
    assert rise == pytest.approx(slow_loudness(source, 150) - slow_loudness(source, 30), abs=0.6)


#: Silence, phone 1 (30 frames), phone 2 (60 frames), silence: states of phones as content.
SOURCE_STATES = [0] * 20 + [1] * 10 + [2] * 10 + [3] * 10 + [4] * 20 + [5] * 20 + [6] * 20 + [0] * 20


def test_durations_become_the_predicted_ones() -> None:
    """Both phones are predicted to last equally long: together they keep 90 frames of 130, as do the pauses 40."""
    content = np.eye(7, dtype=np.float32)[SOURCE_STATES]
    change = ProsodyChange(durations=1.0)
    equal = np.log([20, np.sqrt(30 * 60), np.sqrt(30 * 60), 20])
    positions = change.convert_durations(content, lambda phones: (equal - equal[1]).astype(np.float32), SpeakingStyle())
    states = content[np.rint(positions).astype(int)].argmax(axis=1)
    counts = [int((states == 0).sum()), int(np.isin(states, (1, 2, 3)).sum()), int(np.isin(states, (4, 5, 6)).sum())]
    assert len(positions) == len(content)
    assert (np.diff(positions) >= 0).all()
    assert abs(counts[1] - counts[2]) <= 2
    assert sum(counts) == 130


def test_durations_of_aroused_speech_and_at_amount_zero_are_kept() -> None:
    content = np.eye(7, dtype=np.float32)[SOURCE_STATES]
    aroused = SpeakingStyle(mean_f0=4.0, f0_range=4.0, effort=4.0)
    for change, style in (
        (ProsodyChange(durations=0.0), SpeakingStyle()),
        (ProsodyChange(durations=1.0, arousal_threshold=1.0), aroused),
        (ProsodyChange(durations=1.0), SpeakingStyle()),
    ):
        kept = change.convert_durations(content, lambda phones: np.arange(len(phones), dtype=np.float32), style)
        assert np.allclose(kept, np.arange(len(content))) == (style is aroused or change.durations == 0)
    silence = content[:20]
    assert np.allclose(ProsodyChange(durations=1.0).convert_durations(silence, np.copy, SpeakingStyle()), np.arange(20))


@pytest.mark.parametrize("samples", [0, 1, 159, 320, 500])
def test_loudness_of_silence_and_near_silence(samples: int) -> None:
    output = match_loudness(np.full(samples, 0.1, dtype=np.float32), np.zeros(samples, dtype=np.float32), 1.0)
    assert output.shape == (samples,)
    assert np.isfinite(output).all()
