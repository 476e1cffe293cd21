"""Words and phrases to remove: a list of the user's, matched in transcripts by spelling and by sound.

Recognizers misspell names, and write one that they do not know as words that they know ("Cher no wits"). An entry of
the list therefore matches any sequence of words that is written alike, with or without spaces, as a possessive or a
plural, or that sounds alike: the edit distance of the phones, divided by the number of phones of the entry, is at most
:data:`SOUND_DISTANCE`. Phones of a kind (two vowels, "p" and "b") count half.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text
from voiceveil.models.asr.pronunciation import known_pronunciations
from voiceveil.systems.redaction.words import folded, spoken_words

__all__ = ["SOUND_DISTANCE", "WordList", "read_words"]

#: Largest distance of sounds, in edits for each phone of the entry; ``benchmarks/redaction.py`` measures it.
SOUND_DISTANCE = 0.3
_FEWEST_PHONES = 3  # of an entry that is matched by sound: shorter ones sound like too much else
_EXACT_PHONES = 3  # entries of no more phones must sound the same
_LARGEST = 1 << 20  # bytes of a file
_MOST_ENTRIES, _LONGEST = 5000, 100  # entries, characters of one
_MORE_WORDS = 2  # words that an entry may become in a transcript, in addition to its own
_MOST_WAYS = 8  # pronunciations of a phrase
_ENDINGS = ("", "s", "es", "'s", "s'")

_CLASSES = ("AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW", "B P", "D T DH TH", "G K", "V F", "Z S SH ZH CH JH",
            "M N NG", "L R W Y", "HH")  # fmt: skip
_NUMBERS = {phone: number for number, phone in enumerate(" ".join(_CLASSES).split())}
_GROUPS = np.array([group for group, phones in enumerate(_CLASSES) for _ in phones.split()], dtype=np.int64)
Phones = NDArray[np.int64]


def read_words(path: str | Path) -> tuple[str, ...]:
    """Read a list of words and phrases: one in a line, in UTF-8; empty lines and lines that begin with # do not count.

    Raises
    ------
    InputError
        If the file cannot be read, is not text, or has no entry, too many, or one that cannot be spoken. The message
        names the line, not its content.
    """
    lines = read_text(path, at_most=_LARGEST).splitlines()
    entries = []
    for number, line in enumerate(lines, 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        problem = entry_problem(entry)
        if problem:
            raise InputError(problem, where=path, line=number, fix="write one word or phrase in each line")
        entries.append(entry)
    if not entries:
        raise InputError("there is no word in this list", where=path, fix="write one word or phrase in each line")
    if len(entries) > _MOST_ENTRIES:
        raise InputError(f"{len(entries)} words are too many", where=path, fix=f"give at most {_MOST_ENTRIES}")
    return tuple(dict.fromkeys(entries))


def _without_possessive(entry: str) -> str:
    return re.sub(r"['\N{RIGHT SINGLE QUOTATION MARK}]s$", "", entry, flags=re.IGNORECASE)


def entry_problem(entry: str) -> str:
    """Return what is wrong with an entry, without repeating it; "" if nothing is."""
    if len(entry) > _LONGEST:
        return f"an entry of {len(entry)} characters is longer than {_LONGEST}"
    if any(not letter.isprintable() for letter in entry):
        return "an entry has control characters"
    if not any(spoken_words(token) for token in entry.split()):
        return "an entry has no letter of the Latin alphabet and no digit"
    return ""


@dataclass(frozen=True)
class WordList:
    """Words and phrases to find in transcripts."""

    entries: tuple[str, ...] = ()
    sound_distance: float = SOUND_DISTANCE

    def with_entries(self, entries: Iterable[str]) -> WordList:
        """Return the list with further entries."""
        return WordList(tuple(dict.fromkeys((*self.entries, *entries))), self.sound_distance)

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return the places of entries in a transcript, as (first, last) token."""
        tokens = text.split()
        written = [folded(token).replace("-", "") for token in tokens]
        spoken = [tuple(spoken_words(token)) for token in tokens]
        longest = max(max((size for _, size in group), default=0) for group in (self._spellings, self._spoken))
        found = []
        for first in range(len(tokens)):
            for last in range(first, min(len(tokens), first + longest + _MORE_WORDS)):
                if not (spoken[first] and spoken[last]):
                    continue
                if self._is_written("".join(written[first : last + 1])) or self._sounds(spoken[first : last + 1]):
                    found.append((first, last))
        return _shortest(found)

    @cached_property
    def _spellings(self) -> set[tuple[str, int]]:
        """Return the letters of each entry without blanks, and its number of words."""
        return {
            ("".join(folded(token).replace("-", "") for token in entry.split()), len(entry.split()))
            for entry in map(_without_possessive, self.entries)
        }

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(letters + ending for letters, _ in self._spellings for ending in _ENDINGS)

    def _is_written(self, letters: str) -> bool:
        return letters in self._written

    @cached_property
    def _spoken(self) -> set[tuple[tuple[str, ...], int]]:
        """Return the spoken words of each entry and their number; digits also one by one."""
        entries = list(map(_without_possessive, self.entries))
        texts = {*entries, *(re.sub(r"(?<=\d)(?=\d)", " ", entry) for entry in entries)}
        words = {tuple(word for token in text.split() for word in spoken_words(token)) for text in texts}
        return {(entry, len(entry)) for entry in words}

    @cached_property
    def _sounded(self) -> list[tuple[int, Phones]]:
        """Return number of words and phones of each entry and pronunciation that is matched by sound."""
        return [
            (count, phones)
            for words, count in sorted(self._spoken)
            for phones in phones_of(words)
            if len(phones) >= _FEWEST_PHONES
        ]

    def _sounds(self, tokens: Sequence[tuple[str, ...]]) -> bool:
        words = tuple(word for token in tokens for word in token)
        words = (*words[:-1], words[-1].removesuffix("'s"))  # a possessive
        ways = phones_of(words)
        for count, entry in self._sounded:
            if len(words) > count + _MORE_WORDS:
                continue
            most = self.sound_distance * len(entry) if len(entry) > _EXACT_PHONES else 0.0
            for phones in ways:
                if abs(len(phones) - len(entry)) <= most and sound_distance(phones, entry, _GROUPS) <= most:
                    return True
        return False


def _shortest(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the places without those that contain another, which are matched with a word too many."""
    return [
        (first, last)
        for first, last in found
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in found)
    ]


@lru_cache(maxsize=100_000)
def phones_of(words: tuple[str, ...]) -> tuple[Phones, ...]:
    """Return the pronunciations of spoken words, as numbers of phones, a few at most."""
    ways = [known_pronunciations(re.sub(r"[^a-z']", "", word))[:3] for word in words]
    result = []
    for combination in product(*ways):
        phones = [_NUMBERS[phone] for way in combination for phone in way if phone in _NUMBERS]
        result.append(np.array(phones, dtype=np.int64))
        if len(result) == _MOST_WAYS:
            break
    return tuple(result)


@njit(cache=True)
def sound_distance(first: Phones, second: Phones, groups: Phones) -> float:
    """Return the edit distance of two sequences of phones; to replace a phone by one of its group costs a half."""
    before = np.arange(len(second) + 1).astype(np.float64)
    row = np.empty(len(second) + 1, dtype=np.float64)
    for i in range(len(first)):
        row[0] = i + 1.0
        for j in range(len(second)):
            cost = 0.0 if first[i] == second[j] else 0.5 if groups[first[i]] == groups[second[j]] else 1.0
            row[j + 1] = min(before[j] + cost, before[j + 1] + 1.0, row[j] + 1.0)
        before[:] = row
    return float(before[-1])
