"""A study: which recordings there are, what is asked about them, who hears what in which order.

Conventions: ``design.json`` in the folder of the study holds everything; ``audio/<id>.wav`` the recordings, under names
that tell nothing; ``key`` the secret that signs invitations; ``texts.toml`` the words of the pages. An item says what
is played and no more: its system, speakers and truth are those of its recordings. Evaluators of one *set* hear the same
items, each in an order of their own, so that their agreement can be measured.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import build, read_json
from voiceveil.core.errors import InputError

__all__ = ["ORIGINAL", "RATINGS", "TASKS", "Item", "Recording", "Study", "StudySession"]

_FORMAT = "voiceveil listening study 1"
_LARGEST = 64 << 20  # bytes
ORIGINAL = "original"
#: What is rated from 1 to 10, in the order of the plan of the 2022 challenge.
RATINGS = ("naturalness", "similarity", "intelligibility")
TASKS = (*RATINGS, "preference", "clustering")


@dataclass(frozen=True)
class Recording:
    """A recording to play: a version of an utterance; ``source`` is a system, "original" or "check"."""

    source: str
    utterance: str = ""
    speaker: str = ""
    gender: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Item:
    """One page of a session.

    ``kind`` and ``audio``: "rating" (A, B), "preference" (A, B), "panel" (the excerpts), "headphones" and "attention"
    (the tones). ``answer`` is the right one, where there is one.
    """

    id: str
    kind: str
    audio: tuple[str, ...]
    answer: str = ""


@dataclass(frozen=True)
class StudySession:
    """Items that are heard in one go: the task ("rating", "preference", "clustering") and ids of items in order."""

    task: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """Everything about a study but its words and its answers."""

    name: str
    seed: int
    systems: tuple[str, ...]
    ratings: tuple[str, ...]  # of RATINGS, what is asked about each item
    recordings: dict[str, Recording]
    items: dict[str, Item]
    evaluators: dict[str, tuple[StudySession, ...]]

    def save(self, folder: Path) -> None:
        """Write ``design.json``."""
        with atomic_path(folder / "design.json") as part:
            part.write_text(json.dumps({"format": _FORMAT, **asdict(self)}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Study:
        """Read ``design.json`` of a folder."""
        path = folder / "design.json"
        data = read_json(path, largest=_LARGEST, fix="give the folder that `voiceveil listen design` has written")
        if not isinstance(data, dict) or data.pop("format", None) != _FORMAT:
            raise InputError("not the design of a listening study", where=path)
        study = build(cls, data, where=path, fix="design it again")
        study._check(path)
        return study

    def _check(self, path: Path) -> None:
        """Raise an ``InputError`` if an item or recording is named that the study does not have."""
        named = {item for sessions in self.evaluators.values() for session in sessions for item in session.items}
        played = {audio for item in self.items.values() for audio in item.audio}
        for kind, lost in (("item", named - set(self.items)), ("recording", played - set(self.recordings))):
            if lost:
                raise InputError(f"no {kind} {min(lost)!r}", where=path, fix="design it again")
        strange = [name for name in self.recordings if "/" in name or name.startswith(".") or not name]
        if strange:
            message = f"the recording {strange[0][:80]!r} cannot be the name of a file"
            raise InputError(message, where=path, fix="design it again")

    def is_same(self, item: Item) -> bool:
        """Return whether both recordings of a rated item are of one speaker."""
        first, second = (self.recordings[audio].speaker for audio in item.audio)
        return first == second

    def source(self, item: Item) -> str:
        """Return the version of the speech that a rated item is about."""
        return self.recordings[item.audio[0]].source

    def panel_system(self, item: Item) -> str:
        """Return the system that anonymized half of a panel; "original" for the control panel."""
        return next((s for a in item.audio if (s := self.recordings[a].source) != ORIGINAL), ORIGINAL)
