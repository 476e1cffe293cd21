"""N-gram models in ARPA's format: back-off by hand, letter case, broken files, and agreement with KenLM."""

from __future__ import annotations

import gzip
import importlib.util
import math
from pathlib import Path

import pytest

from tests.models.asr.test_beam_search import ARPA
from voiceveil.core.errors import InputError
from voiceveil.models.asr.language_model import language_model_hash, load_language_model, read_arpa

SENTENCES = ["", "A", "A B", "B A", "AB AB", "A B A", "B B B", "A C B"]


def log10_of(path: Path, sentence: str) -> float:
    model = load_language_model(path, language_model_hash(path))
    state, total = model.start(), 0.0
    for word in sentence.split():
        p, state = model.score(state, word)
        total += p
    return (total + model.end(state)) / math.log(10)


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.arpa.gz"
    path.write_bytes(gzip.compress(ARPA.encode()))
    return path


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("", -0.4 - 0.8),  # <s> backs off to </s>
        ("A", -0.2 - 0.15 - 0.4),  # "<s> A </s>" backs off to "A </s>"
        ("A B", -0.2 - 0.1 - 0.3),  # "<s> A B" and "A B </s>" are known
        ("B A", (-0.4 - 0.9) + (0.0 - 0.7) + (0.0 - 0.4)),  # "<s> B" and "B A" have no weights
        ("C", (-0.4 - 1.2) + (0.0 + 0.0 - 0.8)),  # an unknown word is <unk>, which has no weight
        ("a b", -0.2 - 0.1 - 0.3),  # all words of the model are upper case
    ],
)
def test_probabilities_back_off_as_by_hand(arpa: Path, sentence: str, expected: float) -> None:
    assert log10_of(arpa, sentence) == pytest.approx(expected)


@pytest.mark.skipif(importlib.util.find_spec("kenlm") is None, reason="kenlm (LGPL) is not installed")
@pytest.mark.parametrize("sentence", SENTENCES)
def test_probabilities_are_those_of_kenlm(arpa: Path, sentence: str) -> None:
    import kenlm

    plain = arpa.with_suffix("")
    plain.write_text(ARPA)
    assert log10_of(arpa, sentence) == pytest.approx(kenlm.Model(str(plain)).score(sentence), abs=1e-5)
    assert log10_of(plain, sentence) == pytest.approx(log10_of(arpa, sentence), abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("ngram 3=2", "ngram 3=3"), "12 n-grams, but it says 13"),
        (("\\\\end\\\\".replace("\\\\", "\\"), ""), "no end"),
        (("-0.9\tB\t-0.2", "B"), "no 1-gram: 'B'"),
        (("-0.9\tB\t-0.2", "x\tB\t-0.2"), r"no 1-gram: 'x.*B.*-0\.2'"),
        (("\\2-grams:", "\\5-grams:"), "5-grams"),
        (("\\data\\", "nothing\n" * 120), "no .data. in the first 100 lines"),
        (("ngram 1=6", "ngram 1=99999999999"), "more than 50,000,000 n-grams"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "broken.arpa"
    path.write_text(ARPA.replace(*change))
    with pytest.raises(InputError, match=message) as caught:
        read_arpa(path)
    assert str(path) in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.arpa.gz"
    path.write_bytes(b"\x1f\x8b broken")
    with pytest.raises(InputError, match="not a text file"):
        read_arpa(path)
    with pytest.raises(InputError, match="no such language model"):
        language_model_hash(tmp_path / "nothing.arpa")
    if importlib.util.find_spec("kenlm") is None:
        path = tmp_path / "model.bin"
        path.write_bytes(b"mmap lm")
        with pytest.raises(InputError, match="without kenlm"):
            load_language_model(path, language_model_hash(path))
