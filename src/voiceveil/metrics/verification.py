"""Speaker verification: equal error rate, DET curve and detection costs.

Conventions: see :mod:`voiceveil.metrics.tally`. Rates are fractions in [0, 1].

* :func:`eer`: equal error rate, three definitions
* :func:`det_curve`: both error rates at every threshold, and the ROC convex hull
* :func:`min_dcf`: normalized detection cost at the best threshold
* :func:`act_dcf`: normalized detection cost at the Bayes threshold
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.metrics import kernels
from voiceveil.metrics.tally import Floats, check_scores, tally

__all__ = ["EER_KERNELS", "DetCurve", "EerMethod", "act_dcf", "det_curve", "eer", "min_dcf", "normalized_costs"]

EerMethod = Literal["rocch", "rocch-official", "speechbrain", "kaldi"]
EER_KERNELS = {
    "rocch": kernels.rocch_eer,
    "rocch-official": kernels.rocch_eer_split,
    "speechbrain": kernels.speechbrain_eer,
    "kaldi": kernels.kaldi_eer,
}


def eer(target: ArrayLike, nontarget: ArrayLike, *, method: EerMethod = "rocch") -> float:
    """Return the equal error rate, a fraction: 0 if the attacker is always right, 0.5 if scores have no information.

    Parameters
    ----------
    target, nontarget
        Scores (T,) and (N,).
    method
        * ``"rocch"``: where the convex hull of the ROC meets P_miss = P_fa (Brümmer & de Villiers 2013). The hull
          interpolates, so that neither the gaps of a small test nor the order of tied scores matter, and it never
          exceeds 0.5.
        * ``"rocch-official"``: the hull as the challenge code computes it: tied scores are ordered by class,
          nontargets below targets, in favor of the attacker. Equal to ``"rocch"`` without ties.
        * ``"speechbrain"``: (FAR + FRR) / 2 at the threshold where they are nearest, in single precision. The ranking
          EER of the 2024 challenge.
        * ``"kaldi"``: ``compute-eer``, a multiple of 1 / T and usually the next one above. The EER of the 2020 and 2022
          challenges.

        With many trials they agree to a fraction of a percent; with few or tied ones they do not. The last two can
        exceed 0.5, if targets score lower than nontargets.

    Examples
    --------
    >>> eer([2.0, 3.0, 4.0], [0.0, 1.0])
    0.0
    """
    if method not in EER_KERNELS:
        raise InputError(f"unknown EER method {method!r}", fix=did_you_mean(str(method), list(EER_KERNELS)))
    counts = tally(target, nontarget)
    return float(EER_KERNELS[method](counts.target, counts.nontarget))


@dataclass(frozen=True)
class DetCurve:
    """Error rates as the threshold rises; row k rejects every trial with a score up to ``threshold[k]``.

    The first row accepts everything (threshold minus infinity), the last rejects everything. Shapes (m + 1,) for m
    distinct scores; the hull keeps the rows that are vertices of the ROC convex hull.
    """

    threshold: Floats
    p_miss: Floats
    p_fa: Floats


def det_curve(target: ArrayLike, nontarget: ArrayLike, *, hull: bool = False) -> DetCurve:
    """Return miss and false-alarm rates at every threshold, or with ``hull`` at the vertices of the ROC convex hull.

    Examples
    --------
    >>> curve = det_curve([1.0, 3.0], [0.0, 2.0])
    >>> curve.p_miss
    array([0. , 0. , 0.5, 0.5, 1. ])
    >>> curve.p_fa
    array([1. , 0.5, 0.5, 0. , 0. ])
    """
    counts = tally(target, nontarget)
    rejected = np.concatenate([[0.0], np.cumsum(counts.target)])
    passed = counts.nontarget.sum() - np.concatenate([[0.0], np.cumsum(counts.nontarget)])
    threshold = np.concatenate([[-np.inf], counts.score])
    if hull:
        tar, non = kernels.pav_blocks(counts.target, counts.nontarget)
        keep = np.concatenate([[0], np.searchsorted(rejected - passed, np.cumsum(tar) - (non.sum() - np.cumsum(non)))])
        rejected, passed, threshold = rejected[keep], passed[keep], threshold[keep]
    return DetCurve(threshold, rejected / counts.target.sum(), passed / counts.nontarget.sum())


def normalized_costs(p_target: float, c_miss: float, c_fa: float) -> tuple[float, float]:
    """Return the weights of P_miss and P_fa in the normalized cost."""
    if not 0.0 < p_target < 1.0:
        raise InputError(f"p_target is {p_target}", fix="give a probability between 0 and 1, both excluded")
    if c_miss <= 0.0 or c_fa <= 0.0:
        raise InputError(f"costs are {c_miss} and {c_fa}", fix="give positive costs")
    miss, alarm = c_miss * p_target, c_fa * (1.0 - p_target)
    default = min(miss, alarm)
    return miss / default, alarm / default


def min_dcf(
    target: ArrayLike,
    nontarget: ArrayLike,
    *,
    p_target: float = 0.01,
    c_miss: float = 10.0,
    c_fa: float = 1.0,
    method: Literal["exact", "kaldi"] = "exact",
) -> float:
    """Return the normalized minimum detection cost: 0 is perfect, 1 is the cost of deciding without scores.

    It is the minimum over thresholds of (c_miss p_target P_miss + c_fa (1 - p_target) P_fa) / min(c_miss p_target,
    c_fa (1 - p_target)).

    Parameters
    ----------
    target, nontarget
        Scores (T,) and (N,).
    p_target, c_miss, c_fa
        Prior of targets and costs of errors; the defaults are those of SRE08 and of the text-dependent verification
        challenge.
    method
        ``"kaldi"`` is the script of Kaldi and NIST: it does not evaluate 'accept all', so that it can exceed 1 for
        large p_target; with the default costs both are equal. (Kaldi orders tied scores as in its file; here targets
        come first.)

    Examples
    --------
    >>> min_dcf([1.0, 3.0], [0.0, 2.0])
    0.5
    """
    if method not in ("exact", "kaldi"):
        raise InputError(f"unknown min_dcf method {method!r}", fix="exact or kaldi")
    counts = tally(target, nontarget)
    miss, alarm = normalized_costs(p_target, c_miss, c_fa)
    return float(kernels.min_dcf(counts.target, counts.nontarget, miss, alarm, method == "exact"))


def act_dcf(
    target: ArrayLike, nontarget: ArrayLike, *, p_target: float = 0.01, c_miss: float = 10.0, c_fa: float = 1.0
) -> float:
    """Return the normalized actual detection cost of log-likelihood ratios.

    A trial is accepted if its LLR exceeds the Bayes threshold ln(c_fa (1 - p_target) / (c_miss p_target)). The cost is
    never below :func:`min_dcf`; above 1, deciding without scores would cost less.

    Parameters
    ----------
    target, nontarget
        LLRs (T,) and (N,), natural logarithms.
    p_target, c_miss, c_fa
        See :func:`min_dcf`.

    Examples
    --------
    >>> act_dcf([3.0, 1.0], [-2.0, 0.0], p_target=0.5, c_miss=1)
    0.0
    """
    tar, non = check_scores(target, nontarget)
    miss, alarm = normalized_costs(p_target, c_miss, c_fa)
    threshold = np.log(alarm / miss)
    return float(miss * np.mean(tar <= threshold) + alarm * np.mean(non > threshold))
