"""The predicate of Singling Out: thresholds, isolation, and what isolation happens by chance.

Conventions: see :mod:`voiceveil.metrics.legal`. A threshold lies halfway between the M-th and the (M + 1)-th highest
calibration score; a test x-vector fulfils the predicate if its score is *strictly* above; isolation means that exactly
one of the N test x-vectors does, whether or not it is the enrolled speaker.

Chance is not e^-1 (the paper's 37%), which is what a predicate with expectation exactly 1/N would give: a threshold
estimated from M calibration scores a speaker is uncertain, and uncertain predicates isolate less often. If no score
knows its speaker, all orders of the N test and M N calibration scores are equally likely, and so is known exactly how
many test scores lie above each calibration score. With a test scores above the r-th and g more above the next,

    P(a, g) = C(a + r - 1, a) C(N - a - g + M N - r - 1, N - a - g) / C(N + M N, N),   r = M as a rule.

The threshold halves the gap between the two, so that only the g scores inside it depend on the distribution:
whatever it is, as long as no two scores are equal, chance is at least P(1, 0), and at most P(a = 1) + P(a = 0, g > 0).
If it is flat across the gap, each of the g is above the middle with probability 1/2. That gives .3497 for M = 9 and
N = 22,024, which is where the paper's curves for ignorant attackers end; a threshold at either score itself gives
(M / (M + 1))^(M + 1) for large N. When speakers differ in M, M N is the number of their calibration scores, and r is
what the rule for the threshold says: of each enrolled speaker, so that their chances are averaged.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError
from voiceveil.metrics.legal import Floats, Ints

__all__ = ["OFFICIAL_RANK", "Chance", "Rank", "Row", "isolated", "row_isolation", "singling_out_chance"]

Rank = Literal["published", "balanced", "official"]
OFFICIAL_RANK = 9

#: At least so many of the highest scores of a row are looked at; all of them if these do not decide.
_HIGHEST = 64
_SHUFFLES = 100
#: Terms of the sum over g: they halve from one to the next, so that the rest is below 1e-17.
_TERMS = 64


@dataclass(frozen=True)
class Chance:
    """``value``: for scores with a flat density across the gap; ``lower``, ``upper``: for any, if none are equal."""

    lower: float
    value: float
    upper: float


def singling_out_chance(n_speakers: int, n_calibration: float = 9, rank: int | None = None) -> Chance:
    """How often N = ``n_speakers`` are singled out by chance with M = ``n_calibration`` x-vectors of each.

    M may be a mean; the threshold lies below the ``rank``-th calibration score, by default M rounded.

    >>> chance = singling_out_chance(22_024)
    >>> round(chance.lower, 4), round(chance.value, 4), round(chance.upper, 4)
    (0.3138, 0.3497, 0.3874)
    """
    total = round(n_calibration * n_speakers)
    return _chance(n_speakers, total, max(1, round(n_calibration)) if rank is None else rank)


@lru_cache(maxsize=4096)
def _chance(n: int, total: int, r: int) -> Chance:
    """Return the chance of ``n`` test and ``total`` calibration scores with a threshold below the ``r``-th of these."""
    from scipy.special import gammaln

    if n < 2 or not 1 <= r < total:
        raise InputError(f"{n} speakers, {total} calibration x-vectors, rank {r}", fix="use more of them")

    def orders(tests: Floats, places: int) -> Floats:
        """C(tests + places - 1, tests) / C(n + total, n): ways to spread the tests over the places, over all orders."""
        ways = gammaln(tests + places) - gammaln(tests + 1) - gammaln(places)
        return np.asarray(np.exp(ways - gammaln(n + total + 1) + gammaln(n + 1) + gammaln(total + 1)))

    gap = np.arange(min(n, _TERMS) + 1, dtype=np.float64)
    none, one = orders(n - gap, total - r), r * orders(n - 1 - gap[:n], total - r)  # P(0, g), P(1, g)
    any_none, any_one = orders(np.array([n, n - 1.0]), total - r + 1) * [1, r]  # the same, summed over all g
    value = one @ 0.5 ** gap[: len(one)] + none @ (gap * 0.5**gap)
    return Chance(float(one[0]), float(value), float(any_one + any_none - none[0]))


def isolated(test: ArrayLike, calibration: ArrayLike, *, rank: int = OFFICIAL_RANK) -> NDArray[np.bool_]:
    """Whether each enrolled speaker's predicate isolates one test x-vector, given the calibration: (e,).

    ``test``: (e, N) scores of e enrolled speakers with the test x-vectors; ``calibration``: (e, C) with those set
    aside; the threshold is the mean of the ``rank``-th and the next highest. This is the inner function of the public
    code's first version, which takes the 9th and 10th score whatever the number of x-vectors.

    >>> isolated([[0.9, 0.2, 0.1]], [[0.8, 0.6, 0.3]], rank=1)
    array([ True])
    """
    tests, calibrations = np.asarray(test), np.asarray(calibration)
    if tests.ndim != 2 or calibrations.ndim != 2 or len(tests) != len(calibrations) or not tests.size:
        raise InputError(f"scores of shapes {tests.shape} and {calibrations.shape}", fix="give (e, N) and (e, C)")
    if np.isnan(tests).any() or np.isnan(calibrations).any():
        raise InputError("the scores have a NaN", fix="check the speaker verification")
    if not 1 <= rank < calibrations.shape[1]:
        raise InputError(f"no rank {rank} among {calibrations.shape[1]} scores", fix=f"give {rank + 1} or more")
    highest = -np.partition(-calibrations, (rank - 1, rank), axis=1)[:, rank - 1 : rank + 1]
    return np.asarray((tests > highest.mean(axis=1, keepdims=True)).sum(axis=1) == 1)


@dataclass(frozen=True, eq=False)
class Row:
    """The scores of one enrolled speaker with all test x-vectors, each within ``tolerance`` of ``exact(columns)``."""

    scores: NDArray[np.floating]
    tolerance: float
    exact: Callable[[Ints], Floats]


def row_isolation(
    row: Row, members: Ints, counts: Ints, folds: int, rank: Rank, rng: np.random.Generator, enrolled: int | None = None
) -> tuple[float, float, Chance]:
    """Return the share of folds, and of shuffles, in which one of the ``members`` is isolated.

    The third is what closed forms say about the second. ``enrolled`` is whose sample it is, the first member if it is
    not said: the threshold depends on how many x-vectors they have.
    """
    starts = np.cumsum(counts) - counts
    total = int(counts[members].sum())
    n_calibration = total - len(members)
    position = OFFICIAL_RANK
    if rank != "official":
        own = members[0] if enrolled is None else enrolled
        position = int(counts[own] - 1 if rank == "published" else np.floor(total / len(members) - 0.5))
    if n_calibration <= position:
        raise InputError(
            f"{n_calibration} calibration scores, but the threshold needs {position + 1}", fix="use more speakers"
        )
    shuffled = _shuffled_places(n_calibration, total, position + 1, rng, _SHUFFLES)
    deepest = int(shuffled.max())
    for most in (max(_HIGHEST, 2 * deepest), total):
        columns, speakers, floor = _highest(row.scores, members, starts, counts, min(most, total))
        exact = row.exact(columns)
        order = np.argsort(-exact, kind="stable")
        scores, columns, speakers = exact[order], columns[order], speakers[order]
        found, needed = _isolations(scores, columns - starts[speakers], counts[speakers], folds, position)
        if most >= total or min(needed, scores[deepest]) >= floor + row.tolerance:
            break
    by_chance = _shuffled_isolations(scores, shuffled)
    return float(found.mean()), float(by_chance.mean()), _chance(len(members), n_calibration, position)


@njit(cache=True, nogil=True)
def _highest(
    scores: NDArray[np.floating], members: Ints, starts: Ints, counts: Ints, most: int
) -> tuple[Ints, Ints, float]:
    """Columns and speakers of the ``most`` highest scores of the members, in no order, and the lowest of these.

    A heap: the lowest of the kept scores is on top, and is all that a new score is compared with.
    """
    heap = [(scores[0], starts[0], members[0]) for _ in range(0)]  # empty; numba sees the type
    for speaker in members:
        for column in range(starts[speaker], starts[speaker] + counts[speaker]):
            if len(heap) < most:
                heapq.heappush(heap, (scores[column], column, speaker))
            elif scores[column] > heap[0][0]:
                heapq.heapreplace(heap, (scores[column], column, speaker))
    columns, speakers = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    for k in range(most):
        columns[k], speakers[k] = heap[k][1], heap[k][2]
    return columns, speakers, np.float64(heap[0][0])


@njit(cache=True, nogil=True)
def _isolations(scores: Floats, slots: Ints, counts: Ints, folds: int, rank: int) -> tuple[NDArray[np.bool_], float]:
    """Isolation in each fold from the highest scores, descending, and the lowest calibration score that was needed.

    ``slots``: which of its speaker's x-vectors each score belongs to, ``counts``: how many that speaker has. Fold f
    tests the x-vector f modulo count of each speaker and calibrates on the others. The lowest score needed is minus
    infinity if there were not enough.
    """
    found = np.zeros(folds, dtype=np.bool_)
    needed = np.inf
    for fold in range(folds):
        passed, upper = 0, np.inf
        end = len(scores)
        lower = -np.inf
        for k in range(len(scores)):
            if fold % counts[k] != slots[k]:
                passed += 1
                if passed == rank:
                    upper = scores[k]
                elif passed == rank + 1:
                    lower, end = scores[k], k
                    break
        threshold = (upper + lower) / 2
        above = 0
        for k in range(end):
            if fold % counts[k] == slots[k] and scores[k] > threshold:
                above += 1
        found[fold] = above == 1
        needed = min(needed, lower)
    return found, needed


@njit(cache=True, nogil=True)
def _shuffled_places(n_calibration: int, n_total: int, first: int, rng: np.random.Generator, shuffles: int) -> Ints:
    """Where the ``first`` highest calibration scores stand among all in random orders, from 0: (shuffles, first).

    All orders of the ``n_total`` scores, of which ``n_calibration`` calibrate, are equally likely: chance for these
    very scores. A walk from the top needs only the labels down to the last of these places.
    """
    places = np.empty((shuffles, first), dtype=np.int64)
    for shuffle in range(shuffles):
        passed, k = 0, 0
        while passed < first:
            if rng.random() * (n_total - k) < n_calibration - passed:
                places[shuffle, passed] = k
                passed += 1
            k += 1
    return places


def _shuffled_isolations(scores: Floats, places: Ints) -> NDArray[np.bool_]:
    """Isolation in each shuffle, from the highest scores, descending, and the places of the calibration scores."""
    threshold = (scores[places[:, -2]] + scores[places[:, -1]]) / 2
    above = np.searchsorted(-scores, -threshold)  # so many scores, of either kind, are strictly above
    return np.asarray(above - (places < above[:, None]).sum(axis=1) == 1)
