"""Protocols: the sets, metrics, weights and rules of an evaluation, all of them data in a TOML file.

The protocols of the challenges are in ``protocols/``; `docs/how-to/protocols.md` explains every key. An unknown key,
metric, role or level is an ``InputError`` with a suggestion.

Conventions: rates are fractions in [0, 1]; a set is the name of a Kaldi directory in the folder of the data; weights
are relative, and normalized to sum to 1 within a split.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from voiceveil.attack.sets import Condition
from voiceveil.core.documents import build, read_toml
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.evaluation.model_choice import ModelChoice
from voiceveil.evaluation.protocol_checks import check_protocol
from voiceveil.evaluation.protocol_rules import AllowedResources, Legal, Official, RankingRules
from voiceveil.metrics.catalog import metric_info
from voiceveil.metrics.verification import EerMethod

if TYPE_CHECKING:
    from voiceveil.evaluation.results import Results

__all__ = [
    "AllowedResources",
    "Emotion",
    "Legal",
    "Level",
    "Official",
    "Protocol",
    "ProtocolTrialSet",
    "RankingRules",
    "Recognition",
    "StandIns",
    "Training",
    "Verification",
    "dataset_name",
    "find_protocol",
    "known_protocols",
    "load_protocol",
    "protocol_document",
    "protocol_from_document",
    "protocol_of",
]

Level = Literal["utterance", "speaker"]
Role = Literal["enroll", "trial", "train", "emotion"]

_FIX = "`docs/how-to/protocols.md` explains the keys; voiceveil/evaluation/protocols holds examples"


@dataclass(frozen=True)
class ProtocolTrialSet:
    """A set with trials: its gender, its weight in averages, and the numbers that the plan states."""

    set: str
    gender: Literal["f", "m", ""] = ""  # "": both, or unknown
    weight: float = 1.0
    target: int | None = None
    nontarget: int | None = None
    speakers: int | None = None


@dataclass(frozen=True)
class Verification:
    """An enrollment set and the trial sets that are compared with it."""

    dataset: str
    split: str
    enroll: str
    trials: tuple[ProtocolTrialSet, ...]
    subset: str = ""
    enroll_utterances: int | None = None
    enroll_speakers: Mapping[str, int] = field(default_factory=dict)  # gender -> speakers
    trial_utterances: int | None = None


@dataclass(frozen=True)
class Recognition:
    """Sets whose words are recognized and counted together, for one WER.

    ``sample``: recognize at most this many utterances of each set, spread over its speakers; None recognizes all.
    """

    dataset: str
    split: str
    sets: tuple[str, ...]
    weight: float = 1.0
    words: int | None = None
    sample: int | None = None


@dataclass(frozen=True)
class Emotion:
    """A set whose emotions are recognized, for one UAR."""

    dataset: str
    split: str
    set: str
    weight: float = 1.0
    utterances: int | None = None


@dataclass(frozen=True)
class Training:
    """The set that attackers learn from, anonymized, with its counts; ``more`` names further sets of the same use."""

    set: str
    more: tuple[str, ...] = ()
    utterances: int | None = None
    speakers: int | None = None
    genders: Mapping[str, int] = field(default_factory=dict)  # gender -> speakers

    @property
    def sets(self) -> tuple[str, ...]:
        """All sets that attackers learn from."""
        return (self.set, *self.more)


@dataclass(frozen=True)
class StandIns:
    """Sets to use instead if those of the protocol are not in the data; the results say so."""

    train: tuple[str, ...] = ()
    emotion: tuple[str, ...] = ()


@dataclass(frozen=True)
class Protocol:
    """A protocol; see `docs/how-to/protocols.md` for its TOML file.

    Raises
    ------
    InputError
        If the parts contradict each other, or a metric, role, level or set name is not allowed.
    """

    name: str
    title: str
    metrics: tuple[str, ...]
    #: Enrollment and trials, original (o) or anonymized (a): those that attackers attack under.
    conditions: tuple[Condition, ...] = ()
    verification: tuple[Verification, ...] = ()
    recognition: tuple[Recognition, ...] = ()
    emotion: tuple[Emotion, ...] = ()
    levels: Mapping[str, Level] = field(default_factory=dict)  # role -> level; "utterance" if a role is not listed
    scoring: Literal["cosine", "plda"] = "cosine"
    #: How official result files and leaderboards compute an EER; our own results have that of the convex hull.
    eer: EerMethod = "rocch"
    training: Training | None = None
    stand_ins: StandIns = field(default_factory=StandIns)
    ranking: RankingRules | None = None
    official: Official | None = None
    resources: AllowedResources | None = None
    legal: Legal | None = None
    models: ModelChoice = field(default_factory=ModelChoice)
    #: Systems of the challenge with their settings, e.g. ``k2 pool=evaluation``: the meaning of ``--system all``.
    systems: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_protocol(self)

    def roles(self) -> dict[str, Role]:
        """Return set -> role, in the order of the protocol."""
        roles: dict[str, Role] = {}
        for name, role in self.named_sets():
            roles.setdefault(name, role)
        return roles

    def named_sets(self) -> Iterator[tuple[str, Role]]:
        """Yield each mention of a set with its role."""
        for verification in self.verification:
            yield verification.enroll, "enroll"
            for trials in verification.trials:
                yield trials.set, "trial"
        for recognition in self.recognition:
            for name in recognition.sets:
                yield name, "trial"
        for emotion in self.emotion:
            yield emotion.set, "emotion"
        for name in () if self.training is None else self.training.sets:
            yield name, "train"

    def level(self, role: str) -> Level:
        """Return the level at which sets of a role are anonymized."""
        return self.levels.get(role, "utterance")

    def splits(self) -> tuple[str, ...]:
        """Return the splits, e.g. ``("dev", "test")``, in the order of the protocol."""
        parts: list[Verification | Recognition | Emotion] = [*self.verification, *self.recognition, *self.emotion]
        return tuple(dict.fromkeys(part.split for part in parts))

    def weights(self, metric: str, split: str) -> dict[str, float]:
        """Return dataset -> weight of a metric's average over a split; the weights sum to 1.

        Datasets are named as by :func:`dataset_name`: ``"libri_test f"``, ``"vctk_test common m"``, ``"IEMOCAP_dev"``.

        Raises
        ------
        InputError
            If the protocol has no data of this split for the metric.
        """
        weights: dict[str, float] = {}
        kind = metric_info(metric).part
        if kind == "recognition":
            weights = {part.dataset: part.weight for part in self.recognition if part.split == split}
        elif kind == "emotion":
            weights = {part.dataset: part.weight for part in self.emotion if part.split == split}
        elif kind == "verification":
            for part in self.verification:
                if part.split == split:
                    weights |= {dataset_name(part.dataset, part.subset, t.gender): t.weight for t in part.trials}
        if not weights:
            splits = ", ".join(self.splits())
            raise InputError(f"{self.name} has no {split!r} data for {metric}", fix=f"its splits: {splits}")
        total = math.fsum(weights.values())
        return {name: weight / total for name, weight in weights.items()}


def dataset_name(dataset: str, subset: str = "", gender: str = "") -> str:
    """Return the name of the data behind a figure.

    Examples
    --------
    >>> dataset_name("vctk_test", "common", "m")
    'vctk_test common m'
    """
    return " ".join(filter(None, [dataset, subset, gender]))


def known_protocols() -> list[str]:
    """Return the names of the protocols that ship with the package."""
    folder = files("voiceveil.evaluation") / "protocols"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_protocol(name: str | Path) -> Protocol:
    """Return a protocol by name, e.g. ``vpc2024``, or from a TOML file.

    Raises
    ------
    InputError
        If there is no such protocol, or the file is not a valid one.
    """
    path = Path(name)
    if str(name) in known_protocols():
        source = files("voiceveil.evaluation") / "protocols" / f"{name}.toml"
        return protocol_from_document(tomllib.loads(source.read_text(encoding="utf-8")), where=path)
    if path.suffix == ".toml":
        return protocol_from_document(read_toml(path, fix="give the path of a protocol's TOML file"), where=path)
    fix = f"{did_you_mean(str(name), known_protocols())} A protocol of your own is a .toml file"
    raise InputError(f"unknown protocol {str(name)!r}", fix=fix)


def protocol_from_document(document: Any, *, where: str | Path | None = None) -> Protocol:
    """Return the protocol that a parsed TOML or JSON document describes."""
    return build(Protocol, document, where=where, fix=_FIX)


def protocol_of(results: Results) -> Protocol:
    """Return the protocol that results were measured under.

    It is the one that ``results.json`` holds, or else (results in the challenges' own files) the one of that name.

    Raises
    ------
    InputError
        If the results hold no protocol and none of that name ships with the package.
    """
    document = results.info.get("protocol")
    if document is not None:
        protocol = protocol_from_document(document, where=f"{results.system}: info.protocol")
        if protocol.name != results.protocol:
            problem = f"{results.system}: results of {results.protocol!r} hold the protocol {protocol.name!r}"
            raise InputError(problem, fix="evaluate again")
        return protocol
    if results.protocol not in known_protocols():
        problem = f"{results.system}: results of the protocol {results.protocol!r}, which they do not hold"
        raise InputError(problem, fix="give its file: --protocol FILE.toml")
    return load_protocol(results.protocol)


def find_protocol(results: Results) -> Protocol | None:
    """Return the protocol of some results; None if they neither hold it nor name one that ships with the package."""
    is_known = "protocol" in results.info or results.protocol in known_protocols()
    return protocol_of(results) if is_known else None


def protocol_document(protocol: Protocol) -> dict[str, Any]:
    """Return a protocol as plain values for JSON, without defaults: the inverse of :func:`protocol_from_document`."""
    document: dict[str, Any] = _without_defaults(protocol)
    return document


def _without_defaults(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        entries = {}
        for field_ in dataclasses.fields(value):
            item = getattr(value, field_.name)
            default = field_.default if field_.default_factory is dataclasses.MISSING else field_.default_factory()
            if item != default:
                entries[field_.name] = _without_defaults(item)
        return entries
    if isinstance(value, Mapping):
        return dict(value)
    return [_without_defaults(item) for item in value] if isinstance(value, tuple) else value
