"""``strongest``: all attackers of this package that learn, as far as they can run here, and their fusion.

Add encoders of your own beside it, and the fusion takes them in: ``strongest,speechbrain-adapted:exp/ecapa``.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from voiceveil.attack.attacker import Attacker
from voiceveil.attack.registry import AttackerOptions, attackers, make_named
from voiceveil.core.errors import InputError

__all__ = ["NAMES", "AttackerLeftOutWarning"]

#: The attackers of the preset.
NAMES = (
    "campplus",
    "campplus-adapted",
    "campplus-trunk-adapted",
    "moonshine-layers",
    "codes",
    "words-adapted",
    "concat-adapted:campplus-trunk+moonshine:3+moonshine:5",
    "fusion",
)


class AttackerLeftOutWarning(UserWarning):
    """An attacker of the preset cannot run here."""


@attackers.register("strongest")
def make_strongest(options: AttackerOptions) -> list[Attacker]:
    """Return the attackers of the preset; those whose packages are not installed are left out with a warning."""
    if options.argument:
        raise InputError(
            "strongest takes no argument", fix="add attackers beside it: strongest,speechbrain-adapted:DIR"
        )
    chosen: list[Attacker] = []
    for name in NAMES:
        try:
            chosen += make_named(name, replace(options, argument=""))
        except InputError as error:
            warnings.warn(f"the attacker {name} is left out: {error}", AttackerLeftOutWarning, stacklevel=2)
    return chosen
