"""UAR: written-out figures, a loop as twin, chance, and the two treatments of labels that occur on one side only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil import InputError, metrics

items = st.lists(st.tuples(st.sampled_from("anhs"), st.sampled_from("anhs")), min_size=1, max_size=20)


def slow_uar(refs: list[str], hyps: list[str], classes: set[str]) -> float:
    recalls = []
    for label in sorted(classes):
        of_class = [hyp for ref, hyp in zip(refs, hyps, strict=True) if ref == label]
        recalls.append(of_class.count(label) / len(of_class) if of_class else 0.0)
    return sum(recalls) / len(recalls)


@settings(deadline=None)
@given(items)
def test_uar_equals_a_plain_loop(pairs: list[tuple[str, str]]) -> None:
    refs, hyps = [r for r, _ in pairs], [h for _, h in pairs]
    assert metrics.uar(refs, hyps).value == pytest.approx(slow_uar(refs, hyps, set(refs)), abs=1e-12)
    official = metrics.uar(refs, hyps, method="official")
    assert official.value == pytest.approx(slow_uar(refs, hyps, {*refs, *hyps}), abs=1e-12)
    assert official.confusion.sum() == len(refs)


@settings(deadline=None)
@given(items, st.permutations("anhs"))
def test_invariant_to_class_names_and_order(pairs: list[tuple[str, str]], names: list[str]) -> None:
    rename = dict(zip("anhs", names, strict=True))
    refs, hyps = [r for r, _ in pairs], [h for _, h in pairs]
    renamed = metrics.uar([rename[r] for r in reversed(refs)], [rename[h] for h in reversed(hyps)])
    assert renamed.value == pytest.approx(metrics.uar(refs, hyps).value, abs=1e-12)


def test_classes_are_the_union_of_labels_as_in_scikit_learn() -> None:
    """recall_score(average="macro") of these is (1/2 + 1 + 0 + 0) / 4: 'ang' occurs in the hypotheses only."""
    refs, hyps = ["sad", "sad", "hap", "neu"], ["sad", "hap", "hap", "ang"]
    official, published = metrics.uar(refs, hyps, method="official"), metrics.uar(refs, hyps)
    assert official.recalls == {"ang": 0.0, "hap": 1.0, "neu": 0.0, "sad": 0.5}
    assert (official.value, published.value) == (0.375, 0.5)
    assert published.recalls == {"hap": 1.0, "neu": 0.0, "sad": 0.5}


def test_extremes_and_chance_level() -> None:
    labels = ["ang", "hap", "neu", "sad"] * 500
    assert metrics.uar(labels, labels).value == 1.0
    assert metrics.uar(labels, ["neu"] * 2000).value == 0.25 == metrics.uar(labels, labels).chance
    skewed = ["neu"] * 1700 + ["ang", "hap", "sad"] * 100
    shuffled = np.random.default_rng(0).permutation(skewed).tolist()
    assert metrics.uar(skewed, shuffled).value == pytest.approx(0.25, abs=0.05)
    assert metrics.uar(["sad"], ["hap"]).value == 0.0


def test_five_folds_are_averaged_not_pooled() -> None:
    refs = ["a", "b", "b", "b", "a", "b"]
    hyps = ["a", "b", "b", "a", "b", "b"]
    folds = ["1", "1", "1", "1", "2", "2"]
    result = metrics.uar_over_folds(refs, hyps, folds)
    assert result.folds["1"].value == pytest.approx((1 + 2 / 3) / 2)
    assert result.folds["2"].value == 0.5
    assert result.value == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert result.recalls == {"a": 0.5, "b": pytest.approx(5 / 6)}
    assert result.value != metrics.uar(refs, hyps).value


def test_official_folds_are_rounded_before_the_mean() -> None:
    result = metrics.uar_over_folds(["a", "a", "a", "b"], ["a", "a", "b", "b"], ["1"] * 4, method="official")
    assert result.value == 0.83333


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.uar([], []),
        lambda: metrics.uar(["a"], []),
        lambda: metrics.uar(["a"], ["a"], method="sklearn"),  # type: ignore[arg-type]
        lambda: metrics.uar_over_folds([], [], []),
        lambda: metrics.uar_over_folds(["a"], ["a"], []),
    ],
)
def test_invalid_input_is_rejected(call: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        call()
