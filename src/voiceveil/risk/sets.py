"""Sets A and B as an attacker has them, checked (Vauquier et al. 2025, sections 3.2 and 3.3).

Conventions: every speaker of B is in A, with other utterances. For Singling Out B is enrolled and A tested, for
Linkability and EER A is enrolled and B tested. An :class:`Attack` is one attacker: the embeddings of both sets as their
encoder gives them. An attacker who has learned from speakers of the release itself comes in :class:`Part` s, each with
a model that has heard everybody but the speakers ``only`` whom this part attacks.

Names of attackers are the paper's: what it calls *informed* is *semi-informed* in the challenges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.core.checks import Check
from voiceveil.core.documents import build, read_json
from voiceveil.core.errors import InputError
from voiceveil.metrics.legal import Voices, voices
from voiceveil.risk.embeddings import Names, Table

__all__ = ["ATTACKERS", "Attack", "Part", "attack_from_tables", "check_sets", "divide", "read_split"]

#: Attacker -> what they have and know, in words that follow "it".
ATTACKERS = {
    "original": "has the original recordings: no protection at all, for comparison",
    "ignorant": "does not know that the speech is anonymized; its encoder knows original speech only",
    "semi-informed": "knows that the speech is anonymized; its encoder has learned from a similar system",
    "informed": "has the very system; its encoder has learned from speech that the system has anonymized",
}


@dataclass(frozen=True, eq=False)
class Part:
    """The sets as one model hears them; ``only`` these speakers are attacked with it (None: all)."""

    a: Voices
    b: Voices
    only: frozenset[str] | None = None


@dataclass(frozen=True, eq=False)
class Attack:
    """An attacker: its name, its part or parts, labels of A's rows (attribute -> (n,)), and how it was made."""

    name: str
    parts: tuple[Part, ...]
    labels: Mapping[str, Names] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()  # that failed while it was made


_LARGEST = 64 << 20  # bytes of a protocol.json


@dataclass(frozen=True)
class _Protocol:
    """The entry of ``protocol.json`` that is used here: speaker -> set -> utterances."""

    split: dict[str, dict[str, list[str]]]


def read_split(path: Path) -> dict[str, str]:
    """Utterance -> "A" or "B", from the ``protocol.json`` that ``voiceveil corpus protocol --legal`` writes."""
    fix = "make it with `voiceveil corpus protocol CORPUS OUT --legal`"
    record = build(_Protocol, read_json(path, largest=_LARGEST, fix=fix), where=path, unknown=True, fix=fix)
    pairs = [
        (utterance, name[-2:], speaker)
        for speaker, sets in record.split.items()
        for name, ids in sets.items()
        for utterance in ids
    ]
    home: dict[str, str] = {}
    for utterance, name, speaker in pairs:
        if name not in ("_A", "_B"):
            raise InputError(f"speaker {speaker} has a set that is neither A nor B", where=path)
        if home.setdefault(utterance, name[1]) != name[1]:
            raise InputError(
                f"utterance {utterance} of speaker {speaker} is in A and in B", where=path, fix="sets must not overlap"
            )
    return home


def divide(table: Table, split: Mapping[str, str] | None) -> tuple[Table, Table]:
    """The rows of A and of B: as the split says, or else the table's own column ``set``."""
    if split is not None:
        sets = np.array([split.get(utterance, "") for utterance in table.utterance.tolist()])
        lost = len(split) - int((sets != "").sum())
        if lost:
            there = set(table.utterance.tolist())
            one = next(utterance for utterance in split if utterance not in there)
            raise InputError(f"{lost} utterance(s) of the protocol are missing, e.g. {one}", where=table.where)
    elif table.sets is not None:
        sets = table.sets
        odd = ~np.isin(sets, ["A", "B", ""])
        if odd.any():
            raise InputError(f"set {sets[odd][0]!r}", where=table.where, fix="A, B, or empty")
    else:
        fix = "give --protocol, a column `set`, or two files NAME=A,B"
        raise InputError("which utterances are in A and which in B?", where=table.where, fix=fix)
    return table.rows(sets == "A"), table.rows(sets == "B")


def attack_from_tables(name: str, a: Table, b: Table, about: Mapping[str, Any] | None = None) -> Attack:
    """An attacker of two tables, checked."""
    check_sets(a, b)
    part = Part(voices(a.vector, a.speaker.tolist()), voices(b.vector, b.speaker.tolist()))
    return Attack(name, (part,), a.attributes, about or {})


def check_sets(a: Table, b: Table) -> None:
    """A and B are what the protocol needs, or an ``InputError`` that names the speaker."""
    for side, table in (("A", a), ("B", b)):
        if not len(table.utterance):
            raise InputError(f"set {side} is empty", where=table.where)
    if a.vector.shape[1] != b.vector.shape[1]:
        raise InputError(
            f"speaker {b.speaker[0]} has vectors of {b.vector.shape[1]} dimensions in B, "
            f"speaker {a.speaker[0]} of {a.vector.shape[1]} in A",
            where=b.where,
            fix="embed both sets with one encoder",
        )
    speaker_of = dict(zip(a.utterance.tolist(), a.speaker.tolist(), strict=True))
    for utterance, speaker in zip(b.utterance.tolist(), b.speaker.tolist(), strict=True):
        if utterance in speaker_of:
            raise InputError(
                f"utterance {utterance} of speaker {speaker} is in A and in B",
                where=b.where,
                fix="sets must not overlap",
            )
    names, counts = np.unique(a.speaker, return_counts=True)
    strangers = np.setdiff1d(b.speaker, names)
    if len(strangers):
        raise InputError(
            f"speaker {strangers[0]} is in B but not in A", where=b.where, fix="every speaker of B must be in A"
        )
    if (counts < 2).any():
        raise InputError(
            f"speaker {names[counts < 2][0]} has fewer than two utterances in A (and {int((counts < 2).sum()) - 1} "
            "others)",
            where=a.where,
            fix="one calibrates and one tests: leave such speakers out",
        )
    if len(names) < 2:
        raise InputError(f"speaker {names[0]} is alone in A", where=a.where, fix="give at least two speakers")
