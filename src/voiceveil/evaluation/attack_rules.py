"""Sets, conditions and scoring of an attack as a protocol states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from voiceveil.attack.registry import Scoring
from voiceveil.attack.sets import CONDITIONS, Condition
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.evaluation.protocol import Protocol

__all__ = ["AttackRules", "attack_rules"]


@dataclass(frozen=True)
class AttackRules:
    """Sets, conditions and scoring of an attack, as in :class:`~voiceveil.attack.pipeline.AttackRequest`."""

    sets: Sequence[str] | Mapping[str, str] | None = None
    conditions: Sequence[Condition] = CONDITIONS
    scoring: Scoring = "cosine"


def attack_rules(
    protocol: Protocol, data: Path, names: Sequence[str] = (), scoring: Scoring | None = None
) -> AttackRules:
    """Return the rules of a protocol.

    Parameters
    ----------
    protocol
        The protocol.
    data
        Folder of Kaldi directories; sets of the protocol that it does not have are left out.
    names
        Sets, or beginnings of their names (default: all).
    scoring
        Overrides the scoring of the protocol.
    """
    pairs = {
        trials.set: part.enroll
        for part in protocol.verification
        for trials in part.trials
        if (data / trials.set / "trials").is_file()
    }
    if not pairs:
        raise InputError(f"no trial set of {protocol.name} is here", where=data, fix="give another --protocol")
    unknown = [name for name in names if not any(_is_named(trial_set, name) for trial_set in pairs)]
    if unknown:
        raise InputError(
            f"--sets: {protocol.name} has no set {unknown[0]!r}", fix=did_you_mean(unknown[0], list(pairs))
        )
    if names:
        pairs = {key: enroll for key, enroll in pairs.items() if any(_is_named(key, name) for name in names)}
    return AttackRules(pairs, protocol.conditions, scoring or protocol.scoring)


def _is_named(trial_set: str, name: str) -> bool:
    """Return whether ``name`` is that of the set, or a beginning of it (``libri_dev``)."""
    return trial_set == name or trial_set.startswith(f"{name}_")
