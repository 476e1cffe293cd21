"""Speaking style: the speaker's own or due to an emotion."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.systems.resynthesis.speaking_style import (
    DEVIATION_SPREAD,
    TYPICAL_DEVIATION,
    F0Population,
    F0Statistics,
    SpeakingStyle,
    blend,
    f0_statistics,
)

deviations = st.floats(-6, 6)
styles = st.builds(SpeakingStyle, *3 * (st.one_of(st.none(), deviations),))


def plain_share(style: SpeakingStyle, threshold: float) -> float:
    """Reference: 0 up to 0.9 of the threshold, 1 from 1.1 on, linear between."""
    scores = np.array([value for value in style if value is not None])
    arousal = (
        0.0 if scores.size == 0 else abs(float(scores @ np.ones(scores.size))) / np.linalg.norm(np.ones(scores.size))
    )
    return float(np.interp(arousal, [0.9 * threshold, 1.1 * threshold], [0.0, 1.0]))


@given(styles, st.floats(0.1, 9))
def test_emotion_weight_equals_the_plain_formula(style: SpeakingStyle, threshold: float) -> None:
    assert style.emotion_weight(threshold) == pytest.approx(plain_share(style, threshold), abs=1e-9)


@given(styles)
def test_emotion_weight_is_zero_or_one_at_the_extreme_thresholds(style: SpeakingStyle) -> None:
    assert style.emotion_weight(math.inf) == 0
    assert style.emotion_weight(0) == 1


@given(deviations, deviations, deviations, st.floats(0.1, 9))
def test_arousal_combines_f0_range_and_effort(mean_f0: float, f0_range: float, effort: float, threshold: float) -> None:
    """One z-score alone has to be larger than three together; the sign does not matter; opposites cancel."""
    style = SpeakingStyle(mean_f0, f0_range, effort)
    assert style.emotion_weight(threshold) == SpeakingStyle(-mean_f0, -f0_range, -effort).emotion_weight(threshold)
    assert SpeakingStyle(mean_f0, 0.0, -mean_f0).arousal == 0
    assert SpeakingStyle(mean_f0, mean_f0, mean_f0).arousal == pytest.approx(
        3 * SpeakingStyle(mean_f0, 0.0, 0.0).arousal
    )


@given(deviations, deviations, st.floats(0, 1))
def test_mixing_interpolates_between_both_values(own: float, other: float, share: float) -> None:
    assert min(own, other) - 1e-9 <= blend(own, other, share) <= max(own, other) + 1e-9
    assert blend(own, other, 0) == other
    assert blend(own, other, 1) == own
    assert blend(None, other, share) == other


def test_speaking_style_of_a_register() -> None:
    """An octave above the mean with a deviation of a third of an octave; twice the typical F0 range."""
    statistics = F0Statistics(math.log(300), 2 * TYPICAL_DEVIATION)
    population = F0Population(math.log(150), math.log(2) / 3)
    assert statistics.style(population, -1.0) == pytest.approx((3.0, math.log(2) / DEVIATION_SPREAD, -1.0))
    assert statistics.style(None, None) == SpeakingStyle(
        f0_range=math.log(2 * TYPICAL_DEVIATION / TYPICAL_DEVIATION) / DEVIATION_SPREAD
    )
    assert population.from_z_score(population.z_score(5.3)) == pytest.approx(5.3)


def test_f0_range_of_a_monotone_voice_is_bounded() -> None:
    statistics = f0_statistics(np.full(9, 100, dtype=np.float32))
    assert statistics is not None
    assert statistics.style(None, None).f0_range == pytest.approx(math.log(1 / 4) / DEVIATION_SPREAD)


def test_unvoiced_speech_has_no_register() -> None:
    assert f0_statistics(np.zeros(7, dtype=np.float32)) is None
    assert f0_statistics(np.array([0, 100, 400, 0], dtype=np.float32)) == pytest.approx(
        (np.log(200), np.log(2)), abs=1e-6
    )
