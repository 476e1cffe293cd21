"""Find words that identify people in a transcript: words of a list, numbers and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from voiceveil.systems.redaction.names import find_names
from voiceveil.systems.redaction.numbers import find_numbers
from voiceveil.systems.redaction.spans import Kind
from voiceveil.systems.redaction.word_list import WordList
from voiceveil.systems.redaction.words import folded

__all__ = ["Detector", "Finding"]

_FEWEST_LETTERS = 3  # of a name that is looked for elsewhere in the recording


class Finding(NamedTuple):
    """Tokens ``first`` to ``last`` of a transcript, and what they are."""

    kind: Kind
    first: int
    last: int


@dataclass(frozen=True)
class Detector:
    """Finds what identifies in transcripts.

    Parameters
    ----------
    words
        The user's list; empty: none.
    names
        Folder of a spaCy pipeline; None: names are not looked for.
    numbers
        "some": those that identify, "all", or None.
    known_names
        Names that were found elsewhere in the recording: they are found wherever they are written or sound alike.
    """

    words: WordList = field(default_factory=WordList)
    names: Path | None = None
    numbers: Literal["some", "all"] | None = None
    known_names: WordList = field(default_factory=WordList)

    def find(self, text: str, *, new_names: bool = True) -> list[Finding]:
        """Return what identifies in a transcript, sorted; ``new_names``: not only names that are known."""
        found: list[Finding] = []
        if self.words.entries:
            found += [Finding("words", *place) for place in self.words.find(text)]
        if self.numbers is not None:
            found += [Finding("numbers", *place) for place in find_numbers(text, all_numbers=self.numbers == "all")]
        if self.names is not None:
            places = find_names(text, self.names) if new_names else []
            found += [Finding("names", *place) for place in dict.fromkeys([*places, *self.known_names.find(text)])]
        return _largest(found)

    def knowing(self, texts: Sequence[str], findings: Sequence[Sequence[Finding]]) -> Detector:
        """Return a detector that also knows the names among the findings in the texts.

        Each word of a name is a name, unless it also occurs in small letters: "Square" is then no name.
        """
        names: list[str] = []
        common = {folded(token) for text in texts for token in text.split() if token == token.lower()} | _COMMON
        for text, found in zip(texts, findings, strict=True):
            tokens = text.split()
            for finding in found:
                if finding.kind == "names":
                    parts = [folded(token).removesuffix("'s") for token in tokens[finding.first : finding.last + 1]]
                    names += [part for part in parts if part not in common and _is_name(part)]
        return Detector(self.words, self.names, self.numbers, self.known_names.with_entries(names))


def _largest(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings, sorted, without those inside of another."""
    kept: list[Finding] = []
    for finding in sorted(found, key=lambda finding: (finding.first, -finding.last)):
        if not kept or finding.last > kept[-1].last:
            kept.append(finding)
    return kept


def _is_name(word: str) -> bool:
    """Return whether a word of a name is looked for elsewhere: not "de", nor a number."""
    return len(word) >= _FEWEST_LETTERS and not any(letter.isdecimal() for letter in word)


#: Words that are parts of many names and identify nobody.
_COMMON = frozenset(
    """
    the and for von van der den del san new north south east west great old saint street road avenue lane square place
    park bridge hill river lake mount mountain island islands sea bay city town county church cathedral school college
    university hospital bank company house hall court king queen prince princess duke lord lady sir mister missus miss
    doctor captain colonel general father mother uncle aunt state states united kingdom union
    """.split()  # noqa: SIM905
)
