"""Protocols as data: which sets, which roles and levels, which attackers and metrics, and what the plans count.

A protocol is a TOML file; those of the challenges are in ``protocols/``, and a path to another file will do as well.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from voiceveil.core.documents import build, read_toml
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.metrics.verification import EerMethod

__all__ = ["Emotion", "Protocol", "Recognition", "Training", "TrialSet", "Verification", "load_protocol"]


@dataclass(frozen=True)
class TrialSet:
    """A Kaldi directory of trials: how many pairs of each kind the plan counts."""

    set: str
    gender: str
    target: int | None = None
    nontarget: int | None = None


@dataclass(frozen=True)
class Verification:
    """Enrollment against trials, in one data set."""

    dataset: str
    split: str
    enroll: str
    trials: tuple[TrialSet, ...]
    subset: str = ""
    enroll_utterances: int | None = None
    trial_utterances: int | None = None


@dataclass(frozen=True)
class Recognition:
    """Trial sets whose words are recognised together."""

    dataset: str
    split: str
    sets: tuple[str, ...]
    words: int | None = None


@dataclass(frozen=True)
class Emotion:
    """A set whose emotions are recognised."""

    dataset: str
    split: str
    set: str


@dataclass(frozen=True)
class Training:
    """What the attacker trains on."""

    set: str
    utterances: int | None = None
    speakers: int | None = None


@dataclass(frozen=True)
class Protocol:
    """A challenge, declared."""

    name: str
    title: str
    metrics: tuple[str, ...]
    levels: Mapping[str, str]  # role -> "utterance" | "speaker"
    conditions: tuple[str, ...]
    scoring: str
    verification: tuple[Verification, ...]
    recognition: tuple[Recognition, ...] = ()
    emotion: tuple[Emotion, ...] = ()
    training: Training | None = None
    minimum_pitch_correlation: float | None = None
    ranking: Mapping[str, Any] | None = None
    #: "train" and "emotion" -> sets to use where those of the plan are not at hand.
    stand_ins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    eer: EerMethod = "rocch"  # how the challenge's own files compute it
    #: Systems of the challenge, each with its settings: ``k2 pool=evaluation``; what ``--system all`` stands for.
    systems: tuple[str, ...] = ()

    def roles(self) -> dict[str, str]:
        """Set -> role: "enroll", "trial", "train" or "emotion"; in the order of the protocol."""
        roles: dict[str, str] = {}
        for verification in self.verification:
            roles.setdefault(verification.enroll, "enroll")
            for trials in verification.trials:
                roles.setdefault(trials.set, "trial")
        for recognition in self.recognition:
            for name in recognition.sets:
                roles.setdefault(name, "trial")
        for emotion in self.emotion:
            roles.setdefault(emotion.set, "emotion")
        if self.training is not None:
            roles.setdefault(self.training.set, "train")
        return roles


def load_protocol(name: str | Path) -> Protocol:
    """The protocol of a challenge by name (``vpc2024``), or one from a TOML file."""
    folder = files("voiceveil.evaluation") / "protocols"
    known = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    path = Path(name)
    if str(name) in known:
        data = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    elif path.suffix == ".toml" and path.is_file():
        data = read_toml(path)
    else:
        raise InputError(f"unknown protocol {str(name)!r}", fix=did_you_mean(str(name), known))
    protocol = build(Protocol, data, where=path, fix="compare it with those in voiceveil/challenges/protocols")
    for folder_name in protocol.roles():
        if "/" in folder_name or folder_name.startswith(".") or not folder_name:
            raise InputError(f"the set {folder_name!r} cannot be the name of a folder", where=path, fix="rename it")
    return protocol
