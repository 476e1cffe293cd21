"""The verification metrics in the form that a bootstrap needs: functions of weighted counts.

Conventions: a :class:`Measure` computes its value from the scores, exactly as :mod:`voiceveil.metrics` does, and its
resamples from a :class:`~voiceveil.metrics.tally.Tally` of weights. The functions of this module have the names and
options of the metrics and return measures; :data:`MEASURES` knows them, and those of third parties, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from voiceveil import metrics
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.metrics import dsys, kernels, verification
from voiceveil.metrics.calibration import PavMethod
from voiceveil.metrics.disclosure import NO_PRIVACY
from voiceveil.metrics.dsys import DsysMethod
from voiceveil.metrics.tally import Floats, Tally
from voiceveil.metrics.verification import EerMethod
from voiceveil.stats.intervals import UNIT, Range

__all__ = [
    "MEASURES",
    "Measure",
    "act_dcf",
    "cllr",
    "d_sys",
    "eer",
    "measure",
    "min_cllr",
    "min_dcf",
    "zebra_population",
]

Statistic = Callable[[Tally], float]


@dataclass(frozen=True)
class Measure:
    """A metric of trials, as a bootstrap needs it.

    Parameters
    ----------
    name
        Its name on the command line, in protocols and in results.
    value
        Computes it from target and nontarget scores, (n,) and (m,).
    statistic
        Takes these scores and returns a function of weighted counts, so that bins and costs, which are the same for
        all resamples, are computed once.
    span
        The range of its values.
    unit
        ``"%"`` (a fraction, shown as percent), ``"dB"``, ``"bit"`` or ``""``.
    title, better
        The heading in tables, and which way is better for an anonymizer; see :class:`.catalog.MetricInfo`, which
        has them for the metrics that ship.
    needs_llr
        Whether the scores must be log-likelihood ratios.
    """

    name: str
    value: Callable[[Floats, Floats], float]
    statistic: Callable[[Floats, Floats], Statistic]
    span: Range = UNIT
    unit: str = "%"
    title: str = ""
    better: Literal["higher", "lower"] = "higher"
    needs_llr: bool = False


#: Name -> function that returns the measure with its default options, registered with ``@MEASURES.register("name")``.
MEASURES: Registry[Callable[[], Measure]] = Registry("measure", group="voiceveil.measures")


def eer(method: EerMethod = "rocch") -> Measure:
    """Return the equal error rate; see :func:`voiceveil.metrics.eer`."""
    kernel = verification.EER_KERNELS[method]
    # Only the EER of the hull is at most one half.
    top = 0.5 if method.startswith("rocch") else 1.0
    return Measure("eer", partial(metrics.eer, method=method), lambda tar, non: _counts(kernel), Range(top))


def min_dcf(
    p_target: float = 0.01, c_miss: float = 10.0, c_fa: float = 1.0, method: Literal["exact", "kaldi"] = "exact"
) -> Measure:
    """Return the normalized minimum detection cost; see :func:`voiceveil.metrics.min_dcf`."""
    value = partial(metrics.min_dcf, p_target=p_target, c_miss=c_miss, c_fa=c_fa, method=method)
    miss, alarm = verification.normalized_costs(p_target, c_miss, c_fa)
    exact = method == "exact"

    def statistic(tar: Floats, non: Floats) -> Statistic:
        return lambda tally: float(kernels.min_dcf(tally.target, tally.nontarget, miss, alarm, exact))

    return Measure("min_dcf", value, statistic, Range(1.0 if exact else np.inf), "")


def act_dcf(p_target: float = 0.01, c_miss: float = 10.0, c_fa: float = 1.0) -> Measure:
    """Return the normalized actual detection cost of LLRs; see :func:`voiceveil.metrics.act_dcf`."""
    value = partial(metrics.act_dcf, p_target=p_target, c_miss=c_miss, c_fa=c_fa)
    miss, alarm = verification.normalized_costs(p_target, c_miss, c_fa)

    def statistic(tar: Floats, non: Floats) -> Statistic:
        threshold = np.log(alarm / miss)

        def cost(tally: Tally) -> float:
            rejected = np.searchsorted(tally.score, threshold, side="right")
            p_miss = tally.target[:rejected].sum() / tally.target.sum()
            return float(miss * p_miss + alarm * tally.nontarget[rejected:].sum() / tally.nontarget.sum())

        return cost

    return Measure("act_dcf", value, statistic, Range(miss + alarm), "", needs_llr=True)


def cllr() -> Measure:
    """Return the cost of log-likelihood ratios; see :func:`voiceveil.metrics.cllr`."""

    def statistic(tar: Floats, non: Floats) -> Statistic:
        score = np.unique(np.concatenate([tar, non]))
        if np.isinf(score).any():
            raise InputError("Cllr of infinite LLRs has no interval", fix="calibrate with laplace=True")
        if_target, if_nontarget = np.logaddexp(0.0, -score), np.logaddexp(0.0, score)

        def bits(tally: Tally) -> float:
            of_targets = kernels.weighted_mean(tally.target, if_target)
            return float((of_targets + kernels.weighted_mean(tally.nontarget, if_nontarget)) / (2.0 * np.log(2.0)))

        return bits

    return Measure("cllr", metrics.cllr, statistic, Range(np.inf), "bit", needs_llr=True)


def min_cllr(method: PavMethod = "exact") -> Measure:
    """Return the minimum Cllr; see :func:`voiceveil.metrics.min_cllr` (resamples have no ramp of 1e-6)."""

    def split(target: Floats, nontarget: Floats) -> float:
        return float(kernels.pav_min_cllr(*kernels.split_ties(target, nontarget)))

    kernel = kernels.pav_min_cllr if method == "exact" else split
    value = partial(metrics.min_cllr, method=method)
    return Measure("min_cllr", value, lambda tar, non: _counts(kernel), Range(bias=2.0), "bit")


def zebra_population(method: PavMethod = "exact") -> Measure:
    """Return the expected disclosure of :func:`voiceveil.metrics.zebra`.

    The worst case is a maximum, for which a bootstrap is not valid.
    """

    def value(tar: Floats, non: Floats) -> float:
        return metrics.zebra(tar, non, method=method).population

    span = Range(float(NO_PRIVACY), mirrored=True, bias=2.0)
    return Measure("zebra_population", value, lambda tar, non: _counts(kernels.pav_information), span, "bit")


def d_sys(omega: float = 1.0, bins: int | None = None, method: DsysMethod = "exact") -> Measure:
    """Return the linkability; see :func:`voiceveil.metrics.d_sys`; all resamples use the bins of the full sample."""

    def statistic(tar: Floats, non: Floats) -> Statistic:
        edges = dsys.bin_edges(tar, non, bins)
        score = np.unique(np.concatenate([tar, non]))
        # np.histogram's rule: bins are closed on the left, the last one on both sides
        bin_of_score = np.minimum(np.searchsorted(edges, score, side="right") - 1, len(edges) - 2)

        def linkability(tally: Tally) -> float:
            mated = np.bincount(bin_of_score, tally.target, len(edges) - 1)
            other = np.bincount(bin_of_score, tally.nontarget, len(edges) - 1)
            return dsys.d_sys_of_histograms(mated, other, omega, method)

        return linkability

    value = partial(metrics.d_sys, omega=omega, bins=bins, method=method)
    return Measure("d_sys", value, statistic, Range(1.0, mirrored=True), "")


def _counts(kernel: Callable[[Floats, Floats], float]) -> Statistic:
    return lambda tally: float(kernel(tally.target, tally.nontarget))


for _make in (eer, cllr, min_cllr, d_sys, min_dcf, act_dcf, zebra_population):
    MEASURES.register(_make.__name__)(_make)


def measure(name: str | Measure) -> Measure:
    """Return the measure of that name, with its defaults."""
    return name if isinstance(name, Measure) else MEASURES[name]()
