"""Whose a manner of speaking is: the speaker's or a feeling's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.systems.resynthesis.speaking_style import SPREAD, TYPICAL, Heights, Manner, Register, mixed, register_of

deviations = st.floats(-6, 6)
manners = st.builds(Manner, *3 * (st.one_of(st.none(), deviations),))


def plain_share(manner: Manner, ordinary: float) -> float:
    """The same in words: nothing up to nine tenths of what is ordinary, all from eleven tenths on, a line between."""
    heard = np.array([value for value in manner if value is not None])
    arousal = 0.0 if heard.size == 0 else abs(float(heard @ np.ones(heard.size))) / np.linalg.norm(np.ones(heard.size))
    return float(np.interp(arousal, [0.9 * ordinary, 1.1 * ordinary], [0.0, 1.0]))


@given(manners, st.floats(0.1, 9))
def test_emotion_weight_equals_the_plain_formula(manner: Manner, ordinary: float) -> None:
    assert manner.emotion_weight(ordinary) == pytest.approx(plain_share(manner, ordinary), abs=1e-9)


@given(manners)
def test_emotion_weight_is_zero_or_one_at_the_extreme_thresholds(manner: Manner) -> None:
    assert manner.emotion_weight(math.inf) == 0
    assert manner.emotion_weight(0) == 1


@given(deviations, deviations, deviations, st.floats(0.1, 9))
def test_arousal_combines_f0_range_and_effort(height: float, reach: float, effort: float, ordinary: float) -> None:
    """One alone has to be farther from the usual than all together; low is as good as high; opposites are none."""
    manner = Manner(height, reach, effort)
    assert manner.emotion_weight(ordinary) == Manner(-height, -reach, -effort).emotion_weight(ordinary)
    assert Manner(height, 0.0, -height).arousal == 0
    assert Manner(height, height, height).arousal == pytest.approx(3 * Manner(height, 0.0, 0.0).arousal)


@given(deviations, deviations, st.floats(0, 1))
def test_mixing_interpolates_between_both_values(own: float, other: float, share: float) -> None:
    assert min(own, other) - 1e-9 <= mixed(own, other, share) <= max(own, other) + 1e-9
    assert mixed(own, other, 0) == other
    assert mixed(own, other, 1) == own
    assert mixed(None, other, share) == other


def test_speaking_style_of_a_register() -> None:
    """An octave above the usual, where a deviation is a third of it; twice as lively as is typical."""
    register = Register(math.log(300), 2 * TYPICAL)
    heights = Heights(math.log(150), math.log(2) / 3)
    assert register.manner(heights, -1.0) == pytest.approx((3.0, math.log(2) / SPREAD, -1.0))
    assert register.manner(None, None) == Manner(reach=math.log(2 * TYPICAL / TYPICAL) / SPREAD)
    assert heights.at(heights.deviations(5.3)) == pytest.approx(5.3)


def test_f0_range_of_a_monotone_voice_is_bounded() -> None:
    register = register_of(np.full(9, 100, dtype=np.float32))
    assert register is not None
    assert register.manner(None, None).reach == pytest.approx(math.log(1 / 4) / SPREAD)


def test_unvoiced_speech_has_no_register() -> None:
    assert register_of(np.zeros(7, dtype=np.float32)) is None
    assert register_of(np.array([0, 100, 400, 0], dtype=np.float32)) == pytest.approx(
        (np.log(200), np.log(2)), abs=1e-6
    )
