"""Prefix beam search with a language model: agrees with the sum over all paths of all texts."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from voiceveil.core.errors import InputError
from voiceveil.models.asr.beam_search import BeamDecoder, beam_search, parse_decoder
from voiceveil.models.asr.language_model import LanguageModel, language_model_hash, load_language_model, read_arpa

TOKENS = ["", " ", "A", "B"]  # the first one is the blank of CTC
ARPA = """\
\\data\\
ngram 1=6
ngram 2=4
ngram 3=2

\\1-grams:
-1.2\t<unk>
-99\t<s>\t-0.4
-0.8\t</s>
-0.5\tA\t-0.3
-0.9\tB\t-0.2
-1.1\tAB\t-0.1

\\2-grams:
-0.2\t<s> A\t-0.15
-0.6\tA B\t-0.25
-0.7\tB A
-0.4\tA </s>

\\3-grams:
-0.1\t<s> A B
-0.3\tA B </s>

\\end\\
"""


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.arpa"
    path.write_text(ARPA)
    return path


def collapse_slowly(path: tuple[int, ...]) -> str:
    kept = [token for number, token in enumerate(path) if number == 0 or token != path[number - 1]]
    return "".join(TOKENS[token] for token in kept if token != 0)


def best_slowly(rows: np.ndarray, model: LanguageModel, decoder: BeamDecoder) -> str:
    """Sum the probability of every path of every text; texts with other blanks between words are different texts."""
    totals: dict[str, float] = {}
    for path in itertools.product(range(rows.shape[1]), repeat=len(rows)):
        p = math.exp(sum(rows[frame, token] for frame, token in enumerate(path)))
        totals[collapse_slowly(path)] = totals.get(collapse_slowly(path), 0.0) + p

    def score(text: str) -> float:
        state, words = model.start(), 0.0
        for word in text.split():
            p, state = model.score(state, word)
            words += decoder.weight * p + decoder.bonus
        return math.log(totals[text]) + words + decoder.weight * model.end(state)

    return " ".join(max(totals, key=score).split())


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_a_wide_beam_finds_the_best_of_all_texts(arpa: Path, weight: float) -> None:
    model = read_arpa(arpa)
    decoder = BeamDecoder(arpa, weight=weight, bonus=0.3, beam=10_000, least=-math.inf)
    texts = set()
    for seed in range(40):
        logits = np.random.default_rng(seed).normal(0.0, 1.5, (5, len(TOKENS)))
        rows = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        text = beam_search(rows, TOKENS, 0, model, decoder)
        assert text == best_slowly(rows, model, decoder)
        texts.add(text)
    assert len(texts) > 1


def test_the_language_model_decides_between_words_that_sound_alike(arpa: Path) -> None:
    rows = np.log(np.array([[0.02, 0.02, 0.94, 0.02], [0.5, 0.46, 0.02, 0.02], [0.02, 0.02, 0.02, 0.94]]))
    plain = BeamDecoder(arpa, weight=0.0, bonus=0.0).decode(rows, TOKENS, 0)
    assert (plain, BeamDecoder(arpa, weight=2.0, bonus=0.0).decode(rows, TOKENS, 0)) == ("AB", "A B")


def test_tokens_of_several_letters_begin_words_with_a_blank(arpa: Path) -> None:
    tokens = ["", " A", "B", " B"]
    rows = np.log(np.array([[0.01, 0.97, 0.01, 0.01], [0.97, 0.01, 0.01, 0.01], [0.01, 0.01, 0.01, 0.97]]))
    assert BeamDecoder(arpa).decode(rows, tokens, 0) == "A B"


@pytest.mark.parametrize(
    ("text", "message"),
    [("a.arpa+weigth=1", "'weigth=1' is no setting"), ("a.arpa+beam=x", "no setting"), ("a.arpa+beam=0", "beam 0")],
)
def test_settings_that_are_mistyped_are_refused(text: str, message: str) -> None:
    assert parse_decoder("a.arpa+weight=0.7+bonus=-1+beam=5") == BeamDecoder(Path("a.arpa"), 0.7, -1.0, 5)
    with pytest.raises(InputError, match=message):
        parse_decoder(text)


def test_the_fingerprint_changes_with_model_and_settings(arpa: Path) -> None:
    before = BeamDecoder(arpa).fingerprint()
    assert BeamDecoder(arpa, beam=5).fingerprint() != before
    arpa.write_text(ARPA.replace("-0.9\tB", "-0.8\tB"))
    assert BeamDecoder(arpa).fingerprint() != before
    model = load_language_model(arpa, language_model_hash(arpa))
    assert model.score(model.start(), "B")[0] == pytest.approx((-0.4 - 0.8) * math.log(10))
