"""Checks of scores, ids and vectors: input from which no figure should be believed.

Conventions: rates are fractions. Scores are higher for the same speaker. See :mod:`voiceveil.core.checks` for the
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from voiceveil import metrics
from voiceveil.core.checks import NAMES, Check, failed, merged
from voiceveil.metrics import ScoredTrials, estimate, tally
from voiceveil.metrics.measures import eer as eer_measure

__all__ = ["NAMES", "Check", "check_learned", "check_scores", "check_shared", "check_trials", "failed", "merged"]

_TIED = 0.5  # share of the most frequent score
_STEP = 1e-6  # of the largest score: less is rounding, not a difference
_ABOVE = 0.55  # EER that calls for a look at its interval


def check_scores(target: ArrayLike, nontarget: ArrayLike, *, low: float | None = None, where: str = "") -> list[Check]:
    """Return the failed checks of verification scores: ``constant-scores``, ``tied-scores``, ``eer-above-half``.

    Parameters
    ----------
    target, nontarget
        Scores of shape (n,) and (m,), at least one each, without NaN.
    low
        Lower end of the 95% interval of the EER by the counting definition (``metrics.eer`` with ``"speechbrain"``:
        the convex hull never exceeds one half). Without it the trials are taken as independent.
    where
        What the scores are of, for the sentence: an attacker, a set.
    """
    tar, non = tally.check_scores(target, nontarget)
    name = f" ({where})" if where else ""
    scores = np.concatenate([tar, non])
    step = _STEP * np.abs(scores[np.isfinite(scores)]).max(initial=0.0)
    values, counts = np.unique(np.round(scores / step) * step if step else scores, return_counts=True)
    most, value = int(counts.max()), float(values[counts.argmax()])
    if most == len(scores):
        return [failed("constant-scores", f"All {most:,} scores are {value:.4g}{name}.")]
    found = []
    if most > _TIED * len(scores):
        sentence = f"{most:,} of {len(scores):,} scores ({most / len(scores):.0%}) are {value:.4g}{name}."
        found.append(failed("tied-scores", sentence))
    rate = metrics.eer(tar, non, method="speechbrain")
    if rate > _ABOVE:
        if low is None:  # as of a half total error rate: Bengio & Mariethoz 2004
            low = rate - 1.96 * float(np.sqrt(rate * (1 - rate) * (1 / len(tar) + 1 / len(non)))) / 2
        if low > 0.5:
            sentence = f"The EER is {rate:.1%}, at least {low:.1%}, over {len(tar):,} target trials{name}."
            found.append(failed("eer-above-half", sentence))
    return found


def check_trials(trials: ScoredTrials, *, where: str = "", resamples: int = 300, seed: int = 0) -> list[Check]:
    """Return the failed checks of scored trials, as :func:`check_scores`, with an interval over speakers."""
    classes = trials.classes()
    low = None
    if metrics.eer(*classes, method="speechbrain") > _ABOVE:
        low = estimate(trials, eer_measure("speechbrain"), resamples=resamples, seed=seed).low
    return check_scores(*classes, low=low, where=where)


def check_learned(attacker: str, learned: Iterable[str], tested: Set[str]) -> list[Check]:
    """Return ``training-speakers-in-test`` if an encoder was trained on speakers of the test, by their names."""
    both = sorted(tested & set(learned))
    if not both:
        return []
    sentence = (
        f"The encoder of {attacker} was trained on {len(both):,} of {len(tested):,} test speakers, e.g. {both[0]}."
    )
    return [failed("training-speakers-in-test", sentence)]


def check_shared(enrolled: Mapping[str, Any], tried: Mapping[str, Any], *, where: str = "") -> list[Check]:
    """Return ``shared-utterances`` if an utterance is on both sides: by its id, or by equal content.

    Parameters
    ----------
    enrolled, tried
        Utterance id -> its content: a digest of the audio, or an embedding as bytes; None where it is not known.
    """
    ids = sorted(enrolled.keys() & tried.keys())
    known = {content: key for key, content in enrolled.items() if content is not None}
    same = sorted(key for key, content in tried.items() if content is not None and content in known and key not in ids)
    name = f" ({where})" if where else ""
    found = []
    if ids:
        sentence = f"{len(ids):,} of {len(tried):,} trial utterances are enrolled, e.g. {ids[0]}{name}."
        found.append(failed("shared-utterances", sentence))
    if same:
        first = f"{same[0]} is {known[tried[same[0]]]}"
        sentence = f"{len(same):,} of {len(tried):,} trial utterances have the content of an enrolled one, e.g. {first}"
        found.append(failed("shared-utterances", f"{sentence}{name}."))
    return found
