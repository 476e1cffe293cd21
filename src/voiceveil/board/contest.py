"""A contest: a folder with ``contest.toml`` (the rules), ``key`` (signs the tokens of teams) and the database.

Conventions: the organiser's data lie elsewhere and are only read: Kaldi directories with trials and texts for the
VoicePrivacy Challenges, the folder of a challenge with its keys for TdSV. Days are those of UTC. In the hidden period
the board stands still: submissions made in it are scored, but nobody sees their figures before it ends.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from voiceveil.audio import atomic_path
from voiceveil.errors import InputError
from voiceveil.registry import did_you_mean
from voiceveil.web.tokens import new_key, write_key

__all__ = ["CHALLENGES", "Contest", "create_contest"]

#: Challenge -> the parts of its data that can be ranked on, the usual one first.
CHALLENGES = {"vpc2022": ("test", "dev"), "vpc2024": ("test", "dev"), "tdsv2024": ("eval", "dev")}


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
        try:
            data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            fix = "give the folder that `voiceveil board create` has made"
            raise InputError(f"no contest here: {error.strerror}", where=path, fix=fix) from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"not readable: {error}", where=path) from error
        known = [field.name for field in fields(cls)]
        for name in data:
            if name not in known:
                raise InputError(f"unknown key {name!r}", where=path, fix=did_you_mean(name, known))
        for name in ("hidden_from", "hidden_until"):
            if name in data:
                data[name] = _utc(data[name], path)
        try:
            return cls(**{**data, "data": (folder / data["data"]).resolve()})
        except (KeyError, TypeError) as error:
            raise InputError(f"not of the right form: {error}", where=path) from error
        except InputError as error:
            raise InputError(error.what, where=path, fix=error.fix) from error


def _utc(value: object, path: Path) -> datetime:
    if not isinstance(value, datetime):
        raise InputError(f"{value!r} is no time", where=path, fix="write 2026-06-01T12:00:00Z, without quotes")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def create_contest(folder: Path, contest: Contest) -> None:
    """Make the folder of a contest."""
    if folder.exists():
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
        "# hidden_from = 2026-06-01T12:00:00Z   # the board stands still from here",
        "# hidden_until = 2026-06-08T12:00:00Z  # to here",
    ]
    write_key(folder / "key", new_key())
    with atomic_path(folder / "contest.toml") as part:
        part.write_text("\n".join(lines) + "\n", encoding="utf-8")
