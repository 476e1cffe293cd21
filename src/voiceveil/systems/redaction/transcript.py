"""Transcripts of what is left of a recording, as text, SubRip (.srt) or WebVTT (.vtt).

Conventions: times in seconds of the output, which is in sync with the recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

__all__ = ["FORMATS", "REDACTED", "Format", "Word", "write_transcript"]

Format = Literal["txt", "srt", "vtt"]
FORMATS: tuple[Format, ...] = ("txt", "srt", "vtt")
#: Stands for words that were removed.
REDACTED = "[redacted]"
_LONGEST, _WIDEST, _PAUSE = 6.0, 80, 0.8  # seconds and characters of a subtitle, and seconds of a pause that ends it


class Word(NamedTuple):
    """A word of a transcript and its times; None: it was removed."""

    text: str | None
    start: float
    end: float


def write_transcript(lines: Sequence[Sequence[Word]], format: Format) -> str:
    """Return a transcript; ``lines``: the words of each piece of the recording."""
    if format == "txt":
        texts = (" ".join(word.text or REDACTED for word in joined(line)) for line in lines)
        return "".join(f"{text}\n" for text in texts if text)
    cues = [cue for line in lines for cue in _cues(joined(line))]
    if format == "vtt":
        return "WEBVTT\n\n" + "".join(
            f"{_clock(a, '.')} --> {_clock(b, '.')}\n{_escaped(text)}\n\n" for a, b, text in cues
        )
    return "".join(
        f"{number}\n{_clock(a, ',')} --> {_clock(b, ',')}\n{text}\n\n" for number, (a, b, text) in enumerate(cues, 1)
    )


def joined(words: Sequence[Word]) -> list[Word]:
    """Return the words with one mark for each stretch that was removed."""
    result: list[Word] = []
    for word in words:
        if word.text is None and result and result[-1].text is None:
            result[-1] = result[-1]._replace(end=word.end)
        else:
            result.append(word)
    return result


def _cues(words: Sequence[Word]) -> Iterator[tuple[float, float, str]]:
    """Yield subtitles (start, end, text)."""
    cue: list[Word] = []
    for word in words:
        text = " ".join(entry.text or REDACTED for entry in [*cue, word])
        if cue and (word.end - cue[0].start > _LONGEST or len(text) > _WIDEST or word.start - cue[-1].end > _PAUSE):
            yield cue[0].start, cue[-1].end, " ".join(entry.text or REDACTED for entry in cue)
            cue = []
        cue.append(word)
    if cue:
        yield cue[0].start, cue[-1].end, " ".join(entry.text or REDACTED for entry in cue)


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(max(0.0, seconds) * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
