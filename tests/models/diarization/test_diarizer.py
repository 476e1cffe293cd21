"""Diarization of real speech whose turns are known."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.conversations import demo_conversation
from voiceveil.audio import Samples
from voiceveil.corpus.turns import speakers_of
from voiceveil.metrics.diarization import diarization_errors
from voiceveil.models.diarization.diarizer import diarize
from voiceveil.models.diarization.segmentation import FRAME_STEP, WINDOW, _starts


class InMemory:
    """Samples, and how much of them was read at once."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self.most = 0

    def __len__(self) -> int:
        return len(self._samples)

    def read(self, start: int, stop: int) -> Samples:
        assert 0 <= start <= stop <= len(self)
        self.most = max(self.most, stop - start)
        return self._samples[start:stop]


@pytest.mark.parametrize("speakers", [None, 2])
def test_two_speakers_are_told_apart(speakers: int | None) -> None:
    conversation = demo_conversation()
    source = InMemory(conversation.wave.samples)
    turns = diarize(source, speakers)
    assert list(speakers_of(turns)) == ["speaker-1", "speaker-2"]
    assert diarization_errors(conversation.turns, turns).rate < 0.15
    assert all(0 <= turn.start < turn.end <= conversation.wave.duration for turn in turns)
    assert source.most <= WINDOW  # memory does not grow with the recording


def test_one_speaker_is_one() -> None:
    samples = max(demo_conversation().parts.values(), key=lambda part: float(np.square(part).sum()))
    assert list(speakers_of(diarize(InMemory(samples)))) == ["speaker-1"]


@pytest.mark.parametrize("samples", [0, 100, 20000])
def test_silence_and_nothing_have_no_turns(samples: int) -> None:
    assert diarize(InMemory(np.zeros(samples, dtype=np.float32))) == []


@pytest.mark.parametrize("length", [1600, 160000, 160001, 200500, 200501, 1_000_003])
def test_windows_cover_the_recording(length: int) -> None:
    starts = _starts(length)
    covered = np.zeros(length, dtype=bool)
    for start in starts:
        assert start % FRAME_STEP == 0
        covered[start : start + WINDOW] = True
    assert covered.all()
    assert starts[-1] + WINDOW - length < WINDOW
    assert len(set(starts)) == len(starts)
