"""Singling Out: how often a voice sample isolates one person among N, whoever it is.

Conventions: see :mod:`voiceveil.metrics.legal`; threshold, isolation and chance: :mod:`voiceveil.metrics.isolation`.

The protocol (section 3.4 and footnote 4 of the paper). For each enrolled speaker, N test speakers are drawn, the
enrolled one among them. Each has up to ten x-vectors of L utterances. In each of ten folds one x-vector of each test
speaker is the test and the others calibrate; the threshold is the mean of the 9th and the 10th calibration score.
This is averaged over folds, enrolled speakers and five draws. A speaker with K < 10 x-vectors calibrates with K - 1;
one with K < 2 is left out, hence at L = 30 all with fewer than 60 utterances.

Footnote 4 then takes the (K - 1)-th and the K-th score. When speakers differ in K, ``rank`` says whose it is:

* ``"published"`` (default): K of the enrolled speaker, as in the authors' code;
* ``"balanced"``: the mean number of calibration x-vectors of the N speakers, rounded: what makes the mean of the
  predicate 1/N, as section 2.1 demands;
* ``"official"``: always the 9th and 10th score, as the first version of the public code.

With K = 10 for everybody all are the same. That first version differs in more: its folds drop a random tenth of the
calibration x-vectors and never change the test; :func:`~voiceveil.metrics.isolation.isolated` is its inner function.

The x-vectors are drawn once a draw, not once a draw and enrolled speaker, and the N speakers of a smaller N are among
those of a larger one: this makes curves smooth and changes no expectation.
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
from voiceveil.metrics.isolation import OFFICIAL_RANK, Chance, Rank, Row, row_isolation
from voiceveil.metrics.legal import Floats, Ints, Vectors, exact_cosine

__all__ = ["SinglingOut", "singling_out", "singling_out_from_scores", "singling_out_of"]


@dataclass(frozen=True, eq=False)
class SinglingOut:
    """One entry for each N in ``sizes``, ascending.

    ``value``: (k,); ``interval``: (k, 2), 95%, from a bootstrap over the enrolled speakers; ``chance``: (k,), the
    same protocol with the x-vectors behind these very scores shuffled; ``chance_bounds``: closed forms of it for scores
    of which no two are equal, means over the thresholds of all enrolled speakers and draws; ``components``: (enrolled
    speakers, k), means over folds and draws; ``control``: (enrolled speakers, k), the first draw again, with N test
    speakers (all others, if there are no more) among whom the enrolled one is not; NaN if these are too few.
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
    test: ArrayLike,
    test_speakers: Sequence[str],
    enroll: ArrayLike,
    enroll_speakers: Sequence[str],
    *,
    sizes: Sequence[int] | None = None,
    length: int = 1,
    enroll_length: int = 30,
    most_enrolled: int | None = None,
    folds: int = 10,
    draws: int = 5,
    rank: Rank = "published",
    seed: int = 0,
) -> SinglingOut:
    """Singling Out from embeddings, (utterances, dimension) and a speaker id a row.

    ``length`` is L; an enrolled speaker is the mean of up to ``enroll_length`` random utterances (30 in the paper; the
    authors' last script took 10); ``most_enrolled`` limits their number, at random (495 in the paper). ``sizes`` are
    the N (default: all test speakers, and their number halved down to 20). Enrolled speakers without enough test
    utterances are left out.
    """
    return singling_out_of(
        legal.voices(test, test_speakers),
        legal.voices(enroll, enroll_speakers),
        sizes=sizes,
        length=length,
        enroll_length=enroll_length,
        most_enrolled=most_enrolled,
        folds=folds,
        draws=draws,
        rank=rank,
        seed=seed,
    )


def singling_out_of(
    test: legal.Voices,
    enroll: legal.Voices,
    *,
    sizes: Sequence[int] | None = None,
    length: int = 1,
    enroll_length: int = 30,
    most_enrolled: int | None = None,
    only: Collection[str] | None = None,
    folds: int = 10,
    draws: int = 5,
    rank: Rank = "published",
    seed: int = 0,
) -> SinglingOut:
    """The same of embeddings that are checked already; of the enrolled speakers ``only`` these attack.

    Who is enrolled, and with which utterances, does not depend on ``only``: parts make a whole.
    """
    rng = np.random.default_rng(seed)
    enrolled = legal.mean_voices(enroll, most=enroll_length, rng=rng)

    def draw() -> _Draw:
        tests = legal.draw_conversations(test, length, most=folds, least=2, rng=rng)
        if tests.vectors.shape[1] != enrolled.vectors.shape[1]:
            raise InputError(
                f"embeddings of {tests.vectors.shape[1]} and {enrolled.vectors.shape[1]} dimensions",
                fix="embed both sides with one encoder",
            )
        return _Draw(tests.speakers, tests.counts, lambda rows: _vector_rows(enrolled.vectors[rows], tests.vectors))

    return _run(enrolled.speakers, draw, sizes, most_enrolled, only, folds, draws, rank, rng, seed)


def singling_out_from_scores(
    scores: ArrayLike,
    enroll_speakers: Sequence[str],
    test_speakers: Sequence[str],
    *,
    sizes: Sequence[int] | None = None,
    folds: int = 10,
    draws: int = 5,
    rank: Rank = "published",
    seed: int = 0,
) -> SinglingOut:
    """Singling Out from scores, (enrolled speakers, test x-vectors), higher being more similar.

    ``test_speakers`` names the speaker of each column; each draw splits at most ``folds`` columns a speaker anew.
    """
    matrix = np.asarray(scores, dtype=np.float64)
    if matrix.shape != (len(enroll_speakers), len(test_speakers)) or not matrix.size:
        raise InputError(f"scores of shape {matrix.shape}", fix="give (enrolled speakers, test x-vectors)")
    if not np.isfinite(matrix).all():
        raise InputError("the scores have a NaN or an infinite value", fix="check the speaker verification")
    if len(set(enroll_speakers)) < len(enroll_speakers):
        raise InputError("an enrolled speaker occurs twice", fix="give one row a speaker")
    names, codes = np.unique(np.asarray(test_speakers), return_inverse=True)
    rng = np.random.default_rng(seed)

    def draw() -> _Draw:
        columns, counts = legal.draw_rows(codes.astype(np.int64), 1, most=folds, least=2, rng=rng)
        present = np.flatnonzero(counts)
        speakers = tuple(str(names[s]) for s in present)
        return _Draw(speakers, counts[present], lambda rows: _score_rows(matrix[np.ix_(rows, columns[:, 0])]))

    return _run(tuple(enroll_speakers), draw, sizes, None, None, folds, draws, rank, rng, seed)


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


def _run(
    enrolled: tuple[str, ...],
    draw: Callable[[], _Draw],
    sizes: Sequence[int] | None,
    most_enrolled: int | None,
    only: Collection[str] | None,
    folds: int,
    draws: int,
    rank: Rank,
    rng: np.random.Generator,
    seed: int,
) -> SinglingOut:
    if folds < 2 or draws < 1 or rank not in ("published", "balanced", "official"):
        raise InputError(f"folds {folds}, draws {draws}, rank {rank!r}", fix="2 or more, 1 or more, and a known rank")
    split = draw()
    column = {speaker: s for s, speaker in enumerate(split.speakers)}
    chosen = np.array([row for row, speaker in enumerate(enrolled) if speaker in column], dtype=np.int64)
    if not len(chosen):
        raise InputError("no enrolled speaker has test x-vectors", fix="enroll test speakers, with other utterances")
    if most_enrolled is not None and most_enrolled < len(chosen):
        chosen = np.sort(rng.choice(chosen, most_enrolled, replace=False))
    if only is not None:
        chosen = np.array([row for row in chosen if enrolled[row] in only], dtype=np.int64)
        if not len(chosen):
            raise InputError("none of these speakers is enrolled and tested")
    own = [column[enrolled[row]] for row in chosen]
    curve = legal.halving_sizes(len(split.speakers), sizes, least=2)
    rates, chances, bounds = np.zeros((len(chosen), len(curve))), np.zeros(len(curve)), np.zeros((len(curve), 3))
    control = np.full((len(chosen), len(curve)), np.nan)
    for number in range(draws):
        split = split if number == 0 else draw()
        for at, row in enumerate(split.rows(chosen)):
            others = rng.permutation(len(split.speakers) - 1)
            members = np.r_[own[at], others + (others >= own[at])]
            for k, size in enumerate(curve):
                rate, chance, closed = row_isolation(row, members[:size], split.counts, folds, rank, rng)
                rates[at, k] += rate / draws
                chances[k] += chance / (draws * len(chosen))
                bounds[k] += np.array(astuple(closed)) / (draws * len(chosen))
                absent = members[1 : size + 1]
                if number == 0 and (split.counts[absent] - 1).sum() > max(split.counts[own[at]], OFFICIAL_RANK):
                    control[at, k] = row_isolation(row, absent, split.counts, folds, rank, rng, own[at])[0]
    speakers = tuple(enrolled[row] for row in chosen)
    return SinglingOut(
        sizes=curve,
        value=rates.mean(axis=0),
        interval=legal.speaker_interval(rates, speakers, seed=seed),
        chance=chances,
        chance_bounds=tuple(Chance(*map(float, row)) for row in bounds),
        speakers=speakers,
        components=rates,
        control=control,
    )
