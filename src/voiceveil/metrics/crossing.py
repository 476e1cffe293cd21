"""Every test against every enrolled speaker, block by block: rivals, a control, and the EER for each N'.

Conventions: see :mod:`voiceveil.metrics.legal`. Test x-vectors have shape (t, d), enrolled ones (n, d); test i is of
the enrolled speaker ``own[i]``. No matrix of t times n scores is kept: 4,949 x 22,024 of them pass by in blocks.

*EER.* The paper computes the ROCCH-EER on the same speakers and N' as Linkability: each test is a target trial with
its own speaker and a nontarget trial with the N' - 1 others. The EER depends on how many trials of each class have
which score; scores are rounded to 2^-15, which is more than single precision leaves uncertain and far below what
an EER can show, and counted. The others of a smaller N' are among those of a larger one.

*Control.* Test i is claimed to be somebody else, ``claimed[i]``, and its true speaker is taken out of the enrolled
ones: a voice from outside of the release that must not be linked more often than by chance, 1 / N'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.compiled import njit
from voiceveil.metrics import kernels, legal
from voiceveil.metrics.legal import Floats, Ints, Vectors
from voiceveil.metrics.linking import count_rivals

__all__ = ["Crossing", "Trials", "cross", "eer_interval"]

#: Cells of scores in a unit; scores lie in [-1, 1].
GRID = 1 << 15
_CELLS = 2 * GRID + 1
#: The bootstrap works on this many bins, each with about as many targets as another.
_BINS = 256


@dataclass(frozen=True, eq=False)
class Trials:
    """Counts of trials for the bootstrap: of tests in bins of scores, for k values of N'.

    ``edges``: the first cell of each bin but the lowest; ``target``: (t, bins); ``nontarget``: (t, k, bins).
    """

    edges: Ints
    target: NDArray[np.int32]
    nontarget: NDArray[np.int32]

    def __add__(self, other: Trials) -> Trials:
        """Return the trials of two draws together."""
        return Trials(self.edges, self.target + other.target, self.nontarget + other.nontarget)


@dataclass(frozen=True, eq=False)
class Crossing:
    """``rivals``, ``control``: (t,), who is at least as similar as the own or the claimed speaker; ``eer``: (k,)."""

    rivals: Ints
    control: Ints
    eer: Floats
    trials: Trials


def cross(
    test: Vectors,
    enrolled: Vectors,
    own: NDArray[np.intp],
    claimed: NDArray[np.intp],
    sizes: Sequence[int],
    rng: np.random.Generator,
    edges: Ints | None = None,
) -> Crossing:
    """All that is counted, in one pass over the scores; ``sizes``: the N', ascending; ``edges`` of another draw."""
    levels = np.searchsorted(np.asarray(sizes) - 1, np.arange(len(enrolled) - 1), side="right").astype(np.int64)
    targets = _cell(np.einsum("td,td->t", test, enrolled[own]))
    edges = np.unique(np.quantile(targets, np.linspace(0, 1, _BINS), method="nearest")) if edges is None else edges
    bin_of = np.searchsorted(edges, np.arange(_CELLS), side="right").astype(np.int32)
    fine = np.zeros((len(sizes) + 1, _CELLS), dtype=np.int32)
    coarse = np.zeros((len(test), len(sizes) + 1, len(edges) + 1), dtype=np.int32)
    rivals, control = np.empty(len(test), dtype=np.int64), np.empty(len(test), dtype=np.int64)
    circle, first = rng.permutation(len(enrolled)), rng.integers(len(enrolled), size=len(test))
    step = max(1, legal.BLOCK_BYTES // (4 * len(enrolled)))
    tolerance = legal.score_tolerance(test.shape[1])
    for start in range(0, len(test), step):
        some = slice(start, start + step)
        scores = test[some] @ enrolled.T
        rivals[some] = count_rivals(scores, test[some], enrolled, own[some], tolerance)
        _count_trials(scores, own[some], levels, bin_of, fine, coarse[some], circle, first[some])
        scores[np.arange(len(scores)), own[some]] = -2.0  # the speaker is outside of the release
        control[some] = count_rivals(scores, test[some], enrolled, claimed[some], tolerance)
    own_bins = np.zeros((len(test), len(edges) + 1), dtype=np.int32)
    own_bins[np.arange(len(test)), bin_of[targets]] = 1
    target = np.bincount(targets, minlength=_CELLS).astype(np.float64)
    counts = np.cumsum(fine, axis=0, dtype=np.float64)[:-1]
    eer = np.array([kernels.rocch_eer(target, row) if row.any() else np.nan for row in counts])
    return Crossing(rivals, control, eer, Trials(edges, own_bins, np.cumsum(coarse, axis=1, dtype=np.int32)[:, :-1]))


def _cell(score: Vectors) -> Ints:
    cells = np.clip((score + np.float32(1)) * np.float32(GRID) + np.float32(0.5), 0, _CELLS - 1)
    return np.asarray(cells, dtype=np.int64)


@njit(cache=True, nogil=True)
def _count_trials(
    scores: Vectors,
    own: NDArray[np.intp],
    levels: Ints,
    bin_of: NDArray[np.int32],
    fine: NDArray[np.int32],
    coarse: NDArray[np.int32],
    circle: Ints,
    first: Ints,
) -> None:
    """Add the nontarget trials of some tests to ``fine``, (k + 1, cells), and to ``coarse``, (tests, k + 1, bins).

    The enrolled speakers stand in a random circle, speaker j in place ``circle[j]``. Test i walks round it from
    ``first[i]``; whom it meets as number p, its own speaker not counted, is of the N' from number ``levels[p]`` on.
    """
    n = scores.shape[1]
    for i in range(len(scores)):
        start = first[i]
        own_place = (circle[own[i]] - start) % n
        for j in range(n):
            place = circle[j] - start
            if place < 0:
                place += n
            if place == own_place:
                continue
            level = levels[place - 1 if place > own_place else place]
            cell = min(max(int((scores[i, j] + np.float32(1.0)) * np.float32(GRID) + np.float32(0.5)), 0), _CELLS - 1)
            fine[level, cell] += 1
            coarse[i, level, bin_of[cell]] += 1


def eer_interval(value: Floats, trials: Trials, *, seed: int, resamples: int = 1000) -> Floats:
    """95% interval of the EER for each N', (k, 2), by a bootstrap over the test speakers.

    The resamples are of the bins; by how much these shift the EER itself is corrected.
    """
    from voiceveil.stats.intervals import Range, interval

    tests, k, _ = trials.nontarget.shape
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(tests, np.full(tests, 1 / tests), size=resamples).astype(np.float32)
    draws = np.concatenate([np.ones((1, tests), dtype=np.float32), draws])
    target = (draws @ trials.target.astype(np.float32)).astype(np.float64)
    found = np.zeros((k, 2))
    for at in range(k):
        nontarget = (draws @ trials.nontarget[:, at].astype(np.float32)).astype(np.float64)
        rates = np.array([kernels.rocch_eer(t, n) for t, n in zip(target, nontarget, strict=True)])
        shifted = np.clip(rates[1:] + (value[at] - rates[0]), 0.0, 0.5) if rates[0] > 0 else rates[1:]
        estimate = interval(float(value[at]), shifted, tests, span=Range(0.5))
        found[at] = estimate.low, estimate.high
    return found
