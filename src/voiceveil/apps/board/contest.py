"""A contest: a folder with ``contest.toml`` (the rules), ``key`` (signs the tokens of teams) and the database.

Conventions: the organizer's data lie elsewhere and are only read: Kaldi directories with trials and texts for the
VoicePrivacy Challenges, the folder of a challenge with its keys for TdSV. Days are those of UTC. In the hidden period
the board is frozen: new submissions are scored, but their figures are shown to nobody before it ends.

Late submissions: one whose upload begins after ``deadline`` is accepted and marked as late; ``late`` says whether it is
ranked all the same (``marked``, the rule of the VoicePrivacy Challenges), listed without a place, or refused.

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
from voiceveil.evaluation.protocol import Protocol, RankingRules, known_protocols, load_protocol
from voiceveil.evaluation.ranking import ranking_rules

__all__ = [
    "LATE",
    "RANKS",
    "TDSV",
    "Contest",
    "SubmissionLimits",
    "create_contest",
    "limits_of",
    "load_rules",
    "splits_of",
]

#: The name of the text-dependent challenge, whose rules are not a protocol of :mod:`voiceveil.evaluation`.
TDSV = "tdsv2024"

#: Which systems get a place: only verified ones, or the others too, behind those that are verified.
RANKS = ("verified-only", "verified-first")

#: What happens to submissions after the deadline.
LATE = ("marked", "unranked", "refused")

#: The metrics that a board can compute, and hence rank by.
_METRICS = ("wer", "uar", "pitch_correlation")
_DATES = ("hidden_from", "hidden_until", "deadline")
_PROTOCOL_FILE = "protocol.toml"  # in the folder of the contest: a copy of the organizer's own protocol
_NOT_WITH_TDSV = "a tdsv2024 submission holds no audio: leave out require_audio and verify"


@dataclass(frozen=True)
class SubmissionLimits:
    """Submissions that a team may make, 0 for any number, and the bytes of an upload."""

    daily: int
    total: int
    largest: int


#: Edition -> its limits. The plans of 2022 and 2024 allow any number of systems, that of TdSV 2024 two files a day and
#: ten in all. The largest submission is that of 2024 and 2026 with train-clean-360: 45 GB; 2022 sends no training data.
_EDITIONS = {
    TDSV: SubmissionLimits(2, 10, 1 << 30),
    "vpc2022": SubmissionLimits(0, 0, 16 << 30),
    "vpc2024": SubmissionLimits(0, 0, 64 << 30),
    "vpc2026": SubmissionLimits(0, 0, 64 << 30),
}


def limits_of(protocol: str) -> SubmissionLimits:
    """Return the limits that the plan of a challenge sets; those of 2024 for a protocol of the organizer's own."""
    if protocol == TDSV:
        return _EDITIONS[TDSV]
    official = load_rules(protocol).official
    return _EDITIONS.get("" if official is None else official.layout, _EDITIONS["vpc2024"])


def load_rules(name: str) -> Protocol:
    """Return the protocol of a contest, which must rank systems by WER; UAR and pitch correlation may be added.

    Raises
    ------
    InputError
        If there is no such protocol, or it ranks by something that a board does not compute.
    """
    if name not in known_protocols() and not name.endswith(".toml"):
        fix = f"{did_you_mean(name, [*known_protocols(), TDSV])} A protocol of your own is a .toml file"
        raise InputError(f"unknown protocol {name!r}", fix=fix)
    protocol = load_protocol(name)
    by = ranking_rules(protocol).by
    fix = 'by = ["wer"], with "uar" or "pitch_correlation" if you like: a board computes nothing else'
    if "wer" not in by:
        raise InputError(f"{protocol.name} does not rank systems by WER", fix=fix)
    for metric in by:
        if metric not in _METRICS:
            raise InputError(f"{protocol.name} ranks systems by {metric}", fix=fix)
    return protocol


def _of_split(protocol: Protocol, split: str) -> Protocol:
    """Return a protocol with the sets of one split alone: a contest has no others."""
    emotion = tuple(part for part in protocol.emotion if part.split == split)
    rules = ranking_rules(protocol)
    return replace(
        protocol,
        verification=tuple(part for part in protocol.verification if part.split == split),
        recognition=tuple(part for part in protocol.recognition if part.split == split),
        emotion=emotion,
        metrics=tuple(metric for metric in protocol.metrics if emotion or metric != "uar"),
        ranking=replace(rules, by=tuple(metric for metric in rules.by if emotion or metric != "uar")),
    )


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
    daily: int = 2  # submissions of a team; 0: any number
    total: int = 10  # 0: any number
    largest: int = 64 << 30  # bytes of an upload
    hidden_from: datetime | None = None
    hidden_until: datetime | None = None
    deadline: datetime | None = None
    late: str = "marked"  # submissions after the deadline: see LATE
    require_description: bool = False  # systems without a description get no place
    require_audio: bool = False  # refuse submissions without the anonymized audio
    verify: str | int = "none"  # "none", "all", or trial utterances of each trial list
    attackers: tuple[str, ...] = ("campplus",)  # of the verification; the strongest counts
    recognizer: str = "moonshine"  # of the verification
    emotion_model: str = "functionals"  # of the verification
    tolerance: float = 0.02  # beyond the 95% interval, before a submitted figure is said to differ
    rank: str = "verified-first"

    def __post_init__(self) -> None:
        splits = splits_of(self.protocol)
        if self.split not in splits:
            raise InputError(f"{self.protocol} has no split {self.split!r}", fix=did_you_mean(self.split, list(splits)))
        if min(self.daily, self.total, self.largest - 1) < 0 or 0 < self.total < self.daily:
            limits = f"daily = {self.daily}, total = {self.total} and largest = {self.largest}"
            fix = "give a daily limit up to the total, 0 for any number, and a size in bytes"
            raise InputError(f"{limits} are not usable limits", fix=fix)
        if self.late not in LATE:
            raise InputError(f"unknown late {self.late!r}", fix=did_you_mean(self.late, list(LATE)))
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
        """The protocol with the sets of the contest's split; not for the text-dependent challenge."""
        return _of_split(load_rules(self.protocol), self.split)

    @cached_property
    def ranking(self) -> RankingRules:
        """The rules of the ranking; not for the text-dependent challenge."""
        return ranking_rules(self.rules)

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

    def is_late(self, submitted: float) -> bool:
        """Return whether a submission of time ``submitted`` (seconds since 1970) came after the deadline."""
        return self.deadline is not None and submitted > self.deadline.timestamp()

    @classmethod
    def load(cls, folder: Path) -> Contest:
        """Read the rules of a folder."""
        path = folder / "contest.toml"
        data = read_toml(path, fix="give the folder that `voiceveil board create` has made")
        for name in _DATES:
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


def parse_time(text: str) -> datetime:
    """Return the time of ``2026-06-08T12:00Z``; without a zone it is UTC.

    >>> parse_time("2026-06-08T12:00").isoformat()
    '2026-06-08T12:00:00+00:00'
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is no time", fix="write 2026-06-08T12:00Z") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _toml_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
        f"daily = {contest.daily}          # submissions of a team; 0: any number",
        f"total = {contest.total}",
        f"largest = {contest.largest}  # bytes of an upload",
        *(f"{name} = {_toml_time(value)}" for name in _DATES if (value := getattr(contest, name)) is not None),
        f"late = {json.dumps(contest.late)}  # submissions after the deadline: {', '.join(LATE)}",
        f"require_description = {json.dumps(contest.require_description)}  # no place without a system description",
        f"require_audio = {json.dumps(contest.require_audio)}  # refuse submissions without the anonymized audio",
        f'verify = {json.dumps(contest.verify)}  # "none", "all", or trial utterances of each trial list, at random',
        f"attackers = {json.dumps(list(contest.attackers))}  # of the verification; the strongest one counts",
        f"recognizer = {json.dumps(contest.recognizer)}  # of the verification",
        f"emotion_model = {json.dumps(contest.emotion_model)}  # of the verification",
        f"tolerance = {contest.tolerance:g}  # beyond the 95% interval, before a submitted figure is said to differ",
        f"rank = {json.dumps(contest.rank)}  # who gets a place: {' or '.join(RANKS)}",
        "# deadline = 2026-06-08T12:00:00Z      # submissions after this time are late",
        "# hidden_from = 2026-06-01T12:00:00Z   # the board is frozen from this time",
        "# hidden_until = 2026-06-08T12:00:00Z  # until this time",
    ]
    write_key(folder / "key", new_key())
    with atomic_path(folder / "contest.toml") as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
