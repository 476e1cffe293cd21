"""Word errors: the official counts, a plain dynamic programme as twin, rapidfuzz as second witness."""

from __future__ import annotations

import json
import time
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from tests.support.paths import GOLDEN
from voiceveil import InputError, metrics

sentences = st.lists(st.sampled_from("abc"), max_size=8).map(" ".join)
corpora = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=4).filter(
    lambda pairs: any(ref for ref, _ in pairs)
)


def kaldi_counts(ref: list[str], hyp: list[str]) -> tuple[int, int, int]:
    """(substitutions, deletions, insertions): the recursion, with Kaldi's strict comparisons."""

    @cache
    def cell(i: int, j: int) -> tuple[int, int, int]:
        if i == 0 or j == 0:
            return (0, i, j)
        (s, d, n), (ds, dd, dn), (is_, id_, in_) = cell(i - 1, j - 1), cell(i - 1, j), cell(i, j - 1)
        differs = ref[i - 1] != hyp[j - 1]
        both, deletion, insertion = s + d + n + differs, ds + dd + dn + 1, is_ + id_ + in_ + 1
        if both < insertion and both < deletion:
            return (s + differs, d, n)
        return (ds, dd + 1, dn) if deletion < insertion else (is_, id_, in_ + 1)

    return cell(len(ref), len(hyp))


def test_counts_and_rate_equal_stored_figures() -> None:
    errors = metrics.word_errors(["the cat sat on the mat", "hello"], ["the hat sat on mat now", "hello"])
    assert (errors.substitutions, errors.deletions, errors.insertions, errors.hits) == (1, 1, 1, 5)
    assert errors.counts.tolist() == [[1, 1, 1, 4], [0, 0, 0, 1]]
    assert (errors.edits, errors.words) == (3, 7)
    assert errors.wer == 3 / 7
    assert errors.sentence_error_rate == 0.5


def test_ties_are_broken_as_kaldi_does() -> None:
    """Kaldi and SpeechBrain: deletion, hit, insertion. rapidfuzz and jiwer: two substitutions. The WER is the same."""
    errors = metrics.word_errors(["A B"], ["B C"])
    assert [(e.operation, e.ref, e.hyp) for e in errors.alignments[0]] == [
        ("deletion", "A", None),
        ("hit", "B", "B"),
        ("insertion", None, "C"),
    ]
    assert [op.tag for op in Levenshtein.editops(["A", "B"], ["B", "C"])] == ["replace", "replace"]
    assert errors.wer == 1.0


@settings(deadline=None)
@given(corpora)
def test_equals_the_plain_recursion(pairs: list[tuple[str, str]]) -> None:
    errors = metrics.word_errors(*map(list, zip(*pairs, strict=True)))
    for row, (ref, hyp) in zip(errors.counts, pairs, strict=True):
        assert tuple(row[:3]) == kaldi_counts(ref.split(), hyp.split())
        assert row[:3].sum() == Levenshtein.distance(ref.split(), hyp.split())


@settings(deadline=None)
@given(corpora)
def test_alignment_contains_both_sides(pairs: list[tuple[str, str]]) -> None:
    errors = metrics.word_errors(*map(list, zip(*pairs, strict=True)))
    for alignment, (ref, hyp) in zip(errors.alignments, pairs, strict=True):
        assert [edit.ref for edit in alignment if edit.ref is not None] == ref.split()
        assert [edit.hyp for edit in alignment if edit.hyp is not None] == hyp.split()
        assert all((edit.operation == "hit") == (edit.ref == edit.hyp) for edit in alignment)


@settings(deadline=None)
@given(corpora, st.randoms(use_true_random=False))
def test_invariant_to_utterance_order(pairs: list[tuple[str, str]], random: object) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    ordered, reordered = (metrics.word_errors(*map(list, zip(*p, strict=True))) for p in (pairs, shuffled))
    assert ordered.wer == reordered.wer
    assert sorted(ordered.counts.tolist()) == sorted(reordered.counts.tolist())


def test_mappings_are_matched_by_utterance() -> None:
    errors = metrics.word_errors({"u1": "a b", "u2": "c"}, {"u2": "c", "u1": "a"})
    assert errors.utterances == ("u1", "u2")
    assert errors.counts.tolist() == [[0, 1, 0, 1], [0, 0, 0, 1]]


def test_extremes_of_the_rate() -> None:
    assert metrics.word_errors(["a b c"], ["a b c"]).wer == 0.0
    assert metrics.word_errors(["a b c"], [""]).wer == 1.0
    assert metrics.word_errors(["a"], ["x y z"]).wer == 3.0
    assert metrics.word_errors(["a", ""], ["a", "b"]).wer == 1.0  # an empty reference adds insertions


def test_challenge_normalization() -> None:
    assert (
        metrics.normalize_text("  Mr. Smith,  isn't it? Yes! well-known 42 ") == "MR SMITH ISN'T IT YES WELL-KNOWN 42"
    )
    assert metrics.word_errors(["IT'S FINE"], ["it's, fine."], normalize=True).wer == 0.0
    assert metrics.word_errors(["IT'S FINE"], ["it's, fine."]).wer == 1.0


@pytest.mark.parametrize(
    ("refs", "hyps", "what"),
    [
        ([], [], "no word"),
        ([""], ["a"], "no word"),
        (["a"], [], "1 references but 0"),
        ("a b", "a b", "one string"),
        ({"u": "a"}, {"v": "a"}, "no hypothesis"),
        ({"u": "a"}, ["a"], "one side is a mapping"),
    ],
)
def test_invalid_input_is_rejected(refs: list[str], hyps: list[str], what: str) -> None:
    with pytest.raises(InputError, match=what):
        metrics.word_errors(refs, hyps)


def test_equals_speechbrain() -> None:
    data = json.loads((GOLDEN / "wer.json").read_text())
    errors, official = metrics.word_errors(data["refs"], data["hyps"]), data["summary_first50"]
    assert 100 * errors.wer == pytest.approx(official["WER"], abs=1e-12)
    assert 100 * errors.sentence_error_rate == official["SER"]
    assert (errors.substitutions, errors.deletions, errors.insertions, errors.words) == (
        official["substitutions"],
        official["deletions"],
        official["insertions"],
        official["num_scored_tokens"],
    )


def test_large_corpus_is_fast() -> None:
    """All of LibriSpeech test-clean: 2,600 utterances, 52,000 words."""
    rng = np.random.default_rng(0)
    refs = [" ".join(f"w{k}" for k in rng.integers(5000, size=20)) for _ in range(2600)]
    hyps = [" ".join(word for word in ref.split() if rng.random() > 0.1) for ref in refs]
    metrics.word_errors(refs[:1], hyps[:1])  # compiled
    start = time.process_time()
    errors = metrics.word_errors(refs, hyps)
    assert time.process_time() - start < 2.0
    assert errors.wer == pytest.approx(0.1, abs=0.01)
