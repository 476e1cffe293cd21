"""Alignment by CTC models: against an obvious search over all paths, and times of words."""

from __future__ import annotations

from itertools import groupby, pairwise, product
from pathlib import Path

import numpy as np
import pytest

from voiceveil.models.asr.ctc_alignment import align, align_places


def best_by_hand(scores: np.ndarray, tokens: list[int], blank: int) -> float:
    """Return the score of the best path, of all paths."""
    best = -np.inf
    for path in product(range(scores.shape[1]), repeat=len(scores)):
        if [token for token, _ in groupby(path) if token != blank] == tokens:
            best = max(best, float(scores[np.arange(len(scores)), list(path)].sum()))
    return best


@pytest.mark.parametrize("tokens", [[1], [1, 2], [1, 1], [2, 1, 2]])
def test_the_alignment_is_the_best_of_all_paths(tokens: list[int]) -> None:
    scores = np.log(np.random.default_rng(len(tokens)).dirichlet(np.ones(3), 6))
    path = align(scores, tokens)
    assert [token for token, _ in groupby(path.tolist()) if token != 0] == tokens
    assert scores[np.arange(6), path].sum() == pytest.approx(best_by_hand(scores, tokens, 0))


def test_places_tell_equal_tokens_apart() -> None:
    scores = np.log(np.random.default_rng(0).dirichlet(np.ones(3), 8))
    tokens = [1, 2, 1]
    places = align_places(scores, tokens)
    assert [place for place, _ in groupby(places.tolist()) if place >= 0] == [0, 1, 2]
    np.testing.assert_array_equal(np.where(places < 0, 0, np.array(tokens)[places]), align(scores, tokens))


def test_words_have_times_in_order(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.support.tiny_models import tiny_ctc
    from voiceveil.models.asr.ctc import CTC
    from voiceveil.testing import synthetic_voice

    recognizer = CTC(tiny_ctc(tmp_path / "model"))
    wave = synthetic_voice(0, seconds=2.0).resampled(16000)
    times = recognizer.word_times(wave, ["hello", "mary's", "he"])
    assert times is not None
    assert len(times) == 3
    assert all(0 <= start < end <= wave.duration for start, end in times)
    assert all(a[1] <= b[0] for a, b in pairwise(times))
    assert recognizer.word_times(wave, ["hello", "\N{CJK UNIFIED IDEOGRAPH-4E2D}"]) is None
    assert recognizer.word_times(wave, ["hello"] * 100) is None  # too much for the time
