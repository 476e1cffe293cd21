"""Verdicts in plain sentences, for the terminal and the report."""

from __future__ import annotations

from voiceveil.risk.assessment import Assessment
from voiceveil.risk.verdicts import MARGIN, CriterionVerdict, LimitVerdict, Outcome

__all__ = ["criterion_answer", "limit_sentence", "needed_sentence", "overall_sentence"]

_LIMITS: dict[Outcome, str] = {"found": "EXCEEDED", "not found": "kept", "cannot be said": "CANNOT BE SAID"}


def criterion_answer(verdict: CriterionVerdict) -> str:
    """Return the answer on a criterion in few words."""
    return {
        "found": "Found: more often than by guessing",
        "not found": f"Not found, by these attackers (at most {100 * MARGIN:g} points above guessing)",
        "cannot be said": f"Cannot be said with so few people ({verdict.tested:,})",
    }[verdict.outcome]


def needed_sentence(verdict: CriterionVerdict | LimitVerdict) -> str:
    """Return how many people would be needed, or "" if there is a verdict."""
    if isinstance(verdict, LimitVerdict) and verdict.below_chance:
        below = f"The limit is below chance: among {verdict.speakers:,} people guessing alone succeeds in "
        below += f"{verdict.chance:.1%}, so that no anonymization could keep it."
        return below + (f" At least {verdict.needed:,} people would be needed." if verdict.needed else "")
    if verdict.outcome != "cannot be said":
        return ""
    if verdict.needed is None:
        return f"The rate is so close to {verdict.ceiling:.1%} that no number of people would settle it."
    return (
        f"{verdict.tested:,} people were tested; about {verdict.needed:,} would be needed, if the true rate is "
        f"{verdict.value:.1%}."
    )


def limit_sentence(verdict: LimitVerdict, *, judged: bool) -> str:
    """Return the verdict on a limit; ``judged``: no check has failed."""
    sign = _LIMITS[verdict.outcome] if judged or verdict.exceeded else "NOT JUDGED (see the WARNING)"
    rate = f"{verdict.value:.1%} [{verdict.low:.1%}, {verdict.high:.1%}], allowed {verdict.limit:.1%}"
    attack = f"{verdict.attacker}, L = {verdict.length}, {verdict.speakers} speakers"
    sentence = f"limit {sign}: {verdict.criterion.replace('_', ' ')} {rate}; {attack}"
    return f"{sentence}. {needed}" if (needed := needed_sentence(verdict)) else sentence


def overall_sentence(assessment: Assessment) -> str:
    """Return the overall verdict: on the limits of the user, or else on Singling Out and Linkability."""
    if assessment.checks:
        return "Verdict: not known. Checks have failed: read the warnings first."
    if assessment.verdicts:
        return {
            "found": "Verdict: a limit is exceeded.",
            "not found": "Verdict: all limits are kept, by the attackers that were tried.",
            "cannot be said": "Verdict: it cannot be said with so few people whether the limits are kept.",
        }[assessment.outcome]
    verdicts = [v for metric in ("singling_out", "linkability") if (v := assessment.criterion(metric)) is not None]
    if not verdicts:
        return "Verdict: none. No attack on anonymized speech was measured."
    found = " and ".join(v.criterion.replace("_", " ") for v in verdicts if v.outcome == "found")
    return {
        "found": f"Verdict: people can be found again more often than by guessing ({found}).",
        "not found": "Verdict: people were not found again, by the attackers that were tried.",
        "cannot be said": "Verdict: it cannot be said with so few people whether they can be found again. "
        + " ".join(
            f"{v.criterion.replace('_', ' ').capitalize()}: {needed}"
            for v in verdicts
            if (needed := needed_sentence(v))
        ),
    }[assessment.outcome]
