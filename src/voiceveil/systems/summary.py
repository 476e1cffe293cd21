"""The summary of a run, for people: counts, failures, and what they should know about the result."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path

from voiceveil.core.terminal import clock, escaped
from voiceveil.systems.conversation.report import ConversationTotals
from voiceveil.systems.redaction.report import RedactionTotals
from voiceveil.systems.release import Published

__all__ = ["Failure", "Summary"]


@dataclass(frozen=True)
class Failure:
    """An utterance that could not be anonymized, and why."""

    id: str
    error: str


@dataclass(frozen=True)
class Summary:
    """Counts of a run: new items, items that were done before, failures, seconds of audio and of the clock.

    ``input_seconds``, ``audio_seconds``: length of the new items before and after; ``mixed_down``: how many had several
    channels; ``narrowed``: how many had frequencies above ``bandwidth`` (Hz); ``tracks_left_out``:
    further audio tracks of theirs; ``videos``: how many have a picture, which is copied. ``left_over``: ids in the
    output, from an earlier run, that the input does not have any more. ``conversations``: who was hidden and who was
    kept where several people speak; ``turns``: the file that says who speaks when, for a single one. ``redaction``:
    words that were removed, by kind; ``transcript``, ``redactions``: files that were asked for.
    ``published``: the release, if one was asked for and there was something to publish. ``print`` shows all of it.
    """

    output: Path
    done: int
    audio_seconds: float
    seconds: float
    already_done: int = 0
    failures: tuple[Failure, ...] = ()
    left_over: tuple[str, ...] = ()
    input_seconds: float = 0.0
    mixed_down: int = 0
    narrowed: int = 0
    bandwidth: float = 0.0
    tracks_left_out: int = 0
    videos: int = 0
    conversations: ConversationTotals = field(default_factory=ConversationTotals)
    turns: Path | None = None
    redaction: RedactionTotals = field(default_factory=RedactionTotals)
    transcript: Path | None = None
    redactions: Path | None = None
    published: Published | None = None

    def __str__(self) -> str:
        lines = []
        if self.left_over:
            lines.append(
                f"{len(self.left_over)} file(s) of an earlier run are in the output, but not in the input any more, "
                f"e.g. {self.left_over[0]}"
            )
        if self.mixed_down:
            lines.append(f"{self.mixed_down} recording(s) with several channels: these were mixed down to one voice")
        if self.narrowed:
            kilohertz = f"{self.bandwidth / 1000:g} kHz"
            lines.append(f"{self.narrowed} recording(s) could hold frequencies above {kilohertz}: new voices lack them")
        if self.tracks_left_out:
            lines.append(f"{self.tracks_left_out} further audio track(s) were left out: one is anonymized in each file")
        if self.videos:
            lines.append(f"{self.videos} video(s): the picture is copied as it is, faces and places included")
        lines += [*self.conversations.lines(), *self.redaction.lines()]
        if self.done:
            lines.append(f"length: {self.change_of_length}")
        lines += [f"failed: {failure.id}: {failure.error}" for failure in self.failures]
        before = f", {self.already_done} done before" if self.already_done else ""
        failed = f", {len(self.failures)} FAILED" if self.failures else ""
        speed = self.audio_seconds / self.seconds if self.seconds else 0.0
        lines.append(
            f"{self.done} anonymized{before}{failed}: {clock(self.audio_seconds)} of audio "
            f"in {clock(self.seconds)} ({speed:.0f}x real time)"
        )
        lines.append(f"output: {self.output}")
        files = {
            "who speaks when": self.turns,
            "transcript of what is left": self.transcript,
            "what was removed (private)": self.redactions,
        }
        lines += [f"{title}: {path}" for title, path in files.items() if path is not None]
        return "\n".join(map(escaped, lines))

    @property
    def change_of_length(self) -> str:
        """Return the durations of the new items before and after, in words: "3:01 became 2:32"."""
        before, after = (_minutes(seconds) for seconds in (self.input_seconds, self.audio_seconds))
        return f"{before}, as before" if self.keeps_length else f"{before} became {after}"

    @property
    def keeps_length(self) -> bool:
        """Return whether the new items are as long as their recordings, to a tenth of a second on average."""
        return abs(self.input_seconds - self.audio_seconds) <= 0.1 * self.done

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _minutes(seconds: float) -> str:
    """Return a length as m:ss, or h:mm:ss from an hour on."""
    text = clock(seconds).removeprefix("0:")
    return text.removeprefix("0") if len(text) == 5 else text
