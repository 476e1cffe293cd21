"""Linkability and EER from one pass over all pairs of test and enrolled speakers, for several N'.

Conventions: see :mod:`voiceveil.metrics.legal`. Test x-vectors have shape (t, d), enrolled ones (n, d). The t times n
scores (4,949 x 22,024 in the paper) are computed in blocks and not kept.

*EER.* The paper computes the ROCCH-EER on the same speakers and N' as Linkability: each test is a target trial with its
own speaker and a nontarget trial with N' - 1 others. The EER depends only on the number of trials of each class at each
score; scores are rounded to 2^-15, which is coarser than the error of single precision and far below what an EER can
show, and counted. The others of a smaller N' are among those of a larger one.

*Control.* Each test is claimed to be of another speaker, and its true speaker is removed from the enrolled ones: a
voice from outside of the release, which must not be linked more often than by chance, 1 / N'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.compiled import njit
from voiceveil.metrics import kernels, legal
from voiceveil.metrics.legal import Floats, Ints, Vectors
from voiceveil.metrics.legal_linkability import count_rivals

__all__ = ["AllPairs", "LinkScores", "LinkTrials", "TrialCounts", "eer_interval", "score_all_pairs"]

#: Cells of the histogram of scores per unit; scores are in [-1, 1].
GRID = 1 << 15
_CELLS = 2 * GRID + 1
#: Bins of the bootstrap, each with about the same number of targets.
_BINS = 256


class LinkTrials(NamedTuple):
    """Tests and enrolled speakers of a linkage attack.

    Parameters
    ----------
    test, enrolled
        L2-normalized x-vectors, (t, d) and (n, d).
    own, claimed
        (t,): row of ``enrolled`` of each test's speaker, and of another speaker for the control.
    """

    test: Vectors
    enrolled: Vectors
    own: NDArray[np.intp]
    claimed: NDArray[np.intp]

    def own_scores(self) -> Vectors:
        """Return the score of each test with its own speaker, (t,)."""
        return np.asarray(np.einsum("td,td->t", self.test, self.enrolled[self.own]))

    def scores(self, rows: slice) -> Vectors:
        """Return the scores of some tests, which may be overwritten."""
        return np.asarray(self.test[rows] @ self.enrolled.T)

    def rivals(self, rows: slice, scores: Vectors, columns: NDArray[np.intp]) -> tuple[Ints, Ints]:
        """Return rivals and ties of the speakers in ``columns``; see :func:`count_rivals`."""
        tolerance = legal.score_tolerance(self.test.shape[1])
        rivals, ties = count_rivals(scores, self.test[rows], self.enrolled, columns, tolerance)
        return rivals, ties


class LinkScores(NamedTuple):
    """Scores of a linkage attack.

    Parameters
    ----------
    matrix
        (t, n), any finite values, higher for more similar voices.
    own, claimed
        As in :class:`LinkTrials`.
    """

    matrix: NDArray[np.floating]
    own: NDArray[np.intp]
    claimed: NDArray[np.intp]

    def own_scores(self) -> Vectors:
        """Return the score of each test with its own speaker, (t,), as :meth:`scores` scales it."""
        return self._scaled(np.take_along_axis(self.matrix, self.own[:, None], axis=1)[:, 0])

    def scores(self, rows: slice) -> Vectors:
        """Return the scores of some tests, from -1 for the lowest to 1 for the highest of all."""
        return self._scaled(self.matrix[rows])

    def rivals(self, rows: slice, scores: Vectors, columns: NDArray[np.intp]) -> tuple[Ints, Ints]:
        """Return rivals and ties of the speakers in ``columns``, by the scores as they are.

        A test's own speaker is no rival of another.
        """
        block = np.array(self.matrix[rows])
        claim = np.take_along_axis(block, columns[:, None], axis=1)
        removed = columns != self.own[rows]
        at_own = np.take_along_axis(block, self.own[rows][:, None], axis=1)
        above, equal = (
            (relation(block, claim)).sum(axis=1) - removed * relation(at_own, claim)[:, 0]
            for relation in (np.greater, np.equal)
        )
        return above + equal - 1, equal - 1

    def _scaled(self, values: NDArray[np.floating]) -> Vectors:
        low, high = float(self.matrix.min()), float(self.matrix.max())
        return np.asarray((values - low) / max(high - low, 1e-300) * 2 - 1, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class TrialCounts:
    """Trials of each test in bins of scores, for k values of N'; the bootstrap resamples them.

    Parameters
    ----------
    edges
        First cell of each bin but the lowest.
    target, nontarget
        (t, bins) and (t, k, bins).
    """

    edges: Ints
    target: NDArray[np.int32]
    nontarget: NDArray[np.int32]

    def __add__(self, other: TrialCounts) -> TrialCounts:
        """Return the trials of two draws together."""
        return TrialCounts(self.edges, self.target + other.target, self.nontarget + other.nontarget)


@dataclass(frozen=True, eq=False)
class AllPairs:
    """Result of :func:`score_all_pairs`.

    Parameters
    ----------
    rivals, control
        (t,): number of enrolled speakers at least as similar as the own, or the claimed, speaker.
    ties
        (t,): number of the rivals that are exactly as similar as the own speaker.
    eer
        (k,), a fraction.
    trials
        Counts for :func:`eer_interval`.
    """

    rivals: Ints
    ties: Ints
    control: Ints
    eer: Floats
    trials: TrialCounts


class _NontargetOrder(NamedTuple):
    """Random choice of nontargets.

    The enrolled speakers are in a random circular order, speaker j at position ``position[j]``. Test i passes them from
    position ``first[i]`` on; the p-th one, not counting its own speaker, belongs to the N' from ``level[p]`` on.
    """

    position: Ints
    first: Ints
    level: Ints


class _Histograms(NamedTuple):
    """Counts of nontarget trials: ``fine`` (k + 1, cells), ``coarse`` (t, k + 1, bins); ``bin_of`` each cell."""

    fine: NDArray[np.int32]
    coarse: NDArray[np.int32]
    bin_of: NDArray[np.int32]


def score_all_pairs(
    trials: LinkTrials | LinkScores, sizes: Sequence[int], rng: np.random.Generator, edges: Ints | None = None
) -> AllPairs:
    """Count rivals and trials in one pass over the scores.

    Parameters
    ----------
    trials
        Tests and enrolled speakers, or the scores between them.
    sizes
        The N', ascending.
    rng
        Source of the random nontargets.
    edges
        Bins of another draw, to add its counts (default: quantiles of the target scores).
    """
    own, claimed = trials.own, trials.claimed
    tests, n = len(own), len(trials.enrolled) if isinstance(trials, LinkTrials) else trials.matrix.shape[1]
    targets = _cell(trials.own_scores())
    edges = np.unique(np.quantile(targets, np.linspace(0, 1, _BINS), method="nearest")) if edges is None else edges
    bin_of = np.searchsorted(edges, np.arange(_CELLS), side="right").astype(np.int32)
    fine = np.zeros((len(sizes) + 1, _CELLS), dtype=np.int32)
    coarse = np.zeros((tests, len(sizes) + 1, len(edges) + 1), dtype=np.int32)
    rivals, ties, control = (np.empty(tests, dtype=np.int64) for _ in range(3))
    level = np.searchsorted(np.asarray(sizes) - 1, np.arange(n - 1), side="right").astype(np.int64)
    position, first = rng.permutation(n), rng.integers(n, size=tests)
    step = max(1, legal.BLOCK_BYTES // (4 * n))
    for start in range(0, tests, step):
        block = slice(start, start + step)
        scores = trials.scores(block)
        rivals[block], ties[block] = trials.rivals(block, scores, own[block])
        order, histograms = _NontargetOrder(position, first[block], level), _Histograms(fine, coarse[block], bin_of)
        _count_trials(scores, own[block], order, histograms)
        scores[np.arange(len(scores)), own[block]] = -2.0  # remove the true speaker
        control[block] = trials.rivals(block, scores, claimed[block])[0]
    own_bins = np.zeros((tests, len(edges) + 1), dtype=np.int32)
    own_bins[np.arange(tests), bin_of[targets]] = 1
    target = np.bincount(targets, minlength=_CELLS).astype(np.float64)
    counts = np.cumsum(fine, axis=0, dtype=np.float64)[:-1]
    eer = np.array([kernels.rocch_eer(target, row) if row.any() else np.nan for row in counts])
    nontarget = np.cumsum(coarse, axis=1, dtype=np.int32)[:, :-1]
    return AllPairs(rivals, ties, control, eer, TrialCounts(edges, own_bins, nontarget))


def _cell(score: Vectors) -> Ints:
    cells = np.clip((score + np.float32(1)) * np.float32(GRID) + np.float32(0.5), 0, _CELLS - 1)
    return np.asarray(cells, dtype=np.int64)


@njit(cache=True, nogil=True)
def _count_trials(scores: Vectors, own: NDArray[np.intp], order: _NontargetOrder, histograms: _Histograms) -> None:
    """Add the nontarget trials of a block of tests to the histograms."""
    n = scores.shape[1]
    for i in range(len(scores)):
        start = order.first[i]
        own_position = (order.position[own[i]] - start) % n
        for j in range(n):
            position = order.position[j] - start
            if position < 0:
                position += n
            if position == own_position:
                continue
            level = order.level[position - 1 if position > own_position else position]
            cell = min(max(int((scores[i, j] + np.float32(1.0)) * np.float32(GRID) + np.float32(0.5)), 0), _CELLS - 1)
            histograms.fine[level, cell] += 1
            histograms.coarse[i, level, histograms.bin_of[cell]] += 1


def eer_interval(value: Floats, trials: TrialCounts, *, seed: int, resamples: int = 1000) -> Floats:
    """Return the 95% interval of the EER for each N', (k, 2), by a bootstrap over the test speakers.

    Resamples are computed from binned scores; the shift of the EER by the bins is corrected.

    Parameters
    ----------
    value
        EER for each N', (k,).
    trials
        Counts from :func:`score_all_pairs`.
    seed, resamples
        Seed and number of the resamples.
    """
    from voiceveil.stats.intervals import Range, interval

    tests, k, _ = trials.nontarget.shape
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(tests, np.full(tests, 1 / tests), size=resamples).astype(np.float32)
    draws = np.concatenate([np.ones((1, tests), dtype=np.float32), draws])
    target = (draws @ trials.target.astype(np.float32)).astype(np.float64)
    limits = np.zeros((k, 2))
    for size in range(k):
        nontarget = (draws @ trials.nontarget[:, size].astype(np.float32)).astype(np.float64)
        rates = np.array([kernels.rocch_eer(t, n) for t, n in zip(target, nontarget, strict=True)])
        shifted = np.clip(rates[1:] + (value[size] - rates[0]), 0.0, 0.5) if rates[0] > 0 else rates[1:]
        estimate = interval(float(value[size]), shifted, tests, span=Range(0.5))
        limits[size] = estimate.low, estimate.high
    return limits
