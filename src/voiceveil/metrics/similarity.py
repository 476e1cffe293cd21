"""Voice similarity matrices, de-identification (DeID) and gain of voice distinctiveness (G_VD).

Conventions: ``scores`` is a matrix of shape (n, n) of utterance-versus-utterance scores, ``scores[k, l]`` between
utterances k and l, and ``speakers`` names the speaker of each of the n utterances. On the original data (M_oo) and on
the anonymized data (M_aa) it is symmetric; for M_oa row k is the original and column l the anonymized utterance.
Rows and columns are the same utterances in the same order. Scores need not be calibrated: PAV with Laplace's rule
turns each matrix into log-likelihood ratios (natural logarithm) by itself, as the challenge does.

* :func:`similarity_matrix`: speakers × speakers similarities in (0, 1) (Tomashenko et al. 2022, equation 1)
* :func:`diagonal_dominance`: how much more similar speakers are to themselves than to others (equation 2)
* :func:`deid`: 1 - D_diag(M_oa) / D_diag(M_oo), a fraction: 1 = perfect de-identification, 0 = none
* :func:`gvd`: 10 log10(D_diag(M_aa) / D_diag(M_oo)), dB: 0 = voices as distinct as before, negative = less distinct

Where paper and code differ:

* ``official`` (default): the mean LLR of a speaker pair is the sum over its *unordered* utterance pairs k < l divided
  by their number; the matrix is symmetric. All challenges report these figures. In M_oa only pairs (original k,
  anonymized l) with k < l are used, hence half of the data, and the order of the utterances matters: sort them by id.
* ``published``: equation 1 as it is printed: all ordered pairs k != l, divided by n_i n_j *also on the diagonal*, where
  only n_i (n_i - 1) pairs are summed. This biases the diagonal towards 1/2, the more the fewer utterances there are,
  which is why it is not the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.errors import InputError
from voiceveil.metrics.calibration import pav_llr

__all__ = ["SimilarityMatrix", "deid", "diagonal_dominance", "gvd", "similarity_matrix"]

Floats = NDArray[np.float64]
Method = Literal["official", "published"]


@dataclass(frozen=True, eq=False)
class SimilarityMatrix:
    """Similarities: ``values[i, j]`` in (0, 1) is that of the voices of ``speakers[i]`` and ``speakers[j]``."""

    speakers: tuple[str, ...]
    values: Floats

    @property
    def dominance(self) -> float:
        """Return D_diag of this matrix."""
        return diagonal_dominance(self)


def similarity_matrix(
    scores: ArrayLike, speakers: Sequence[str], *, method: Method = "official", calibrate: bool = True
) -> SimilarityMatrix:
    """Return the voice similarity matrix of the speakers, in the order of their first utterance.

    The comparison of an utterance with itself, or with its own anonymized version, is not used; each speaker needs two
    utterances.

    Parameters
    ----------
    scores
        (n, n).
    speakers
        Speaker of each utterance.
    method
        See the module.
    calibrate
        Turn the scores into LLRs by PAV; False: they are LLRs.
    """
    matrix, names, codes = _check(scores, speakers, method)
    used = ~np.eye(len(codes), dtype=bool) if method == "published" else np.triu(np.ones(matrix.shape, bool), 1)
    rows, columns = np.nonzero(used)
    first, second = codes[rows], codes[columns]
    if method == "official":
        first, second = np.minimum(first, second), np.maximum(first, second)
    llr = matrix[rows, columns]
    if calibrate:
        llr = _calibrated(llr, first == second)
    size = len(names)
    cell = first * size + second
    total = np.bincount(cell, weights=llr, minlength=size * size).reshape(size, size)
    counts = np.bincount(codes)
    if method == "published":
        mean = total / np.outer(counts, counts)
    else:
        upper = total / np.maximum(np.bincount(cell, minlength=size * size).reshape(size, size), 1)
        mean = upper + np.triu(upper, 1).T
    return SimilarityMatrix(names, _sigmoid(mean))


def diagonal_dominance(matrix: SimilarityMatrix | ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return D_diag: |mean of the diagonal - mean of the other elements|, in [0, 1].

    Parameters
    ----------
    matrix
        Similarities (N, N) of at least two speakers.
    weights
        Weights (N,) of the speakers, for a bootstrap: the element (i, j) has the weight w_i w_j, and the diagonal w_i.

    Examples
    --------
    >>> diagonal_dominance([[0.9, 0.1], [0.3, 0.9]])
    0.7
    """
    values = np.asarray(matrix.values if isinstance(matrix, SimilarityMatrix) else matrix, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or len(values) < 2:
        raise InputError(f"a similarity matrix of shape {values.shape}", fix="give at least two speakers, (N, N)")
    if not np.isfinite(values).all():
        raise InputError("the similarity matrix has a NaN or an infinite value")
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    if weight.shape != (len(values),) or (weight < 0).any() or np.count_nonzero(weight) < 2:
        raise InputError("weights do not fit", fix="give a weight >= 0 for each speaker, positive for at least two")
    diagonal = float(weight @ values.diagonal() / weight.sum())
    pairs = np.outer(weight, weight)
    np.fill_diagonal(pairs, 0.0)
    return abs(diagonal - float((pairs * values).sum() / pairs.sum()))


def deid(m_oo: SimilarityMatrix | ArrayLike, m_oa: SimilarityMatrix | ArrayLike) -> float:
    """Return the de-identification, a fraction: 1 if anonymized voices no longer resemble their speakers, 0 if they do.

    It is negative if they resemble them more than before.

    Parameters
    ----------
    m_oo, m_oa
        Similarities of original with original and with anonymized speech, (N, N).

    Raises
    ------
    InputError
        If the original voices are all alike.

    Examples
    --------
    >>> deid([[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]])
    1.0
    """
    return 1.0 - diagonal_dominance(m_oa) / _reference(m_oo)


def gvd(m_oo: SimilarityMatrix | ArrayLike, m_aa: SimilarityMatrix | ArrayLike) -> float:
    """Return the gain of voice distinctiveness in dB; minus infinity if the anonymized voices are all alike.

    Parameters
    ----------
    m_oo, m_aa
        Similarities within original and within anonymized speech, (N, N).

    Examples
    --------
    >>> round(gvd([[0.9, 0.1], [0.1, 0.9]], [[0.54, 0.46], [0.46, 0.54]]), 6)
    -10.0
    """
    ratio = diagonal_dominance(m_aa) / _reference(m_oo)
    return float(10 * np.log10(ratio)) if ratio > 0 else -np.inf


def _reference(m_oo: SimilarityMatrix | ArrayLike) -> float:
    dominance = diagonal_dominance(m_oo)
    if dominance == 0:
        raise InputError("the original voices are all alike (D_diag = 0)", fix="check the scores on original data")
    return dominance


def _check(scores: ArrayLike, speakers: Sequence[str], method: str) -> tuple[Floats, tuple[str, ...], NDArray[np.intp]]:
    if method not in ("official", "published"):
        raise InputError(f"unknown method {method!r}", fix="use 'official' or 'published'")
    matrix = np.asarray(scores, dtype=np.float64)
    if matrix.shape != (len(speakers), len(speakers)):
        raise InputError(f"scores of shape {matrix.shape} for {len(speakers)} utterances", fix="give (n, n) scores")
    if not np.isfinite(matrix[~np.eye(len(matrix), dtype=bool)]).all():
        raise InputError("the scores have a NaN or an infinite value", fix="check the speaker verification")
    names = tuple(dict.fromkeys(speakers))
    codes = np.array([names.index(speaker) for speaker in speakers], dtype=np.intp)
    if len(names) < 2:
        raise InputError(f"{len(names)} speakers", fix="a similarity matrix needs at least two")
    single = np.flatnonzero(np.bincount(codes) < 2)
    if single.size:
        raise InputError(f"speaker {names[single[0]]!r} has one utterance", fix="give each speaker at least two")
    return matrix, names, codes


def _calibrated(scores: Floats, same: NDArray[np.bool_]) -> Floats:
    """Return the LLRs of PAV with Laplace's rule, fitted to the scores themselves, as the challenge does."""
    llr = np.empty_like(scores)
    llr[same], llr[~same] = pav_llr(scores[same], scores[~same], laplace=True)
    return llr


def _sigmoid(x: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -x))
