"""Forced alignment on the real speech that ships with the package."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import Waveform, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import read_kaldi

pytest.importorskip("pocketsphinx", reason="the extra sphinx is not installed")

from voiceveil.models.asr.alignment import PHONES, Alignment, align
from voiceveil.models.asr.pronunciation import best_chunks, pronunciations


@pytest.fixture(scope="module")
def recordings() -> list[tuple[Waveform, str]]:
    """Two short utterances with their transcripts."""
    utterances = [u for u in read_kaldi(SPEECH / "demo_enrolls").utterances if u.text]
    loaded = sorted(
        ((load(u.path, rate=16000), str(u.text)) for u in utterances[:8]), key=lambda pair: pair[0].duration
    )
    return loaded[:2]


def _joined(recordings: list[tuple[Waveform, str]]) -> tuple[Waveform, str]:
    (first, one), (second, two) = recordings
    gap = np.zeros(16000, dtype=np.float32)
    return Waveform(np.concatenate([first.samples, gap, second.samples]), 16000), f"{one} {two}"


def _aligned(wave: Waveform, text: str) -> Alignment:
    alignment = align(wave, text)
    assert alignment is not None
    return alignment


def test_words_of_two_recordings_lie_on_their_side_of_the_gap(recordings: list[tuple[Waveform, str]]) -> None:
    wave, text = _joined(recordings)
    alignment = _aligned(wave, text)
    assert [word.word for word in alignment.words] == text.split()
    assert [word.number for word in alignment.words] == list(range(len(text.split())))
    boundary, count = recordings[0][0].duration, len(recordings[0][1].split())
    assert alignment.words[count - 1].end <= boundary + 0.15
    assert alignment.words[count].start >= boundary + 0.85
    for word, following in itertools.pairwise(alignment.words):
        assert word.start < word.end <= following.start


def test_phones_cover_the_recording_without_gaps(recordings: list[tuple[Waveform, str]]) -> None:
    wave, text = recordings[0]
    alignment = _aligned(wave, text)
    assert {phone.phone for phone in alignment.phones} <= set(PHONES)
    assert alignment.phones[0].start == 0
    assert alignment.phones[-1].end == pytest.approx(wave.duration, abs=0.05)
    for phone, following in itertools.pairwise(alignment.phones):
        assert phone.end == following.start
    spoken = [phone for word in alignment.words for phone in word.phones]
    assert [phone for phone in alignment.phones if phone.phone != "SIL"] == [p for p in spoken if p.phone != "SIL"]


def test_times_do_not_depend_on_level_or_on_earlier_recordings(recordings: list[tuple[Waveform, str]]) -> None:
    wave, text = recordings[0]
    before = _aligned(wave, text)
    align(*recordings[1])
    quiet = _aligned(Waveform(wave.samples * np.float32(0.125), 16000), text)
    for word, same in zip(before.words, quiet.words, strict=True):
        assert same.start == pytest.approx(word.start, abs=0.03)
    assert _aligned(wave, text) == before


def test_unknown_words_are_aligned_and_punctuation_is_ignored(recordings: list[tuple[Waveform, str]]) -> None:
    wave, text = _joined(recordings)
    words = text.split()
    plain = _aligned(wave, text)
    words[words.index("COSETTE")] = "Kozzett,"  # not in the dictionary
    words[2] = f"\N{LEFT DOUBLE QUOTATION MARK}{words[2]}!"
    words.insert(3, "--")
    alignment = _aligned(wave, " ".join(words))
    assert [word.word for word in alignment.words] == [word for word in words if word != "--"]
    assert [word.number for word in alignment.words][:4] == [0, 1, 2, 4]
    for word, same in zip(alignment.words, plain.words, strict=True):
        assert word.start == pytest.approx(same.start, abs=0.1)


def test_transcript_of_other_speech_has_no_alignment(recordings: list[tuple[Waveform, str]]) -> None:
    assert align(recordings[0][0], 12 * "zoology marmalade ") is None


@pytest.mark.parametrize("text", ["", "...", "42"])
def test_transcript_without_words_has_no_alignment(recordings: list[tuple[Waveform, str]], text: str) -> None:
    assert align(recordings[0][0], text) is None


def test_silence_and_short_audio_have_no_alignment(recordings: list[tuple[Waveform, str]]) -> None:
    text = recordings[0][1]
    assert align(Waveform(np.zeros(32000, dtype=np.float32), 16000), text) is None
    assert align(Waveform(recordings[0][0].samples[:100], 16000), text) is None
    assert align(Waveform(recordings[0][0].samples[:4000], 16000), text) is None  # too short for its words


def test_other_rates_and_long_recordings_are_refused() -> None:
    with pytest.raises(InputError, match="16000 Hz, not 8000 Hz"):
        align(Waveform(np.zeros(8000, dtype=np.float32), 8000), "word")
    with pytest.raises(InputError, match="at most 120 s"):
        align(Waveform(np.zeros(121 * 16000, dtype=np.float32), 16000), "word")


def test_spelling_gives_regular_pronunciations() -> None:
    assert ("L", "IH", "N", "D", "K", "V", "IH", "S", "T") in pronunciations("lindqvist")
    assert pronunciations("") == [("AH",)]
    assert all(1 <= len(pronunciations(word)) <= 2 for word in ("thistlewood", "x", "wojciech"))


def test_letters_get_the_most_probable_phones() -> None:
    """Against all ways of dividing the phones among the letters."""
    scores = {("p", ("F",)): -1.0, ("h", ()): -0.5, ("p", ("P",)): -0.3, ("h", ("F",)): -6.0, ("i", ("AY",)): -1.0}

    def score(word: str, chunks: Sequence[tuple[str, ...]]) -> float:
        default = -8.0
        return sum(
            scores.get((letter, chunk), default - 4 * abs(len(chunk) - 1))
            for letter, chunk in zip(word, chunks, strict=True)
        )

    for word, phones in (("phi", ["F", "AY"]), ("pip", ["P", "AY", "P"]), ("hi", ["HH", "AY", "Z"])):
        ways = [
            tuple(tuple(phones[start:end]) for start, end in itertools.pairwise((0, *cuts, len(phones))))
            for cuts in itertools.combinations_with_replacement(range(len(phones) + 1), len(word) - 1)
        ]
        ways = [way for way in ways if all(len(chunk) <= 2 for chunk in way)]
        assert best_chunks(word, phones, scores) == list(max(ways, key=partial(score, word)))
    assert best_chunks("a", ["X", "Y", "Z"], {}) is None
