"""Tokens of a transcript as they are spoken and compared."""

from __future__ import annotations

import doctest

import pytest

from voiceveil.systems.redaction import numbers, words
from voiceveil.systems.redaction.words import capitalized_like, folded, spoken_words


@pytest.mark.parametrize("module", [words, numbers])
def test_examples_in_docstrings(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("token", "spoken"),
    [
        ("Mary's", ["mary's"]),
        ("1984", ["nineteen", "eighty", "four"]),
        ("555-12", ["five", "five", "five", "one", "two"]),
        ("twenty-first", ["twenty", "first"]),
        ("3:30", ["three", "thirty"]),
        ("Zoë", ["zoe"]),
        ("--", []),
        ("Łódź", ["odz"]),
    ],
)
def test_spoken_words(token: str, spoken: list[str]) -> None:
    assert spoken_words(token) == spoken


def test_folding_keeps_numbers_and_joins_spellings() -> None:
    assert [folded(token) for token in ("“Zoë’s,”", "1,200.", "O'Brien", "'tis")] == [
        "zoe's",
        "1,200",
        "o'brien",
        "tis",
    ]


def test_case_and_punctuation_are_taken_from_the_recognizer() -> None:
    assert [capitalized_like("TOWNE", model) for model in ("Town,", "town", "")] == ["Towne,", "towne", "towne"]
