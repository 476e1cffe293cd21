"""Forced alignment: when each word and each phone of a known transcript is spoken, by PocketSphinx (English).

The decoder searches only paths that say the transcript, with optional pauses between words, and chooses among the
pronunciations of its dictionary. Words that the dictionary lacks, such as many names, get the most probable
pronunciations of :mod:`voiceveil.models.asr.pronunciation`.

Conventions: 16 kHz; times in seconds from the start of the recording, with a resolution of 10 ms. Words are those of
the transcript, split at white space. Phones are the 39 of the CMU dictionary, without stress; silence and noises are
``SIL``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform, to_int16
from voiceveil.core.errors import InputError
from voiceveil.models.asr.pocketsphinx import MIN_SAMPLES, model_folder
from voiceveil.models.asr.pronunciation import pronunciations

__all__ = ["PHONES", "AlignedPhone", "AlignedWord", "Alignment", "align"]

SILENCE = "SIL"
PHONES = (
    SILENCE, "AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY", "F", "G", "HH", "IH", "IY",
    "JH", "K", "L", "M", "N", "NG", "OW", "OY", "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH",
)  # fmt: skip
#: Longest recording; the decoder would end the process without an exception on more than 327 s.
MAX_SECONDS = 120.0
_RATE, _FRAMES_PER_SECOND = 16000, 100
#: Peak of the samples that the decoder gets, of 32,767: its features are not independent of the level.
_PEAK = 20000.0


@dataclass(frozen=True)
class AlignedPhone:
    """A phone of :data:`PHONES` and its times in seconds."""

    phone: str
    start: float
    end: float


@dataclass(frozen=True)
class AlignedWord:
    """A word of the transcript, its number there, its times in seconds, and its phones."""

    word: str
    number: int
    start: float
    end: float
    phones: tuple[AlignedPhone, ...]


@dataclass(frozen=True)
class Alignment:
    """The words of a transcript in time; ``phones`` also has the silences between them, without gaps."""

    words: tuple[AlignedWord, ...]
    phones: tuple[AlignedPhone, ...]


def align(wave: Waveform, transcript: str) -> Alignment | None:
    """Return when the words of a transcript are spoken; None if the recording does not fit the transcript.

    Parameters
    ----------
    wave : Waveform
        Recording at 16 kHz of at most two minutes.
    transcript : str
        What is said, in any case; punctuation within a word other than apostrophes is ignored.

    Returns
    -------
    Alignment or None
        None if the decoder finds no path through the whole transcript, or there is no word in it.

    Raises
    ------
    InputError
        If the recording has another rate or is too long, or PocketSphinx is not installed.
    """
    if wave.rate != _RATE:
        raise InputError(f"alignment needs audio at {_RATE} Hz, not {wave.rate} Hz", fix="use wave.resampled(16000)")
    if wave.duration > MAX_SECONDS:
        problem = f"alignment takes at most {MAX_SECONDS:.0f} s of audio, not {wave.duration:.0f} s"
        raise InputError(problem, fix="cut the recording at pauses")
    spoken = [(number, word, _letters(word)) for number, word in enumerate(transcript.split())]
    spoken = [entry for entry in spoken if entry[2]]
    peak = float(np.abs(wave.samples).max(initial=0.0))
    if not spoken or peak == 0 or len(wave.samples) < MIN_SAMPLES:
        return None
    pcm = to_int16(wave.samples * np.float32(_PEAK / 32768 / peak))
    entries = _search(pcm, [letters for _, _, letters in spoken])
    return None if entries is None else _alignment(entries, spoken)


def _letters(word: str) -> str:
    """Return a word as the dictionary writes it: lower-case letters and apostrophes."""
    return re.sub(r"[^a-z']", "", word.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")).strip("'")


#: A word of the decoder's result, and its phones with first frame and number of frames.
_Entry = tuple[str, list[tuple[str, int, int]]]


def _search(pcm: NDArray[np.int16], words: list[str]) -> list[_Entry] | None:
    """Return the words on the best path, with fillers; None if there is no path."""
    decoder = _decoder()
    for word in dict.fromkeys(words):
        if decoder.lookup_word(word) is None:
            for number, phones in enumerate(pronunciations(word)):
                decoder.add_word(word if number == 0 else f"{word}({number + 1})", " ".join(phones), True)
    data = pcm.astype("<i2").tobytes()
    decoder.set_align_text(" ".join(words))
    _process(decoder, data)
    if decoder.hyp() is None:
        return None
    decoder.set_alignment()  # the second pass finds the phones of these words
    _process(decoder, data)
    alignment = decoder.get_alignment()
    if alignment is None:
        return None
    return [(word.name, [(phone.name, phone.start, phone.duration) for phone in word]) for word in alignment]


def _process(decoder: Any, data: bytes) -> None:
    decoder.reinit_feat()  # resets the noise estimate, so that results do not depend on earlier recordings
    decoder.start_utt()
    try:
        decoder.process_raw(data, no_search=False, full_utt=True)
    finally:
        decoder.end_utt()


def _alignment(entries: list[_Entry], spoken: list[tuple[int, str, str]]) -> Alignment | None:
    """Assign the words of the path to those of the transcript; None if they are not the same words."""
    words: list[AlignedWord] = []
    phones: list[AlignedPhone] = []
    for name, parts in entries:
        own = tuple(
            AlignedPhone(
                phone if phone in PHONES else SILENCE,
                start / _FRAMES_PER_SECOND,
                (start + count) / _FRAMES_PER_SECOND,
            )
            for phone, start, count in parts
        )
        phones.extend(own)
        if name.startswith(("<", "[", "+")) or not own:
            continue
        if len(words) == len(spoken) or re.sub(r"\(\d+\)$", "", name) != spoken[len(words)][2]:
            return None
        number, word, _ = spoken[len(words)]
        words.append(AlignedWord(word, number, own[0].start, own[-1].end, own))
    return Alignment(tuple(words), tuple(phones)) if len(words) == len(spoken) else None


@lru_cache(maxsize=1)
def _decoder() -> Any:
    import pocketsphinx

    folder = model_folder()
    return pocketsphinx.Decoder(
        hmm=str(folder / "en-us"),
        lm=None,
        dict=str(folder / "cmudict-en-us.dict"),
        bestpath=False,
        loglevel="FATAL",
    )
