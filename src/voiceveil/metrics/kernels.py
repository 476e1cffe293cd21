"""Compiled kernels of the verification metrics on weighted counts, for the metrics and for their bootstrap.

Conventions: ``target`` and ``nontarget`` are the weights of both classes at each distinct score, ascending,
shape (m,); for a plain metric they are counts (:class:`~voiceveil.metrics.tally.Tally`), for a resample they are
sums of whole-number trial weights, and zeros are common. Each class has a positive total. Costs are in bits.
"""

from __future__ import annotations

import numpy as np

from voiceveil.core.compiled import njit
from voiceveil.metrics.tally import Floats

__all__ = [
    "ece_information",
    "kaldi_eer",
    "mean_ece_information",
    "min_dcf",
    "pav_blocks",
    "pav_information",
    "pav_min_cllr",
    "rocch_eer",
    "rocch_eer_split",
    "speechbrain_eer",
    "split_ties",
    "weighted_mean",
]


@njit(cache=True)
def weighted_mean(weights: Floats, values: Floats) -> float:
    """Return the weighted mean; for short vectors faster than BLAS, which wakes threads."""
    total = mass = 0.0
    for k in range(len(weights)):
        total += weights[k] * values[k]
        mass += weights[k]
    return total / mass


@njit(cache=True)
def pav_blocks(target: Floats, nontarget: Floats) -> tuple[Floats, Floats]:
    """Return the weights of both classes in each block of the isotonic fit (pool adjacent violators), (blocks,).

    The posterior of a block is target / (target + nontarget) and strictly ascends from block to block; the
    boundaries between blocks are the vertices of the ROC convex hull (Fawcett & Niculescu-Mizil 2007).
    """
    tar, non = np.empty(len(target)), np.empty(len(target))
    top = 0
    for k in range(len(target)):
        t, n = target[k], nontarget[k]
        if t == 0.0 and n == 0.0:
            continue
        # t / (t + n) <= tar / (tar + non), without the divisions
        while top > 0 and t * non[top - 1] <= tar[top - 1] * n:
            top -= 1
            t += tar[top]
            n += non[top]
        tar[top] = t
        non[top] = n
        top += 1
    return tar[:top], non[:top]


@njit(cache=True)
def split_ties(target: Floats, nontarget: Floats) -> tuple[Floats, Floats]:
    """Return weights (2 m,) with tied scores ordered by class, nontargets first, as the official PAV does."""
    tar, non = np.zeros(2 * len(target)), np.zeros(2 * len(target))
    tar[1::2] = target
    non[::2] = nontarget
    return tar, non


@njit(cache=True)
def rocch_eer(target: Floats, nontarget: Floats) -> float:
    """Return the EER at which the convex hull of the ROC meets P_miss = P_fa."""
    tar, non = pav_blocks(target, nontarget)
    total_tar, total_non = tar.sum(), non.sum()
    miss, alarm = 0.0, total_non
    for k in range(len(tar)):
        if (miss + tar[k]) * total_non >= (alarm - non[k]) * total_tar:
            # The diagonal is crossed a fraction x of the way through this block.
            gap = alarm / total_non - miss / total_tar
            x = gap / (tar[k] / total_tar + non[k] / total_non)
            return float(miss / total_tar + x * tar[k] / total_tar)
        miss += tar[k]
        alarm -= non[k]
    return 0.0  # not reached: at the end everything is rejected


@njit(cache=True)
def rocch_eer_split(target: Floats, nontarget: Floats) -> float:
    """Return :func:`rocch_eer` with tied scores ordered by class."""
    tar, non = split_ties(target, nontarget)
    return rocch_eer(tar, non)


@njit(cache=True)
def speechbrain_eer(target: Floats, nontarget: Floats) -> float:
    """Return (FAR + FRR) / 2 at the lowest score where they are nearest, in single precision (SpeechBrain 0.5.16)."""
    total_tar, total_non = np.float32(target.sum()), np.float32(nontarget.sum())
    miss, alarm = 0.0, nontarget.sum()
    best, rate = np.inf, 0.0
    for k in range(len(target)):
        if target[k] == 0.0 and nontarget[k] == 0.0:
            continue
        miss += target[k]
        alarm -= nontarget[k]
        frr, far = np.float32(miss) / total_tar, np.float32(alarm) / total_non
        gap = abs(np.float64(far) - np.float64(frr))
        if gap < best:
            best, rate = gap, (np.float64(far) + np.float64(frr)) / 2.0
        elif frr > far:
            break
    return rate


@njit(cache=True)
def kaldi_eer(target: Floats, nontarget: Floats) -> float:
    """Return the rank p / T of the first target, from below, with p / T >= FAR at its own score (Kaldi's compute-eer).

    Kaldi compares the target of rank p with the nontarget of rank N - 1 - floor(N p / T): that nontarget is the
    lower one exactly if at most N p / T nontargets score as high as the target.
    """
    total_tar, total_non = target.sum(), nontarget.sum()
    below, alarm = 0.0, total_non
    for k in range(len(target)):
        if target[k] > 0.0:
            rank = max(below, np.ceil(alarm * total_tar / total_non))
            if rank < below + target[k]:
                return float(rank / total_tar)
            below += target[k]
        alarm -= nontarget[k]
    return float((total_tar - 1.0) / total_tar)  # the loop of compute-eer stops before the last target


@njit(cache=True)
def min_dcf(target: Floats, nontarget: Floats, cost_miss: float, cost_alarm: float, accept_all: bool) -> float:
    """Return the least cost_miss * P_miss + cost_alarm * P_fa over all thresholds.

    Without ``accept_all`` the walk begins, as Kaldi's, when one trial is rejected already.
    """
    total_tar, total_non = target.sum(), nontarget.sum()
    miss, alarm = 0.0, total_non
    best = cost_alarm if accept_all else np.inf
    for k in range(len(target)):
        if target[k] == 0.0 and nontarget[k] == 0.0:
            continue
        if best == np.inf:
            best = cost_alarm + cost_miss / total_tar if target[k] > 0.0 else cost_alarm * (1.0 - 1.0 / total_non)
        miss += target[k]
        alarm -= nontarget[k]
        best = min(best, cost_miss * miss / total_tar + cost_alarm * alarm / total_non)
    return best


@njit(cache=True)
def pav_min_cllr(target: Floats, nontarget: Floats) -> float:
    """Return the Cllr of the PAV log-likelihood ratios, in bits."""
    tar, non = pav_blocks(target, nontarget)
    total_tar, total_non = tar.sum(), non.sum()
    bits = 0.0
    for k in range(len(tar)):
        if tar[k] > 0.0 and non[k] > 0.0:  # otherwise the LLR is infinite with the right sign and costs nothing
            llr = np.log(tar[k] / total_tar) - np.log(non[k] / total_non)
            bits += tar[k] / total_tar * np.log1p(np.exp(-llr)) + non[k] / total_non * np.log1p(np.exp(llr))
    return float(bits / (2.0 * np.log(2.0)))


@njit(cache=True)
def ece_information(llr: float) -> float:
    """Return the integral over p in [0, 1] of p ln(1 + (1 - p) / (p e^llr)), in nats.

    It is the share of a target of this LLR in the integral of the empirical cross-entropy over all priors; a
    nontarget has the share of ``-llr``. With a = e^-llr it is 1/4 + (a - 1/4 - 3/4 a^2 + a^2/2 ln a) / (1 - a)^2.
    """
    if abs(llr) < 0.05:  # the closed form cancels here: its series about 0, exact to 2e-17
        x = llr
        tail = -1 / 1440 + x * (1 / 10080 + x * (1 / 60480 - x / 302400))
        return 0.25 + x * (-1 / 6 + x * (1 / 24 + x * (-1 / 360 + x * tail)))
    a = np.exp(-llr)
    return float(0.25 + (a - 0.25 - 0.75 * a * a - 0.5 * a * a * llr) / (1.0 - a) ** 2)


@njit(cache=True)
def mean_ece_information(llr: Floats) -> float:
    """Return the mean of :func:`ece_information` in nats; an infinite LLR of the right sign contributes nothing."""
    nats = 0.0
    for x in llr:
        if x < np.inf:
            nats += ece_information(x)
    return nats / len(llr)


@njit(cache=True)
def pav_information(target: Floats, nontarget: Floats) -> float:
    """Return the population figure of ZEBRA, in bits: 1 / ln 4 minus the integrated ECE of the PAV LLRs."""
    tar, non = pav_blocks(target, nontarget)
    total_tar, total_non = tar.sum(), non.sum()
    nats = 0.0
    for k in range(len(tar)):
        if tar[k] > 0.0 and non[k] > 0.0:
            llr = np.log(tar[k] / total_tar) - np.log(non[k] / total_non)
            nats += tar[k] / total_tar * ece_information(llr) + non[k] / total_non * ece_information(-llr)
    return float((0.5 - nats) / np.log(2.0))
