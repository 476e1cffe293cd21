"""Names of attackers: one registry, and the parser of the names that users write.

A name is ``NAME`` or ``NAME:ARGUMENT``. The attackers of this package and of third parties (entry points of the group
``voiceveil.attackers``) are in :data:`attackers`. Besides, each speaker encoder ``E`` of
:data:`~voiceveil.models.speaker.encoders.encoders` gives two attackers, ``E`` and ``E-adapted``, whose argument is the
encoder's: ``trained:exp/asv``, ``trained-adapted:exp/asv``. Only this module reads names; everything else works with
:class:`~voiceveil.attack.attacker.Attacker` objects and their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from voiceveil.attack.attacker import Attacker
from voiceveil.attack.backends import Cosine
from voiceveil.attack.encoder_attackers import AdaptedAttacker, EncoderAttacker
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry, did_you_mean
from voiceveil.models.speaker.encoders import SpeakerEncoder, encoders
from voiceveil.models.speaker.plda import Plda

__all__ = ["AttackerOptions", "Scoring", "adapted_attacker", "attackers", "make_attackers", "make_named"]

Scoring = Literal["cosine", "plda"]

_LDA_SIZE = 200  # dimensions at most before PLDA, as in the challenges' recipe


@dataclass(frozen=True)
class AttackerOptions:
    """Options from which an attacker is made.

    Parameters
    ----------
    argument : str
        Part of the name after the colon, or "".
    scoring : {"cosine", "plda"}
        Back-end of attackers with an encoder.
    similar : bool
        The anonymized training speech is of a similar system, not of the one that is attacked.
    from_enrollment : bool
        Adapted back-ends also learn from the enrollment utterances of the attacked speakers.
    """

    argument: str = ""
    scoring: Scoring = "cosine"
    similar: bool = False
    from_enrollment: bool = False


Factory = Callable[[AttackerOptions], Sequence[Attacker]]

#: Name -> function that makes the attackers of this name from their options.
attackers: Registry[Factory] = Registry(
    "attacker",
    group="voiceveil.attackers",
    modules=(
        "voiceveil.attack.model_free",
        "voiceveil.attack.inversion",
        "voiceveil.attack.statistics_attackers",
        "voiceveil.attack.fusion_attacker",
        "voiceveil.attack.kaldi_attacker",
        "voiceveil.attack.strongest",
    ),
)


def make_attackers(
    names: Iterable[str | Attacker],
    *,
    scoring: Scoring = "cosine",
    similar: bool = False,
    from_enrollment: bool = False,
) -> list[Attacker]:
    """Return the attackers of some names, in their order; an attacker that was made already is taken as it is.

    An attacker that combines others (``fusion``) gets all the others, and comes last.

    Parameters
    ----------
    names : iterable of str or Attacker
        E.g. ``["campplus", "trained-adapted:exp/asv", "free:f0"]``; repeated names count once.
    scoring, similar, from_enrollment
        See :class:`AttackerOptions`.

    Raises
    ------
    InputError
        If a name, its argument or the scoring is not known, or there is no name.
    """
    if scoring not in get_args(Scoring):
        raise InputError(f"unknown scoring {scoring!r}", fix=f"known: {', '.join(get_args(Scoring))}")
    made_attackers: dict[str, Attacker] = {}
    for name in dict.fromkeys(names):
        if isinstance(name, Attacker):
            made_attackers[name.name] = name
            continue
        for attacker in make_named(name, AttackerOptions("", scoring, similar, from_enrollment)):
            made_attackers.setdefault(attacker.name, attacker)
    if not made_attackers:
        raise InputError("no attacker is named", fix="name one, e.g. campplus")
    single = [attacker for attacker in made_attackers.values() if not attacker.combines]
    combining = [attacker.combined(single) for attacker in made_attackers.values() if attacker.combines]
    return [*single, *combining]


def make_named(name: str, options: AttackerOptions) -> Sequence[Attacker]:
    """Return the attackers of one name."""
    of_encoders = _encoder_factories()
    head, _, argument = name.partition(":")
    if head not in of_encoders and head not in attackers:
        raise InputError(f"unknown attacker {name!r}", fix=did_you_mean(head, [*of_encoders, *attackers]))
    factory = of_encoders[head] if head in of_encoders else attackers[head]
    return factory(replace(options, argument=argument))


def _encoder_factories() -> dict[str, Factory]:
    """Return the two attackers of each encoder."""
    plain: dict[str, Factory] = {name: partial(_make_plain, name) for name in encoders}
    return {**plain, **{f"{name}-adapted": partial(_make_adapted, name) for name in encoders}}


def _make_plain(encoder: str, options: AttackerOptions) -> list[Attacker]:
    backend = Plda(_LDA_SIZE) if options.scoring == "plda" else Cosine()
    return [EncoderAttacker(encoders[encoder](options.argument or None), backend)]


def _make_adapted(encoder: str, options: AttackerOptions) -> list[Attacker]:
    speaker_encoder = encoders[encoder](options.argument or None)
    return [adapted_attacker(speaker_encoder, options)]


def adapted_attacker(speaker_encoder: SpeakerEncoder, options: AttackerOptions) -> AdaptedAttacker:
    """Return the attacker that adapts an encoder to anonymized speech."""
    return AdaptedAttacker(
        speaker_encoder,
        similar=options.similar,
        llr_only=options.scoring == "plda",
        from_enrollment=options.from_enrollment,
    )
