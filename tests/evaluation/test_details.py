"""Details of an evaluation: tables of utterances and similarity matrices, written and read again."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.evaluation.details import Details, UtteranceRecord, read_details, write_details


@settings(max_examples=25)
@given(text=st.text(max_size=20), value=st.floats(0, 1e6))
def test_details_round_trip(tmp_path_factory: pytest.TempPathFactory, text: str, value: float) -> None:
    text = text.encode("utf-8", "ignore").decode().replace("\r", " ").replace("\0", "")
    folder = tmp_path_factory.mktemp("details")
    words = {"reference": f"R{text}", **({"heard_original": text} if text else {})}
    row = UtteranceRecord(f"u{text}", f"s{text}", measured={**words, "f0_original": value})
    write_details(Details({"set": (row,)}, {}), folder)
    (again,) = read_details(folder).utterances["set"]
    assert again.number("f0_original") == pytest.approx(value, rel=1e-5)
    assert replace(again, measured={**again.measured, "f0_original": value}) == row


def test_details_of_relative_paths_lead_to_the_audio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = UtteranceRecord("u", original="data/u.wav", anonymized="results/b2/data/u.wav")
    write_details(Details({"set": (row,)}, {}), Path("results/b2"))
    (again,) = read_details(tmp_path / "results" / "b2").utterances["set"]
    assert (again.original, again.anonymized) == (str(tmp_path / "data" / "u.wav"), "data/u.wav")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense\nx\n", "set.tsv:1: not a table of utterances"),
        ("utterance\tf0_original\nu\tloud\n", "a row is not of the right form: could not convert string to float"),
        ("utterance\tspeaker\nu\n", "a row is not of the right form: zip() argument"),
    ],
)
def test_invalid_details_are_rejected(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "details").mkdir()
    (tmp_path / "details" / "set.tsv").write_text(content)
    with pytest.raises(InputError, match=re.escape(message)):
        read_details(tmp_path)


def test_invalid_matrices_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "details").mkdir()
    (tmp_path / "details" / "s.similarity.json").write_text('{"speakers": ["a"], "oo": [[1, 2]], "oa": [], "aa": []}')
    with pytest.raises(InputError, match="not similarity matrices: a matrix is not of 1 rows and columns"):
        read_details(tmp_path)
