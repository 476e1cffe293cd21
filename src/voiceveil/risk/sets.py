"""The sets A and B, embedded by each attacker's encoder, and checked (Vauquier et al. 2025, sections 3.2 and 3.3).

Conventions: every speaker of B is in A, with other utterances. For Singling Out B is enrolled and A tested, for
Linkability and EER A is enrolled and B tested. A :class:`RiskAttack` holds the embeddings of both sets by one
attacker's encoder. An attacker who learns from speakers of the release itself has several models
(:class:`AttackPart`): each is trained without the speakers whom it attacks.

Attackers have the paper's names: the challenges call the *informed* attacker *semi-informed*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.core.checks import Check
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, read_kaldi
from voiceveil.corpus.ids import with_safe_ids
from voiceveil.corpus.trial_design import Design
from voiceveil.evaluation.protocol import Legal, load_protocol
from voiceveil.metrics.legal import UtteranceEmbeddings, utterance_embeddings
from voiceveil.risk.embeddings import EmbeddingTable, Names

__all__ = [
    "ATTACKERS",
    "AttackPart",
    "RiskAttack",
    "attack_from_tables",
    "check_sets",
    "divide",
    "load_legal",
    "read_split",
    "split_of_design",
]

#: Attacker -> its knowledge, for a sentence that begins with "it".
ATTACKERS = {
    "original": "has the original recordings: no protection at all, for comparison",
    "ignorant": "does not know that the speech is anonymized; its encoder was trained on original speech only",
    "semi-informed": "knows that the speech is anonymized; its encoder was trained on speech of a similar system",
    "informed": "has the same system; its encoder was trained on speech that the system has anonymized",
}


@dataclass(frozen=True, eq=False)
class AttackPart:
    """Both sets, embedded by one model.

    Parameters
    ----------
    a, b : UtteranceEmbeddings
        Embeddings of the sets.
    only : frozenset of str, optional
        Speakers who are attacked with this model; all by default.
    """

    a: UtteranceEmbeddings
    b: UtteranceEmbeddings
    only: frozenset[str] | None = None


@dataclass(frozen=True, eq=False)
class RiskAttack:
    """The embeddings of both sets by one attacker.

    Parameters
    ----------
    name : str
        A key of :data:`ATTACKERS`.
    parts : tuple of AttackPart
        One for each model of the attacker.
    labels : mapping
        Attribute -> labels of the rows of A, shape (n,).
    about : mapping
        Encoder, training and files, for the report.
    checks : tuple of Check
        Failed checks of the encoder.
    """

    name: str
    parts: tuple[AttackPart, ...]
    labels: Mapping[str, Names] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()


def read_split(path: Path) -> dict[str, str]:
    """Return utterance -> "A" or "B", of the sets that a protocol names and that lie beside it.

    Raises
    ------
    InputError
        If the protocol has no [legal], or an utterance is in both sets.
    """
    legal = load_legal(path)
    return _split([read_kaldi(path.parent / name) for name in (legal.a, legal.b)])


def load_legal(path: Path) -> Legal:
    """Return the table [legal] of a protocol's TOML file."""
    legal = load_protocol(path).legal
    if legal is None:
        fix = "make one with `voiceveil corpus protocol CORPUS OUT --legal`"
        raise InputError("the protocol has no [legal] with the sets A and B", where=path, fix=fix)
    return legal


def split_of_design(design: Design) -> dict[str, str]:
    """Return utterance -> "A" or "B" of legal sets that were just designed."""
    return _split([with_safe_ids(corpus) for corpus in design.sets.values()])


def _split(sets: Sequence[Corpus]) -> dict[str, str]:
    split: dict[str, str] = {}
    for side, corpus in zip("AB", sets, strict=True):
        for utterance in corpus:
            if split.setdefault(utterance.id, side) != side:
                problem = f"utterance {utterance.id} of speaker {utterance.speaker} is in A and in B"
                raise InputError(problem, where=corpus.root, fix="sets must not overlap")
    return split


def divide(table: EmbeddingTable, split: Mapping[str, str] | None) -> tuple[EmbeddingTable, EmbeddingTable]:
    """Return the rows of A and of B, by a split (utterance -> "A" or "B") or else by the table's column ``set``."""
    if split is not None:
        sets = np.array([split.get(utterance, "") for utterance in table.utterance.tolist()])
        lost = len(split) - int((sets != "").sum())
        if lost:
            present = set(table.utterance.tolist())
            first = next(utterance for utterance in split if utterance not in present)
            raise InputError(f"{lost} utterance(s) of the protocol are missing, e.g. {first}", where=table.where)
    elif table.sets is not None:
        sets = table.sets
        odd = ~np.isin(sets, ["A", "B", ""])
        if odd.any():
            raise InputError(f"unknown set {sets[odd][0]!r}", where=table.where, fix="write A, B, or nothing")
    else:
        fix = "give --protocol, a column `set`, or two files NAME=A,B"
        raise InputError("which utterances are in A and which in B?", where=table.where, fix=fix)
    return table.rows(sets == "A"), table.rows(sets == "B")


def attack_from_tables(
    name: str, a: EmbeddingTable, b: EmbeddingTable, about: Mapping[str, Any] | None = None
) -> RiskAttack:
    """Return the attack with the embeddings of two checked tables.

    Raises
    ------
    InputError
        If the tables are not sets A and B of the protocol.
    """
    check_sets(a, b)
    part = AttackPart(
        utterance_embeddings(a.vector, a.speaker.tolist()), utterance_embeddings(b.vector, b.speaker.tolist())
    )
    return RiskAttack(name, (part,), a.attributes, about or {})


def check_sets(a: EmbeddingTable, b: EmbeddingTable) -> None:
    """Raise an ``InputError``, with the speaker, if two tables are not sets A and B of the protocol."""
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
