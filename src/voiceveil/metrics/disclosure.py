"""The privacy ZEBRA: zero-evidence biometric recognition assessment (Nautsch et al. 2020).

Conventions: see :mod:`voiceveil.metrics.tally`. The adversary is granted optimal calibration (PAV) on the very trials
that are assessed, hence only the order of the scores matters.

* :func:`zebra`: expected disclosure for the population, worst-case disclosure for an individual
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from voiceveil.metrics import kernels
from voiceveil.metrics.calibration import PavMethod, pav_llr, ramped_llr
from voiceveil.metrics.tally import check_scores, tally

__all__ = ["NO_PRIVACY", "Zebra", "zebra", "zebra_tag"]

#: Population figure in bits if every trial is decided with certainty: the integral of the binary entropy.
NO_PRIVACY = 1.0 / np.log(4.0)

#: Upper bounds, in log10, of the categorical tags.
_TAGS = ((1.0, "A"), (2.0, "B"), (4.0, "C"), (5.0, "D"), (6.0, "E"))


@dataclass(frozen=True)
class Zebra:
    """Disclosure of a set of trials.

    Parameters
    ----------
    population
        Expected disclosure in bits, 0 to 0.7213.
    individual
        The strongest evidence, log10 of a likelihood ratio.
    tag
        Category of ``individual``: ``0`` (none), ``A`` (below 1:10) ... ``F`` (1:1,000,000 and beyond).
    """

    population: float
    individual: float
    tag: str

    def __str__(self) -> str:
        """Return the text that the official tools print."""
        population = f"{self.population:.3f}" if self.population >= 5e-4 else f"{self.population:.0e}"
        individual = f"{self.individual:.3f}" if self.individual >= 5e-4 else f"{self.individual:.0e}"
        return f"Population: {population} bit, individual: {individual} ({self.tag})"


def zebra(target: ArrayLike, nontarget: ArrayLike, *, method: PavMethod = "exact") -> Zebra:
    """Return expected and worst-case disclosure; both are 0 for full privacy.

    ``population`` is the area, over all priors, between the ECE of an adversary who only knows the prior and that of
    one who sees calibrated scores, in closed form; its LLRs are without Laplace's rule, and tied scores are pooled.
    ``individual`` is the largest absolute LLR, with Laplace's rule, in log10.

    Parameters
    ----------
    target, nontarget
        Scores (T,) and (N,).
    method
        ``"official"`` adds a ramp of 1e-6 to both figures and orders tied scores by class in the second (see
        :func:`~voiceveil.metrics.pav_llr`); ``"exact"`` does neither, so that equal scores have the population figure
        0. (Their individual figure is 0 only with as many targets as nontargets, since Laplace's rule adds one trial of
        each.)
    """
    tar, non = check_scores(target, nontarget)
    if method == "official":
        tar_llr, non_llr = ramped_llr(tar, non, laplace=False, target_first=True)
        nats = kernels.mean_ece_information(tar_llr) + kernels.mean_ece_information(-non_llr)
        population = (0.5 - nats) / np.log(2.0)
    else:
        counts = tally(tar, non)
        population = max(0.0, kernels.pav_information(counts.target, counts.nontarget))
    llr = np.concatenate(pav_llr(tar, non, laplace=True, method=method))
    individual = float(np.abs(llr).max() / np.log(10.0))
    return Zebra(float(population), individual, zebra_tag(individual))


def zebra_tag(individual: float) -> str:
    """Return the category of a worst-case disclosure in log10.

    >>> zebra_tag(1.61)
    'B'
    """
    if individual <= 0.0:
        return "0"
    # A likelihood ratio of exactly 100 is a C even if its logarithm is rounded down.
    return next((tag for bound, tag in _TAGS if individual < bound - 1e-12), "F")
