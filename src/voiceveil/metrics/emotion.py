"""Preservation of emotion: the unweighted average recall (UAR) of the VoicePrivacy 2024 Challenge.

Conventions: ``refs`` and ``hyps`` are sequences of class labels of equal length, e.g. ``ang hap neu sad``. Rates are
fractions; chance for n classes is 1 / n whatever their frequencies.

Where plan and code of the challenge differ (evaluation plan 2024, section 4.3.2):

* ``published`` (default) averages the recall over the classes that occur in the references;
* ``official`` is scikit-learn's macro recall: a label that occurs only in the hypotheses counts as one more class
  with recall 0. It also rounds the UAR of each fold to 0.001% before taking the mean. On IEMOCAP, whose folds hold
  all four emotions, the two differ only by the rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError

__all__ = ["UAR", "FoldUAR", "uar", "uar_over_folds"]

Method = Literal["official", "published"]


@dataclass(frozen=True, eq=False)
class UAR:
    """Unweighted average recall of one test.

    Parameters
    ----------
    value
        Mean of ``recalls``.
    recalls
        Class -> recall, of the classes that count.
    labels
        All labels that occur, sorted.
    confusion
        ``confusion[i, j]``: items of class ``labels[i]`` that were recognized as ``labels[j]``.
    """

    value: float
    recalls: Mapping[str, float]
    labels: tuple[str, ...]
    confusion: NDArray[np.int64]

    @property
    def chance(self) -> float:
        """Return the expected value of guessing: 1 / number of classes."""
        return 1 / len(self.recalls)


@dataclass(frozen=True, eq=False)
class FoldUAR:
    """Mean UAR over folds, mean recall of each class over the folds that have it, and the UAR of each fold."""

    value: float
    recalls: Mapping[str, float]
    folds: Mapping[str, UAR]


def uar(refs: Sequence[str], hyps: Sequence[str], *, method: Method = "published") -> UAR:
    """Return the unweighted average recall: the mean over the classes of (correct items / items of that class).

    Parameters
    ----------
    refs, hyps
        True and recognized class of each item.
    method
        See the module.

    Examples
    --------
    >>> uar(["sad", "sad", "hap", "neu"], ["sad", "hap", "hap", "ang"]).value
    0.5
    >>> uar(["sad", "sad", "hap", "neu"], ["sad", "hap", "hap", "ang"], method="official").value
    0.375
    """
    _check(refs, hyps, method)
    labels = sorted({*refs, *hyps})
    index = {label: row for row, label in enumerate(labels)}
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, ([index[ref] for ref in refs], [index[hyp] for hyp in hyps]), 1)
    support = confusion.sum(axis=1)
    recalls = {
        label: float(confusion[row, row] / support[row]) if support[row] else 0.0
        for row, label in enumerate(labels)
        if support[row] or method == "official"
    }
    return UAR(float(np.mean(list(recalls.values()))), recalls, tuple(labels), confusion)


def uar_over_folds(
    refs: Sequence[str], hyps: Sequence[str], folds: Sequence[str], *, method: Method = "published"
) -> FoldUAR:
    """Return the UAR of each fold, and their mean.

    Parameters
    ----------
    refs, hyps
        True and recognized class of each item.
    folds
        Fold of each item, whose model recognized it; the challenge has five, one per session of IEMOCAP.
    method
        See the module.

    Examples
    --------
    >>> uar_over_folds(["a", "b", "a", "b"], ["a", "b", "a", "a"], ["1", "1", "2", "2"]).value
    0.75
    """
    if len(folds) != len(refs):
        raise InputError(f"{len(refs)} references but {len(folds)} folds", fix="name the fold of each item")
    of_fold = {}
    for fold in sorted(set(folds)):
        items = [item for item, name in enumerate(folds) if name == fold]
        of_fold[fold] = uar([refs[i] for i in items], [hyps[i] for i in items], method=method)
    if not of_fold:
        raise InputError("no items", fix="give at least one reference and its hypothesis")

    def mean(values: list[float]) -> float:
        return float(np.mean(np.round(values, 5) if method == "official" else values))

    seen = sorted({label for result in of_fold.values() for label in result.recalls})
    recalls = {label: mean([r.recalls[label] for r in of_fold.values() if label in r.recalls]) for label in seen}
    return FoldUAR(mean([result.value for result in of_fold.values()]), recalls, of_fold)


def _check(refs: Sequence[str], hyps: Sequence[str], method: str) -> None:
    if method not in ("official", "published"):
        raise InputError(f"unknown method {method!r}", fix="use 'official' or 'published'")
    if len(refs) != len(hyps):
        raise InputError(
            f"{len(refs)} references but {len(hyps)} hypotheses", fix="give one hypothesis for each reference"
        )
    if not len(refs):
        raise InputError("no items", fix="give at least one reference and its hypothesis")
