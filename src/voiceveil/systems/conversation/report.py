"""Reports of converted conversations: turns with neutral names, and sums for the summary of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voiceveil.core.terminal import clock
from voiceveil.corpus.turns import Turn, write_rttm

__all__ = ["ConversationReport", "ConversationTotals"]


@dataclass(frozen=True)
class ConversationReport:
    """Report of one converted recording.

    ``turns``: who speaks when, with neutral names; ``hidden``: those who were hidden; ``channels``: speaker -> channel,
    where each has one; ``speech``, ``overlap``, ``copied``: seconds in which somebody speaks, several do, and that were
    copied; ``similarity``: largest cosine between two voices of the result, None if it was not measured.
    """

    turns: tuple[Turn, ...]
    hidden: frozenset[str]
    channels: dict[str, int]
    speech: float
    overlap: float
    copied: float
    similarity: float | None

    def write(self, path: Path, recording: str) -> None:
        """Write the turns as RTTM; the seventh field says who was hidden and who was kept."""
        kinds = {turn.speaker: "hidden" if turn.speaker in self.hidden else "kept" for turn in self.turns}
        write_rttm(path, self.turns, recording, kinds=kinds, channels=self.channels)


@dataclass(frozen=True)
class ConversationTotals:
    """Sums over recordings; ``similarity`` is the largest, None if none was measured."""

    recordings: int = 0
    speakers: int = 0
    hidden: int = 0
    speech: float = 0.0
    overlap: float = 0.0
    copied: float = 0.0
    similarity: float | None = None

    def plus(self, report: ConversationReport | None) -> ConversationTotals:
        """Return the sums with one more recording."""
        if report is None:
            return self
        known = [value for value in (self.similarity, report.similarity) if value is not None]
        return ConversationTotals(
            self.recordings + 1,
            self.speakers + len({turn.speaker for turn in report.turns}),
            self.hidden + len(report.hidden),
            self.speech + report.speech,
            self.overlap + report.overlap,
            self.copied + report.copied,
            max(known, default=None),
        )

    def lines(self) -> list[str]:
        """Return sentences for the summary of a run; none if there was no conversation."""
        if not self.recordings:
            return []
        who = f"{self.speakers} speaker(s), {self.hidden} hidden"
        kept = f", {self.speakers - self.hidden} kept: {_length(self.copied)} copied as it was" if self.copied else ""
        share = f" ({self.overlap / self.speech:.0%} of the speech)" if self.overlap and self.speech else ""
        overlap = f"overlapping speech: {_length(self.overlap)}{share}"
        if self.overlap:
            overlap += ", spoken in the new voice of the louder; not copied where somebody hidden takes part"
        lines = [who + kept, overlap]
        if self.similarity is not None:
            lines.append(f"similarity of two voices in the result: at most {self.similarity:.2f} (cosine, CAM++)")
        return lines


def _length(seconds: float) -> str:
    """Return a length as "12.3 s", or h:mm:ss from a minute on."""
    return f"{seconds:.1f} s" if seconds < 60 else clock(seconds)
