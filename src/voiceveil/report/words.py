"""Words that a speech recognizer gets right in the original speech and wrong in the anonymized speech.

Conventions: a word is lost when it is deleted or recognized as another word; shares are of its occurrences in the
references, with a Wilson interval that takes the occurrences as independent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from voiceveil.evaluation.details import UtteranceRecord
from voiceveil.metrics import word_errors
from voiceveil.stats import Estimate, wilson

__all__ = ["LostWord", "lost_words"]


@dataclass(frozen=True)
class LostWord:
    """Counts of a word: occurrences, losses, and what was recognized instead most often ("" for nothing)."""

    word: str
    occurrences: int
    lost_original: int
    lost_anonymized: int
    share: Estimate  # lost in the anonymized speech
    instead: tuple[tuple[str, int], ...]

    @property
    def extra(self) -> int:
        """Losses in the anonymized speech minus those in the original speech."""
        return self.lost_anonymized - self.lost_original


def lost_words(rows: Iterable[UtteranceRecord]) -> list[LostWord]:
    """Return all words of the recognized utterances, those first that lose most by the anonymization."""
    recognized = [row for row in rows if row.text("reference")]
    if not recognized:
        return []
    occurrences: Counter[str] = Counter()
    lost: list[Counter[str]] = [Counter(), Counter()]
    instead: defaultdict[str, Counter[str]] = defaultdict(Counter)
    references = [row.text("reference") for row in recognized]
    sides = [[row.text(f"heard_{side}") for row in recognized] for side in ("original", "anonymized")]
    for side, hypotheses in enumerate(sides):
        for alignment in word_errors(references, hypotheses).alignments:
            for edit in alignment:
                if edit.ref is None:
                    continue
                occurrences[edit.ref] += side  # once, with the second side
                if edit.operation != "hit":
                    lost[side][edit.ref] += 1
                    if side == 1:
                        instead[edit.ref][edit.hyp or ""] += 1
    words = [
        LostWord(w, n, lost[0][w], lost[1][w], wilson(lost[1][w], n), tuple(instead[w].most_common(3)))
        for w, n in occurrences.items()
    ]
    return sorted(words, key=lambda word: (-word.extra, -word.share.value, word.word))
