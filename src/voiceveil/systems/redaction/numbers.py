"""Numbers in a transcript that identify: telephone and account numbers, dates, years, house numbers.

A *run* is a sequence of number words and digits ("five five five one two", "nineteen eighty four", "90210"). A run
identifies if

* it has at least four digits, whether spoken one by one or written (a telephone or account number, a year);
* it is spoken as a year ("nineteen eighty four", "two thousand and four");
* the name of a month is beside it ("May third", "the third of May");
* it is the number of a house ("twelve Baker Street").

Short counts ("two children", "three hundred") stay unless all numbers are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from voiceveil.systems.redaction.words import folded

__all__ = ["find_numbers"]

_DIGITS = frozenset("zero one two three four five six seven eight nine".split())  # noqa: SIM905
_LETTER_O = frozenset(("oh", "o"))  # zero, within a number
_TEENS = frozenset(
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()  # noqa: SIM905
)
_TENS = frozenset("twenty thirty forty fourty fifty sixty seventy eighty ninety".split())  # noqa: SIM905
_POWERS = frozenset("hundred thousand million billion hundreds thousands millions".split())  # noqa: SIM905
_ORDINALS = frozenset(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "  # noqa: SIM905
    "sixteenth seventeenth eighteenth nineteenth twentieth thirtieth".split()
)
_REPEATED = frozenset(("double", "triple"))
_INSIDE = frozenset(("and", "point", "dash", "hyphen"))  # within a number, never at its ends
_MONTHS = frozenset(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug "  # noqa: SIM905
    "sept sep oct nov dec".split()
)
_STREETS = frozenset(("street", "road", "avenue", "lane", "boulevard", "crescent"))
_WRITTEN = re.compile(r"\d[\d,.:]*(?:st|nd|rd|th)?s?")
_AMOUNT = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DAY = re.compile(r"(?:[12]?\d|3[01])(?:st|nd|rd|th)?")
_LONG = 4  # digits of a number that identifies
_NEAR = 3  # words behind a number in which "street" is looked for
_SMALL = frozenset(("in", "the", "of", "on", "a", "to", "and"))

_Word = tuple[int, str]  # token, word


def find_numbers(text: str, *, all_numbers: bool = False) -> list[tuple[int, int]]:
    """Return the numbers that identify, as (first, last) token.

    Parameters
    ----------
    text
        Transcript.
    all_numbers
        Return all numbers; a single "one", which is mostly no number, and a single "second" are still left out.

    Examples
    --------
    >>> find_numbers("Call five five five one two on May third, not two times")
    [(1, 5), (7, 8)]
    """
    words = [(token, part) for token, written in enumerate(text.split()) for part in folded(written).split("-") if part]
    found = []
    for start, stop in _runs(words):
        first, last = _with_month(words, start, stop)
        dated = (first, last) != (start, stop)
        run = [word for _, word in words[start:stop]]
        if (
            (all_numbers and run not in (["one"], ["second"]))
            or dated
            or _is_long(run)
            or _is_year(run)
            or _is_house(words, stop)
        ):
            found.append((words[first][0], words[last - 1][0]))
    return _joined(found)


def _runs(words: Sequence[_Word]) -> list[tuple[int, int]]:
    """Return the runs as ranges of ``words``."""
    runs = []
    for inside, group in groupby(range(len(words)), key=lambda place: _kind(words[place][1]) is not None):
        places = list(group)
        while inside and places and words[places[0]][1] in _INSIDE:
            places.pop(0)
        while inside and places and words[places[-1]][1] in _INSIDE:
            places.pop()
        if inside and any(_kind(words[place][1]) == "number" for place in places):
            runs.append((places[0], places[-1] + 1))
    return runs


def _kind(word: str) -> str | None:
    """Return "number" for a word of a number, "inside" for one that occurs within one, None for others."""
    if word in _DIGITS | _TEENS | _TENS | _POWERS | _ORDINALS or _WRITTEN.fullmatch(word):
        return "number"
    return "inside" if word in _LETTER_O | _INSIDE | _REPEATED else None


def _with_month(words: Sequence[_Word], start: int, stop: int) -> tuple[int, int]:
    """Return the run with the name of a month before or behind it, and the words "the" and "of" between."""
    after = stop
    while after < len(words) and words[after][1] in ("of", "the", "day"):
        after += 1
    is_day = words[stop - 1][1] in _ORDINALS or _DAY.fullmatch(words[stop - 1][1])  # "one may go" has no date
    if after < len(words) and words[after][1] in _MONTHS and (is_day or after > stop):
        return start, after + 1
    before = start
    while before > 0 and words[before - 1][1] == "the":
        before -= 1
    if before > 0 and words[before - 1][1] in _MONTHS:
        return before - 1, stop
    return start, stop


def _is_long(run: Sequence[str]) -> bool:
    """Return whether a run is a long number: four digits, spoken one by one or written."""
    count = 0
    for word in run:
        if word in _DIGITS | _LETTER_O:
            count += 1
        elif word in _REPEATED:
            count += 2
        elif word in _TEENS | _TENS and count:
            count += 2  # "five five twelve"
        elif _AMOUNT.fullmatch(word):
            count = 0
        elif _WRITTEN.fullmatch(word):
            count += sum(letter.isdecimal() for letter in word)
        elif word not in _INSIDE:
            count = 0
        if count >= _LONG:
            return True
    return False


def _is_year(run: Sequence[str]) -> bool:
    """Return whether a run is spoken as a year, such as "nineteen oh four" or "two thousand and four"."""
    for place, word in enumerate(run[:-1]):
        following = run[place + 1]
        if word in _TEENS - {"ten"} and (following in _TENS | _TEENS | _LETTER_O | {"hundred"}):
            return True
        if word == "twenty" and following in _TENS | _TEENS | _LETTER_O:
            return True
    return list(run[:2]) == ["two", "thousand"] and len(run) > 2


def _is_house(words: Sequence[_Word], stop: int) -> bool:
    """Return whether the name of a street follows a cardinal number: one or two words, and "street" or the like."""
    following = [word for _, word in words[stop : stop + _NEAR]]
    street = next((place for place, word in enumerate(following) if word in _STREETS), 0)
    return street > 0 and words[stop - 1][1] not in _ORDINALS and not _SMALL & set(following[:street])


def _joined(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges of tokens with those joined that overlap."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(found):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined
