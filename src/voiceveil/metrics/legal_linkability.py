"""Linkability: how often an utterance is matched with its own speaker among N' enrolled ones.

Conventions: see :mod:`voiceveil.metrics.legal`. Equation 3 of the paper: a test x-vector is linked if its similarity
with its own speaker is *strictly* greater than with every other of the N' enrolled speakers; a tie is no link.

The paper estimates the probability from five random draws of the N' - 1 others. That is not necessary. If r of the
n - 1 others are at least as similar as the own speaker (the *rivals*), a random choice of N' - 1 contains none of them
with probability C(n - 1 - r, N' - 1) / C(n - 1, N' - 1): one pass over the scores gives the exact expectation over all
draws, for all N' at once. With ``draws`` it is estimated as in the paper. Chance is 1 / N'.

``compute_with_speaker_counts`` of the first code that the authors published, and have withdrawn, draws enrolled
speakers but keeps the row numbers, so that it compares with the wrong speaker; it has no counterpart here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError
from voiceveil.metrics import legal
from voiceveil.metrics.legal import Floats, Ints, UtteranceEmbeddings, Vectors, exact_cosine

__all__ = [
    "Linkability",
    "count_rivals",
    "link_probabilities",
    "linkability",
    "linkability_from_scores",
    "own_columns",
]


@dataclass(frozen=True, eq=False)
class Linkability:
    """Linkability for k values of N'.

    Parameters
    ----------
    sizes
        The N', ascending.
    value, chance
        (k,).
    interval
        (k, 2): 95%, from a bootstrap over the test speakers.
    speakers, components
        The speaker of each test, and the probability (tests, k) that it is linked.
    rivals
        (tests,): the number of enrolled speakers at least as similar as the right one.
    enrolled
        Number of enrolled speakers.
    """

    sizes: tuple[int, ...]
    value: Floats
    interval: Floats
    chance: Floats
    speakers: tuple[str, ...]
    components: Floats
    rivals: Ints
    enrolled: int


def linkability(
    test: UtteranceEmbeddings,
    enroll: UtteranceEmbeddings,
    *,
    sizes: Sequence[int] | None = None,
    length: int = 1,
    draws: int | None = None,
    seed: int = 0,
) -> Linkability:
    """Return the Linkability of embeddings.

    Each test speaker gets one x-vector from ``length`` random utterances, each enrolled speaker the mean of all
    theirs. Test speakers with fewer than ``length`` utterances are left out. For several lengths:
    ``{L: linkability(..., length=L) for L in (1, 3, 30)}``.

    Parameters
    ----------
    test, enroll
        Embeddings, see :func:`~voiceveil.metrics.legal.utterance_embeddings`; every test speaker must be enrolled.
    sizes
        The N' (default: the number of enrolled speakers, and its halves down to 20).
    length
        Utterances in a conversation, L.
    draws
        Estimate from this many random draws of the others, as the paper does from 5 (default: exact expectation).
    seed
        Seed of the draws and of the interval.

    Raises
    ------
    InputError
        If a test speaker is not enrolled, or the two sides have different dimensions.
    """
    tests = legal.draw_conversations(test, length, most=1, rng=np.random.default_rng(seed))
    enrolled = legal.speaker_means(enroll)
    if tests.vectors.shape[1] != enrolled.vectors.shape[1]:
        raise InputError(
            f"embeddings of {tests.vectors.shape[1]} and {enrolled.vectors.shape[1]} dimensions",
            fix="embed both sides with one encoder",
        )
    own = own_columns(tests.speakers, enrolled.speakers)
    rivals = _rivals(tests.vectors, enrolled.vectors, own)
    counts = legal.halving_sizes(len(enrolled.speakers), sizes, least=1)
    return _result(rivals, tests.speakers, len(enrolled.speakers), counts, draws, seed)


def linkability_from_scores(
    scores: ArrayLike,
    test_speakers: Sequence[str],
    enroll_speakers: Sequence[str],
    *,
    sizes: Sequence[int] | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> Linkability:
    """Return the Linkability of a score matrix.

    Parameters
    ----------
    scores
        (tests, enrolled speakers), higher for more similar voices.
    test_speakers, enroll_speakers
        Speaker of each row, which may share one, and of each column.
    sizes, draws, seed
        See :func:`linkability`.

    Examples
    --------
    >>> linkability_from_scores([[0.9, 0.1, 0.2], [0.8, 0.5, 0.1]], ["a", "b"], ["a", "b", "c"], sizes=[2, 3]).value
    array([0.75, 0.5 ])
    """
    matrix = np.asarray(scores)
    if matrix.shape != (len(test_speakers), len(enroll_speakers)) or not matrix.size:
        raise InputError(
            f"scores of shape {matrix.shape} for {len(test_speakers)} tests, {len(enroll_speakers)} enrolled speakers"
        )
    if np.isnan(matrix).any():
        raise InputError("the scores have a NaN", fix="check the speaker verification")
    own = own_columns(test_speakers, enroll_speakers)
    rivals = (matrix >= np.take_along_axis(matrix, own[:, None], axis=1)).sum(axis=1) - 1
    counts = legal.halving_sizes(len(enroll_speakers), sizes, least=1)
    return _result(rivals, tuple(test_speakers), len(enroll_speakers), counts, draws, seed)


def link_probabilities(rivals: ArrayLike, enrolled: int, size: int) -> Floats:
    """Return the probability that none of the rivals is among the ``size - 1`` others, drawn from ``enrolled - 1``.

    C(n - 1 - r, m) / C(n - 1, m) with m = N' - 1 is computed as the product over k < r of (n - 1 - m - k) /
    (n - 1 - k), which does not overflow and is exactly 0 if a rival cannot be avoided.

    Parameters
    ----------
    rivals
        Number of rivals of each test, any shape.
    enrolled, size
        Numbers of enrolled speakers, n and N'.

    Examples
    --------
    >>> link_probabilities([0, 1, 2, 3], enrolled=4, size=2)
    array([1.        , 0.66666667, 0.33333333, 0.        ])
    """
    k = np.arange(enrolled - 1)
    factors = np.maximum(enrolled - size - k, 0) / (enrolled - 1 - k)
    table = np.concatenate([[1.0], np.cumprod(factors)])
    return np.asarray(table[np.asarray(rivals)])


def _result(
    rivals: Ints, speakers: tuple[str, ...], enrolled: int, sizes: tuple[int, ...], draws: int | None, seed: int
) -> Linkability:
    if draws is None:
        components = np.stack([link_probabilities(rivals, enrolled, size) for size in sizes], axis=1)
    elif draws >= 1:
        # The number of rivals in a draw of N' - 1 others is hypergeometric; each test and each N' has draws of its own.
        streams = {size: np.random.default_rng([seed, 1, size]) for size in sizes}
        links = [
            rng.hypergeometric(rivals, enrolled - 1 - rivals, size - 1, size=(draws, len(rivals))) == 0
            for size, rng in streams.items()
        ]
        components = np.stack([linked.mean(axis=0) for linked in links], axis=1)
    else:
        raise InputError(f"draws = {draws} is too few", fix="give 1 or more, or None for the exact expectation")
    return Linkability(
        sizes=sizes,
        value=components.mean(axis=0),
        interval=legal.speaker_interval(components, speakers, seed=seed),
        chance=1 / np.array(sizes),
        speakers=speakers,
        components=components,
        rivals=np.asarray(rivals, dtype=np.int64),
        enrolled=enrolled,
    )


def own_columns(test_speakers: Sequence[str], enroll_speakers: Sequence[str]) -> NDArray[np.intp]:
    """Return the column of each test speaker among the enrolled ones, (tests,); an ``InputError`` if one is missing."""
    column = {speaker: index for index, speaker in enumerate(enroll_speakers)}
    if len(column) < len(enroll_speakers):
        raise InputError("an enrolled speaker occurs twice", fix="give one column a speaker")
    missing = [speaker for speaker in test_speakers if speaker not in column]
    if missing:
        raise InputError(f"test speaker {missing[0]!r} is not enrolled", fix="enroll every test speaker")
    return np.array([column[speaker] for speaker in test_speakers], dtype=np.intp)


def _rivals(test: Vectors, enrolled: Vectors, own: NDArray[np.intp]) -> Ints:
    """Return for each test the number of other enrolled speakers at least as similar as the own one."""
    rivals = np.empty(len(test), dtype=np.int64)
    step = max(1, legal.BLOCK_BYTES // (4 * len(enrolled)))
    tolerance = legal.score_tolerance(test.shape[1])
    for start in range(0, len(test), step):
        block = slice(start, start + step)
        rivals[block] = count_rivals(test[block] @ enrolled.T, test[block], enrolled, own[block], tolerance)[0]
    return rivals


@njit(cache=True, nogil=True)
def count_rivals(
    scores: Vectors, test: Vectors, enrolled: Vectors, own: NDArray[np.intp], tolerance: float
) -> tuple[Ints, Ints]:
    """Return the numbers of other speakers at least, and exactly, as similar to each test as the one in ``own``.

    Parameters
    ----------
    scores
        (tests, enrolled): matrix product of ``test`` and ``enrolled``. Where it does not decide, exact cosines do.
    test, enrolled
        L2-normalized x-vectors.
    own
        (tests,): a column of each test.
    tolerance
        Largest error of ``scores``.

    Returns
    -------
    rivals, ties
        (tests,): ties are among the rivals.
    """
    rivals, ties = np.zeros(len(scores), dtype=np.int64), np.zeros(len(scores), dtype=np.int64)
    for i in range(len(scores)):
        row = scores[i]
        surely_above, surely_below = row[own[i]] + 2 * tolerance, row[own[i]] - 2 * tolerance
        exact = exact_cosine(test[i], enrolled[own[i]])
        for j in range(len(row)):
            if row[j] > surely_above:
                rivals[i] += 1
            elif row[j] >= surely_below and j != own[i]:
                cosine = exact_cosine(test[i], enrolled[j])
                rivals[i] += cosine >= exact
                ties[i] += cosine == exact
    return rivals, ties
