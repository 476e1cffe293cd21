"""Where words are: pieces, known texts, times of words, phrases between pauses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.support.tone_words import PAUSE, RATE, ToneRecognizer, speak, word_at
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import Samples, load
from voiceveil.corpus import open_corpus
from voiceveil.systems.redaction.detection import Detector, Finding
from voiceveil.systems.redaction.location import (
    Silenced,
    cut_into_pieces,
    distribute,
    locate,
    phrase_around,
    recognize,
    token_times,
)
from voiceveil.systems.redaction.word_list import WordList


class InMemory:
    """Samples as speech."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def read(self, start: int, stop: int) -> Samples:
        return self._samples[start:stop]


def find_mary(text: str) -> list[Finding]:
    return Detector(WordList(("Mary",))).find(text)


def test_pieces_cover_a_long_recording_and_are_cut_in_pauses() -> None:
    speech = InMemory(np.tile(speak("hello", "Mary", "lives", "in", "Berlin"), 20))
    pieces = list(cut_into_pieces(speech))
    assert pieces[0][0] == 0
    assert pieces[-1][1] == len(speech)
    assert all(a[1] == b[0] for a, b in pairwise(pieces))
    assert all(stop - start <= 25 * RATE for start, stop in pieces)
    assert all(not speech.read(stop - 100, stop + 100).any() for _, stop in pieces[:-1])


def test_silence_and_scraps_are_not_transcribed() -> None:
    assert recognize(np.zeros(RATE, dtype=np.float32), ToneRecognizer()) == ""
    assert recognize(speak("hello")[:800], ToneRecognizer()) == ""


def test_words_are_located_to_a_few_hundredths_of_a_second() -> None:
    samples = speak("hello", "Mary", "lives")
    (place,) = locate(InMemory(samples), (0, len(samples)), "hello Mary lives", find_mary, ToneRecognizer())
    assert place.exact
    assert (place.start, place.end) == pytest.approx(word_at(1), abs=0.05)


def test_a_piece_that_cannot_be_aligned_is_halved_until_it_goes_as_a_whole() -> None:
    samples = speak("hello", "lives", "in", "Berlin", "today", "hello", "lives", "in", "Mary", "today")
    text = "hello lives in Berlin today hello lives in Mary today"
    places = locate(InMemory(samples), (0, len(samples)), text, find_mary, ToneRecognizer(shift=None))
    assert places
    assert not any(place.exact for place in places)
    start, end = word_at(8)
    assert any(place.start <= start and end <= place.end for place in places)
    assert sum(place.end - place.start for place in places) < len(samples) / RATE  # not all of it


def test_a_phrase_goes_from_pause_to_pause() -> None:
    samples = speak("hello", "Mary", "lives")
    start, end = word_at(1)
    first, last = phrase_around(InMemory(samples), start + 0.1, end - 0.1)
    assert first == pytest.approx(start, abs=0.05)
    assert last == pytest.approx(end, abs=0.05)
    joined = np.concatenate([samples[: round((PAUSE + 0.4) * RATE)], samples[round((0.4 + 2 * PAUSE) * RATE) :]])
    first, _ = phrase_around(InMemory(joined), PAUSE + 0.5, PAUSE + 0.6)  # no pause between "hello" and "Mary"
    assert first == pytest.approx(PAUSE, abs=0.05)


def test_a_known_text_is_distributed_over_pieces_with_every_word_once() -> None:
    words = "SIR HARRY TOWNE BOWED AND SAID THAT HE HAD MET MISTER ALEXANDER".split()  # noqa: SIM905
    parts = distribute(words, ["Sir Harry Town bowed", "", "and said that he had met Mr. Alexander."])
    assert [len(part.split()) for part in parts] == [4, 0, 8]
    assert parts[0] == "Sir Harry Towne bowed"
    assert parts[2].endswith("Alexander.")
    assert distribute(words, ["", ""]) == [" ".join(words).lower(), ""]
    assert distribute(["Mary", "SAID"], ["nothing alike"]) == ["Mary SAID"]  # its own capitals stay


def test_silenced_speech_is_silent_there_and_nowhere_else() -> None:
    samples = speak("hello", "Mary")
    silenced = Silenced(InMemory(samples), [word_at(1)])
    assert recognize(silenced.read(0, len(samples)), ToneRecognizer()) == "hello"


def test_words_of_real_speech_with_numbers_and_punctuation_have_times() -> None:
    (utterance,) = (u for u in open_corpus(SPEECH / "demo_enrolls") if u.id == "1462-170138-0017")
    wave = load(utterance.path, rate=RATE)
    text = "Sir Harry Towne bowed - and said that he had met Mr. Alexander and his wife in Tokyo."
    times = token_times(wave.samples, text, ToneRecognizerWithoutTimes())
    assert times is not None
    assert times[4] is None  # a dash is not spoken
    spoken = [time for time in times if time is not None]
    assert all(a[0] <= b[0] for a, b in pairwise(spoken))
    assert times[-1] is not None
    assert wave.duration - 1.2 < times[-1][0] < wave.duration


class ToneRecognizerWithoutTimes(ToneRecognizer):
    """Has no times of its own: PocketSphinx aligns."""

    word_times = None  # type: ignore[assignment]
