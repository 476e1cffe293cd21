"""Choose attackers: those that data and protocol allow, and the one whose EERs count if several attacked a system.

In the challenges' files the attacker is ``ASV_eval``, trained on original speech, or the semi-informed
``ASV_eval^anon``, trained on anonymized speech.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from voiceveil.attack.registry import make_attackers
from voiceveil.core.errors import InputError
from voiceveil.evaluation.inventory import Inventory
from voiceveil.evaluation.results import Figure

__all__ = ["choose_attacker", "usable_attackers", "why_unusable"]


def usable_attackers(names: Sequence[str], inventory: Inventory) -> tuple[str, ...]:
    """Return the names of the attackers that data and protocol allow, see :func:`why_unusable`.

    Raises
    ------
    InputError
        If there is speech to attack and a name is not known.
    """
    return tuple(name for name in names if not why_unusable(name, inventory))


def why_unusable(name: str, inventory: Inventory) -> str:
    """Return why an attacker is left out, or an empty string.

    Without a training set attackers that need one are left out, and those that attack under none of the protocol's
    conditions.
    """
    attackers = make_attackers([name]) if inventory.verification else []
    if not inventory.training and any(attacker.needs_training for attacker in attackers):
        return "no training set"
    allowed = inventory.protocol.conditions
    if attackers and not any(set(attacker.conditions(anonymized=True)) & set(allowed) for attacker in attackers):
        return f"it attacks under none of the protocol's conditions ({', '.join(allowed)})"
    return ""


def choose_attacker(figures: Iterable[Figure], system: str, wanted: str | None = None) -> str:
    """Return the name of the attacker whose figures count: ``wanted``, the only semi-informed one, or the only one.

    Parameters
    ----------
    figures : iterable of Figure
        Figures of one condition, at least one.
    system : str
        Name of the system, for the error.
    wanted : str, optional
        Name of an attacker, with or without its knowledge: ``net-adapted (semi-informed)``.

    Raises
    ------
    InputError
        If several attackers could count, or none is ``wanted``.
    """
    every = list(figures)
    chosen = [figure for figure in every if figure.is_by(wanted)]
    if wanted is None:
        chosen = [figure for figure in every if figure.knowledge == "semi-informed"] or every
    names = sorted({figure.attacker for figure in chosen})
    if len(names) != 1:
        known = ", ".join(sorted({repr(figure.evaluator) for figure in chosen or every}))
        problem = "EERs by several attackers" if chosen else f"no EER by {wanted!r}"
        raise InputError(f"{system}: {problem}", fix=f"name one of {known}")
    return names[0]
