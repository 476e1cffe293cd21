"""The predicate of Singling Out: thresholds, isolation, and isolation by chance.

Conventions: see :mod:`voiceveil.metrics.legal`. A threshold lies halfway between the M-th and the (M + 1)-th highest
calibration score; a test x-vector satisfies the predicate if its score is *strictly* above; isolation means that
exactly one of the N test x-vectors does, whether or not it is the enrolled speaker's.

Chance is not e^-1 (the paper's 37%), which a predicate with expectation exactly 1/N would give: a threshold estimated
from M calibration scores of each speaker is uncertain, and uncertain predicates isolate less often. If scores do not
depend on the speaker, all orders of the N test and M N calibration scores are equally likely, which gives the
distribution of the number of test scores above each calibration score. With a test scores above the r-th and g more
above the next,

    P(a, g) = C(a + r - 1, a) C(N - a - g + M N - r - 1, N - a - g) / C(N + M N, N),   usually r = M.

The threshold halves the gap between the two, so that only the g scores inside it depend on the distribution of scores.
For any distribution without equal scores, chance is at least P(1, 0) and at most P(a = 1) + P(a = 0, g > 0). If the
density is constant across the gap, each of the g is above the middle with probability 1/2. That gives .3497 for M = 9
and N = 22,024, which is where the paper's curves for ignorant attackers end; a threshold at either score itself gives
(M / (M + 1))^(M + 1) for large N. When speakers differ in M, M N is the number of their calibration scores, and r
follows from the rule for the threshold for each enrolled speaker; their chances are averaged.
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

__all__ = [
    "OFFICIAL_RANK",
    "Chance",
    "Rank",
    "Row",
    "SinglingOutProtocol",
    "isolated",
    "row_isolation",
    "singling_out_chance",
]

Rank = Literal["published", "balanced", "official"]
OFFICIAL_RANK = 9

#: Smallest number of the highest scores of a row that are examined; all of them if these do not decide.
_HIGHEST = 64
_SHUFFLES = 100
#: Terms of the sum over g: they halve from one to the next, so that the rest is below 1e-17.
_TERMS = 64


@dataclass(frozen=True)
class SinglingOutProtocol:
    """Settings of Singling Out; the defaults are those of the paper.

    Parameters
    ----------
    length
        Utterances of a test x-vector, L.
    enroll_length
        Largest number of utterances of an enrolled speaker (the authors' last script took 10).
    most_enrolled
        Largest number of enrolled speakers, drawn at random (495 in the paper; None: all).
    folds
        Largest number of test x-vectors of a speaker, each of which is the test in one fold.
    draws
        Random draws of x-vectors and test speakers.
    rank
        Rule for the threshold, see :mod:`voiceveil.metrics.legal_singling_out`.
    """

    length: int = 1
    enroll_length: int = 30
    most_enrolled: int | None = None
    folds: int = 10
    draws: int = 5
    rank: Rank = "published"

    def __post_init__(self) -> None:
        if self.folds < 2 or self.draws < 1 or self.rank not in ("published", "balanced", "official"):
            problem = f"folds {self.folds}, draws {self.draws} or rank {self.rank!r} is out of range"
            raise InputError(problem, fix="give folds >= 2, draws >= 1, and rank published, balanced or official")


@dataclass(frozen=True)
class Chance:
    """Chance for scores with a constant density across the gap, and its bounds for any scores without ties."""

    lower: float
    value: float
    upper: float


def singling_out_chance(n_speakers: int, n_calibration: float = 9, rank: int | None = None) -> Chance:
    """Return the probability of isolation by chance.

    Parameters
    ----------
    n_speakers
        Test speakers, N.
    n_calibration
        Calibration x-vectors of each, M; may be a mean.
    rank
        The threshold lies below this calibration score (default: M rounded).

    Examples
    --------
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
        raise InputError(f"{n} speakers with {total} calibration x-vectors are too few for rank {r}", fix="use more")

    def orders(tests: Floats, slots: int) -> Floats:
        """Return C(tests + slots - 1, tests) / C(n + total, n): the fraction of orders with the tests in the slots."""
        ways = gammaln(tests + slots) - gammaln(tests + 1) - gammaln(slots)
        return np.asarray(np.exp(ways - gammaln(n + total + 1) + gammaln(n + 1) + gammaln(total + 1)))

    gap = np.arange(min(n, _TERMS) + 1, dtype=np.float64)
    p_0, p_1 = orders(n - gap, total - r), r * orders(n - 1 - gap[:n], total - r)  # P(0, g), P(1, g)
    sum_0, sum_1 = orders(np.array([n, n - 1.0]), total - r + 1) * [1, r]  # summed over all g
    value = p_1 @ 0.5 ** gap[: len(p_1)] + p_0 @ (gap * 0.5**gap)
    return Chance(float(p_1[0]), float(value), float(sum_1 + sum_0 - p_0[0]))


def isolated(test: ArrayLike, calibration: ArrayLike, *, rank: int = OFFICIAL_RANK) -> NDArray[np.bool_]:
    """Return whether the predicate of each enrolled speaker isolates one test x-vector, (e,).

    This is the inner function of the first code that the authors published, and have withdrawn; it takes the 9th and
    10th score whatever the number of x-vectors.

    Parameters
    ----------
    test
        (e, N) scores of e enrolled speakers with the test x-vectors.
    calibration
        (e, C) scores with the calibration x-vectors.
    rank
        The threshold is the mean of the ``rank``-th and the next highest calibration score.

    Examples
    --------
    >>> isolated([[0.9, 0.2, 0.1]], [[0.8, 0.6, 0.3]], rank=1)
    array([ True])
    """
    tests, calibrations = np.asarray(test), np.asarray(calibration)
    if tests.ndim != 2 or calibrations.ndim != 2 or len(tests) != len(calibrations) or not tests.size:
        raise InputError(f"scores of shapes {tests.shape} and {calibrations.shape}", fix="give (e, N) and (e, C)")
    if np.isnan(tests).any() or np.isnan(calibrations).any():
        raise InputError("the scores have a NaN", fix="check the speaker verification")
    if not 1 <= rank < calibrations.shape[1]:
        problem = f"there is no rank {rank} among {calibrations.shape[1]} scores"
        raise InputError(problem, fix=f"give {rank + 1} or more scores")
    highest = -np.partition(-calibrations, (rank - 1, rank), axis=1)[:, rank - 1 : rank + 1]
    return np.asarray((tests > highest.mean(axis=1, keepdims=True)).sum(axis=1) == 1)


@dataclass(frozen=True, eq=False)
class Row:
    """The scores of one enrolled speaker with all test x-vectors, each within ``tolerance`` of ``exact(columns)``."""

    scores: NDArray[np.floating]
    tolerance: float
    exact: Callable[[Ints], Floats]


def row_isolation(
    row: Row,
    members: Ints,
    counts: Ints,
    protocol: SinglingOutProtocol,
    rng: np.random.Generator,
    enrolled: int | None = None,
) -> tuple[float, float, Chance]:
    """Return the fraction of folds, and of shuffles, in which a member is isolated, and closed forms of the latter.

    Parameters
    ----------
    row
        Scores of one enrolled speaker.
    members
        The N test speakers.
    counts
        X-vectors of each test speaker, in consecutive columns.
    protocol
        Folds, and the rule for the threshold.
    rng
        Source of the shuffles.
    enrolled
        The enrolled speaker (default: the first member), whose count determines the threshold.
    """
    starts = np.cumsum(counts) - counts
    total = int(counts[members].sum())
    n_calibration = total - len(members)
    position = OFFICIAL_RANK
    if protocol.rank != "official":
        own = members[0] if enrolled is None else enrolled
        position = int(counts[own] - 1 if protocol.rank == "published" else np.floor(total / len(members) - 0.5))
    if n_calibration <= position:
        raise InputError(
            f"{n_calibration} calibration scores, but the threshold needs {position + 1}", fix="use more speakers"
        )
    shuffled = _shuffled_positions(n_calibration, total, position + 1, rng, _SHUFFLES)
    deepest = int(shuffled.max())
    for most in (max(_HIGHEST, 2 * deepest), total):
        columns, speakers, floor = _highest(row.scores, members, starts, counts, min(most, total))
        exact = row.exact(columns)
        order = np.argsort(-exact, kind="stable")
        scores, columns, speakers = exact[order], columns[order], speakers[order]
        isolations, needed = _isolations(scores, columns - starts[speakers], counts[speakers], protocol.folds, position)
        if most >= total or min(needed, scores[deepest]) >= floor + row.tolerance:
            break
    by_chance = _shuffled_isolations(scores, shuffled)
    return float(isolations.mean()), float(by_chance.mean()), _chance(len(members), n_calibration, position)


@njit(cache=True, nogil=True)
def _highest(
    scores: NDArray[np.floating], members: Ints, starts: Ints, counts: Ints, most: int
) -> tuple[Ints, Ints, float]:
    """Return columns and speakers of the ``most`` highest scores of the members, unordered, and the lowest of these.

    The scores are kept in a heap with the lowest on top.
    """
    heap = [(scores[0], starts[0], members[0]) for _ in range(0)]  # empty, but numba infers the type
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
    """Return isolation in each fold, and the lowest calibration score that was needed (-inf: too few scores).

    Fold f tests the x-vector f modulo count of each speaker and calibrates on the others.

    Parameters
    ----------
    scores
        The highest scores, descending.
    slots, counts
        Number of the x-vector within its speaker, and the number of x-vectors of that speaker.
    folds, rank
        Number of folds, and rank of the calibration score above the threshold.
    """
    isolations = np.zeros(folds, dtype=np.bool_)
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
        isolations[fold] = above == 1
        needed = min(needed, lower)
    return isolations, needed


@njit(cache=True, nogil=True)
def _shuffled_positions(n_calibration: int, n_total: int, first: int, rng: np.random.Generator, shuffles: int) -> Ints:
    """Return the positions, from 0, of the ``first`` highest calibration scores in random orders: (shuffles, first).

    All orders of the ``n_total`` scores, of which ``n_calibration`` calibrate, are equally likely. Labels are drawn
    from the top, down to the last of these positions.
    """
    positions = np.empty((shuffles, first), dtype=np.int64)
    for shuffle in range(shuffles):
        passed, k = 0, 0
        while passed < first:
            if rng.random() * (n_total - k) < n_calibration - passed:
                positions[shuffle, passed] = k
                passed += 1
            k += 1
    return positions


def _shuffled_isolations(scores: Floats, positions: Ints) -> NDArray[np.bool_]:
    """Return isolation in each shuffle, given the descending scores and the positions of the calibration scores."""
    threshold = (scores[positions[:, -2]] + scores[positions[:, -1]]) / 2
    above = np.searchsorted(-scores, -threshold)  # number of scores of either kind strictly above
    return np.asarray(above - (positions < above[:, None]).sum(axis=1) == 1)
