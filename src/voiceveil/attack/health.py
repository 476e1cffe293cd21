"""Diagnosis of attackers: a weak attacker makes weak protection look strong, and its EER does not show it.

Conventions: rates are fractions. Signs that one attacker alone has are in its ``health`` method.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from voiceveil import metrics
from voiceveil.attack.attacker import Attacker, Health
from voiceveil.attack.sets import TrialSet
from voiceveil.models.speaker.covariances import Floats

__all__ = ["control_eer", "diagnose"]

_ORIGINAL_LIMIT = 0.10  # a good encoder has less than 5% on read speech; the challenges' own had 9%
_CONTROL_LIMIT = 0.10  # distance from one half
_ACCURACY_LIMIT = 0.50  # on the training speakers of anonymized speech; original speech gives nearly 1
_SHUFFLES = 20


def control_eer(trial_set: TrialSet, scores: Floats, *, seed: int = 0) -> float:
    """Return the EER with shuffled identities of the enrolled speakers: about 0.5, or the scoring is wrong.

    It is the mean over 20 shuffles in which every speaker gets the model of another one, by the counting definition of
    the EER, which can exceed one half.

    Parameters
    ----------
    trial_set : TrialSet
        The trials.
    scores : array of shape (trials,)
        Their scores.
    seed : int
        Of the shuffles.
    """
    trials = trial_set.trials
    names = list(trial_set.enrollment)
    number = {name: i for i, name in enumerate(names)}
    enroll = np.array([number[name] for name in trials.enroll.tolist()])
    speaker = np.array([number.get(trial_set.speaker_of[key], -1) for key in trials.utterance.tolist()])
    rng = np.random.default_rng(seed)
    rates = []
    for _ in range(_SHUFFLES):
        order = rng.permutation(len(names))
        other = np.empty(len(names), dtype=np.int64)
        other[order] = np.roll(order, 1)  # one cycle through all speakers: nobody keeps their model
        target = other[enroll] == speaker
        if target.any() and not target.all():
            rates.append(metrics.eer(scores[target], scores[~target], method="speechbrain"))
    return float(np.mean(rates)) if rates else 0.5


def diagnose(
    attacker: Attacker,
    *,
    control: float,
    original_eer: float | None = None,
    reference_eer: float | None = None,
    eer: float | None = None,
) -> Health:
    """Return the health of an attacker.

    Parameters
    ----------
    attacker : Attacker
        The attacker, after it has scored the trials.
    control : float
        See :func:`control_eer`; mean over the sets, as all rates here.
    original_eer : float, optional
        EER of the attacker's reference on original speech.
    reference_eer, eer : float, optional
        EERs of the reference and of the attacker on anonymized speech.
    """
    health = attacker.health(eer, reference_eer)
    warnings = []
    if original_eer is not None and original_eer > _ORIGINAL_LIMIT:
        warnings.append(f"it is weak on original speech ({original_eer:.1%} EER): its result says little of privacy")
    if abs(control - 0.5) > _CONTROL_LIMIT:
        warnings.append(f"with shuffled identities its EER is {control:.1%}, not about 50%: too few speakers, or a bug")
    warnings += health.warnings
    if health.accuracy is not None and health.accuracy < _ACCURACY_LIMIT:
        warnings.append(f"it identifies only {health.accuracy:.1%} of its own training utterances")
    return replace(health, original_eer=original_eer, control_eer=control, warnings=tuple(warnings))
