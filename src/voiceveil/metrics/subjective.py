"""Metrics of listening tests: normalization of ratings, comparison of systems, and clustering of voices by listeners.

Conventions (Tomashenko et al. 2022, sections 2.3.2 and 4.2): ratings are numbers, 1 to 10 in the challenges, higher
is more natural, more intelligible or more similar; a clustering is two sequences of equal length, the true speaker
and the chosen cluster of each utterance of one panel. Rates are fractions in [0, 1].

* :func:`normalized_ranks`: removes differences between evaluators in the use of the scale
* :func:`compare_ratings`, :func:`compare_systems`: Mann-Whitney U tests; :func:`holm`: correction for several tests
* :func:`rating_det`: a detection error trade-off curve drawn from ratings
* :func:`macro_f1`, :func:`clustering_f1`, :func:`clustering_purity`, :func:`clustering_change`: speaker linkability
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.errors import InputError
from voiceveil.metrics.verification import DetCurve, det_curve

__all__ = [
    "ClusteringChange",
    "RatingTest",
    "clustering_change",
    "clustering_f1",
    "clustering_purity",
    "compare_ratings",
    "compare_systems",
    "holm",
    "macro_f1",
    "normalized_ranks",
    "rating_det",
]

Floats = NDArray[np.float64]

#: A panel has at most four clusters; the limit detects whole corpora given by mistake.
_MAX_TIED_CHOICES = 100_000


@dataclass(frozen=True)
class RatingTest:
    """A two-sided Mann-Whitney U test: ``u`` counts the pairs where the first side is rated higher (ties 1/2).

    ``superiority`` = u / (n_a n_b) estimates P(a > b) + P(a = b) / 2; 1/2 means no difference. ``p_adjusted`` is
    Holm's correction when several pairs of systems are compared, else equal to ``p``.
    """

    u: float
    p: float
    superiority: float
    p_adjusted: float


def normalized_ranks(ratings: ArrayLike, evaluators: Sequence[str]) -> Floats:
    """Return ratings replaced by their normalized rank within the evaluator (Rosenberg & Ramabhadran 2017), in [0, 1).

    A rating becomes (mean rank - 1) / n_e with the ranks 1..n_e of the n_e ratings of that evaluator; equal ratings
    share their mean rank. If all ratings of an evaluator are equal, they become (n_e - 1) / (2 n_e); a single one 0.

    Parameters
    ----------
    ratings
        (n,).
    evaluators
        Evaluator of each rating.

    Examples
    --------
    >>> normalized_ranks([2, 9, 9, 5], ["x", "x", "x", "x"])
    array([0.   , 0.625, 0.625, 0.25 ])
    """
    from scipy.stats import rankdata

    values = _ratings(ratings, "ratings")
    if len(evaluators) != len(values):
        raise InputError(f"{len(values)} ratings but {len(evaluators)} evaluators", fix="name who gave each rating")
    names = np.asarray(evaluators)
    normalized = np.empty(len(values))
    for name in np.unique(names):
        own = names == name
        normalized[own] = (rankdata(values[own]) - 1) / own.sum()
    return normalized


def compare_ratings(a: ArrayLike, b: ArrayLike) -> RatingTest:
    """Test whether the ratings of ``a`` and ``b`` are distributed differently: two-sided Mann-Whitney U test.

    Examples
    --------
    >>> compare_ratings([7, 8, 9, 10], [1, 2, 3, 4]).superiority
    1.0
    """
    from scipy.stats import mannwhitneyu

    first, second = _ratings(a, "a"), _ratings(b, "b")
    if np.ptp(np.r_[first, second]) == 0:  # all ratings are equal: scipy would divide by zero
        return RatingTest(first.size * second.size / 2, 1.0, 0.5, 1.0)
    test = mannwhitneyu(first, second, alternative="two-sided")
    u, p = float(test.statistic), float(test.pvalue)
    return RatingTest(u, p, u / (first.size * second.size), p)


def compare_systems(ratings: Mapping[str, ArrayLike]) -> dict[tuple[str, str], RatingTest]:
    """Compare all pairs of systems, with Holm's step-down correction in ``p_adjusted``."""
    tests = {(a, b): compare_ratings(ratings[a], ratings[b]) for a, b in combinations(ratings, 2)}
    if not tests:
        raise InputError(f"{len(ratings)} systems", fix="give the ratings of at least two")
    adjusted = holm([test.p for test in tests.values()])
    return {pair: replace(test, p_adjusted=p) for (pair, test), p in zip(tests.items(), adjusted, strict=True)}


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values of several tests after Holm's step-down correction, in the same order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, floor = [0.0] * len(p_values), 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        floor = max(floor, min(1.0, p_values[index] * (len(p_values) - step)))
        adjusted[index] = floor
    return adjusted


def rating_det(target: ArrayLike, nontarget: ArrayLike) -> DetCurve:
    """Return the DET curve of a listener who decides by the rating; the nearer to the top right, the better.

    Parameters
    ----------
    target, nontarget
        Ratings of original and of anonymized speech for naturalness and intelligibility; of same-speaker and of
        different-speaker pairs for speaker similarity.
    """
    return det_curve(_ratings(target, "target"), _ratings(nontarget, "nontarget"))


def macro_f1(refs: Sequence[str], hyps: Sequence[str]) -> float:
    """Return the mean over the classes of ``refs`` of F1 = 2 TP / (2 TP + FP + FN).

    >>> macro_f1(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    0.7333333333333334
    """
    _panel(refs, hyps)
    hits = Counter(ref for ref, hyp in zip(refs, hyps, strict=True) if ref == hyp)
    predicted, actual = Counter(hyps), Counter(refs)
    return float(np.mean([2 * hits[label] / (predicted[label] + actual[label]) for label in sorted(actual)]))


def clustering_f1(speakers: Sequence[str], clusters: Sequence[str]) -> float:
    """Return the macro F1 after assigning each cluster to its most frequent speaker, which clusters may share.

    If two speakers are equally frequent in a cluster, the assignment with the higher F1 counts.

    Parameters
    ----------
    speakers, clusters
        True speaker and chosen cluster of each utterance.

    Examples
    --------
    >>> clustering_f1(["a", "a", "b", "b"], ["1", "2", "3", "3"])
    1.0
    """
    _panel(speakers, clusters)
    choices = {}
    for cluster in sorted(set(clusters)):
        inside = Counter(s for s, c in zip(speakers, clusters, strict=True) if c == cluster)
        choices[cluster] = [speaker for speaker, count in inside.items() if count == max(inside.values())]
    if prod(len(tied) for tied in choices.values()) > _MAX_TIED_CHOICES:
        raise InputError("too many clusters without a most frequent speaker", fix="score one panel at a time")
    owners = (dict(zip(choices, choice, strict=True)) for choice in product(*choices.values()))
    return max(macro_f1(speakers, [owner[cluster] for cluster in clusters]) for owner in owners)


def clustering_purity(speakers: Sequence[str], clusters: Sequence[str]) -> float:
    """Return the fraction of utterances in the cluster of their speaker, with one cluster per speaker (equation 3).

    The assignment is the best possible. Utterances of surplus clusters count as errors.

    Parameters
    ----------
    speakers, clusters
        True speaker and chosen cluster of each utterance.

    Examples
    --------
    >>> clustering_purity(["a", "a", "b", "b"], ["1", "2", "3", "3"])
    0.75
    """
    from scipy.optimize import linear_sum_assignment

    _panel(speakers, clusters)
    _, row = np.unique(np.asarray(clusters), return_inverse=True)
    _, column = np.unique(np.asarray(speakers), return_inverse=True)
    shared = np.zeros((row.max() + 1, column.max() + 1), dtype=np.int64)
    np.add.at(shared, (row, column), 1)
    return float(shared[linear_sum_assignment(shared, maximize=True)].sum() / len(speakers))


@dataclass(frozen=True)
class ClusteringChange:
    """Number of assignments of utterances to clusters, and number of utterances."""

    count: int
    utterances: int

    @property
    def per_utterance(self) -> float:
        """Return the assignments per utterance: 1 if none was changed."""
        return self.count / self.utterances


def clustering_change(moves: Iterable[tuple[str, str]]) -> ClusteringChange:
    """Return the clustering change (CC): how often an evaluator assigns or re-assigns an utterance to a cluster.

    Parameters
    ----------
    moves
        (utterance, cluster) in the order of the evaluator's actions; a move to the same cluster does not count.

    Examples
    --------
    >>> clustering_change([("u1", "A"), ("u2", "A"), ("u2", "B"), ("u2", "B")])
    ClusteringChange(count=3, utterances=2)
    """
    cluster_of: dict[str, str] = {}
    count = 0
    for utterance, cluster in moves:
        count += cluster_of.get(utterance) != cluster
        cluster_of[utterance] = cluster
    if not cluster_of:
        raise InputError("no moves", fix="give the evaluator's actions as (utterance, cluster)")
    return ClusteringChange(count, len(cluster_of))


def _ratings(ratings: ArrayLike, name: str) -> Floats:
    values = np.asarray(ratings, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"{name} of shape {values.shape}", fix="give at least one rating, shape (n,)")
    if not np.isfinite(values).all():
        raise InputError(f"{name} have a NaN or an infinite value", fix="leave out items that were not rated")
    return values


def _panel(first: Sequence[str], second: Sequence[str]) -> None:
    if len(first) != len(second) or not len(first):
        raise InputError(f"{len(first)} and {len(second)} labels", fix="give two for each utterance, at least once")
