"""Pieces of utterances: equal parts of the files, and a limit for each speaker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from voiceveil.audio import load, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.corpus.pieces import pieces_of_utterances
from voiceveil.testing import synthetic_voice


def test_pieces_cover_the_utterance_without_overlap(tmp_path: Path) -> None:
    wave = synthetic_voice(0, 0, seconds=3.3)
    save(tmp_path / "a.wav", wave)
    whole = Utterance("a", tmp_path / "a.wav", "s", "f", text="words", seconds=3.3)
    pieces = pieces_of_utterances([whole], 1.0)
    assert [piece.id for piece in pieces] == ["a-1", "a-2", "a-3"]
    assert all(p.duration == pytest.approx(1.1) and p.text is None and p.gender == "f" for p in pieces)
    parts = [load(p.path, start=p.start, duration=p.duration).samples for p in pieces]
    written = load(tmp_path / "a.wav").samples
    np.testing.assert_array_equal(np.concatenate(parts), written)


def test_short_utterances_and_parts_of_files_keep_their_place(tmp_path: Path) -> None:
    part = Utterance("b", tmp_path / "not-read.wav", "s", start=10.0, duration=5.0)
    assert [(p.start, p.duration) for p in pieces_of_utterances([part], 2.0)] == [(10.0, 2.5), (12.5, 2.5)]
    assert pieces_of_utterances([part], 3.0) == [part]


def test_limit_takes_pieces_of_a_speaker_at_equal_distances() -> None:
    long = [Utterance(f"u{i}", Path("x.wav"), "s", duration=10.0) for i in range(2)]
    other = Utterance("v", Path("x.wav"), "t", duration=2.0)
    chosen = pieces_of_utterances([*long, other], 1.0, 5)
    assert [p.id for p in chosen] == ["u0-3", "u0-7", "u1-1", "u1-5", "u1-9", "v-1", "v-2"]


@pytest.mark.parametrize(("seconds", "most"), [(0.0, 0), (-1.0, 0), (float("inf"), 0), (1.0, -1)])
def test_impossible_pieces_are_refused(seconds: float, most: int) -> None:
    with pytest.raises(InputError, match=f"pieces of {seconds} s, at most {most} a speaker"):
        pieces_of_utterances([], seconds, most)
