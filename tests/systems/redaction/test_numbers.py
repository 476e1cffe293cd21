"""Numbers that identify, and numbers that do not."""

from __future__ import annotations

import pytest

from voiceveil.systems.redaction.numbers import find_numbers


def found(text: str, *, all_numbers: bool = False) -> list[str]:
    tokens = text.split()
    return [" ".join(tokens[first : last + 1]) for first, last in find_numbers(text, all_numbers=all_numbers)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my number is five five five one two three four", ["five five five one two three four"]),
        ("call 555-1234, please.", ["555-1234,"]),
        ("the account 90210 is mine", ["90210"]),
        ("double five seven oh it was", ["double five seven oh"]),
        ("born in nineteen eighty-four", ["nineteen eighty-four"]),
        ("IN SEVENTEEN O SEVEN HE", ["SEVENTEEN O SEVEN"]),
        ("in 1984 we met", ["1984"]),
        ("two thousand and four was good", ["two thousand and four"]),
        ("on May third we met", ["May third"]),
        ("on the 3rd of May, 1984", ["3rd of May, 1984"]),
        ("THE TENTH OF OCTOBER HE", ["TENTH OF OCTOBER"]),
        ("he lives at twelve Baker Street now", ["twelve"]),
    ],
)
def test_numbers_that_identify_are_found(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    ["two children", "three hundred people", "one may go", "we paid $1,200", "at 3:30", "twenty-five years", "oh no",
     "the first in the street", "and second", "five or six times", ""],
)  # fmt: skip
def test_short_counts_stay(text: str) -> None:
    assert found(text) == []


def test_all_numbers_are_found_if_asked_for_but_not_a_pronoun() -> None:
    assert found("one sees two children at 3:30 in three hundred rooms", all_numbers=True) == [
        "two", "3:30", "three hundred",
    ]  # fmt: skip
