"""Linkability D_sys of Gomez-Barrero et al. (2018): how far scores reveal whether two samples are mated.

Conventions: see :mod:`voiceveil.metrics.tally`; scores must be finite, since their densities are estimated from
histograms. (The legal Linkability is another metric, with the same name.)

* :func:`d_sys`: the global measure, a fraction
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from voiceveil.core.errors import InputError
from voiceveil.metrics.tally import Floats, check_scores

__all__ = ["DsysMethod", "bin_edges", "d_sys", "d_sys_of_histograms"]

DsysMethod = Literal["exact", "official"]


def d_sys(
    target: ArrayLike,
    nontarget: ArrayLike,
    *,
    omega: float = 1.0,
    bins: int | None = None,
    method: DsysMethod = "exact",
) -> float:
    """Return the linkability: 0 if mated and non-mated scores are distributed alike, 1 if they never overlap.

    D_sys is the integral of p(s | mated) D(s), with D(s) = 2 omega LR(s) / (1 + omega LR(s)) - 1 where omega LR(s) > 1
    and 0 elsewhere, LR(s) = p(s | mated) / p(s | non-mated), and omega = p(mated) / p(non-mated) (Gomez-Barrero et al.
    2018). Both densities are histograms with min(T // 10, 100) bins over the pooled range.

    Parameters
    ----------
    target, nontarget
        Scores of mated and non-mated trials, (T,) and (N,), finite.
    omega
        Ratio of the priors.
    bins
        Number of bins. By default at least 20 targets are needed: fewer would give one bin and the value 0.
    method
        ``"exact"`` integrates the densities, which are constant within a bin. ``"official"`` is the challenge code: a
        trapezoid rule on the bin centers, which loses half a bin at each end (perfectly separated scores get 0.75 with
        four bins).

    Raises
    ------
    InputError
        If scores are not finite, or too few for the default bins.
    """
    if method not in ("exact", "official"):
        raise InputError(f"unknown d_sys method {method!r}", fix="exact or official")
    if not omega > 0.0:
        raise InputError(f"omega is {omega}", fix="give a positive ratio of priors, p(mated) / p(non-mated)")
    tar, non = check_scores(target, nontarget, finite=True)
    edges = bin_edges(tar, non, bins)
    return d_sys_of_histograms(np.histogram(tar, edges)[0], np.histogram(non, edges)[0], omega, method)


def bin_edges(target: Floats, nontarget: Floats, bins: int | None = None) -> Floats:
    """Return the edges of equal bins over the pooled range, shape (bins + 1,)."""
    if bins is None:
        bins = min(len(target) // 10, 100)
        if bins < 2:
            raise InputError(f"{len(target)} target trials are too few for D_sys", fix="use at least 20, or give bins")
    if bins < 1:
        raise InputError(f"bins = {bins} is too few", fix="give at least 1")
    low, high = min(target.min(), nontarget.min()), max(target.max(), nontarget.max())
    if low == high:  # all scores are equal: one bin around them, in which the classes do not differ
        return np.array([low - 0.5, high + 0.5])
    return np.linspace(low, high, bins + 1)


def d_sys_of_histograms(target: ArrayLike, nontarget: ArrayLike, omega: float = 1.0, method: str = "exact") -> float:
    """Return D_sys from the counts (or weights) of both classes in equal bins, (bins,); see :func:`d_sys`."""
    mated = np.asarray(target, dtype=np.float64)
    other = np.asarray(nontarget, dtype=np.float64)
    mated, other = mated / mated.sum(), other / other.sum()
    # D = (omega m - o) / (omega m + o); where o = 0 and m > 0 it is 1, where m = 0 it has no weight
    total = omega * mated + other
    d = np.divide(np.maximum(omega * mated - other, 0.0), total, out=np.zeros_like(total), where=total > 0.0)
    mass = d * mated
    if method == "official":
        return float((mass[1:] + mass[:-1]).sum() / 2.0)
    return float(mass.sum())
