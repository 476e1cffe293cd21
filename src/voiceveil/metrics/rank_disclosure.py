"""Evidence in the rank of a speaker: the log-likelihood ratio of each rank, and its worst case.

Conventions: see :mod:`voiceveil.metrics.legal`. A test is compared with N enrolled speakers, its own among them, and
these are ranked by similarity, from 1. ``g_k`` is the share of tests whose own speaker has rank k; speakers of equal
similarity share their ranks equally. A pair of the same speaker has rank k with probability ``g_k``, and a pair of
different speakers with (1 - g_k) / (N - 1), since somebody always has it. The likelihood ratio of rank k is therefore

    LR_k = g_k (N - 1) / (1 - g_k),

and its logarithm, here to base 10 as in :mod:`voiceveil.metrics.disclosure`, is 0 at every rank exactly if the ranks
tell nothing. The worst case is the largest over all ranks: how many times as probable as any other given person the
right one can become by one comparison. An EER of 50% does not bound it. Unlike the worst case of ZEBRA it does not
calibrate the scores by pool adjacent violators with Laplace's rule, whose LLRs at both ends grow with the number of
trials and not with what they tell.

The largest of many shares is large by luck too. ``floor`` says how large: with tests that tell nothing, the worst case
stays below it in 95% of cases. Only a worst case above the floor shows anything. The LLR at rank 1, where an attack is
expected, has a 95% interval over speakers instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from voiceveil.core.errors import InputError
from voiceveil.metrics import legal
from voiceveil.metrics.legal import Floats, Ints
from voiceveil.metrics.legal_linkability import own_columns

__all__ = ["RankDisclosure", "rank_disclosure", "rank_disclosure_from_scores", "rank_llr", "rank_shares"]


@dataclass(frozen=True)
class RankDisclosure:
    """Evidence in the ranks of speakers; LLRs are log10, infinite where every test has the same rank.

    Parameters
    ----------
    candidates, tests
        Enrolled speakers N, and speakers that were tested.
    worst, rank
        The largest LLR, and the rank at which it is.
    floor
        95% of the worst cases of so many tests that tell nothing are below.
    top, low, high
        LLR at rank 1 and its 95% interval over speakers.
    """

    candidates: int
    tests: int
    worst: float
    rank: int
    floor: float
    top: float
    low: float
    high: float

    @property
    def shows_evidence(self) -> bool:
        """True if the worst case is above what luck gives."""
        return self.worst > self.floor

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; None for an infinite LLR."""
        return {name: round(value, 6) if np.isfinite(value) else None for name, value in asdict(self).items()} | {
            "shows_evidence": self.shows_evidence
        }


def rank_shares(above: Ints, ties: Ints, candidates: int) -> Floats:
    """Return the share of tests at each rank, (N,), which sums to 1.

    Parameters
    ----------
    above, ties
        (tests,): numbers of other speakers that are more similar than the own one, and exactly as similar.
    candidates
        Number of enrolled speakers, N.

    Examples
    --------
    >>> rank_shares(np.array([0, 0, 1]), np.array([0, 1, 0]), 3)
    array([0.5, 0.5, 0. ])
    """
    counts = np.bincount(above[ties == 0], minlength=candidates).astype(np.float64)
    for first, tied in zip(above[ties > 0].tolist(), ties[ties > 0].tolist(), strict=True):
        counts[first : first + tied + 1] += 1 / (tied + 1)
    return counts / len(above)


def rank_llr(shares: ArrayLike, candidates: int) -> Floats:
    """Return the log10 likelihood ratio of shares of tests at some rank among N candidates; infinite at 0 and 1.

    Examples
    --------
    >>> rank_llr([0.1, 0.5], 10)
    array([0.        , 0.95424251])
    """
    share = np.clip(np.asarray(shares, dtype=np.float64), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log10(share) + np.log10(candidates - 1) - np.log10(1 - share))


def rank_disclosure(
    above: Ints, ties: Ints, candidates: int, speakers: Sequence[str], *, seed: int = 0
) -> RankDisclosure:
    """Return the evidence in the ranks of tests.

    Parameters
    ----------
    above, ties, candidates
        See :func:`rank_shares`.
    speakers
        Speaker of each test.
    seed
        Of the interval.

    Raises
    ------
    InputError
        If there are fewer than two candidates.
    """
    if candidates < 2:
        raise InputError(f"{candidates} enrolled speaker(s) cannot be ranked", fix="enroll two or more")
    shares = rank_shares(above, ties, candidates)
    llr = rank_llr(shares, candidates)
    first = np.where(above == 0, 1 / (1.0 + ties), 0.0)
    low, high = rank_llr(legal.speaker_interval(first[:, None], speakers, seed=seed)[0], candidates)
    tests = len(set(speakers))
    floor = float(rank_llr(_floor_share(tests, candidates), candidates))
    rank = int(llr.argmax())
    return RankDisclosure(candidates, tests, float(llr[rank]), rank + 1, floor, float(llr[0]), float(low), float(high))


def _floor_share(tests: int, candidates: int) -> float:
    """Return the share that the largest of N shares of random ranks does not exceed in 95% of cases.

    The N counts of tests are taken as independent and binomial, which they are nearly.
    """
    from scipy.stats import binom

    counts = np.arange(tests + 1)
    none_above = candidates * binom.logcdf(counts, tests, 1 / candidates)
    return float(counts[int((none_above >= np.log(0.95)).argmax())] / tests)


def rank_disclosure_from_scores(
    scores: ArrayLike, test_speakers: Sequence[str], enroll_speakers: Sequence[str], *, seed: int = 0
) -> RankDisclosure:
    """Return the evidence in the ranks of a score matrix.

    Parameters
    ----------
    scores
        (tests, enrolled speakers), higher for more similar voices.
    test_speakers, enroll_speakers
        Speaker of each row, which may share one, and of each column.
    seed
        Of the interval.

    Examples
    --------
    >>> matrix = [[0.9, 0.1, 0.2], [0.8, 0.5, 0.1], [0.1, 0.2, 0.3]]
    >>> evidence = rank_disclosure_from_scores(matrix, ["a", "b", "c"], ["a", "b", "c"])
    >>> evidence.rank, round(evidence.worst, 3)  # two of three tests are at rank 1: 2/3 * 2 / (1/3) = 4
    (1, 0.602)
    """
    matrix = np.asarray(scores)
    if matrix.shape != (len(test_speakers), len(enroll_speakers)) or not matrix.size:
        raise InputError(
            f"scores of shape {matrix.shape} for {len(test_speakers)} tests, {len(enroll_speakers)} enrolled speakers"
        )
    if np.isnan(matrix).any():
        raise InputError("the scores have a NaN", fix="check the speaker verification")
    own = np.take_along_axis(matrix, own_columns(test_speakers, enroll_speakers)[:, None], axis=1)
    above, ties = (matrix > own).sum(axis=1), (matrix == own).sum(axis=1) - 1
    return rank_disclosure(above, ties, len(enroll_speakers), test_speakers, seed=seed)
