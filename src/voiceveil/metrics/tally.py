"""Scores of verification trials, checked and counted: the input of every verification metric.

Conventions of this module and of all metrics on scores:

* ``target`` and ``nontarget`` are the scores of same-speaker and of different-speaker trials, shapes (T,) and (N,);
  a higher score means that the same speaker is more likely. A good anonymizer makes the two classes alike.
* A trial is accepted if its score is strictly above the threshold (as in SpeechBrain and Kaldi), so that trials with
  equal scores are always decided alike.
* Infinite scores are allowed where only their order matters. A NaN or an empty class is an
  :class:`~voiceveil.core.errors.InputError`.

All threshold metrics depend only on the order of the scores, hence on the number of trials of each class at each
distinct score. :class:`Tally` holds these counts, or weights in a bootstrap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError

__all__ = ["Floats", "Tally", "check_scores", "tally"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tally:
    """Counts of trials: ``target[k]`` and ``nontarget[k]`` have ``score[k]``; scores are distinct and ascend."""

    score: Floats
    target: Floats
    nontarget: Floats


def check_scores(target: ArrayLike, nontarget: ArrayLike, *, finite: bool = False) -> tuple[Floats, Floats]:
    """Return both classes as float64 vectors.

    Raises
    ------
    InputError
        If a class is empty or has a NaN, or an infinite score with ``finite``.
    """
    return _check_class(target, "target", finite), _check_class(nontarget, "nontarget", finite)


def _check_class(scores: ArrayLike, name: str, finite: bool) -> Floats:
    try:
        vector = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} scores are not numbers: {error}") from None
    if vector.ndim != 1:
        raise InputError(f"{name} scores have shape {vector.shape}", fix="give one score for each trial, shape (n,)")
    if not len(vector):
        raise InputError(f"no {name} trials", fix="both classes need at least one trial")
    if np.isnan(vector).any():
        raise InputError(f"{name} score {int(np.isnan(vector).argmax())} is NaN", fix="find out why the scorer failed")
    if finite and np.isinf(vector).any():
        raise InputError(
            f"{name} score {int(np.isinf(vector).argmax())} is infinite", fix="this metric needs finite scores"
        )
    return vector


def tally(target: ArrayLike, nontarget: ArrayLike) -> Tally:
    """Count the trials of each class at each distinct score: two sorts and one merge.

    >>> tally([1.0, 2.0, 2.0], [0.0, 1.0])
    Tally(score=array([0., 1., 2.]), target=array([0., 1., 2.]), nontarget=array([1., 1., 0.]))
    """
    tar, non = check_scores(target, nontarget)
    return Tally(*_merge(np.sort(tar), np.sort(non)))


@njit(cache=True)
def _merge(tar: Floats, non: Floats) -> tuple[Floats, Floats, Floats]:
    score = np.empty(len(tar) + len(non))
    target, nontarget = np.zeros(len(score)), np.zeros(len(score))
    i = j = k = 0
    while i < len(tar) or j < len(non):
        here = tar[i] if j == len(non) or (i < len(tar) and tar[i] <= non[j]) else non[j]
        score[k] = here
        while i < len(tar) and tar[i] == here:
            target[k] += 1.0
            i += 1
        while j < len(non) and non[j] == here:
            nontarget[k] += 1.0
            j += 1
        k += 1
    return score[:k].copy(), target[:k].copy(), nontarget[:k].copy()
