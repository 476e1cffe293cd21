"""The ten phrases of the TdSV Challenge 2024, in words and in phonemes (evaluation plan, Tables 1 and 2).

Conventions: a phrase has the id that the challenge's lists use, "01" to "10". Phonemes are ARPAbet for English; for
Persian A, E, O are the short vowels, AA, I, U the long ones, and AH the glottal stop. The published Table 2 came apart
into single letters ("A A", "S H"); they are joined again here, which the Persian spelling decides where it must.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

__all__ = ["FREE_TEXT", "PERSIAN_VOWELS", "Phrase", "language_of", "phrases"]

#: What stands for a phrase where anything may be said.
FREE_TEXT = "FT"

#: The six vowels of Persian and the English ones that are nearest to them (section 2.4).
PERSIAN_VOWELS = {"A": "AE", "E": "EH", "O": "AO", "AA": "AA", "I": "IY", "U": "UW"}


@dataclass(frozen=True)
class Phrase:
    """One phrase: its ``language`` (English or Persian), ``text``, and the phonemes of each word."""

    id: str
    language: str
    text: str
    words: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=1)
def phrases() -> dict[str, Phrase]:
    """Return phrase id -> phrase, in the order of the tables.

    >>> phrases()["07"].words
    (('OW', 'K', 'EY'), ('G', 'UW', 'G', 'AH', 'L'))
    """
    table = (files("voiceveil.tdsv") / "phrases.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines())
    return {
        key: Phrase(key, language, text, tuple(tuple(word.split()) for word in phonemes.split(" - ")))
        for key, language, text, phonemes in rows
    }


def language_of(phrase: str) -> str | None:
    """Return the language of a phrase of the challenge; None for any other phrase."""
    known = phrases().get(phrase)
    return None if known is None else known.language
