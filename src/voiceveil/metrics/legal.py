"""Common parts of the two legal metrics: x-vectors of conversations, the speaker counts of a curve, intervals.

Conventions (Vauquier et al. 2025, "Legally validated evaluation framework for voice anonymization"): embeddings are
float arrays of shape (utterances, dimension) with a speaker id for each row. The x-vector of a conversation is the
plain mean of its L utterance embeddings; similarity is the cosine. Speakers are sorted by id, so that the order of the
rows only influences which utterances a random draw picks. Rates are fractions in [0, 1].

The metrics are :func:`~voiceveil.metrics.legal_singling_out.singling_out` and
:func:`~voiceveil.metrics.legal_linkability.linkability`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError

__all__ = [
    "Conversations",
    "UtteranceEmbeddings",
    "draw_conversations",
    "draw_rows",
    "exact_cosine",
    "halving_sizes",
    "score_tolerance",
    "speaker_interval",
    "speaker_means",
    "unit_rows",
    "utterance_embeddings",
]

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
Ints = NDArray[np.int64]

#: Scores are computed in blocks of about this many bytes, whatever the number of speakers.
BLOCK_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class UtteranceEmbeddings:
    """Checked embeddings of utterances, with their speakers; :func:`utterance_embeddings` makes them.

    Parameters
    ----------
    names
        Speaker ids, sorted.
    codes
        (n,): row i of ``matrix`` is of the speaker ``names[codes[i]]``.
    matrix
        (n, d).
    """

    names: tuple[str, ...]
    codes: Ints
    matrix: NDArray[np.floating]

    @property
    def counts(self) -> Ints:
        """Return the number of utterances of each speaker, (speakers,)."""
        return np.bincount(self.codes, minlength=len(self.names))


@dataclass(frozen=True, eq=False)
class Conversations:
    """X-vectors of conversations.

    Parameters
    ----------
    speakers
        Speaker ids, sorted.
    vectors
        (m, d), L2-normalized; those of a speaker are in consecutive rows.
    counts
        (speakers,): the number of x-vectors of each speaker.
    """

    speakers: tuple[str, ...]
    vectors: Vectors
    counts: Ints


def draw_rows(
    codes: Ints, length: int, *, most: int, least: int = 1, rng: np.random.Generator
) -> tuple[NDArray[np.intp], Ints]:
    """Draw random groups of rows that are of one speaker each and have no row in common.

    Parameters
    ----------
    codes
        The speaker, 0 to S - 1, of each row.
    length
        Rows in a group.
    most, least
        Largest number of groups of a speaker, and the number below which a speaker gets none.
    rng
        Source of randomness.

    Returns
    -------
    rows
        (groups, length), ordered by speaker.
    counts
        (S,): groups of each speaker.
    """
    if length < 1:
        raise InputError(f"a conversation length of {length} is impossible", fix="give at least one utterance")
    available = np.bincount(codes)
    counts = np.minimum(available // length, most)
    counts[counts < least] = 0
    if not counts.any():
        raise InputError(f"no speaker has {least * length} utterances", fix="use a smaller conversation length")
    shuffled = rng.permutation(len(codes))
    rows = shuffled[np.argsort(codes[shuffled], kind="stable")]
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(available) - available, available)  # within the speaker
    return rows[rank < np.repeat(counts * length, available)].reshape(-1, length), counts


def draw_conversations(
    embeddings: UtteranceEmbeddings, length: int, *, most: int, least: int = 1, rng: np.random.Generator
) -> Conversations:
    """Return random x-vectors of each speaker.

    Parameters
    ----------
    embeddings
        Embeddings of utterances.
    length
        Utterances, drawn without replacement, that an x-vector is the mean of.
    most, least
        Largest number of x-vectors of a speaker, and the number below which a speaker is left out.
    rng
        Source of randomness.
    """
    rows, counts = draw_rows(embeddings.codes, length, most=most, least=least, rng=rng)
    present = np.flatnonzero(counts)
    vectors = np.empty((len(rows), embeddings.matrix.shape[1]), dtype=np.float32)
    step = max(1, BLOCK_BYTES // (8 * length * embeddings.matrix.shape[1]))
    for start in range(0, len(rows), step):  # in blocks: no second copy of the embeddings is made
        vectors[start : start + step] = unit_rows(embeddings.matrix[rows[start : start + step]].mean(axis=1))
    return Conversations(tuple(embeddings.names[s] for s in present), vectors, counts[present])


def speaker_means(
    embeddings: UtteranceEmbeddings, *, most: int | None = None, rng: np.random.Generator | None = None
) -> Conversations:
    """Return one x-vector for each speaker: the mean of all utterances, or of up to ``most`` that ``rng`` draws."""
    order = np.argsort(embeddings.codes, kind="stable")
    if most is not None:
        order = draw_rows(embeddings.codes, 1, most=most, rng=rng or np.random.default_rng())[0][:, 0]
    present, counts = np.unique(embeddings.codes[order], return_counts=True)
    ends = np.cumsum(counts)
    means = np.empty((len(present), embeddings.matrix.shape[1]), dtype=embeddings.matrix.dtype)
    step = max(1, BLOCK_BYTES // (8 * embeddings.matrix.shape[1] * int(counts.max(initial=1))))
    for start in range(0, len(present), step):
        block = slice(start, start + step)
        first = ends[start] - counts[start]
        rows = order[first : ends[block][-1]]
        sums = np.add.reduceat(embeddings.matrix[rows], ends[block] - counts[block] - first, axis=0)
        means[block] = sums / counts[block, None]
    speakers = tuple(embeddings.names[s] for s in present)
    return Conversations(speakers, unit_rows(means), np.ones(len(present), dtype=np.int64))


def unit_rows(matrix: ArrayLike) -> Vectors:
    """Return the L2-normalized rows, float32 and contiguous; an ``InputError`` for a row of zeros."""
    rows = np.asarray(matrix)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (norms > 0).all():
        raise InputError("an embedding is all zeros", fix="leave out utterances without speech")
    return np.ascontiguousarray(rows / norms, dtype=np.float32)


def utterance_embeddings(embeddings: ArrayLike, speakers: Sequence[str]) -> UtteranceEmbeddings:
    """Check embeddings and group them by speaker.

    Parameters
    ----------
    embeddings
        (utterances, dimension).
    speakers
        Speaker id of each row.

    Raises
    ------
    InputError
        If the shapes do not fit, or a value is not finite.
    """
    matrix = np.asarray(embeddings)
    if not np.issubdtype(matrix.dtype, np.floating):
        matrix = matrix.astype(np.float64)
    if matrix.ndim != 2 or not matrix.size or len(matrix) != len(speakers):
        raise InputError(
            f"embeddings of shape {matrix.shape} for {len(speakers)} speaker ids", fix="give (utterances, dimension)"
        )
    if not np.isfinite(matrix).all():
        raise InputError("the embeddings have a NaN or an infinite value", fix="check the speaker encoder")
    names, codes = np.unique(np.asarray(speakers), return_inverse=True)
    return UtteranceEmbeddings(tuple(map(str, names)), codes.astype(np.int64), matrix)


def halving_sizes(n: int, sizes: Sequence[int] | None, least: int) -> tuple[int, ...]:
    """Return the speaker counts of a curve, ascending.

    Parameters
    ----------
    n
        Number of speakers.
    sizes
        The speaker counts; None: n, n/2, n/4, ... down to 20.
    least
        Smallest speaker count that is allowed.
    """
    if sizes is None:
        sizes = [n >> k for k in range(n.bit_length()) if k == 0 or n >> k >= 20]
    for size in sizes:
        if not least <= size <= n:
            raise InputError(f"a speaker count of {size} is impossible", fix=f"between {least} and {n} are possible")
    if not len(sizes):
        raise InputError("no speaker count", fix="give at least one size")
    return tuple(sorted({int(size) for size in sizes}))


def speaker_interval(components: Floats, speakers: Sequence[str], *, seed: int) -> Floats:
    """Return the 95% interval of the mean of each column, (k, 2), by a bootstrap over speakers.

    All columns share the resamples, since drawing those of 5,000 speakers takes longer than computing the metric. A
    rate above one half is treated as one minus a small one, so that 69 of 69 speakers do not give a width of zero.

    Parameters
    ----------
    components
        (rows, k) rates.
    speakers
        Speaker id of each row.
    seed
        Seed of the resamples.
    """
    from voiceveil.stats.intervals import Range, interval

    _, codes = np.unique(np.asarray(speakers), return_inverse=True)
    rows = np.bincount(codes).astype(np.float64)
    sums = np.zeros((len(rows), components.shape[1]))
    np.add.at(sums, codes, components)
    draws = np.random.default_rng(seed).multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=1000)
    means = (draws @ sums) / (draws @ rows)[:, None]
    values = components.mean(axis=0)
    estimates = [
        interval(float(v), m, len(rows), span=Range(1.0, mirrored=v > 0.5))
        for v, m in zip(values, means.T, strict=True)
    ]
    return np.array([(estimate.low, estimate.high) for estimate in estimates])


@njit(cache=True, nogil=True)
def exact_cosine(x: Vectors, y: Vectors) -> float:
    """Return the dot product of two unit vectors, summed in order and in float64.

    A float32 matrix product rounds equal rows differently depending on their position; this does not, so that ties
    stay ties. It decides where the matrix product is not precise enough.
    """
    total = 0.0
    for k in range(len(x)):
        total += np.float64(x[k]) * np.float64(y[k])
    return total


def score_tolerance(dimension: int) -> float:
    """Return the largest error of a float32 dot product of unit vectors (n ε, Higham 2002, section 3.1)."""
    return dimension * float(np.finfo(np.float32).eps)
