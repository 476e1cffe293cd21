"""The recipient of the data and the means that an assessment assumes, in words.

Whether data are anonymous depends on who has them, and on the means that are reasonably likely to be used: Recital 26
of the GDPR; EDPB Opinion 28/2024, which asks for the means of the controller *and of any other person*; and the Court
of Justice in C-413/23 P (EDPS v SRB, 2025), for which the same data can be personal in one hand and anonymous in
another. A figure without its recipient and means answers neither. The user can name both; by default the means are
those of the attackers that were tried, and the recipient is anybody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Assumptions", "state_assumptions"]

ANYBODY = "anybody: no recipient was named, and none is excluded"

#: Attacker -> the means that it has, beyond the anonymized recordings.
_MEANS = {
    "ignorant": "a speaker encoder that was trained on original speech, such as anybody can download",
    "semi-informed": "a similar anonymization system, and a speaker encoder that was trained on speech from it",
    "informed": "this anonymization system, and a speaker encoder that was trained on speech from it",
}


@dataclass(frozen=True)
class Assumptions:
    """Who has the data, and with which means; ``named`` tells which of both the user has stated."""

    recipient: str
    means: tuple[str, ...]
    named: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def state_assumptions(attackers: Collection[str], lengths: Sequence[int], stated: Mapping[str, Any]) -> Assumptions:
    """Return the assumptions of an assessment.

    Parameters
    ----------
    attackers
        Names of the attackers that were tried.
    lengths
        Conversation lengths in utterances.
    stated
        The user's own words under ``"recipient"`` and ``"means"``; without them, those that follow from the attackers.
    """
    words = {name: text for name in ("recipient", "means") if (text := str(stated.get(name, "")).strip())}
    derived = [
        f"other recordings of the people in the data, anonymized by the same system, and up to {max(lengths)} of their "
        "utterances at once",
        *(text for name, text in _MEANS.items() if name in attackers),
    ]
    means = (words["means"],) if "means" in words else tuple(derived)
    return Assumptions(words.get("recipient", ANYBODY), means, tuple(words))
