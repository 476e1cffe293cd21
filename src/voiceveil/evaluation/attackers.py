"""How the protocol's attackers score, and whose EERs count where a system was attacked by several.

Conventions: the model of a figure is the attacker's name, and in our own results what it knew:
``campplus-adapted (semi-informed)``, ``campplus (lazy-informed)``. In the challenges' files it is ``ASV_eval``,
trained on original speech, or the semi-informed ``ASV_eval^anon``, trained on anonymized speech.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from voiceveil.core.errors import InputError
from voiceveil.evaluation.inventory import Inventory
from voiceveil.evaluation.results import Figure

__all__ = ["attacker_of", "choose_attacker", "is_by", "is_semi_informed", "scoring_of"]


def scoring_of(inventory: Inventory) -> tuple[Literal["cosine", "plda"], list[str]]:
    """The protocol's scoring if the data allow it; or else cosines, and a note why."""
    if inventory.protocol.scoring != "plda":
        return "cosine", []
    if inventory.training:
        return "plda", []
    return "cosine", ["scores are cosines: the PLDA of the protocol needs training speech, and there is none"]


def attacker_of(model: str) -> str:
    """The name of the attacker without what it knew."""
    return model.partition(" (")[0]


def is_by(figure: Figure, attacker: str | None) -> bool:
    """Whether a figure is of this attacker; None is anyone."""
    return attacker in (None, figure.model, attacker_of(figure.model))


def is_semi_informed(model: str) -> bool:
    """Whether it is the attacker of the challenges: it has learned from speech of the same system."""
    return model.endswith(("^anon", "(semi-informed)"))


def choose_attacker(figures: Iterable[Figure], system: str, wanted: str | None = None) -> str:
    """The model whose figures count: the one that is asked for, the only semi-informed one, or the only one.

    ``figures``, at least one, are of one condition. Several that could count are an ``InputError`` that names them.
    """
    models = sorted({figure.model for figure in figures})
    chosen = [model for model in models if wanted in (model, attacker_of(model))]
    if wanted is None:
        chosen = [model for model in models if is_semi_informed(model)] or models
    if len(chosen) != 1:
        names = ", ".join(repr(model) for model in chosen or models)
        what = "no EER by {wanted!r}" if not chosen else "EERs by several attackers"
        raise InputError(f"{system}: {what.format(wanted=wanted)}", fix=f"name one of {names}")
    return chosen[0]
