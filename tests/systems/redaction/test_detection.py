"""What identifies in a transcript, of all kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("spacy")

from tests.support.names_pipeline import write_pipeline
from voiceveil.systems.redaction.detection import Detector, Finding
from voiceveil.systems.redaction.word_list import WordList


def test_kinds_are_found_together_and_the_larger_of_two_is_taken(tmp_path: Path) -> None:
    detector = Detector(WordList(("Towne",)), write_pipeline(tmp_path / "names"), "some")
    found = detector.find("Harry Towne was in Tokyo in nineteen oh four")
    assert found == [Finding("names", 0, 1), Finding("names", 4, 4), Finding("numbers", 6, 8)]


def test_a_name_that_is_found_once_is_found_everywhere(tmp_path: Path) -> None:
    detector = Detector(names=write_pipeline(tmp_path / "names"))
    texts = ["Mr. Quilter said", "then mister kwilter left the square", "nothing here"]
    found = [detector.find(text) for text in texts]
    assert [len(entry) for entry in found] == [1, 0, 0]
    knowing = detector.knowing(texts, found)
    assert knowing.find(texts[1], new_names=False) == [Finding("names", 2, 2)]
    assert knowing.find(texts[2]) == []


def test_words_of_names_that_are_common_words_are_not_looked_for_elsewhere(tmp_path: Path) -> None:
    texts = ["Harry Towne came", "a towne is a town"]
    found = [[Finding("names", 0, 1)], []]
    knowing = Detector(names=write_pipeline(tmp_path / "names")).knowing(texts, found)
    assert knowing.known_names.entries == ("harry",)
