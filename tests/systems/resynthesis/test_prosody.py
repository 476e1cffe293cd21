"""What a source loses beside its voice: properties of the disguise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.dsp.effort import balance, effort
from voiceveil.systems.resynthesis.prosody import Disguise, at_places, stretched, with_loudness
from voiceveil.systems.resynthesis.speaking_style import SPREAD, TYPICAL, Heights, Manner, Register, register_of

tracks = st.lists(st.one_of(st.just(0.0), st.floats(70, 400)), min_size=1, max_size=60).map(
    lambda values: np.array(values, dtype=np.float32)
)
AROUSED, CALM = Manner(3.0, 2.0, 3.0), Manner(0.5, -0.5, 1.0)


def logarithms(f0: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(f0[f0 > 0], dtype=np.float64))


@given(tracks)
def test_kept_intonation_is_that_of_the_source(f0: np.ndarray) -> None:
    assert Disguise().f0(f0, register_of(f0), np.log(120)) is f0


@given(tracks, st.floats(4.6, 5.4))
def test_moved_intonation_has_the_target_mean(f0: np.ndarray, target: float) -> None:
    """The same voicing and intervals about another mean; checked frame by frame."""
    source = register_of(f0)
    moved = Disguise("moved").f0(f0, source, target)
    for before, after in zip(f0, moved, strict=True):
        if before == 0:
            assert after == 0
        else:
            assert source is not None
            assert after == pytest.approx(np.clip(before * np.exp(target - source.mean), 50, 600), rel=1e-4)


def test_leveled_intonation_has_the_same_range_in_all_recordings() -> None:
    rng = np.random.default_rng(0)
    for reach in (0.1, 0.2, 0.4):
        f0 = np.exp(5 + reach * rng.standard_normal(2000)).astype(np.float32)
        made = Disguise("leveled", f0_range_kept=0.5).f0(f0, register_of(f0), 5.1)
        assert logarithms(made).std() == pytest.approx(0.5 * TYPICAL, rel=0.03)
        assert logarithms(made).mean() == pytest.approx(5.1, abs=0.01)


def test_monotone_voice_stays_monotone() -> None:
    f0 = np.full(200, 100, dtype=np.float32)
    f0[::2] = 101
    made = Disguise("leveled").f0(f0, register_of(f0), 5.0)
    assert logarithms(made).std() < 0.03


def test_zero_range_gives_constant_f0() -> None:
    f0 = np.array([0, 100, 150, 0, 220], dtype=np.float32)
    made = Disguise("moved", f0_range_kept=0).f0(f0, register_of(f0), np.log(180))
    np.testing.assert_allclose(made, [0, 180, 180, 0, 180], rtol=1e-5)


def test_predicted_f0_replaces_that_of_the_source() -> None:
    """Two sources with other intonations, the same words: nothing but the voicing is left of either."""
    expected = np.array([9, 1, 0, 9, -0.5, 0.3], dtype=np.float32)  # where nothing is voiced it does not count
    chosen = Disguise("leveled", f0_range_kept=0, predicted_f0_weight=0.5)
    for heights in ([100, 150, 220, 140], [130, 90, 60, 80]):
        f0 = np.array([0, *heights[:2], 0, *heights[2:]], dtype=np.float32)
        made = chosen.f0(f0, register_of(f0), np.log(180), expected=expected)
        centered = np.array([1, 0, -0.5, 0.3]) - 0.2
        movement = 0.5 * TYPICAL * centered / np.sqrt(np.mean(centered**2))
        np.testing.assert_allclose(made[f0 > 0], 180 * np.exp(movement), rtol=1e-5)
        assert (made[f0 == 0] == 0).all()
        hardly = chosen.f0(f0, register_of(f0), np.log(180), expected=0.1 * expected)
        np.testing.assert_allclose(hardly[f0 > 0], 180 * np.exp(0.5 * TYPICAL * centered / 3), rtol=1e-5)
    silence = np.zeros(6, dtype=np.float32)
    np.testing.assert_array_equal(chosen.f0(silence, Register(5.0, 0.2), 5.0, expected=expected), silence)


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
    np.testing.assert_allclose(Disguise(voicing=voicing).voiced(f0, probable, CALM), expected, rtol=0.1)


def test_voicing_of_aroused_speech_is_kept() -> None:
    """All of it; and to a half where half of a manner is a feeling's, as if nobody were surer."""
    f0 = np.array([0, 100, 0, 200, 0], dtype=np.float32)
    probable = np.array([0.9, 0.45, 0.8, 0.6, 0.3], dtype=np.float32)
    chosen = Disguise(voicing=1.0, arousal_threshold=2.5)
    np.testing.assert_allclose(chosen.voiced(f0, probable, AROUSED), f0, rtol=1e-6)
    half = Manner(2.5, None, None)
    assert half.emotion_weight(2.5) == pytest.approx(0.5)
    np.testing.assert_array_equal(chosen.voiced(f0, probable, half), Disguise(voicing=0.5).voiced(f0, probable, CALM))


def test_whisper_stays_unvoiced() -> None:
    f0 = np.zeros(4, dtype=np.float32)
    assert Disguise(voicing=1).voiced(f0, np.ones(4, dtype=np.float32), CALM) is f0


def test_f0_stays_within_the_range_of_voices() -> None:
    f0 = np.array([60, 600], dtype=np.float32)
    for target in (3.0, 7.0):
        made = Disguise("moved").f0(f0, Register(np.log(200), 0.2), target)
        assert made.min() >= 50
        assert made.max() <= 600


@given(st.integers(0, 2000), st.floats(0, 0.4), st.integers(0, 99))
def test_warped_time_is_monotone_with_fixed_ends(frames: int, rhythm: float, seed: int) -> None:
    """Time never turns back, the whole is as long as it was, and its ends, where pieces are joined, do not move."""
    places = Disguise(rhythm=rhythm).places(frames, np.random.default_rng(seed))
    assert len(places) == frames
    assert (np.diff(places) > 0).all()
    ends = min(100, frames)
    np.testing.assert_allclose(places[:ends], np.arange(ends))
    np.testing.assert_allclose(places[frames - ends :], np.arange(frames - ends, frames), atol=1e-6)


def test_rhythm_moves_frames() -> None:
    places = Disguise(rhythm=0.2).places(1000, np.random.default_rng(0))
    assert np.abs(places - np.arange(1000)).max() > 5


@given(st.integers(1, 300), st.integers(1, 300), st.floats(0, 0.4), st.integers(0, 99))
def test_stretched_time_is_monotone_with_the_wanted_length(frames: int, wanted: int, rhythm: float, seed: int) -> None:
    """As many as are wanted, from the first place to the last, never back; as many as there are: the same."""
    places = Disguise(rhythm=rhythm).places(frames, np.random.default_rng(seed))
    made = stretched(places, wanted)
    assert len(made) == wanted
    assert made[0] == places[0]
    assert wanted == 1 or made[-1] == pytest.approx(places[-1])
    assert (np.diff(made) >= 0).all()
    np.testing.assert_allclose(stretched(places, frames), places)


@given(st.floats(0, 0.5), st.integers(0, 999))
def test_tempo_is_drawn_within_its_range(tempo: float, seed: int) -> None:
    assert -tempo - 1e-9 <= np.log(Disguise(tempo=tempo).pace(np.random.default_rng(seed))) <= tempo + 1e-9


def test_tracks_are_interpolated_at_warped_times() -> None:
    content = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 40.0]], dtype=np.float32)
    expected = np.array([[0.0, 10.0], [0.5, 15.0], [1.25, 25.0], [2.0, 40.0]])
    np.testing.assert_allclose(at_places(content, np.array([0, 0.5, 1.25, 2])), expected)
    f0 = np.array([0, 100, 200], dtype=np.float32)
    np.testing.assert_array_equal(at_places(f0, np.array([0.4, 0.6, 1.4, 1.9])), [0, 100, 100, 200])
    one = np.ones((1, 3), dtype=np.float32)
    np.testing.assert_array_equal(at_places(one, np.array([0.0])), one)


@given(st.integers(0, 999))
def test_speed_is_drawn_within_its_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert 0.8 <= Disguise(speeds=(0.8, 1.25)).speed(rng) <= 1.25
    before = rng.bit_generator.state
    assert Disguise().speed(rng) == 1.0
    assert rng.bit_generator.state == before  # nothing is drawn where nothing is to choose


@pytest.mark.parametrize(
    ("manner", "ordinary", "expected"),
    [
        (AROUSED, 0, 150 * np.exp(0.3)),  # nothing is ordinary: as high as the source is
        (CALM, 0, 150 * np.exp(0.05)),
        (AROUSED, 2.5, 150 * np.exp(0.3)),
        (CALM, 2.5, 150 * np.exp(-0.15)),  # as high as the new voice is
        (AROUSED, np.inf, 150 * np.exp(-0.15)),
        (Manner(None, 2.0, 3.0), 2.5, 150 * np.exp(-0.15)),  # nobody knows how high the source is
    ],
)
def test_mean_f0_of_a_calm_source_is_replaced(manner: Manner, ordinary: float, expected: float) -> None:
    """Where 150 Hz are usual, and the new voice is lower."""
    f0 = np.array([0, 240, 240, 0], dtype=np.float32)
    made = Disguise("leveled", arousal_threshold=ordinary).f0(
        f0, register_of(f0), np.log(150) - 0.15, Heights(np.log(150), 0.1), manner
    )
    np.testing.assert_allclose(made, [0, expected, expected, 0], rtol=1e-5)


def test_zero_threshold_keeps_the_source_f0() -> None:
    f0 = np.exp(5 + 0.4 * np.random.default_rng(0).standard_normal(200)).clip(60, 500).astype(np.float32)
    register, heights = register_of(f0), Heights(5.2, 0.15)
    assert register is not None
    made = Disguise("leveled", arousal_threshold=0).f0(f0, register, 5.5, heights, register.manner(heights, None))
    np.testing.assert_allclose(made, f0, rtol=1e-5)


def test_f0_range_and_movement_of_aroused_speech_are_kept() -> None:
    rng = np.random.default_rng(0)
    for factor in (0.4, 2.0):
        f0 = np.exp(5 + factor * TYPICAL * rng.standard_normal(5000)).astype(np.float32)
        register = register_of(f0)
        assert register is not None
        melody = rng.standard_normal(5000).astype(np.float32)
        chosen = Disguise("leveled", f0_range_kept=0, predicted_f0_weight=1, arousal_threshold=2.5)
        reach = np.log(factor) / SPREAD
        felt, calm = (
            logarithms(chosen.f0(f0, register, 5.0, manner=manner, expected=melody))
            for manner in (Manner(2 * reach, reach, 2 * reach), Manner(-reach, reach, 0.0))
        )
        assert felt.std() == pytest.approx(factor * TYPICAL, rel=0.05)
        assert np.corrcoef(felt, logarithms(f0))[0, 1] > 0.99
        assert calm.std() == pytest.approx(TYPICAL, rel=0.05)
        assert np.corrcoef(calm, melody)[0, 1] > 0.99


def test_effort_of_aroused_speech_is_kept() -> None:
    """On noise with the slope of a voice: all of the effort, none of it, and as much as before."""
    rng = np.random.default_rng(0)
    spectrum = np.fft.rfft(rng.standard_normal(48000)) / np.maximum(1, np.arange(24001) / 600)
    made = (0.1 * np.fft.irfft(spectrum)).astype(np.float32)
    voiced = np.ones(300, dtype=np.bool_)

    def heard(manner: Manner) -> float:
        found = balance(Disguise(arousal_threshold=2.5).effort(made, voiced, manner), voiced)
        assert found is not None
        return effort(found)

    before = balance(made, voiced)
    assert before is not None
    own = effort(before)
    for wanted in (own + 2, own - 2):
        assert heard(Manner(3 * wanted, 9 * wanted, wanted)) == pytest.approx(wanted, abs=0.2)  # bands overlap
    for unchanged in (Manner(0.0, 0.0, 2.0), Manner(-3.0, 0.0, 3.0), Manner(9.0, 9.0, None)):
        assert heard(unchanged) == own


def slow_loudness(samples: np.ndarray, at: int) -> float:
    """dB about a frame, as a plain sum over half a second in a Hann window."""
    total = weights = 0.0
    for frame in range(max(0, at - 25), min(len(samples) // 160, at + 26)):
        weight = 0.5 + 0.5 * np.cos(np.pi * (frame - at) / 26)
        total += weight * np.mean(samples[160 * frame : 160 * frame + 160].astype(np.float64) ** 2)
        weights += weight
    return float(10 * np.log10(total / weights))


def test_loudness_follows_the_source() -> None:
    """Noise that swells, given to noise that does not: all of it, half of it, nothing of it."""
    rng = np.random.default_rng(0)
    swell = 10 ** (np.interp(np.arange(48000), [0, 24000, 48000], [-5, 5, -5]) / 20)
    source = (0.1 * swell * rng.standard_normal(48000)).astype(np.float32)
    plain = (0.1 * rng.standard_normal(48000)).astype(np.float32)
    for amount in (0.0, 0.5, 1.0):
        made = with_loudness(plain, source, amount)
        rise = slow_loudness(made, 150) - slow_loudness(made, 30)
        expected = amount * (slow_loudness(source, 150) - slow_loudness(source, 30))
        assert rise == pytest.approx(expected, abs=0.4)
    assert with_loudness(plain, source, 0.0) is plain


def test_loudness_follows_a_source_of_another_length() -> None:
    """Its swell is at the same place of the whole."""
    rng = np.random.default_rng(0)
    swell = 10 ** (np.interp(np.arange(48000), [0, 24000, 48000], [-5, 5, -5]) / 20)
    source = (0.1 * swell * rng.standard_normal(48000)).astype(np.float32)
    made = with_loudness((0.1 * rng.standard_normal(60000)).astype(np.float32), source, 1.0)
    rise = slow_loudness(made, 187) - slow_loudness(made, 37)
    assert rise == pytest.approx(slow_loudness(source, 150) - slow_loudness(source, 30), abs=0.6)


@pytest.mark.parametrize("samples", [0, 1, 159, 320, 500])
def test_loudness_of_silence_and_near_silence(samples: int) -> None:
    made = with_loudness(np.full(samples, 0.1, dtype=np.float32), np.zeros(samples, dtype=np.float32), 1.0)
    assert made.shape == (samples,)
    assert np.isfinite(made).all()
