"""What the two legal metrics share: x-vectors of conversations, the speaker counts of a curve, intervals.

Conventions (Vauquier et al. 2025, "Legally validated evaluation framework for voice anonymization"): embeddings are
float arrays of shape (utterances, dimension) with a speaker id for each row. The x-vector of a conversation is the
plain mean of its L utterance embeddings; similarity is the cosine. Speakers are sorted by id, so that nothing depends
on the order of the rows except which utterances a random draw picks. Rates are fractions in [0, 1].

The metrics are :func:`~voiceveil.metrics.singling.singling_out` and :func:`~voiceveil.metrics.linking.linkability`.
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
    "Voices",
    "conversations",
    "draw_conversations",
    "draw_rows",
    "exact_cosine",
    "halving_sizes",
    "mean_voices",
    "score_tolerance",
    "speaker_interval",
    "speaker_means",
    "unit_rows",
    "voices",
]

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
Ints = NDArray[np.int64]

#: Scores are computed in blocks of about this many bytes, whatever the number of speakers.
BLOCK_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class Voices:
    """Checked embeddings: row i of ``matrix``, (n, d), is of the speaker ``names[codes[i]]``; names are sorted.

    Made once and passed around: to sort a million names takes longer than most of what is done with them.
    """

    names: tuple[str, ...]
    codes: Ints
    matrix: NDArray[np.floating]

    @property
    def counts(self) -> Ints:
        """Utterances of each speaker, (speakers,)."""
        return np.bincount(self.codes, minlength=len(self.names))


@dataclass(frozen=True, eq=False)
class Conversations:
    """``vectors``: unit x-vectors, (m, d), those of a speaker in consecutive rows; ``speakers``: ids, sorted.

    Speaker s has ``counts[s]`` of them.
    """

    speakers: tuple[str, ...]
    vectors: Vectors
    counts: Ints


def draw_rows(
    codes: Ints, length: int, *, most: int, least: int = 1, rng: np.random.Generator
) -> tuple[NDArray[np.intp], Ints]:
    """Random groups of ``length`` rows of one speaker each: rows, (groups, length), and groups a speaker.

    ``codes``: the speaker, 0..S-1, of each row. Each speaker gets up to ``most`` groups without common rows, those
    of speaker 0 first; speakers with fewer than ``least * length`` rows get none.
    """
    if length < 1:
        raise InputError(f"conversation length {length}", fix="give at least one utterance")
    available = np.bincount(codes)
    counts = np.minimum(available // length, most)
    counts[counts < least] = 0
    if not counts.any():
        raise InputError(f"no speaker has {least * length} utterances", fix="use a smaller conversation length")
    shuffled = rng.permutation(len(codes))
    rows = shuffled[np.argsort(codes[shuffled], kind="stable")]
    place = np.arange(len(rows)) - np.repeat(np.cumsum(available) - available, available)
    return rows[place < np.repeat(counts * length, available)].reshape(-1, length), counts


def conversations(
    embeddings: ArrayLike,
    speakers: Sequence[str],
    length: int,
    *,
    most: int,
    least: int = 1,
    rng: np.random.Generator,
) -> Conversations:
    """Up to ``most`` x-vectors a speaker, each the mean of ``length`` utterances drawn without replacement.

    Speakers with fewer than ``least * length`` utterances are left out.
    """
    return draw_conversations(voices(embeddings, speakers), length, most=most, least=least, rng=rng)


def draw_conversations(
    spoken: Voices, length: int, *, most: int, least: int = 1, rng: np.random.Generator
) -> Conversations:
    """The same of embeddings that are checked already; block by block, so that no second copy of them is made."""
    rows, counts = draw_rows(spoken.codes, length, most=most, least=least, rng=rng)
    present = np.flatnonzero(counts)
    vectors = np.empty((len(rows), spoken.matrix.shape[1]), dtype=np.float32)
    step = max(1, BLOCK_BYTES // (8 * length * spoken.matrix.shape[1]))
    for start in range(0, len(rows), step):
        vectors[start : start + step] = unit_rows(spoken.matrix[rows[start : start + step]].mean(axis=1))
    return Conversations(tuple(spoken.names[s] for s in present), vectors, counts[present])


def speaker_means(
    embeddings: ArrayLike, speakers: Sequence[str], *, most: int | None = None, rng: np.random.Generator | None = None
) -> Conversations:
    """Return one x-vector a speaker: the mean of all their utterances, or of up to ``most`` that ``rng`` draws."""
    return mean_voices(voices(embeddings, speakers), most=most, rng=rng)


def mean_voices(
    spoken: Voices, *, most: int | None = None, rng: np.random.Generator | None = None, of: Ints | None = None
) -> Conversations:
    """The same of embeddings that are checked already; ``of``: the speakers (codes, ascending) who are wanted."""
    order = np.argsort(spoken.codes, kind="stable")
    if most is not None:
        order = draw_rows(spoken.codes, 1, most=most, rng=rng or np.random.default_rng())[0][:, 0]
    if of is not None:
        order = order[np.isin(spoken.codes[order], of)]
    heard, counts = np.unique(spoken.codes[order], return_counts=True)
    ends = np.cumsum(counts)
    means = np.empty((len(heard), spoken.matrix.shape[1]), dtype=spoken.matrix.dtype)
    step = max(1, BLOCK_BYTES // (8 * spoken.matrix.shape[1] * int(counts.max(initial=1))))
    for start in range(0, len(heard), step):
        some = slice(start, start + step)
        first = ends[start] - counts[start]
        rows = order[first : ends[some][-1]]
        sums = np.add.reduceat(spoken.matrix[rows], ends[some] - counts[some] - first, axis=0)
        means[some] = sums / counts[some, None]
    return Conversations(tuple(spoken.names[s] for s in heard), unit_rows(means), np.ones(len(heard), dtype=np.int64))


def unit_rows(matrix: ArrayLike) -> Vectors:
    """Return each row divided by its norm, float32 and contiguous; a row of zeros has no direction: ``InputError``."""
    rows = np.asarray(matrix)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (norms > 0).all():
        raise InputError("an embedding is all zeros", fix="leave out utterances without speech")
    return np.ascontiguousarray(rows / norms, dtype=np.float32)


def voices(embeddings: ArrayLike, speakers: Sequence[str]) -> Voices:
    """Embeddings, (utterances, dimension), with a speaker id a row; checked."""
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
    return Voices(tuple(map(str, names)), codes.astype(np.int64), matrix)


def halving_sizes(n: int, sizes: Sequence[int] | None, least: int) -> tuple[int, ...]:
    """Return the speaker counts of a curve: as given, or n, n/2, n/4, ... down to 20, ascending."""
    if sizes is None:
        sizes = [n >> k for k in range(n.bit_length()) if k == 0 or n >> k >= 20]
    for size in sizes:
        if not least <= size <= n:
            raise InputError(f"{size} speakers asked for", fix=f"between {least} and {n} are possible here")
    if not len(sizes):
        raise InputError("no speaker count", fix="give at least one size")
    return tuple(sorted({int(size) for size in sizes}))


def speaker_interval(components: Floats, speakers: Sequence[str], *, seed: int) -> Floats:
    """95% interval of the mean of each column of ``components``, (rows, k), by a bootstrap over speakers: (k, 2).

    All columns share the resamples: drawing those of 5,000 speakers takes longer than computing the metric. A rate
    above one half is treated as one minus a small one, so that 69 of 69 speakers are not taken for everybody.
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

    A float32 matrix product rounds equal rows differently depending on where they stand; this does not, so that ties
    stay ties. It decides wherever the matrix product is too close to call.
    """
    total = 0.0
    for k in range(len(x)):
        total += np.float64(x[k]) * np.float64(y[k])
    return total


def score_tolerance(dimension: int) -> float:
    """How far a float32 dot product of unit vectors can be from the exact one (n ε, Higham 2002, section 3.1)."""
    return dimension * float(np.finfo(np.float32).eps)
