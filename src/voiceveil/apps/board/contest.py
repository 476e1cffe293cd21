"""A contest: a folder with ``contest.toml`` (the rules), ``key`` (signs the tokens of teams) and the database.

Conventions: the organiser's data lie elsewhere and are only read: Kaldi directories with trials and texts for the
VoicePrivacy Challenges, the folder of a challenge with its keys for TdSV. Days are those of UTC. In the hidden period
the board stands still: submissions made in it are scored, but nobody sees their figures before it ends.

Verification: ``verify`` is ``none`` (figures are shown as submitted), ``all``, or a number of trial utterances of each
trial list, drawn at random for each submission with the contest's key. ``tolerance`` is a fraction: 0.02 is two points.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from voiceveil.apps.web.tokens import new_key, write_key
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import build, read_toml
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = ["CHALLENGES", "RANKS", "Contest", "create_contest"]

#: Challenge -> the parts of its data that can be ranked on, the usual one first.
CHALLENGES = {"vpc2022": ("test", "dev"), "vpc2024": ("test", "dev"), "tdsv2024": ("eval", "dev")}

#: Which systems get a place: only verified ones, or the others too, behind those that are verified.
RANKS = ("verified-only", "verified-first")
_NOT_WITH_TDSV = "a tdsv2024 submission holds no audio: leave out require_audio and verify"


@dataclass(frozen=True)
class Contest:
    """The rules."""

    challenge: str
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
    recogniser: str = "moonshine"  # of the verification
    tolerance: float = 0.02  # beyond the 95% interval, before a submitted figure is said to differ
    rank: str = "verified-first"

    def __post_init__(self) -> None:
        if self.challenge not in CHALLENGES:
            raise InputError(
                f"unknown challenge {self.challenge!r}", fix=did_you_mean(self.challenge, list(CHALLENGES))
            )
        if self.split not in CHALLENGES[self.challenge]:
            raise InputError(f"no data {self.split!r} in {self.challenge}", fix=" or ".join(CHALLENGES[self.challenge]))
        if not 1 <= self.daily <= self.total:
            raise InputError(f"{self.daily} a day, {self.total} in all", fix="at least one a day, and no fewer in all")
        if (self.hidden_from is None) != (self.hidden_until is None):
            raise InputError("half of a hidden period", fix="give both hidden_from and hidden_until, or neither")
        self._check_verification()

    def _check_verification(self) -> None:
        number = isinstance(self.verify, int) and not isinstance(self.verify, bool) and self.verify > 0
        if self.verify not in ("none", "all") and not number:
            what = f"verify is {self.verify!r}"
            raise InputError(what, fix="none, all, or a number of trial utterances of each trial list, at least 1")
        if self.challenge == "tdsv2024" and (self.is_verified or self.require_audio):
            raise InputError("tdsv2024 cannot be verified", fix=_NOT_WITH_TDSV)
        if self.rank not in RANKS:
            raise InputError(f"unknown rank {self.rank!r}", fix=did_you_mean(self.rank, list(RANKS)))
        if self.rank == "verified-only" and not self.is_verified:
            raise InputError("rank is verified-only, but verify is none", fix='set verify to "all" or a number')
        if not self.attackers:
            raise InputError("no attackers to verify with", fix='write attackers = ["campplus"]')
        if not 0.0 <= self.tolerance <= 0.5:
            raise InputError(
                f"a tolerance of {self.tolerance:g}", fix="give a fraction from 0 to 0.5; 0.02 is 2 points"
            )

    @property
    def is_verified(self) -> bool:
        """Whether the board attacks and transcribes submitted audio again."""
        return self.verify != "none"

    def is_hidden(self, made: float, now: float) -> bool:
        """Whether the figures of a submission of that time are hidden now."""
        if self.hidden_from is None or self.hidden_until is None:
            return False
        begin, end = self.hidden_from.timestamp(), self.hidden_until.timestamp()
        return begin <= now < end and made >= begin

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
        return build(cls, data, where=path)


def _utc(value: object, path: Path) -> datetime:
    if not isinstance(value, datetime):
        raise InputError(f"{value!r} is no time", where=path, fix="write 2026-06-01T12:00:00Z, without quotes")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def create_contest(folder: Path, contest: Contest) -> None:
    """Make the folder of a contest."""
    if os.path.lexists(folder):
        raise InputError("it is there already", where=folder, fix="name a new folder")
    folder.mkdir(parents=True)
    lines = [
        f"title = {json.dumps(contest.title)}",
        f"challenge = {json.dumps(contest.challenge)}",
        f"data = {json.dumps(str(contest.data.resolve()))}",
        f"split = {json.dumps(contest.split)}",
        f"daily = {contest.daily}          # submissions of a team",
        f"total = {contest.total}",
        f"largest = {contest.largest}  # bytes of an upload",
        f"require_audio = {json.dumps(contest.require_audio)}  # refuse submissions without the anonymized audio",
        f'verify = {json.dumps(contest.verify)}  # "none", "all", or trial utterances of each trial list, at random',
        f"attackers = {json.dumps(list(contest.attackers))}  # of the verification; the strongest one counts",
        f"recogniser = {json.dumps(contest.recogniser)}  # of the verification",
        f"tolerance = {contest.tolerance:g}  # beyond the 95% interval, before a submitted figure is said to differ",
        f"rank = {json.dumps(contest.rank)}  # who gets a place: {' or '.join(RANKS)}",
        "# hidden_from = 2026-06-01T12:00:00Z   # the board stands still from here",
        "# hidden_until = 2026-06-08T12:00:00Z  # to here",
    ]
    write_key(folder / "key", new_key())
    with atomic_path(folder / "contest.toml") as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
