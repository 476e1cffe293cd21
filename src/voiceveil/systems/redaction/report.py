"""Reports of redaction: what was removed, without the words, and sums for the summary of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from voiceveil.core.terminal import clock
from voiceveil.systems.redaction.spans import KINDS, Redacted, Replacement, union

__all__ = ["RedactionReport", "RedactionTotals"]


@dataclass(frozen=True)
class RedactionReport:
    """Report of one recording.

    ``spans``: what was removed, with the words; ``transcript``: what is left, in the format that was asked for, None if
    none was; ``conversions``: how often the recording was anonymized until nothing was recognized any more.
    """

    spans: tuple[Redacted, ...] = field(repr=False)
    replacement: Replacement
    conversions: int
    transcript: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class RedactionTotals:
    """Sums over recordings: words removed by kind, their seconds, and phrases that were removed whole, by reason."""

    recordings: int = 0
    words: int = 0
    names: int = 0
    numbers: int = 0
    seconds: float = 0.0
    not_located: int = 0
    still_heard: int = 0
    replacement: str = ""

    def plus(self, report: RedactionReport | None) -> RedactionTotals:
        """Return the sums with one more recording."""
        if report is None:
            return self
        return RedactionTotals(
            self.recordings + 1,
            words=self.words + _count(report.spans, kind="words"),
            names=self.names + _count(report.spans, kind="names"),
            numbers=self.numbers + _count(report.spans, kind="numbers"),
            seconds=self.seconds + sum(end - start for start, end in union(report.spans)),
            not_located=self.not_located + _count(report.spans, reason="not located"),
            still_heard=self.still_heard + _count(report.spans, reason="still heard"),
            replacement=report.replacement,
        )

    def lines(self) -> list[str]:
        """Return sentences for the summary of a run; none if nothing was to be redacted."""
        if not self.recordings:
            return []
        counts = [f"{getattr(self, kind)} {title}" for kind, title in KINDS.items() if getattr(self, kind)]
        if not counts:
            return ["redacted: nothing was found that was to be removed; listen to it, as recognizers miss words"]
        lines = [f"redacted: {', '.join(counts)}; {_length(self.seconds)} replaced by {_article(self.replacement)}"]
        if self.not_located:
            lines.append(f"{self.not_located} of them could not be located exactly: the phrase around each was removed")
        if self.still_heard:
            lines.append(
                f"{self.still_heard} phrase(s) were removed whole: a word was still recognized after redaction"
            )
        return [
            *lines,
            "the result was transcribed again, and none of the words was recognized; listen to it all the same",
        ]


def _count(spans: Sequence[Redacted], *, kind: str | None = None, reason: str | None = None) -> int:
    return sum(span.kind == kind if kind is not None else span.reason == reason for span in spans)


def _article(replacement: str) -> str:
    return "a tone" if replacement == "tone" else replacement


def _length(seconds: float) -> str:
    """Return a length as "12.3 s", or h:mm:ss from a minute on."""
    return f"{seconds:.1f} s" if seconds < 60 else clock(seconds)
