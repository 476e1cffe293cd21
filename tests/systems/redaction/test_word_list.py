"""Words of a list, found by spelling and by sound; lists that cannot be used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.systems.redaction.word_list import _GROUPS, WordList, read_words, sound_distance


def found(entries: tuple[str, ...], text: str) -> list[str]:
    tokens = text.split()
    return [" ".join(tokens[first : last + 1]) for first, last in WordList(entries).find(text)]


@pytest.mark.parametrize(
    ("entry", "text", "expected"),
    [
        ("Mary Jones", "I saw mary JONES, there", ["mary JONES,"]),
        ("Mary Jones", "Mary Jones's house", ["Mary Jones's"]),
        ("Jones", "the Joneses came", ["Joneses"]),
        ("FRIERSON'S", "Friarson's attention", ["Friarson's"]),
        ("Quilter's", "and Quilter came", ["Quilter"]),
        ("McDonald", "old Mc Donald had", ["Mc Donald"]),
        ("van der Berg", "Mr. Vanderberg said", ["Vanderberg"]),
        ("Zoë", "with Zoe there", ["Zoe"]),
        ("Czernowitz", "we went to Cher no wits again", ["Cher no wits"]),
        ("Quilter", "Mr. Kwilter said", ["Kwilter"]),
        ("555", "number five five five please", ["five five five"]),
    ],
)
def test_entries_are_found_however_they_are_written(entry: str, text: str, expected: list[str]) -> None:
    assert found((entry,), text) == expected


def test_words_that_sound_unlike_stay() -> None:
    assert found(("Quilter", "Alexander"), "he is the apostle of the middle classes") == []
    assert found(("Ann",), "an apple and a man") == []  # short words are compared by spelling alone


def test_the_shortest_match_is_taken() -> None:
    assert found(("Tokyo",), "in Tokyo a") == ["Tokyo"]


@given(st.lists(st.integers(0, 38), max_size=8), st.lists(st.integers(0, 38), max_size=8))
def test_sound_distance_is_symmetric_and_bounded(first: list[int], second: list[int]) -> None:
    a, b = np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)
    distance = sound_distance(a, b, _GROUPS)
    assert distance == sound_distance(b, a, _GROUPS)
    assert abs(len(a) - len(b)) <= distance <= max(len(a), len(b))
    assert (distance == 0) == (first == second)


def test_a_list_is_read_without_comments_and_doubles(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\ufeff# names\nMary Jones\n\nMary Jones\n  Tokyo \n", encoding="utf-8")
    assert read_words(path) == ("Mary Jones", "Tokyo")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no word"),
        (b"# only a comment\n", "no word"),
        (b"Mary\x00Jones\n", "control characters"),
        (b"Mary\x1b[2J\n", "control characters"),
        (b"\xff\xfeM\x00", "UTF-8"),
        ("Мария\n".encode(), "no letter"),
        (b"x" * 101, "longer than 100"),
        (b"\n".join(b"word%d" % n for n in range(5001)), "too many"),
        (b"a" * (2 << 20), "larger than"),
    ],
)
def test_lists_that_cannot_be_used_are_refused_without_repeating_words(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem) as caught:
        read_words(path)
    assert "Mary" not in str(caught.value)
