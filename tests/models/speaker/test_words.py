"""Words as a speaker encoder."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest

from voiceveil.models.speaker.words import WordsEncoder, text_vector


def test_vector_equals_a_plain_count() -> None:
    text = "No, no: go!"
    counts = {"word no": 2, "word go": 1}
    spaced = " no no go "
    for size in (3, 4):
        for start in range(len(spaced) - size + 1):
            part = spaced[start : start + size]
            counts[part] = counts.get(part, 0) + 1
    expected = np.zeros(1024)
    for item, count in counts.items():
        expected[zlib.crc32(item.encode()) % 1024] += math.log(1 + count)
    expected /= np.linalg.norm(expected)
    np.testing.assert_allclose(text_vector(text), expected, atol=1e-6)


def test_vectors_of_like_sentences_are_nearer() -> None:
    whale, ship, tax = map(
        text_vector, ("the whale swam on", "the whales swam off again", "an income from dividends is taxed")
    )
    assert whale @ ship > 0.3 > whale @ tax
    assert not text_vector("").any()


def test_name_tells_the_recognizer() -> None:
    assert WordsEncoder().name == "words"
    assert WordsEncoder("whisper:models/tiny").name == "words:whisper:models/tiny"
    pytest.importorskip("moonshine_voice")
    assert WordsEncoder().fingerprint().startswith("words 1 moonshine-tiny")
