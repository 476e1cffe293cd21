"""Singling Out: how often a voice sample isolates one person among N, whoever it is.

Conventions: see :mod:`voiceveil.metrics.legal`; threshold, isolation and chance: :mod:`voiceveil.metrics.isolation`.

The protocol (section 3.4 and footnote 4 of the paper). For each enrolled speaker, N test speakers are drawn, including
the enrolled one. Each has up to ten x-vectors of L utterances. In each of ten folds one x-vector of each test speaker
is the test and the others calibrate; the threshold is the mean of the 9th and the 10th calibration score. The result is
averaged over folds, enrolled speakers and five draws. A speaker with K < 10 x-vectors calibrates with K - 1; one with
K < 2 is left out, hence at L = 30 all with fewer than 60 utterances.

In this case footnote 4 takes the (K - 1)-th and the K-th score. When speakers differ in K, ``rank`` chooses the K:

* ``"published"`` (default): K of the enrolled speaker, as in the authors' code;
* ``"balanced"``: the mean number of calibration x-vectors of the N speakers, rounded, with which the mean of the
  predicate is 1/N, as section 2.1 demands;
* ``"official"``: always the 9th and 10th score, as in the first code that the authors published.

With K = 10 for everybody all are the same. That first code, which the authors have withdrawn (their version 2.0.0
replaces it, as it did not implement the paper), has other differences: its folds drop a random tenth of the calibration
x-vectors and never change the test; its inner function is :func:`~voiceveil.metrics.isolation.isolated`.

The x-vectors are drawn once for each draw, not once for each draw and enrolled speaker, and the N speakers of a smaller
N are among those of a larger one: this makes curves smooth and does not change expectations. Members and shuffles have
random streams of their own for each draw, enrolled speaker and N: the value at an N does not depend on which other N
are asked for, nor that of a speaker on which other speakers attack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError
from voiceveil.metrics import legal
from voiceveil.metrics.isolation import OFFICIAL_RANK, Chance, Row, SinglingOutProtocol, row_isolation
from voiceveil.metrics.legal import Floats, Ints, UtteranceEmbeddings, Vectors, exact_cosine

__all__ = ["SinglingOut", "singling_out", "singling_out_from_scores"]


@dataclass(frozen=True, eq=False)
class SinglingOut:
    """Singling Out for k values of N.

    Parameters
    ----------
    sizes
        The N, ascending.
    value
        (k,).
    interval
        (k, 2): 95%, from a bootstrap over the enrolled speakers.
    chance
        (k,): the value after shuffling the x-vectors behind the same scores.
    chance_bounds
        Closed forms of the chance for scores without ties: means over enrolled speakers and draws.
    speakers, components
        Enrolled speakers, and their means over folds and draws, (speakers, k).
    control
        (speakers, k): the first draw with N test speakers (or all others, if fewer) without the enrolled one; NaN if
        these are too few.
    """

    sizes: tuple[int, ...]
    value: Floats
    interval: Floats
    chance: Floats
    chance_bounds: tuple[Chance, ...]
    speakers: tuple[str, ...]
    components: Floats
    control: Floats


def singling_out(
    test: UtteranceEmbeddings,
    enroll: UtteranceEmbeddings,
    protocol: SinglingOutProtocol = SinglingOutProtocol(),  # noqa: B008 -- frozen
    *,
    sizes: Sequence[int] | None = None,
    only: Collection[str] | None = None,
    seed: int = 0,
) -> SinglingOut:
    """Return Singling Out of embeddings.

    Parameters
    ----------
    test, enroll
        Embeddings, see :func:`~voiceveil.metrics.legal.utterance_embeddings`. Enrolled speakers without enough test
        utterances are left out.
    protocol
        Lengths, folds, draws and threshold.
    sizes
        The N (default: the number of test speakers, and its halves down to 20).
    only
        Enrolled speakers who attack (default: all). Which speakers are enrolled, and with which utterances, does not
        depend on it, so that results of parts can be joined.
    seed
        Seed of the draws and of the interval.

    Raises
    ------
    InputError
        If too few speakers have enough utterances, or none of ``only`` is enrolled.
    """
    rng = np.random.default_rng(seed)
    enrolled = legal.speaker_means(enroll, most=protocol.enroll_length, rng=rng)

    def draw() -> _Draw:
        tests = legal.draw_conversations(test, protocol.length, most=protocol.folds, least=2, rng=rng)
        if tests.vectors.shape[1] != enrolled.vectors.shape[1]:
            raise InputError(
                f"embeddings of {tests.vectors.shape[1]} and {enrolled.vectors.shape[1]} dimensions",
                fix="embed both sides with one encoder",
            )
        return _Draw(tests.speakers, tests.counts, lambda rows: _vector_rows(enrolled.vectors[rows], tests.vectors))

    return _run(_Data(enrolled.speakers, draw, rng, seed), protocol, sizes, only)


def singling_out_from_scores(
    scores: ArrayLike,
    enroll_speakers: Sequence[str],
    test_speakers: Sequence[str],
    protocol: SinglingOutProtocol = SinglingOutProtocol(),  # noqa: B008 -- frozen
    *,
    sizes: Sequence[int] | None = None,
    seed: int = 0,
) -> SinglingOut:
    """Return Singling Out of scores.

    Parameters
    ----------
    scores
        (enrolled speakers, test x-vectors), higher for more similar voices.
    enroll_speakers, test_speakers
        Speaker of each row and of each column; each draw splits at most ``protocol.folds`` columns of a speaker anew.
    protocol, sizes, seed
        See :func:`singling_out`; lengths are not used.
    """
    matrix = np.asarray(scores, dtype=np.float64)
    if matrix.shape != (len(enroll_speakers), len(test_speakers)) or not matrix.size:
        raise InputError(f"scores of shape {matrix.shape}", fix="give (enrolled speakers, test x-vectors)")
    if not np.isfinite(matrix).all():
        raise InputError("the scores have a NaN or an infinite value", fix="check the speaker verification")
    if len(set(enroll_speakers)) < len(enroll_speakers):
        raise InputError("an enrolled speaker occurs twice", fix="give one row for each speaker")
    names, codes = np.unique(np.asarray(test_speakers), return_inverse=True)
    rng = np.random.default_rng(seed)

    def draw() -> _Draw:
        columns, counts = legal.draw_rows(codes.astype(np.int64), 1, most=protocol.folds, least=2, rng=rng)
        present = np.flatnonzero(counts)
        speakers = tuple(str(names[s]) for s in present)
        return _Draw(speakers, counts[present], lambda rows: _score_rows(matrix[np.ix_(rows, columns[:, 0])]))

    return _run(_Data(tuple(enroll_speakers), draw, rng, seed), protocol, sizes, None)


@dataclass(frozen=True, eq=False)
class _Draw:
    """One split of the test data: speaker s has ``counts[s]`` consecutive columns in each of the ``rows``."""

    speakers: tuple[str, ...]
    counts: Ints
    rows: Callable[[Ints], Iterator[Row]]

    def __post_init__(self) -> None:
        if len(self.speakers) < 2:
            raise InputError("fewer than two test speakers have two x-vectors", fix="use a smaller conversation length")


def _score_rows(scores: Floats) -> Iterator[Row]:
    for row in scores:
        yield Row(row, 0.0, row.__getitem__)


def _vector_rows(enrolled: Vectors, tests: Vectors) -> Iterator[Row]:
    step = max(1, legal.BLOCK_BYTES // (4 * len(tests)))
    tolerance = legal.score_tolerance(tests.shape[1])
    for start in range(0, len(enrolled), step):
        block = enrolled[start : start + step]
        for vector, scores in zip(block, block @ tests.T, strict=True):
            yield Row(scores, tolerance, partial(_exact_cosines, vector, tests))


@njit(cache=True, nogil=True)
def _exact_cosines(vector: Vectors, tests: Vectors, columns: Ints) -> Floats:
    cosines = np.empty(len(columns))
    for k in range(len(columns)):
        cosines[k] = exact_cosine(vector, tests[columns[k]])
    return cosines


@dataclass(frozen=True, eq=False)
class _Data:
    """The enrolled speakers, and a function that draws the test data.

    ``rng``, whose seed is ``seed``, draws utterances and enrolled speakers, and nothing that depends on the N.
    """

    enrolled: Sequence[str]
    draw: Callable[[], _Draw]
    rng: np.random.Generator
    seed: int

    def attackers(self, split: _Draw, most: int | None, only: Collection[str] | None) -> Ints:
        """Return the rows of the enrolled speakers who attack: at most ``most`` with test x-vectors, of ``only``."""
        tested = set(split.speakers)
        rows = np.array([row for row, speaker in enumerate(self.enrolled) if speaker in tested], dtype=np.int64)
        if not len(rows):
            fix = "enroll test speakers, with other utterances"
            raise InputError("no enrolled speaker has test x-vectors", fix=fix)
        if most is not None and most < len(rows):
            rows = np.sort(self.rng.choice(rows, most, replace=False))
        if only is not None:
            rows = np.array([row for row in rows if self.enrolled[row] in only], dtype=np.int64)
            if not len(rows):
                raise InputError("none of these speakers is enrolled and tested")
        return rows


def _run(
    data: _Data, protocol: SinglingOutProtocol, sizes: Sequence[int] | None, only: Collection[str] | None
) -> SinglingOut:
    draws = protocol.draws
    split = data.draw()
    column = {speaker: s for s, speaker in enumerate(split.speakers)}
    chosen = data.attackers(split, protocol.most_enrolled, only)
    speakers = tuple(data.enrolled[row] for row in chosen)
    own = [column[speaker] for speaker in speakers]
    curve = legal.halving_sizes(len(split.speakers), sizes, least=2)
    rates, chances, bounds = np.zeros((len(chosen), len(curve))), np.zeros(len(curve)), np.zeros((len(curve), 3))
    control = np.full((len(chosen), len(curve)), np.nan)
    for number in range(draws):
        split = split if number == 0 else data.draw()
        for attacker, row in enumerate(split.rows(chosen)):
            stream = [data.seed, number, int(chosen[attacker])]
            others = np.random.default_rng([*stream, 0]).permutation(len(split.speakers) - 1)
            members = np.r_[own[attacker], others + (others >= own[attacker])]
            for k, size in enumerate(curve):
                rng = np.random.default_rng([*stream, size])  # sizes are 2 or more
                rate, chance, closed = row_isolation(row, members[:size], split.counts, protocol, rng)
                rates[attacker, k] += rate / draws
                chances[k] += chance / (draws * len(chosen))
                bounds[k] += np.array(astuple(closed)) / (draws * len(chosen))
                absent = members[1 : size + 1]
                enough = (split.counts[absent] - 1).sum() > max(split.counts[own[attacker]], OFFICIAL_RANK)
                if number == 0 and enough:
                    control[attacker, k] = row_isolation(row, absent, split.counts, protocol, rng, own[attacker])[0]
    return SinglingOut(
        sizes=curve,
        value=rates.mean(axis=0),
        interval=legal.speaker_interval(rates, speakers, seed=data.seed),
        chance=chances,
        chance_bounds=tuple(Chance(*map(float, row)) for row in bounds),
        speakers=speakers,
        components=rates,
        control=control,
    )
