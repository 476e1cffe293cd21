"""What the members of a submission are, by their names; result files are put into a folder, audio is listened to.

Conventions: ``suffix`` is the end of the names of all anonymized sets, ``_b2``. The official archive holds a zip file
with the result files: it is opened, once; any other archive inside is not. Result files go into a folder of our own,
each with a bounded size; nothing else is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import Limits, Member, read_members
from voiceveil.official.submission.speech import Speech

__all__ = ["Sorted", "sort_members"]

_LARGEST_RESULT = 32 << 20  # the largest are the aligned transcripts, of some ten megabytes
_ALL_RESULTS = 1 << 30
_LARGEST_ZIP = 1 << 30
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst")
_PLAIN = re.compile(r"[A-Za-z0-9._+-]+", re.ASCII)
#: Files beside the audio of a set, which the official archives have; they are not needed.
_METADATA = frozenset(
    "wav.scp utt2spk spk2utt spk2gender text utt2dur utt2emo spk2fold utt2phrase utt2subset enrolls trials".split()  # noqa: SIM905
)
_RESULTS = ("results_summary", "asr", "ser", "asv_orig")
_ZIP = re.compile(r"exp/results_summary/result_for_submission(.*)\.zip")
_RANK = re.compile(r"exp/results_summary/result_for_rank(.*)")

Heard = Callable[[Member], None]


@dataclass
class Sorted:
    """What an archive holds: the suffix, the speech of each set, the names of the result files (below ``folder``)."""

    folder: Path
    speech: dict[str, Speech]
    suffix: str = ""
    results: set[str] = field(default_factory=set)
    unknown_sets: set[str] = field(default_factory=set)  # of the challenge, but not in the data to compare with
    faults: list[tuple[str, str]] = field(default_factory=list)
    kept: int = 0  # bytes of result files

    def path(self, name: str) -> Path | None:
        """Where a result file is, None if the archive has none of that name."""
        return self.folder / name if name in self.results else None


def sort_members(
    archive: Path,
    folder: Path,
    speech: dict[str, Speech],
    known: Mapping[str, str],
    *,
    limits: Limits | None = None,
    heard: Heard = lambda member: None,
) -> Sorted:
    """Go through an archive once. ``known``: all sets of the challenge; ``heard`` is told of each member."""
    found = Sorted(folder, speech)
    inner = folder / "inner.zip"
    names = sorted(known, key=len, reverse=True)
    for member in read_members(archive, limits):
        named = _ZIP.fullmatch(member.name)
        if named is not None:
            _note_suffix(found, named[1], member.name)
            _keep(member, inner, _LARGEST_ZIP)
        else:
            _sort(member, found, names)
        heard(member)
    if inner.exists():
        for member in read_members(inner, limits):
            _sort(member, found, names)
        inner.unlink()
    return found


def _sort(member: Member, found: Sorted, names: list[str]) -> None:
    top, _, rest = member.name.partition("/")
    if top == "data" and rest:
        _sort_data(member, rest, found, names)
    elif top == "exp" and rest:
        _sort_result(member, rest, found)
    elif member.name.lower().endswith(_ARCHIVES):
        found.faults.append((member.name, "an archive in the archive, which is not opened"))
    else:
        found.faults.append((member.name, "no part of a submission"))


def _sort_data(member: Member, rest: str, found: Sorted, names: list[str]) -> None:
    folder, _, file = rest.partition("/")
    name = next((name for name in names if folder.startswith(name)), None)
    if name is None or not file:
        found.faults.append((member.name, "no set of the challenge"))
        return
    if not _note_suffix(found, folder.removeprefix(name), member.name):
        return
    if name not in found.speech:
        found.unknown_sets.add(name)
    elif file.startswith("wav/") and file.endswith(".wav"):
        found.speech[name].add(member, file.rpartition("/")[2].removesuffix(".wav"))
    elif file not in _METADATA:
        found.faults.append((member.name, "not expected beside wav/<utterance>.wav"))


def _note_suffix(found: Sorted, suffix: str, member: str) -> bool:
    """All sets have the same suffix."""
    found.suffix = found.suffix or suffix
    if not suffix or suffix != found.suffix or not _PLAIN.fullmatch(suffix):
        found.faults.append((member, f"has the suffix {suffix!r}, others have {found.suffix!r}"))
        return False
    return True


def _sort_result(member: Member, rest: str, found: Sorted) -> None:
    first = rest.split("/")[0]
    if not all(_PLAIN.fullmatch(part) for part in member.name.split("/")):
        found.faults.append((member.name, "not the name of a result file"))
    elif first not in _RESULTS and not first.startswith("asv_anon"):
        found.faults.append((member.name, "no part of the results"))
    elif member.name.lower().endswith(_ARCHIVES):
        found.faults.append((member.name, "an archive in the archive, which is not opened"))
    elif member.size > _LARGEST_RESULT:
        found.faults.append((member.name, f"{member.size} bytes are no result file"))
    elif member.name in found.results:
        if b"".join(member.blocks()) != (found.folder / member.name).read_bytes():
            found.faults.append((member.name, "is there twice, outside and inside the zip file, and differs"))
    else:
        named = _RANK.fullmatch(member.name)
        if named is not None:
            _note_suffix(found, named[1], member.name)
        found.kept += member.size
        if found.kept > _ALL_RESULTS:
            what = f"{member.name}: with it there are more than {_ALL_RESULTS} bytes of results"
            raise InputError(what, where=member.archive, fix="this is no submission")
        _keep(member, found.folder / member.name, _LARGEST_RESULT)
        found.results.add(member.name)


def _keep(member: Member, path: Path, largest: int) -> None:
    """Write a member to a new file; its name has been checked, and nothing that is there is overwritten."""
    if member.size > largest:
        what = f"{member.name}: {member.size} bytes, more than {largest}"
        raise InputError(what, where=member.archive, fix="this is no submission")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.writelines(member.blocks())
