"""Can an attacker be trusted? A weak attacker makes weak protection look strong, and nothing in its EER says so.

Each check has a limit and a reason, written where it is used. Rates are fractions.
"""

from __future__ import annotations

import numpy as np

from voiceveil import metrics
from voiceveil.attack.attackers import AdaptedAttacker, Attacker, EncoderAttacker, FreeAttacker
from voiceveil.attack.result import Health
from voiceveil.attack.sets import TrialSet
from voiceveil.models.speaker.covariances import Floats

__all__ = ["control_eer", "diagnose"]

_ORIGINAL_LIMIT = 0.10  # a good encoder has less than 5 % on read speech; the challenges' own had 9 %
_CONTROL_LIMIT = 0.10  # from one half
_ACCURACY_LIMIT = 0.50  # of identifying the training speakers of anonymized speech; original speech gives nearly 1
_SPEAKERS = 20  # fewer training speakers do not span voices
_ORDER_LIMIT = 0.40  # an order that tells nothing has an EER of one half
_SHUFFLES = 20


def control_eer(trial_set: TrialSet, scores: Floats, *, seed: int = 0) -> float:
    """The EER when each enrolled speaker's model is taken for another's: about one half, or the scoring is wrong.

    The mean over 20 shuffles of the speakers in which nobody keeps their place; by the counting definition of the
    EER, which can exceed one half.
    """
    trials = trial_set.trials
    names = list(trial_set.enrollment)
    number = {name: i for i, name in enumerate(names)}
    enroll = np.array([number[name] for name in trials.enroll.tolist()])
    heard = np.array([number.get(trial_set.speaker_of[key], -1) for key in trials.utterance.tolist()])
    rng = np.random.default_rng(seed)
    rates = []
    for _ in range(_SHUFFLES):
        order = rng.permutation(len(names))
        other = np.empty(len(names), dtype=np.int64)
        other[order] = np.roll(order, 1)  # one cycle through all: nobody stays
        target = other[enroll] == heard
        if target.any() and not target.all():
            rates.append(metrics.eer(scores[target], scores[~target], method="speechbrain"))
    return float(np.mean(rates)) if rates else 0.5


def diagnose(
    attacker: Attacker, original_eer: float | None, control: float, lazy_eer: float | None, own_eer: float | None
) -> Health:
    """The health of an attacker from what is known of it.

    ``original_eer``: of its model family on original speech; ``lazy_eer`` and ``own_eer``: of the same encoder without
    adaptation, and of this attacker, on anonymized speech (means over the sets).
    """
    warnings = []
    if original_eer is not None and original_eer > _ORIGINAL_LIMIT:
        warnings.append(f"it is weak on original speech ({original_eer:.1%} EER): its result says little of privacy")
    if abs(control - 0.5) > _CONTROL_LIMIT:
        warnings.append(
            f"with shuffled identities its EER is {control:.1%}, not about 50 %: too few speakers, or a bug"
        )
    accuracy = validation = unadapted = peak = None
    choice = ""
    tried: tuple[tuple[str, float], ...] = ()
    if isinstance(attacker, EncoderAttacker):
        record = attacker.training()
        accuracy, validation, peak = record.accuracy, record.validation_eer, record.peak_reached
        if peak is False:
            warnings.append("the learning rate of its training never reached its peak: it was trained too briefly")
        if record.data != "original" and accuracy is None and validation is None:
            warnings.append("its training record has neither accuracy nor validation EER")
        learned = attacker.learned
        if learned is not None and 2 * learned.sessions < learned.speakers:
            known = f"{learned.sessions} of the {learned.speakers} speakers of its PLDA"
            warnings.append(f"{known} are known to have several recording sessions: its likelihood ratios are too sure")
        if record.speakers is not None and record.speakers < _SPEAKERS:
            warnings.append(f"it was trained on {record.speakers} speakers only")
    elif isinstance(attacker, AdaptedAttacker) and attacker.adapted is not None:
        found = attacker.adapted
        accuracy, validation, unadapted = found.accuracy, found.validation_eer, found.unadapted
        choice, tried = found.candidate.name, found.validation
        if found.speakers < _SPEAKERS:
            warnings.append(f"it was adapted on {found.speakers} speakers only")
        if 2 * found.sessions < found.validated:
            known = f"{found.sessions} of {found.validated} training speakers"
            warnings.append(f"{known} are known to have several recording sessions: its validation EER is too good")
        if found.candidate.name == "cosine":
            warnings.append("nothing that it learned helped on held-out speakers: it is the lazy-informed attacker")
        if own_eer is not None and lazy_eer is not None and own_eer > lazy_eer:
            warnings.append(f"it does worse than without adaptation ({own_eer:.1%} against {lazy_eer:.1%} EER)")
    elif (
        isinstance(attacker, FreeAttacker)
        and attacker.cue == "order"
        and own_eer is not None
        and own_eer < _ORDER_LIMIT
    ):
        warnings.append("the place of a file in its directory tells who speaks: shuffle and rename before publishing")
    if accuracy is not None and accuracy < _ACCURACY_LIMIT:
        warnings.append(f"it identifies only {accuracy:.1%} of its own training utterances")
    return Health(
        attacker.name, original_eer, control, accuracy, validation, unadapted, peak, choice, tried, tuple(warnings)
    )
