"""Diarization error: a slow twin that counts milliseconds and tries all matchings, and cases known by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil import InputError
from voiceveil.corpus.turns import Turn
from voiceveil.metrics.diarization import DiarizationErrors, diarization_errors, match_speakers

turns = st.lists(
    st.builds(
        lambda speaker, start, length: Turn(speaker, start / 10, (start + length) / 10),
        st.sampled_from("abc"),
        st.integers(0, 60),
        st.integers(1, 30),
    ),
    max_size=6,
)


def slow_errors(
    reference: list[Turn], hypothesis: list[Turn], region: tuple[float, float], collar: float
) -> DiarizationErrors:
    """The definition, tick by tick of 50 ms, with every matching of speakers."""
    edges = [time for turn in reference for time in turn[1:]]
    ticks = []
    for tick in np.arange(0.025, 10, 0.05):
        if region[0] < tick < region[1] and not any(abs(tick - edge) < collar for edge in edges):
            said = {turn.speaker for turn in reference if turn.start < tick < turn.end}
            told = {turn.speaker for turn in hypothesis if turn.start < tick < turn.end}
            ticks.append((said, told))
    best = 0
    for order in permutations("abc"):
        matching = dict(zip("abc", order, strict=True))
        best = max(best, sum(len(said & {matching[name] for name in told}) for said, told in ticks))
    return DiarizationErrors(
        speech=0.05 * sum(len(said) for said, _ in ticks),
        miss=0.05 * sum(max(0, len(said) - len(told)) for said, told in ticks),
        false_alarm=0.05 * sum(max(0, len(told) - len(said)) for said, told in ticks),
        confusion=0.05 * (sum(min(len(said), len(told)) for said, told in ticks) - best),
    )


@settings(max_examples=60, deadline=None)
@given(turns, turns, st.sampled_from([(0.0, 10.0), (1.0, 5.0)]), st.sampled_from([0.0, 0.2]))
def test_agrees_with_counting_ticks(
    reference: list[Turn], hypothesis: list[Turn], region: tuple[float, float], collar: float
) -> None:
    fast = diarization_errors(reference, hypothesis, regions=[region], collar=collar)
    slow = slow_errors(reference, hypothesis, region, collar)
    for name in ("speech", "miss", "false_alarm", "confusion"):
        assert getattr(fast, name) == pytest.approx(getattr(slow, name), abs=1e-6)


def test_errors_known_by_hand() -> None:
    reference = [Turn("anna", 0, 10), Turn("ben", 10, 14), Turn("ben", 13, 15)]
    hypothesis = [Turn("1", 0, 8), Turn("2", 8, 12), Turn("2", 14, 17)]
    errors = diarization_errors(reference, hypothesis)
    assert errors == DiarizationErrors(speech=15.0, miss=2.0, false_alarm=2.0, confusion=2.0)
    assert errors.rate == pytest.approx(6 / 15)
    assert match_speakers(reference, hypothesis) == {"1": "anna", "2": "ben"}
    assert (errors + errors).rate == pytest.approx(errors.rate)


def test_no_speech_has_no_rate() -> None:
    assert np.isnan(diarization_errors([], []).rate)
    assert diarization_errors([], [Turn("a", 0, 1)]).false_alarm == 1.0
    assert match_speakers([], []) == {}


def test_negative_collar_is_refused() -> None:
    with pytest.raises(InputError, match="collar"):
        diarization_errors([], [], collar=-1)
