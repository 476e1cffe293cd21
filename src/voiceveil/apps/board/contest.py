"""A contest: a folder with ``contest.toml`` (the rules), ``key`` (signs the tokens of teams) and the database.

Conventions: the organizer's data lie elsewhere and are only read: Kaldi directories with trials and texts for the
VoicePrivacy Challenges, the folder of a challenge with its keys for TdSV. Days are those of UTC. In the hidden period
the board is frozen: new submissions are scored, but their figures are shown to nobody before it ends.

Verification: ``verify`` is ``none`` (figures are shown as submitted), ``all``, or a number of trial utterances of each
trial list, drawn at random for each submission with the contest's key. ``tolerance`` is a fraction: 0.02 is two points.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from voiceveil.apps.web.tokens import new_key, write_key
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import build, read_toml
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.evaluation.protocol import Protocol, known_protocols, load_protocol
from voiceveil.evaluation.ranking import ranking_rules

__all__ = ["RANKS", "TDSV", "Contest", "create_contest", "load_rules", "splits_of"]

#: The name of the text-dependent challenge, whose rules are not a protocol of :mod:`voiceveil.evaluation`.
TDSV = "tdsv2024"

#: Which systems get a place: only verified ones, or the others too, behind those that are verified.
RANKS = ("verified-only", "verified-first")
_PROTOCOL_FILE = "protocol.toml"  # in the folder of the contest: a copy of the organizer's own protocol
_NOT_WITH_TDSV = "a tdsv2024 submission holds no audio: leave out require_audio and verify"


def load_rules(name: str) -> Protocol:
    """Return the protocol of a contest, which must rank systems by WER.

    A minimum pitch correlation is left out: submissions hold no pitch.

    Raises
    ------
    InputError
        If there is no such protocol, or it does not rank systems by WER.
    """
    if name not in known_protocols() and not name.endswith(".toml"):
        fix = f"{did_you_mean(name, [*known_protocols(), TDSV])} A protocol of your own is a .toml file"
        raise InputError(f"unknown protocol {name!r}", fix=fix)
    protocol = load_protocol(name)
    ranking = ranking_rules(protocol)
    if "wer" not in ranking.by:
        fix = 'by = ["wer"]: a board computes EERs from scores and WERs from transcripts, and nothing else'
        raise InputError(f"{protocol.name} does not rank systems by WER", fix=fix)
    return replace(protocol, ranking=replace(ranking, minimum_pitch_correlation=None))


def splits_of(protocol: str) -> tuple[str, ...]:
    """Return the splits that a contest can rank on, the usual one first."""
    if protocol == TDSV:
        return ("eval", "dev")
    return tuple(sorted(load_rules(protocol).splits(), key=lambda split: split != "test"))


@dataclass(frozen=True)
class Contest:
    """The rules of a contest."""

    protocol: str  # the name of a protocol, "tdsv2024", or the path of a protocol's TOML file
    data: Path
    split: str
    title: str
    daily: int = 2  # submissions of a team
    total: int = 10
    largest: int = 4 << 30  # bytes of an upload
    hidden_from: datetime | None = None
    hidden_until: datetime | None = None
    require_audio: bool = False  # refuse submissions without the anonymized audio
    verify: str | int = "none"  # "none", "all", or trial utterances of each trial list
    attackers: tuple[str, ...] = ("campplus",)  # of the verification; the strongest counts
    recognizer: str = "moonshine"  # of the verification
    tolerance: float = 0.02  # beyond the 95% interval, before a submitted figure is said to differ
    rank: str = "verified-first"

    def __post_init__(self) -> None:
        splits = splits_of(self.protocol)
        if self.split not in splits:
            raise InputError(f"{self.protocol} has no split {self.split!r}", fix=did_you_mean(self.split, list(splits)))
        if not 1 <= self.daily <= self.total:
            limits = f"daily = {self.daily} and total = {self.total}"
            raise InputError(f"{limits} are not usable limits", fix="give a daily limit of 1 or more, up to the total")
        if (self.hidden_from is None) != (self.hidden_until is None):
            problem = "the hidden period has only one of hidden_from and hidden_until"
            raise InputError(problem, fix="give both, or neither")
        self._check_verification()

    def _check_verification(self) -> None:
        number = isinstance(self.verify, int) and not isinstance(self.verify, bool) and self.verify > 0
        if self.verify not in ("none", "all") and not number:
            problem = f"verify is {self.verify!r}"
            raise InputError(problem, fix="none, all, or a number of trial utterances of each trial list, at least 1")
        if self.protocol == TDSV and (self.is_verified or self.require_audio):
            raise InputError("tdsv2024 cannot be verified", fix=_NOT_WITH_TDSV)
        if self.rank not in RANKS:
            raise InputError(f"unknown rank {self.rank!r}", fix=did_you_mean(self.rank, list(RANKS)))
        if self.rank == "verified-only" and not self.is_verified:
            raise InputError("rank is verified-only, but verify is none", fix='set verify to "all" or a number')
        if not self.attackers:
            raise InputError("no attackers to verify with", fix='write attackers = ["campplus"]')
        if not 0.0 <= self.tolerance <= 0.5:
            fix = "give a fraction from 0 to 0.5; 0.02 is 2 points"
            raise InputError(f"the tolerance {self.tolerance:g} is out of range", fix=fix)

    @cached_property
    def rules(self) -> Protocol:
        """The protocol; not for the text-dependent challenge."""
        return load_rules(self.protocol)

    @property
    def protocol_name(self) -> str:
        """The name of the protocol, for a reader."""
        return TDSV if self.protocol == TDSV else self.rules.name

    @property
    def has_layout_of_2022(self) -> bool:
        """True if submissions have the layout of the 2022 challenge, False for that of 2024."""
        official = self.rules.official
        return official is not None and official.layout in ("vpc2020", "vpc2022")

    @property
    def is_verified(self) -> bool:
        """True if the board attacks and transcribes submitted audio again."""
        return self.verify != "none"

    def is_hidden(self, submitted: float, now: float) -> bool:
        """Return whether figures of a submission of time ``submitted`` are hidden at ``now`` (seconds since 1970)."""
        if self.hidden_from is None or self.hidden_until is None:
            return False
        begin, end = self.hidden_from.timestamp(), self.hidden_until.timestamp()
        return begin <= now < end and submitted >= begin

    @classmethod
    def load(cls, folder: Path) -> Contest:
        """Read the rules of a folder."""
        path = folder / "contest.toml"
        data = read_toml(path, fix="give the folder that `voiceveil board create` has made")
        for name in ("hidden_from", "hidden_until"):
            if name in data:
                data[name] = _utc(data[name], path)
        if isinstance(data.get("data"), str) and "\0" not in data["data"]:
            data["data"] = (folder / data["data"]).resolve()
        if isinstance(data.get("protocol"), str) and data["protocol"].endswith(".toml"):
            data["protocol"] = str((folder / data["protocol"]).resolve())
        return build(cls, data, where=path)


def _utc(value: object, path: Path) -> datetime:
    if not isinstance(value, datetime):
        raise InputError(f"{value!r} is no time", where=path, fix="write 2026-06-01T12:00:00Z, without quotes")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def create_contest(folder: Path, contest: Contest) -> None:
    """Make the folder of a contest, with its rules and a new key."""
    if os.path.lexists(folder):
        raise InputError("this folder exists already", where=folder, fix="name a new folder")
    own = contest.protocol.endswith(".toml")
    rules = Path(contest.protocol).read_bytes() if own else b""
    folder.mkdir(parents=True)
    if own:
        with atomic_path(folder / _PROTOCOL_FILE) as part:
            part.write_bytes(rules)
    lines = [
        f"title = {json.dumps(contest.title)}",
        f"protocol = {json.dumps(_PROTOCOL_FILE if own else contest.protocol)}",
        f"data = {json.dumps(str(contest.data.resolve()))}",
        f"split = {json.dumps(contest.split)}",
        f"daily = {contest.daily}          # submissions of a team",
        f"total = {contest.total}",
        f"largest = {contest.largest}  # bytes of an upload",
        f"require_audio = {json.dumps(contest.require_audio)}  # refuse submissions without the anonymized audio",
        f'verify = {json.dumps(contest.verify)}  # "none", "all", or trial utterances of each trial list, at random',
        f"attackers = {json.dumps(list(contest.attackers))}  # of the verification; the strongest one counts",
        f"recognizer = {json.dumps(contest.recognizer)}  # of the verification",
        f"tolerance = {contest.tolerance:g}  # beyond the 95% interval, before a submitted figure is said to differ",
        f"rank = {json.dumps(contest.rank)}  # who gets a place: {' or '.join(RANKS)}",
        "# hidden_from = 2026-06-01T12:00:00Z   # the board is frozen from this time",
        "# hidden_until = 2026-06-08T12:00:00Z  # until this time",
    ]
    write_key(folder / "key", new_key())
    with atomic_path(folder / "contest.toml") as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
