"""Options of a conversation: who speaks when, and who is hidden."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from voiceveil.core.errors import InputError
from voiceveil.core.files import read_bytes
from voiceveil.core.registry import did_you_mean
from voiceveil.core.terminal import clock
from voiceveil.corpus.turns import Turn, read_turns, speakers_of

__all__ = ["MARGIN", "Channels", "ConversationOptions", "conversation_options"]

Channels = Literal["mix", "separate"]
#: Seconds around the turns of hidden speakers that are hidden too, unless told otherwise.
MARGIN = 0.25
_WIDEST = 60.0  # seconds of margin
_MOST_SPEAKERS = 20
_SPEAKER = re.compile(r"speaker-[1-9][0-9]?")
_CHANNEL = re.compile(r"channel-[1-9][0-9]?")


@dataclass(frozen=True)
class ConversationOptions:
    """Who speaks when, and who is hidden; made by :func:`conversation_options`.

    Parameters
    ----------
    speakers
        Number of speakers; None: estimated.
    turns
        Turns, or the RTTM or CSV file that has them, instead of diarization.
    hide, keep
        Names of the speakers to hide, or of those to keep; at most one of them. With neither, all are hidden.
    channels
        "separate": each channel has one person, ``channel-1``, ``channel-2``, ...
    margin
        Seconds around the turns of hidden speakers that are hidden too.
    """

    speakers: int | None = None
    turns: Path | tuple[Turn, ...] | None = None
    hide: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    channels: Channels = "mix"
    margin: float = MARGIN

    def given_turns(self, recording: str) -> list[Turn] | None:
        """Return the turns that the user gave for a recording; None: they are to be found."""
        if self.turns is None:
            return None
        return read_turns(self.turns, recording) if isinstance(self.turns, Path) else list(self.turns)

    def hidden_speakers(self, turns: Sequence[Turn]) -> set[str]:
        """Return the speakers to hide; an ``InputError`` that lists the speakers if a name is none of them."""
        seconds = speakers_of(turns)
        for name in (*self.hide, *self.keep):
            if name not in seconds:
                first = {speaker: min(t.start for t in turns if t.speaker == speaker) for speaker in seconds}
                known = ", ".join(f"{s} ({clock(seconds[s])}, from {clock(first[s])} on)" for s in seconds)
                fix = f"who speaks: {known}; {did_you_mean(name, list(seconds))}"
                raise InputError(f"there is no speaker {name!r} in this recording", fix=fix)
        return set(self.hide) if self.hide else set(seconds) - set(self.keep)

    def record(self) -> dict[str, Any]:
        """Return the options for the ledger; turns by their digest."""
        return {
            "speakers": self.speakers or "auto",
            "turns": self._digest(),
            "hide": list(self.hide),
            "keep": list(self.keep),
            "channels": self.channels,
            "margin": self.margin,
        }

    def _digest(self) -> str:
        if self.turns is None:
            return ""
        content = read_bytes(self.turns) if isinstance(self.turns, Path) else repr(self.turns).encode()
        return hashlib.sha256(content).hexdigest()[:16]


def conversation_options(
    *,
    speakers: int | str | None = None,
    turns: str | Path | Iterable[tuple[str, float, float]] | None = None,
    hide: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    channels: str = "mix",
    margin: float | None = None,
) -> ConversationOptions | None:
    """Return the checked options; None if none of them is given, and the recording is taken for one speaker's.

    Raises
    ------
    InputError
        Names the first option that is wrong, or those that do not go together.
    """
    count = _speakers(speakers)
    hidden, kept = (tuple([names] if isinstance(names, str) else names) for names in (hide, keep))
    if channels not in ("mix", "separate"):
        raise InputError(f"unknown channels {channels!r}", fix=did_you_mean(str(channels), ["mix", "separate"]))
    separate = channels == "separate"
    if speakers is None and turns is None and not hidden and not kept and not separate:
        if margin is not None:
            raise InputError("a margin is for conversations", fix="give --speakers or --turns as well")
        return None
    given = [name for name, value in (("--speakers", speakers), ("--turns", turns)) if value is not None]
    if len(given) + separate > 1:
        together = " and ".join([*given, *(["--channels separate"] if separate else [])])
        raise InputError(f"{together} both say who speaks when", fix="give one of them")
    if hidden and kept:
        raise InputError("both speakers to hide and speakers to keep are given", fix="give --hide or --keep")
    if turns is None:
        _check_names((*hidden, *kept), count, separate=separate)
    return ConversationOptions(count, _turns(turns), hidden, kept, "separate" if separate else "mix", _margin(margin))


def _speakers(speakers: int | str | None) -> int | None:
    if speakers is None or speakers == "auto":
        return None
    text = str(speakers).strip()
    if isinstance(speakers, bool) or not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= _MOST_SPEAKERS:
        fix = f"give auto, or a number from 1 to {_MOST_SPEAKERS}"
        raise InputError(f"{speakers!r} is not a number of speakers", fix=fix)
    return int(text)


def _turns(turns: str | Path | Iterable[tuple[str, float, float]] | None) -> Path | tuple[Turn, ...] | None:
    if turns is None or isinstance(turns, str | Path):
        return None if turns is None else Path(turns).absolute()
    checked = tuple(Turn(str(speaker), float(start), float(end)) for speaker, start, end in turns)
    for turn in checked:
        if not (0 <= turn.start < turn.end < math.inf):
            raise InputError(f"not a turn: {turn.speaker} from {turn.start:g} to {turn.end:g} s")
    if not checked:
        raise InputError("the list of turns is empty", fix="leave it out, to have the turns found")
    return checked


def _margin(margin: float | None) -> float:
    if margin is None:
        return MARGIN
    if not 0 <= margin <= _WIDEST:
        raise InputError(f"a margin of {margin:g} s", fix=f"give 0 to {_WIDEST:g} seconds")
    return float(margin)


def _check_names(names: Sequence[str], count: int | None, *, separate: bool) -> None:
    """Refuse, before any work, names that diarization does not give."""
    kind, pattern = ("channel", _CHANNEL) if separate else ("speaker", _SPEAKER)
    for name in names:
        number = int(name.rpartition("-")[2]) if pattern.fullmatch(name) else 0
        if not 1 <= number <= (count or 99):
            fix = f"they are called {kind}-1, {kind}-2, ..." + (
                "" if separate else " in the order in which they first speak; --turns FILE gives them names"
            )
            raise InputError(f"there is no {kind} {name!r}", fix=fix)
