"""The redaction of one recording: find what is to go, silence it, and check the result.

1. The recording is transcribed in pieces, and what is to go is found in the transcripts. A name that is found once is
   looked for everywhere. If the text is known, both it and the transcript are searched.
2. It is located by alignment. With a guard on either side it is silenced in the recording, and the pieces with silenced
   words are transcribed again: where a word is still recognized, the phrase around it goes as well.
3. The recording is anonymized without those parts, which get a tone in the result. The result is transcribed: where
   something that was to go is recognized, the phrase around it is silenced in the recording, and the recording is
   anonymized again; the second time, the whole piece. If something is recognized even then, the recording fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from voiceveil.core.activity import report_fraction, report_status
from voiceveil.core.atomic_files import scratch_path
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import recognizer as find_recognizer
from voiceveil.systems.conversation.recording import Recording, decode
from voiceveil.systems.conversation.sample_file import RATE, SampleFile
from voiceveil.systems.redaction.detection import Detector, Finding
from voiceveil.systems.redaction.location import (
    Located,
    Piece,
    Silenced,
    Speech,
    cut_into_pieces,
    distribute,
    locate,
    phrase_around,
    recognize,
    token_times,
)
from voiceveil.systems.redaction.options import RedactionOptions
from voiceveil.systems.redaction.report import RedactionReport
from voiceveil.systems.redaction.spans import Reason, Redacted, merge, union
from voiceveil.systems.redaction.transcript import Word, write_transcript
from voiceveil.systems.redaction.word_list import WordList

__all__ = ["ATTEMPTS", "Redaction", "open_redaction"]

#: How often a recording is anonymized until nothing that was to go is recognized.
ATTEMPTS = 4
_CHECKS = 2  # of the silenced recording before it is anonymized


@contextmanager
def open_redaction(
    recording: Recording, options: RedactionOptions, beside: Path, *, text: str | None = None, separate: bool = False
) -> Iterator[Redaction]:
    """Find what is to go in a recording; the result can be used while the block lasts.

    Parameters
    ----------
    recording
        The recording.
    options
        What is removed.
    beside
        Temporary files are written into the folder of this path.
    text
        What is said, if it is known.
    separate
        Transcribe each channel on its own; what is found in one is removed from all.
    """
    with ExitStack() as stack:

        def scratch() -> SampleFile:
            return stack.enter_context(SampleFile(stack.enter_context(scratch_path(beside))))

        channels, _, _ = decode(recording, scratch, separate=separate)
        redaction = Redaction(channels, options, options.text or text)
        redaction.find()
        yield redaction


class Redaction:
    """Spans to remove from a recording, found in its channels (or their mixture) at 16 kHz."""

    def __init__(self, channels: Sequence[Speech], options: RedactionOptions, text: str | None) -> None:
        self._channels = channels
        self._options = options
        self._text = text
        self._recognizer = find_recognizer(options.recognizer)
        self._detector = Detector(WordList(options.words), options.names, options.numbers)
        self._pieces: list[list[Piece]] = []
        self._spans: list[Redacted] = []
        self._attempts = 0

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """Return the parts (start, end) in seconds that are removed, sorted and without overlap."""
        return tuple(union(self._spans))

    def find(self) -> None:
        """Find what is to go, and check that it is not recognized in the silenced recording."""
        report_status("transcribing")
        self._pieces = [self._transcribed(channel) for channel in self._channels]
        texts = [text for pieces in self._pieces for piece in pieces for text in piece.texts]
        self._detector = self._detector.knowing(texts, [self._detector.find(text) for text in texts])
        for channel, pieces in zip(self._channels, self._pieces, strict=True):
            for piece in pieces:
                for text in piece.texts:
                    located = locate(channel, piece[:2], text, self._detector.find, self._recognizer)
                    self._remove(located, len(channel))
        for _ in range(_CHECKS):
            if not self._check(self._channels, touched_only=True):
                break

    def check(self, result: Recording, beside: Path) -> bool:
        """Return whether nothing that was to go is recognized in the result; else it is removed from the next one.

        Parameters
        ----------
        result
            The anonymized recording, with the tone.
        beside
            Temporary files are written into the folder of this path.

        Raises
        ------
        InputError
            If something is still recognized after the last attempt.
        """
        self._attempts += 1
        report_status("checking the result")
        with ExitStack() as stack:

            def scratch() -> SampleFile:
                return stack.enter_context(SampleFile(stack.enter_context(scratch_path(beside))))

            channels, _, _ = decode(result, scratch, separate=len(self._channels) > 1)
            heard = self._check(channels, touched_only=False)
        if heard and self._attempts == ATTEMPTS:
            problem = f"words that were to be removed are still recognized after {ATTEMPTS} attempts"
            raise InputError(problem, fix="give what is said with --text, or another --recognizer or --system")
        return not heard

    def report(self) -> RedactionReport:
        """Return what was removed."""
        options = self._options
        written = None if options.transcript is None else write_transcript(self._lines(), options.transcript)
        return RedactionReport(tuple(self._spans), options.replacement, self._attempts, written)

    def _transcribed(self, channel: Speech) -> list[Piece]:
        """Return the pieces of a channel with their transcripts: the known text first, if there is one."""
        places, recognized = [], []
        for start, stop in cut_into_pieces(channel):
            places.append((start, stop))
            recognized.append(recognize(channel.read(start, stop), self._recognizer))
            report_fraction(stop / len(channel))
        report_fraction(0.0)
        if self._text is None or len(self._channels) > 1:  # whose words they are is not known
            return [Piece(*place, (text,)) for place, text in zip(places, recognized, strict=True)]
        known = distribute(self._text.split(), recognized)
        return [Piece(*place, texts) for place, texts in zip(places, zip(known, recognized, strict=True), strict=True)]

    def _remove(self, located: Sequence[Located], length: int, reason: Reason | None = None) -> None:
        """Add places to what is removed, with the guard."""
        guard = self._options.guard
        new = [
            Redacted(
                max(0.0, place.start - guard),
                min(length / RATE, place.end + guard),
                place.finding.kind,
                reason or ("found" if place.exact else "not located"),
                place.text,
            )
            for place in located
        ]
        self._spans = merge(self._spans, new)

    def _check(self, channels: Sequence[Speech], *, touched_only: bool) -> bool:
        """Transcribe the channels with silence in what is removed; remove phrases in which something is recognized.

        Parameters
        ----------
        channels
            The recording, or the result.
        touched_only
            Only pieces in which something is removed.

        Returns
        -------
        bool
            Whether anything was recognized.
        """
        before = self.spans
        heard = False
        for channel, original, pieces in zip(channels, self._channels, self._pieces, strict=True):
            silenced = Silenced(channel, before)
            for number, piece in enumerate(pieces):
                start, stop = piece[:2]
                touched = any(a < stop / RATE and b > start / RATE for a, b in before)
                if touched or not touched_only:
                    text = recognize(silenced.read(start, stop), self._recognizer)
                    located = locate(silenced, (start, stop), text, self._known, self._recognizer)
                    heard = heard or bool(located)
                    self._remove(
                        [self._phrase(place, original, piece) for place in located], len(original), "still heard"
                    )
                report_fraction((number + 1) / len(pieces))
        report_fraction(0.0)
        return heard

    def _known(self, text: str) -> list[Finding]:
        """Return what was to go in a transcript of the result: names that are new there come from its errors."""
        return self._detector.find(text, new_names=False)

    def _phrase(self, place: Located, speech: Speech, piece: Piece) -> Located:
        """Return the phrase of the recording around a place; after the second attempt, the whole piece."""
        if self._attempts > 1:
            return place._replace(start=piece.start / RATE, end=piece.stop / RATE)
        start, end = phrase_around(speech, place.start, place.end)
        return place._replace(start=start, end=end)

    def _lines(self) -> list[list[Word]]:
        """Return the words of what is left, of each piece; several channels are in the order of time."""
        lines = [
            (piece.start, self._words(channel, piece))
            for channel, pieces in zip(self._channels, self._pieces, strict=True)
            for piece in pieces
        ]
        return [words for _, words in sorted(lines, key=lambda line: line[0])]

    def _words(self, channel: Speech, piece: Piece) -> list[Word]:
        """Return the words of a piece; those that are found, or mostly inside of what is removed, without text."""
        text = piece.texts[0]
        tokens = text.split()
        if not tokens:
            return []
        first, last = piece.start / RATE, piece.stop / RATE
        inside = [span for span in self.spans if span[1] > first and span[0] < last]
        times = token_times(channel.read(piece.start, piece.stop), text, self._recognizer)
        if times is None:
            if inside:
                return [Word(None, first, last)]
            step = (last - first) / len(tokens)
            times = [(number * step, (number + 1) * step) for number in range(len(tokens))]
        words, end = [], first
        for token, time in zip(tokens, times, strict=True):
            start, end = (end, end) if time is None else (first + time[0], first + time[1])
            middle = (start + end) / 2
            words.append(Word(None if any(a <= middle <= b for a, b in inside) else token, start, end))
        return _without(words, self._detector.find)


def _without(words: Sequence[Word], find: Callable[[str], list[Finding]]) -> list[Word]:
    """Return the words without the text of those that are found, until nothing is found any more."""
    result = list(words)
    while True:
        left = [number for number, word in enumerate(result) if word.text is not None]
        found = find(" ".join(result[number].text or "" for number in left))
        if not found:
            return result
        for finding in found:
            for number in left[finding.first : finding.last + 1]:
                result[number] = result[number]._replace(text=None)
