"""Contents of a submission, sorted by the names of its members: result files are extracted, audio is checked.

Conventions: ``suffix`` is the end of the names of all anonymized sets, e.g. ``_b2``. The official archive holds a zip
file with the result files, which is opened once; other archives inside are not. Result files of bounded size are
written into a folder of our own; nothing else is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import Limits, Member, read_members
from voiceveil.official.submission.archive_layout import UNOFFICIAL, ArchiveLayout
from voiceveil.official.submission.speech import Speech
from voiceveil.official.tree2024 import asv_folder

__all__ = ["SubmissionContents", "sort_members"]

_LARGEST_RESULT = 32 << 20  # the largest are the aligned transcripts, of some ten megabytes
_ALL_RESULTS = 1 << 30
_LARGEST_ZIP = 1 << 30
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst")
_PLAIN = re.compile(r"[A-Za-z0-9._+-]+", re.ASCII)
#: Files beside the audio of a set, which the official archives have; they are not needed.
_METADATA = frozenset(
    "wav.scp utt2spk spk2utt spk2gender text utt2dur utt2emo spk2fold utt2phrase utt2subset enrolls trials".split()  # noqa: SIM905
)

OnMember = Callable[[Member], None]


@dataclass
class SubmissionContents:
    """Contents of an archive: suffix, speech of each set, and names of the result files (below ``folder``)."""

    folder: Path
    speech: dict[str, Speech]
    layout: ArchiveLayout
    suffix: str = ""
    unofficial: bool = False  # the names of the members say so
    results: set[str] = field(default_factory=set)
    unknown_sets: set[str] = field(default_factory=set)  # of the challenge, but not in the data to compare with
    faults: list[tuple[str, str]] = field(default_factory=list)
    kept: int = 0  # bytes of result files

    def path(self, name: str) -> Path | None:
        """Return the path of a result file, or None if the archive has none of that name."""
        return self.folder / name if name in self.results else None

    def attack_folder(self, attacker: str, attack: str) -> str:
        """Return the folder of the scores of ``ASV_eval`` or ``ASV_eval^anon``; ``attack`` names both sets."""
        if self.layout.edition != "vpc2022":
            return f"exp/{asv_folder(attacker, self.suffix, self.layout.edition)}/{attack}"
        runs = {name.split("/")[1].removesuffix(".orig") for name in self.results}
        return f"exp/{min(runs, default='')}{'.orig' if attacker == 'ASV_eval' else ''}/ASV-{attack}"

    @property
    def summary(self) -> str:
        """Name of the file with the figures that systems are ranked by, also if it is missing."""
        default = f"{self.layout.summary_folder}/result_for_rank{self.suffix}"
        return next((name for name in sorted(self.results) if self.layout.is_summary(name, self.suffix)), default)


def sort_members(
    archive: Path,
    folder: Path,
    speech: dict[str, Speech],
    known: Mapping[str, str],
    layout: ArchiveLayout,
    *,
    limits: Limits | None = None,
    on_member: OnMember = lambda member: None,
) -> SubmissionContents:
    """Read an archive once and sort its members.

    Parameters
    ----------
    archive, folder : Path
        The archive, and a folder for its result files.
    speech : dict
        Set -> the speech that is collected.
    known : mapping
        All sets of the challenge.
    layout : ArchiveLayout
        Layout of the edition.
    limits : Limits, optional
        Limits of the archive.
    on_member : callable
        Called with each member.
    """
    contents = SubmissionContents(folder, speech, layout)
    inner = folder / "inner.zip"
    names = sorted(known, key=len, reverse=True)
    for member in _official_names(read_members(archive, limits), contents):
        suffix = layout.zip_suffix(member.name)
        if suffix is not None:
            _note_suffix(contents, suffix, member.name)
            _keep(member, inner, _LARGEST_ZIP)
        else:
            _sort(member, contents, names)
        on_member(member)
    if inner.exists():
        for member in _official_names(read_members(inner, limits), contents):
            _sort(member, contents, names)
        inner.unlink()
    return contents


def _official_names(members: Iterator[Member], contents: SubmissionContents) -> Iterator[Member]:
    """Yield the members under their official names; note an archive whose members say that they are unofficial."""
    for member in members:
        if member.name.startswith(UNOFFICIAL):
            contents.unofficial = True
            member.name = member.name.removeprefix(UNOFFICIAL)
        yield member


def _sort(member: Member, contents: SubmissionContents, names: list[str]) -> None:
    top, _, rest = member.name.partition("/")
    if top == "data" and rest:
        _sort_data(member, rest, contents, names)
    elif top == "exp" and rest:
        _sort_result(member, contents)
    elif member.name.lower().endswith(_ARCHIVES):
        contents.faults.append((member.name, "an archive in the archive, which is not opened"))
    else:
        contents.faults.append((member.name, "no part of a submission"))


def _sort_data(member: Member, rest: str, contents: SubmissionContents, names: list[str]) -> None:
    folder, _, file = rest.partition("/")
    name = next((name for name in names if folder.startswith(name)), None)
    if name is None or not file:
        contents.faults.append((member.name, "no set of the challenge"))
        return
    if not _note_suffix(contents, folder.removeprefix(name), member.name):
        return
    if name not in contents.speech:
        contents.unknown_sets.add(name)
    elif file.startswith("wav/") and file.endswith(".wav"):
        contents.speech[name].add(member, file.rpartition("/")[2].removesuffix(".wav"))
    elif file not in _METADATA:
        contents.faults.append((member.name, "not expected beside wav/<utterance>.wav"))


def _note_suffix(contents: SubmissionContents, suffix: str, member: str) -> bool:
    """Return whether a member has the suffix of all sets; add a fault if it has not."""
    contents.suffix = contents.suffix or suffix
    if not suffix or suffix != contents.suffix or not _PLAIN.fullmatch(suffix):
        contents.faults.append((member, f"has the suffix {suffix!r}, others have {contents.suffix!r}"))
        return False
    return True


def _sort_result(member: Member, contents: SubmissionContents) -> None:
    if not all(_PLAIN.fullmatch(part) for part in member.name.split("/")):
        contents.faults.append((member.name, "not the name of a result file"))
    elif not contents.layout.is_result(member.name):
        contents.faults.append((member.name, "no part of the results"))
    elif member.name.lower().endswith(_ARCHIVES):
        contents.faults.append((member.name, "an archive in the archive, which is not opened"))
    elif member.size > _LARGEST_RESULT:
        contents.faults.append((member.name, f"{member.size} bytes are no result file"))
    elif member.name in contents.results:
        if b"".join(member.blocks()) != (contents.folder / member.name).read_bytes():
            contents.faults.append((member.name, "is there twice, outside and inside the zip file, and differs"))
    else:
        suffix = contents.layout.rank_suffix(member.name)
        if suffix is not None:
            _note_suffix(contents, suffix, member.name)
        contents.kept += member.size
        if contents.kept > _ALL_RESULTS:
            fault = f"{member.name}: with it there are more than {_ALL_RESULTS} bytes of results"
            raise InputError(fault, where=member.archive, fix="this is no submission")
        _keep(member, contents.folder / member.name, _LARGEST_RESULT)
        contents.results.add(member.name)


def _keep(member: Member, path: Path, largest: int) -> None:
    """Write a member to a new file; its name has been checked, and nothing that is there is overwritten."""
    if member.size > largest:
        fault = f"{member.name}: {member.size} bytes, more than {largest}"
        raise InputError(fault, where=member.archive, fix="this is no submission")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.writelines(member.blocks())
