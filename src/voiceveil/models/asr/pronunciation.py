"""Pronunciations of words that the dictionary of PocketSphinx lacks, from the spelling of those that it has.

Every letter of a word is pronounced as no, one or two phones. Which letters of the dictionary's words are pronounced as
which phones is estimated by Viterbi training on a part of it; a letter of a new word then gets the pronunciation that
is most frequent among the dictionary's letters with the same neighbors, of which as many are compared as have been
seen. It is good enough to find a name in a recording, not to teach its pronunciation.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from functools import lru_cache

from voiceveil.models.asr.pocketsphinx import model_folder

__all__ = ["in_dictionary", "known_pronunciations", "pronunciations"]

Phones = tuple[str, ...]
#: A part of the dictionary: every so many-th word, and iterations of the training.
_EVERY, _ITERATIONS = 12, 3
#: Letters compared on either side, the widest context first.
_CONTEXTS = ((3, 3), (2, 3), (3, 2), (2, 2), (1, 2), (2, 1), (1, 1), (0, 1), (1, 0), (0, 0))
_LONGEST = 2  # phones of a letter


def pronunciations(word: str) -> list[Phones]:
    """Return one or two probable pronunciations of a word of letters ``a`` to ``z`` and apostrophes."""
    table = _table()
    best: list[str] = []
    second: list[str] = []
    changed = False
    for position in range(len(word)):
        ranked = next((table[key] for key in _keys(word, position) if key in table), [()])
        best += ranked[0]
        # the second pronunciation differs in the first vowel whose pronunciation is uncertain
        if not changed and word[position] in "aeiouy" and len(ranked) > 1:
            second += ranked[1]
            changed = True
        else:
            second += ranked[0]
    found = dict.fromkeys(tuple(phones) for phones in (best, second) if phones)
    return list(found) or [("AH",)]


def known_pronunciations(word: str) -> list[Phones]:
    """Return the pronunciations of a word in the dictionary, or else the probable ones of :func:`pronunciations`."""
    return [tuple(phones.split()) for phones in _dictionary().get(word, ())] or pronunciations(word)


def in_dictionary(word: str) -> bool:
    """Return whether the dictionary has a word, in lower case."""
    return word in _dictionary()


@lru_cache(maxsize=1)
def _dictionary() -> dict[str, list[str]]:
    """Return word -> its pronunciations, the phones of each separated by blanks."""
    entries: dict[str, list[str]] = {}
    for line in (model_folder() / "cmudict-en-us.dict").read_text(encoding="utf-8").splitlines():
        word, _, phones = line.partition(" ")
        entries.setdefault(re.sub(r"\(\d+\)$", "", word), []).append(phones)
    return entries


def _keys(word: str, position: int) -> list[tuple[int, int, str]]:
    """Return the contexts of a letter, the widest first; ``#`` is the edge of the word."""
    padded = "###" + word + "###"
    middle = position + 3
    return [(left, right, padded[middle - left : middle + right + 1]) for left, right in _CONTEXTS]


@lru_cache(maxsize=1)
def _table() -> dict[tuple[int, int, str], list[Phones]]:
    """Return the pronunciations of a letter in a context, the most frequent first."""
    counts: defaultdict[tuple[int, int, str], Counter[Phones]] = defaultdict(Counter)
    for word, chunks in _aligned_dictionary():
        for position, chunk in enumerate(chunks):
            for key in _keys(word, position):
                counts[key][chunk] += 1
    return {key: [chunk for chunk, _ in counter.most_common(2)] for key, counter in counts.items()}


def _aligned_dictionary() -> list[tuple[str, list[Phones]]]:
    """Return words of the dictionary with the phones of each letter."""
    text = (model_folder() / "cmudict-en-us.dict").read_text(encoding="utf-8")
    entries = [line.split() for line in text.splitlines()]
    words = [(word, phones) for word, *phones in entries if re.fullmatch(r"[a-z']+", word)][::_EVERY]
    scores: dict[tuple[str, Phones], float] = {}
    aligned: list[tuple[str, list[Phones]]] = []
    for _ in range(_ITERATIONS):
        aligned = [
            (word, chunks) for word, phones in words if (chunks := best_chunks(word, phones, scores)) is not None
        ]
        counts = Counter(
            (letter, chunk) for word, chunks in aligned for letter, chunk in zip(word, chunks, strict=True)
        )
        letters = Counter(letter for word, _ in aligned for letter in word)
        scores = {pair: math.log(count / letters[pair[0]]) for pair, count in counts.items()}
    return aligned


def best_chunks(word: str, phones: list[str], scores: dict[tuple[str, Phones], float]) -> list[Phones] | None:
    """Return the phones of each letter on the most probable path; None if the word has too many phones.

    Parameters
    ----------
    word
        The word.
    phones
        Its pronunciation.
    scores
        Log probability of the phones of a letter; those that are missing are improbable, longer ones more so.
    """
    scored = {0: 0.0}  # number of phones that are spoken -> log probability of the best path
    steps: list[dict[int, int]] = []  # for each letter: number of phones after it -> number before it
    for number, letter in enumerate(word, 1):
        reached: dict[int, float] = {}
        origins: dict[int, int] = {}
        least = len(phones) - _LONGEST * (len(word) - number)  # fewer could not be completed
        for start, score in scored.items():
            for end in range(max(start, least), min(start + _LONGEST, len(phones)) + 1):
                total = score + scores.get((letter, tuple(phones[start:end])), -8.0 - 4.0 * abs(end - start - 1))
                if end not in reached or total > reached[end]:
                    reached[end], origins[end] = total, start
        scored = reached
        steps.append(origins)
    if len(phones) not in scored:
        return None
    end, chunks = len(phones), []
    for origins in reversed(steps):
        chunks.append(tuple(phones[origins[end] : end]))
        end = origins[end]
    return chunks[::-1]
