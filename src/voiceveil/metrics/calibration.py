"""Calibration of log-likelihood ratios: Cllr, its minimum, and the PAV transform behind it.

Conventions: see :mod:`voiceveil.metrics.tally`. LLRs are natural logarithms of p(score | same speaker) /
p(score | different speakers); Cllr is in bits.

* :func:`cllr`: the cost of log-likelihood ratios (Brümmer & du Preez 2006)
* :func:`pav_llr`: scores turned into the best monotone LLRs by pool adjacent violators
* :func:`min_cllr`: the Cllr of those
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from voiceveil.core.errors import InputError
from voiceveil.metrics import kernels
from voiceveil.metrics.tally import Floats, check_scores, tally

__all__ = ["PavMethod", "cllr", "min_cllr", "pav_llr", "ramped_llr"]

PavMethod = Literal["official", "exact"]

#: Total rise of the ramp that makes the official LLRs strictly monotone.
_RAMP = 1e-6


def cllr(target: ArrayLike, nontarget: ArrayLike) -> float:
    """Return the cost of log-likelihood ratios in bits: 0 is perfect, 1 is no information, more is misleading.

    1/2 mean(log2(1 + e^-target)) + 1/2 mean(log2(1 + e^nontarget)). An infinite LLR of the right sign costs nothing;
    one of the wrong sign makes the result infinite. (The official code returns infinity also for finite LLRs of the
    wrong sign beyond about 745, where its sigmoid underflows.)

    Parameters
    ----------
    target, nontarget
        LLRs (T,) and (N,), natural logarithms.

    Examples
    --------
    >>> cllr([0.0], [0.0])
    1.0
    """
    tar, non = check_scores(target, nontarget)
    nats = np.logaddexp(0.0, -tar).mean() + np.logaddexp(0.0, non).mean()
    return float(nats / (2.0 * np.log(2.0)))


def pav_llr(
    target: ArrayLike, nontarget: ArrayLike, *, laplace: bool = True, method: PavMethod = "official"
) -> tuple[Floats, Floats]:
    """Return the LLR of every trial after optimal monotone calibration on the trials themselves, (T,) and (N,).

    Parameters
    ----------
    target, nontarget
        Scores (T,) and (N,).
    laplace
        Add one trial of each class beyond both ends, as Laplace's rule of succession does, which keeps LLRs finite.
    method
        ``"official"`` is the challenge code: among tied scores nontargets come first, which lets PAV separate trials
        that no threshold separates, and a ramp of 1e-6 makes the LLRs strictly monotone. ``"exact"`` gives tied scores
        one LLR, without a ramp.

    Examples
    --------
    >>> pav_llr([1.0, 2.0], [0.0, 1.0], laplace=False, method="exact")
    (array([ 0., inf]), array([-inf,   0.]))
    """
    tar, non = check_scores(target, nontarget)
    if _check_method(method) == "official":
        return ramped_llr(tar, non, laplace)
    counts = tally(tar, non)
    llr = _block_llr(counts.target, counts.nontarget, laplace)
    return llr[np.searchsorted(counts.score, tar)], llr[np.searchsorted(counts.score, non)]


def ramped_llr(
    target: Floats, nontarget: Floats, laplace: bool, *, target_first: bool = False
) -> tuple[Floats, Floats]:
    """Return PAV LLRs as in the official code: tied scores ordered by class, plus the ramp.

    Parameters
    ----------
    target, nontarget
        Scores (T,) and (N,).
    laplace
        See :func:`pav_llr`.
    target_first
        Order tied targets below nontargets: PAV then pools them, so that ties are not split.
    """
    scores = np.concatenate([target, nontarget] if target_first else [nontarget, target])
    is_target = np.arange(len(scores)) >= len(nontarget)
    if target_first:
        is_target = np.arange(len(scores)) < len(target)
    order = np.argsort(scores, kind="stable")
    labels = is_target[order].astype(np.float64)
    llr = np.empty(len(scores))
    llr[order] = _block_llr(labels, 1.0 - labels, laplace) + np.arange(len(scores)) * (_RAMP / len(scores))
    return llr[is_target], llr[~is_target]


def _block_llr(target: Floats, nontarget: Floats, laplace: bool) -> Floats:
    """Return the LLR of each group of trials (in ascending order of their scores), the shape of the inputs."""
    log_prior_odds = np.log(target.sum() / nontarget.sum())
    if laplace:
        target, nontarget = np.r_[1.0, 0.0, target, 1.0, 0.0], np.r_[0.0, 1.0, nontarget, 0.0, 1.0]
    tar, non = kernels.pav_blocks(target, nontarget)
    with np.errstate(divide="ignore"):
        llr = np.log(tar) - np.log(non) - log_prior_odds
    by_group: Floats = llr[np.searchsorted(np.cumsum(tar + non), np.cumsum(target + nontarget))]
    return by_group[2:-2] if laplace else by_group


def min_cllr(target: ArrayLike, nontarget: ArrayLike, *, laplace: bool = False, method: PavMethod = "exact") -> float:
    """Return Cllr after optimal monotone calibration, in bits: the part of Cllr due to lack of discrimination.

    Parameters
    ----------
    target, nontarget
        Scores (T,) and (N,).
    laplace
        See :func:`pav_llr`.
    method
        ``"exact"`` treats tied scores alike, so that equal scores cost 1 bit. ``"official"`` orders them by class and
        adds a ramp (see :func:`pav_llr`); without ties the two agree to 1e-6.

    Examples
    --------
    >>> min_cllr([0.5, 0.5], [0.5, 0.5])
    1.0
    """
    if _check_method(method) == "exact" and not laplace:
        counts = tally(target, nontarget)
        return float(kernels.pav_min_cllr(counts.target, counts.nontarget))
    return cllr(*pav_llr(target, nontarget, laplace=laplace, method=method))


def _check_method(method: str) -> str:
    if method not in ("official", "exact"):
        raise InputError(f"unknown method {method!r}", fix="official or exact")
    return method
