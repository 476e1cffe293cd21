"""The summary of a run: what was anonymized, what failed, and how long it took."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

from voiceveil.core.terminal import clock, escaped
from voiceveil.systems.release import Published

__all__ = ["Failure", "Summary"]


@dataclass(frozen=True)
class Failure:
    """An utterance that could not be anonymized, and why."""

    id: str
    error: str


@dataclass(frozen=True)
class Summary:
    """Counts of a run: new items, items that were done before, failures, seconds of output audio and of the clock.

    ``left_over``: ids in the output, from an earlier run, that the input does not have any more. ``published``: the
    release, if one was asked for and there was something to publish. ``print`` shows all of it.
    """

    output: Path
    done: int
    already_done: int
    failures: tuple[Failure, ...]
    left_over: tuple[str, ...]
    mixed_down: int
    audio_seconds: float
    seconds: float
    published: Published | None = None

    def __str__(self) -> str:
        lines = []
        if self.left_over:
            lines.append(
                f"{len(self.left_over)} file(s) of an earlier run are in the output, but not in the input any more, "
                f"e.g. {self.left_over[0]}"
            )
        if self.mixed_down:
            lines.append(f"{self.mixed_down} recording(s) with several channels were mixed down to one")
        lines += [f"failed: {failure.id}: {failure.error}" for failure in self.failures]
        before = f", {self.already_done} done before" if self.already_done else ""
        failed = f", {len(self.failures)} FAILED" if self.failures else ""
        speed = self.audio_seconds / self.seconds if self.seconds else 0.0
        lines.append(
            f"{self.done} anonymized{before}{failed}: {clock(self.audio_seconds)} of audio "
            f"in {clock(self.seconds)} ({speed:.0f}x real time)"
        )
        return "\n".join(map(escaped, [*lines, f"output: {self.output}"]))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
