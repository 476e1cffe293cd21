"""Locate words in a recording: transcripts of its pieces, times of their words, and the phrases around them.

Words of a transcript are located by forced alignment: by the recognizer itself if it is a CTC model, else by
PocketSphinx (English). If alignment fails, the piece is halved at a pause, and its halves are transcribed and aligned
on their own; where even a short piece cannot be aligned, all of it counts as the place of the word.

Conventions: mono float32 at 16 kHz; times in seconds from the beginning of the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple, Protocol

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.models.asr.alignment import align
from voiceveil.models.asr.recognition import Recognizer
from voiceveil.models.asr.segmentation import HOP, cut_at_pauses, frame_energy
from voiceveil.systems.conversation.sample_file import RATE
from voiceveil.systems.redaction.detection import Finding
from voiceveil.systems.redaction.spans import silence_spans
from voiceveil.systems.redaction.words import capitalized_like, folded, spoken_words

__all__ = [
    "Located", "Piece", "Silenced", "Speech", "cut_into_pieces", "distribute", "locate", "phrase_around", "recognize",
    "token_times",
]  # fmt: skip

_LONGEST = 25.0  # seconds of a piece
_SHORTEST = 4.0  # seconds of a piece that is not halved
_PAUSE, _QUIET = 0.15, 25.0  # seconds and dB below the loud parts: a pause between phrases
_REACH = 5.0  # seconds that a phrase goes beyond a word at most
_FASTEST = 0.034  # seconds of a phone: words that are not there are aligned with the shortest times (30 ms)


class Speech(Protocol):
    """Samples that are read at any place, such as those of a file."""

    def __len__(self) -> int: ...

    def read(self, start: int, stop: int) -> Samples:
        """Return samples ``start`` to ``stop``."""
        ...


@dataclass(frozen=True)
class Silenced:
    """Speech with silence in ``spans`` (start, end) in seconds."""

    speech: Speech
    spans: Sequence[tuple[float, float]]

    def __len__(self) -> int:
        return len(self.speech)

    def read(self, start: int, stop: int) -> Samples:
        """Return samples ``start`` to ``stop``."""
        near = [span for span in self.spans if span[1] > start / RATE and span[0] < stop / RATE]
        return silence_spans(self.speech.read(start, stop), RATE, start / RATE, near)


class Piece(NamedTuple):
    """Samples ``start`` to ``stop`` of a recording, and what is said there according to one or two transcripts."""

    start: int
    stop: int
    texts: tuple[str, ...]


class Located(NamedTuple):
    """Times of a finding; ``exact``: found by alignment, else all that may contain it."""

    finding: Finding
    text: str
    start: float
    end: float
    exact: bool


def cut_into_pieces(speech: Speech) -> Iterator[tuple[int, int]]:
    """Yield pieces (start, stop) in samples that cover the recording, cut at pauses, of at most 25 s."""
    start = 0
    while start < len(speech):
        block = speech.read(start, min(len(speech), start + 2 * round(_LONGEST * RATE)))
        length = cut_at_pauses(block, RATE, _LONGEST)[0][1]
        yield start, start + length
        start += length


def recognize(samples: Samples, recognizer: Recognizer) -> str:
    """Return the transcript of a piece at 16 kHz; "" for digital silence and less than a recognizer takes."""
    if not samples.any() or len(samples) / RATE < max(0.1, recognizer.minimum):
        return ""
    return recognizer(Waveform(samples, RATE).resampled(recognizer.rate))


def distribute(words: Sequence[str], recognized: Sequence[str]) -> list[str]:
    """Return the part of a known text that is spoken in each piece, given what was recognized there.

    Every word of the text is in exactly one part. If it is written in capitals or small letters only, its words get the
    capitals and the punctuation of the recognized words that they are matched with, since names are found by them.
    """
    heard = [(number, token) for number, text in enumerate(recognized) for token in text.split()]
    # autojunk: frequent words do not begin a match, without which hours of speech take minutes
    known, found = [folded(word) for word in words], [folded(token) for _, token in heard]
    matcher = SequenceMatcher(None, known, found, autojunk=len(words) > 2000)
    letters = "".join(words)
    cased = letters != letters.upper() and letters != letters.lower()
    parts: list[list[str]] = [[] for _ in recognized]
    piece = 0
    for operation, a, b, c, d in matcher.get_opcodes():
        for place in range(a, b):
            match = None
            if operation == "equal" or (operation == "replace" and d > c):
                match = heard[min(c + (place - a) * (d - c) // (b - a), d - 1)]
                piece = match[0]
            word = words[place]
            parts[piece].append(word if cased else capitalized_like(word, match[1] if match else ""))
    return [" ".join(part) for part in parts]


def token_times(samples: Samples, text: str, recognizer: Recognizer) -> list[tuple[float, float] | None] | None:
    """Return the times of each token within a piece; None for one that is not spoken, or if alignment fails."""
    spoken = [(token, word) for token, written in enumerate(text.split()) for word in spoken_words(written)]
    if not spoken:
        return None
    words = [word for _, word in spoken]
    own: Callable[[Waveform, list[str]], list[tuple[float, float]] | None] | None
    own = getattr(recognizer, "word_times", None)
    if own is not None:
        times = own(Waveform(samples, RATE).resampled(recognizer.rate), words)
    else:
        aligned = align(Waveform(samples, RATE), " ".join(words))
        times = None if aligned is None or len(aligned.words) != len(words) else [
            (word.start, word.end) if word.end - word.start > _FASTEST * len(word.phones) else (word.start, word.start)
            for word in aligned.words
        ]  # fmt: skip
    if times is None or len(times) != len(words):
        return None
    result: list[tuple[float, float] | None] = [None] * len(text.split())
    for (token, _), (start, end) in zip(spoken, times, strict=True):
        before = result[token]
        result[token] = (start, end) if before is None else (before[0], max(before[1], end))
    return result


def locate(
    speech: Speech, piece: tuple[int, int], text: str, find: Callable[[str], list[Finding]], recognizer: Recognizer
) -> list[Located]:
    """Return what is found in the transcript of a piece, with its times.

    Parameters
    ----------
    speech
        The recording.
    piece
        First and last sample.
    text
        What is said there.
    find
        Finds what is to go in a text.
    recognizer
        For the halves of a piece that cannot be aligned.
    """
    findings = find(text)
    if not findings:
        return []
    start, stop = piece
    samples = speech.read(start, stop)
    tokens = text.split()
    times = token_times(samples, text, recognizer)
    if times is not None:
        located = []
        for finding in findings:
            said = " ".join(tokens[finding.first : finding.last + 1])
            inside = times[finding.first : finding.last + 1]
            known = [time for time in inside if time is not None]
            exact = bool(known) and all(end > begin for begin, end in known) and len(known) == len(inside)
            if known:
                begin, end = known[0][0] + start / RATE, max(time[1] for time in known) + start / RATE
                place = (begin, end) if exact else phrase_around(speech, begin, end)
                located.append(Located(finding, said, *place, exact))
            else:
                located.append(Located(finding, said, start / RATE, stop / RATE, False))
        return located
    whole = [
        Located(finding, " ".join(tokens[finding.first : finding.last + 1]), start / RATE, stop / RATE, False)
        for finding in findings
    ]
    if (stop - start) / RATE <= _SHORTEST:
        return whole
    cut = start + cut_at_pauses(samples, RATE, max(_SHORTEST / 2, (stop - start) / RATE * 0.7))[0][1]
    halves = [(start, cut), (cut, stop)]
    texts = distribute(tokens, [recognize(speech.read(*half), recognizer) for half in halves])
    parts = [
        place
        for half, part in zip(halves, texts, strict=True)
        for place in locate(speech, half, part, find, recognizer)
    ]
    return parts if len(parts) >= len(findings) else whole


def phrase_around(speech: Speech, start: float, end: float) -> tuple[float, float]:
    """Return the phrase around a place: from the pause before it to the pause behind it, at most 5 s further."""
    first = max(0, round((start - _REACH) * RATE))
    last = min(len(speech), round((end + _REACH) * RATE))
    samples = speech.read(first, last)
    if not len(samples):
        return start, end
    level = 10 * np.log10(frame_energy(samples, RATE) + 1e-10)
    quiet = level < np.percentile(level, 90) - _QUIET
    width = round(_PAUSE / HOP)
    # pause[n]: frames n to n + width are all quiet
    pause = np.convolve(quiet, np.ones(width, dtype=np.int64), mode="valid") == width if len(quiet) >= width else []
    offset = first / RATE
    before = [n for n in np.flatnonzero(pause) if offset + (n + width) * HOP <= start]
    behind = [n for n in np.flatnonzero(pause) if offset + n * HOP >= end]
    begin = offset + (before[-1] + width) * HOP if before else offset
    finish = offset + behind[0] * HOP if behind else last / RATE
    return min(start, begin), max(end, finish)
