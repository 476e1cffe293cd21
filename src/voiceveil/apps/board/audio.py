"""The anonymized audio of a submission: found in the archive by name, checked at upload, unpacked for verification.

Conventions: audio has the layout of the 2024 challenge, ``data/<set><suffix>/wav/<utterance>.wav``, as 16-bit PCM at
16 kHz with one channel; ``voiceveil submit`` packs it so. Sets that are not needed are ignored. A path on this machine
is made from the organizer's names of sets and a number, never from a name in the archive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from voiceveil.apps.board.contest import Contest
from voiceveil.apps.board.lists import audio_sets, open_set
from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import Limits, Member, read_members
from voiceveil.corpus import Corpus
from voiceveil.official.submission.speech import Speech

__all__ = ["SubmittedAudio", "unpack_audio"]

_MEMBER = re.compile(r"(?:.*/)?data/([^/]+)/wav/([^/]+)\.wav")
_LENGTH_TOLERANCE = 0.25  # share of its length by which an utterance may differ from the original
_FIX = "pack data/<set><suffix>/wav/<utterance>.wav of all sets, as `voiceveil submit` does"


@dataclass
class _Names:
    """The audio members of an archive by their names; all sets must have one suffix."""

    sets: Mapping[str, Corpus]
    suffix: str | None = None

    def find(self, member: Member) -> tuple[str, str] | None:
        """Return the set and the utterance of a member; None if it is no audio of a set that is needed."""
        match = _MEMBER.fullmatch(member.name)
        if match is None:
            return None
        fitting = [name for name in self.sets if match[1].startswith(name)]
        if not fitting:
            return None
        name = max(fitting, key=len)
        suffix = match[1].removeprefix(name)
        self.suffix = suffix if self.suffix is None else self.suffix
        if not suffix.startswith("_") or suffix != self.suffix:
            problem = f"{member.name}: the set has the suffix {suffix!r}, but others have {self.suffix!r}"
            raise InputError(problem, fix="pack the audio of one system, e.g. data/libri_test_trials_f_b2")
        return name, match[2]


@dataclass
class SubmittedAudio:
    """The audio of an upload, checked as its members are read; nothing is written."""

    contest: Contest
    _speech: dict[str, Speech] = field(init=False)
    _names: _Names = field(init=False)

    def __post_init__(self) -> None:
        wanted = self.contest.is_verified or self.contest.require_audio
        sets = {name: open_set(self.contest.data / name) for name in (audio_sets(self.contest) if wanted else ())}
        self._speech = {name: Speech(name, corpus, _LENGTH_TOLERANCE) for name, corpus in sets.items()}
        self._names = _Names(sets)

    def take(self, member: Member) -> bool:
        """Check a member if it is audio that is needed, and return whether it is."""
        place = self._names.find(member)
        if place is None:
            return False
        self._speech[place[0]].add(member, place[1])
        return True

    def check_complete(self) -> bool:
        """Return True if the archive holds all audio, False if it holds none and the contest does not require it.

        Raises
        ------
        InputError
            If the audio is incomplete, has another format, or is missing although the contest requires it.
        """
        for speech in self._speech.values():
            speech.repeated()
        faults = [fault for speech in self._speech.values() for fault in speech.faults]
        if faults:
            member, problem = faults[0]
            more = f" (and {len(faults) - 1} more faults in the audio)" if len(faults) > 1 else ""
            raise InputError(f"{member}: {problem}{more}", fix=_FIX)
        missing = [(name, key) for name, speech in self._speech.items() for key in speech.missing]
        total = sum(len(speech.original) for speech in self._speech.values())
        if len(missing) == total:  # also if none is wanted
            if self.contest.require_audio:
                raise InputError("no anonymized audio, which this contest requires", fix=_FIX)
            return False
        if missing:
            name, key = missing[0]
            problem = f"the audio of {len(missing)} of {total} utterances is missing, e.g. {key} of {name}"
            raise InputError(problem, fix=_FIX)
        self._refuse_two_versions()
        return True

    def _refuse_two_versions(self) -> None:
        """Raise an ``InputError`` if an utterance of two sets (2022: VCTK) has different audio in them."""
        first: dict[str, tuple[str, str]] = {}
        for name, speech in self._speech.items():
            for key, form in speech.formats.items():
                other, sha256 = first.setdefault(key, (name, form.sha256))
                if sha256 != form.sha256:
                    problem = f"{speech.member_of[key]}: not the audio that {key} has in {other}"
                    raise InputError(problem, fix="words and voices are measured on the same audio: pack one version")


def unpack_audio(contest: Contest, archive: Path, folder: Path, limits: Limits) -> dict[str, Corpus]:
    """Write the audio of a checked archive into ``folder`` and return each set with the files in it.

    Speakers, texts and trials are those of the organizer's data.
    """
    originals = {name: open_set(contest.data / name) for name in audio_sets(contest)}
    names = _Names(originals)
    files: dict[str, dict[str, Path]] = {name: {} for name in originals}
    for member in read_members(archive, limits):
        place = names.find(member)
        if place is None or place[1] not in originals[place[0]]:
            continue
        name, key = place
        path = folder / name / f"{len(files[name])}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.writelines(member.blocks())
        files[name][key] = path
    return {
        name: Corpus(
            name,
            tuple(replace(u, path=files[name][u.id], start=0.0, duration=None, seconds=None) for u in original),
            original.trials,
            "kaldi",
            folder / name,
        )
        for name, original in originals.items()
    }
