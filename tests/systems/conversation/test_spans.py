"""The plan of a conversation: a slow twin, tick by tick, and that nothing of a hidden speaker is ever copied."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil import InputError
from voiceveil.corpus.turns import Turn, merge_turns, speakers_of
from voiceveil.systems.conversation.spans import (
    SHORTEST_COPY,
    Span,
    alone_spans,
    clip_turns,
    copied_seconds,
    measure_overlap,
    plan_spans,
)

LENGTH = 12.0
LEVELS = {"anna": 0.2, "ben": 0.1, "cleo": 0.05}
turn_lists = st.lists(
    st.builds(
        lambda speaker, start, length: Turn(speaker, start / 10, min((start + length) / 10, LENGTH)),
        st.sampled_from(sorted(LEVELS)),
        st.integers(0, 110),
        st.integers(1, 30),
    ),
    min_size=1,
    max_size=8,
).map(merge_turns)


def voice_at(spans: list[Span], time: float) -> str | None:
    (span,) = (span for span in spans if span.start < time < span.end)
    return span.voice


def slow_may_be_copied(turns: list[Turn], hidden: set[str], margin: float, time: float) -> bool:
    """The rule, in words: somebody who is kept talks, and nobody who is hidden does within the margin."""
    kept = any(turn.start < time < turn.end for turn in turns if turn.speaker not in hidden)
    near = any(turn.start - margin < time < turn.end + margin for turn in turns if turn.speaker in hidden)
    return kept and not near


@settings(max_examples=150, deadline=None)
@given(turn_lists, st.sampled_from([{"anna"}, {"ben", "cleo"}, set(LEVELS)]), st.sampled_from([0.0, 0.1, 0.5]))
def test_spans_agree_with_the_rule_tick_by_tick(turns: list[Turn], hidden: set[str], margin: float) -> None:
    levels = {name: LEVELS[name] for name in speakers_of(turns)}
    spans = plan_spans(turns, hidden, levels, LENGTH, margin)
    assert spans[0].start == 0
    assert spans[-1].end == LENGTH
    assert all(before.end == after.start for before, after in pairwise(spans))
    assert all(before.voice != after.voice for before, after in pairwise(spans))
    ticks = np.arange(0.025, LENGTH, 0.05)
    allowed = np.array([slow_may_be_copied(turns, hidden, margin, time) for time in ticks])
    for time, may_be_copied in zip(ticks, allowed, strict=True):
        voice = voice_at(spans, time)
        talking = [turn.speaker for turn in turns if turn.start < time < turn.end]
        if voice is None:
            assert may_be_copied
        elif may_be_copied:  # too short to be copied
            around = allowed[max(0, round((time - SHORTEST_COPY) / 0.05)) :][: round(2 * SHORTEST_COPY / 0.05)]
            assert not around.all()
        if voice is not None and talking:
            assert voice == max(talking, key=LEVELS.__getitem__)  # the louder
    assert copied_seconds(spans, [turn for turn in turns if turn.speaker in hidden] or [Turn("", 0, 0)]) == 0


def test_pauses_go_to_the_nearest_turn() -> None:
    turns = [Turn("anna", 2, 4), Turn("ben", 6, 8)]
    spans = plan_spans(turns, {"anna", "ben"}, LEVELS, LENGTH, 0.25)
    assert spans == [Span("anna", 0, 5), Span("ben", 5, 12)]


def test_only_kept_turns_are_copied() -> None:
    """Pauses are not: speech that was missed may be in them."""
    turns = [Turn("anna", 2, 4), Turn("ben", 6, 8), Turn("ben", 9, 10)]
    spans = plan_spans(turns, {"anna"}, LEVELS, LENGTH, 0.25)
    assert spans == [Span("anna", 0, 5), Span("ben", 5, 6), Span(None, 6, 8), Span("ben", 8, 9), Span(None, 9, 10),
                     Span("ben", 10, 12)]  # fmt: skip
    assert copied_seconds(spans) == 3


def test_wider_margin_copies_less() -> None:
    turns = [Turn("anna", 2, 4), Turn("ben", 4, 8)]
    copied = [copied_seconds(plan_spans(turns, {"anna"}, LEVELS, LENGTH, margin)) for margin in (0, 0.5, 1, 3.9)]
    assert copied == [4, 3.5, 3, 0]  # 0.1 s is too short


def test_overlap_is_measured_and_left_out_of_what_speakers_say_alone() -> None:
    turns = [Turn("anna", 0, 4), Turn("ben", 3, 6), Turn("cleo", 3.5, 3.75)]
    overlap = measure_overlap(turns)
    assert (overlap.speech, overlap.overlap) == (6, 1)
    assert alone_spans(turns, "ben") == [(4, 6)]
    assert alone_spans(turns, "cleo") == [(3.5, 3.75)]  # never alone


def test_turns_of_another_recording_are_refused() -> None:
    assert clip_turns([Turn("anna", 1, 12.5), Turn("ben", 12.2, 12.4)], LENGTH) == [Turn("anna", 1, LENGTH)]
    with pytest.raises(InputError, match="are these the turns of this recording"):
        clip_turns([Turn("anna", 1, 60)], LENGTH)
