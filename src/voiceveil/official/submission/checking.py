"""Check that a submission is complete, and that its figures follow from its own files and the original corpus.

:func:`check` reads an archive once, as a stream. :mod:`voiceveil.core.safe_archive` refuses hostile archives;
:mod:`.speech` and :mod:`.recomputing` check audio and figures. All faults are collected, each with its member.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import Member
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.evaluation.averages import dataset_of
from voiceveil.evaluation.protocol import Protocol, dataset_name, load_protocol
from voiceveil.evaluation.protocol_checks import official_set
from voiceveil.official.submission.archive_layout import ArchiveLayout, archive_layout
from voiceveil.official.submission.contents import SubmissionContents, sort_members
from voiceveil.official.submission.recomputing import Recomputed, recompute, stated
from voiceveil.official.submission.speech import Speech
from voiceveil.run.progress import Progress

__all__ = ["SubmissionFault", "SubmissionReport", "check"]

_MOST_MISSING = 20  # missing utterances of a set that are named; their number is complete
_SUM = re.compile(r"([0-9a-f]{64})  (data/\S+)")


@dataclass(frozen=True)
class SubmissionFault:
    """A fault: the member (or its name if it is missing), and the reason."""

    member: str
    what: str

    def __str__(self) -> str:
        return f"{self.member}: {self.what}"


@dataclass(frozen=True)
class SubmissionReport:
    """The result of a check: utterances of each set (there, expected), recomputed figures, faults and notes."""

    archive: str
    suffix: str
    sets: Mapping[str, tuple[int, int]]
    hours: float
    recomputed: int
    faults: tuple[SubmissionFault, ...]
    notes: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """True if there are no faults."""
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"good": self.is_good, **asdict(self)}


def check(
    archive: str | Path,
    data: str | Path,
    *,
    protocol: str | Path = "vpc2024",
    partial: bool = False,
    tolerance: float = 0.25,
    quiet: bool = True,
) -> SubmissionReport:
    """Check a submission against the original sets.

    Parameters
    ----------
    archive : path
        The submission.
    data : path
        Folder of the original sets.
    protocol : str or path
        Name or TOML file of the protocol that states the sets.
    partial : bool
        Whole sets, and the results that need them, may be missing.
    tolerance : float
        Share of its length by which an anonymized utterance may differ from the original.
    quiet : bool
        Show no progress.

    Raises
    ------
    InputError
        If the archive is damaged or hostile.
    """
    archive, data = Path(archive), Path(data)
    if not archive.is_file():
        fix = "give the archive whose name `voiceveil submit RESULTS` prints, e.g. results/b2/submission_b2.tar.gz"
        raise InputError("no such file", where=archive, fix=fix)
    own = load_protocol(protocol)
    layout = archive_layout(own)
    rules = layout.official_rules(own)
    folder_of = {official_set(name): data / name for name in layout.sets(own)}
    roles = {name: role for name, role in rules.roles().items() if name in folder_of}
    corpora = {name: open_corpus(path) for name, path in folder_of.items() if (path / "wav.scp").exists()}
    if not corpora:
        raise InputError(
            "no set of the challenge is here",
            where=data,
            fix=f"it should hold Kaldi directories such as {min(layout.sets(own))}",
        )
    count, size = sum(map(len, corpora.values())), archive.stat().st_size
    speech = {name: Speech(name, corpus, tolerance) for name, corpus in corpora.items()}
    with tempfile.TemporaryDirectory(prefix="voiceveil-") as folder:
        with Progress("checking", count, work=size, quiet=quiet) as progress:
            contents = sort_members(
                archive, Path(folder), speech, roles, layout, on_member=_progress_callback(progress)
            )
        recomputed = recompute(contents, rules, corpora, folder_of)
        faults, notes = _completeness(contents, rules, corpora, recomputed, partial)
        if contents.unofficial:
            notes.append("the names of the members say that the evaluators are not the challenge's own: unofficial")
        _compare_hashes(contents, notes)
        faults += contents.faults
    for audio in speech.values():
        audio.repeated()
        faults += audio.faults
    return SubmissionReport(
        archive.name,
        contents.suffix,
        {name: (len(audio.member_of), len(audio.original)) for name, audio in speech.items()},
        sum(audio.seconds for audio in speech.values()) / 3600,
        recomputed.compared,
        tuple(SubmissionFault(*map(_printable, fault)) for fault in [*faults, *recomputed.faults]),
        tuple(map(_printable, [*notes, *recomputed.notes])),
    )


def _printable(text: str) -> str:
    """Return text without characters that control a terminal: quotations come from the archive."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _progress_callback(progress: Progress) -> Any:
    def advance(member: Member) -> None:
        if member.name.endswith(".wav"):
            progress.advance(member.size // 2)  # its approximate size in the archive

    return advance


def _completeness(
    contents: SubmissionContents,
    protocol: Protocol,
    corpora: Mapping[str, Corpus],
    recomputed: Recomputed,
    partial: bool,
) -> tuple[list[tuple[str, str]], list[str]]:
    faults: list[tuple[str, str]] = []
    notes: list[str] = []

    def add_missing(member: str, reason: str) -> None:
        if partial:
            notes.append(f"{member}: {reason}")
        else:
            faults.append((member, f"{reason} (a part of a submission is checked with --partial)"))

    for name in contents.layout.sets(protocol):
        if name not in contents.speech:
            seen = "in the archive, but " if name in contents.unknown_sets else ""
            add_missing(f"data/{name}{contents.suffix}", f"{seen}not checked: the original set is not at hand")
        elif not contents.speech[name].member_of:
            add_missing(f"data/{name}{contents.suffix}", "the whole set is missing")
        elif missing := contents.speech[name].missing:
            for utterance in missing[:_MOST_MISSING]:
                faults.append((f"data/{name}{contents.suffix}/wav/{utterance}.wav", "is missing"))
            if len(missing) > _MOST_MISSING:
                faults.append((f"data/{name}{contents.suffix}", f"{len(missing)} utterances are missing in all"))
    summary, layout = contents.summary, contents.layout
    if summary not in contents.results:
        faults.append((summary, "is missing"))
    stated_keys = {(f.metric, dataset_of(f), f.condition) for f in stated(contents)}
    for metric, dataset, conditions in _expected(protocol, corpora, layout):
        key = (metric, dataset, conditions)
        which = " ".join(filter(None, [metric.upper(), dataset, conditions]))
        if key not in stated_keys:
            add_missing(summary, f"no {which}")
        elif metric == "eer" and conditions == "aa" and (*key, "ASV_eval^anon") not in recomputed.values:
            folder = contents.attack_folder("ASV_eval^anon", "").rpartition("/")[0]
            if layout.edition == "vpc2026":  # its scripts pack none
                notes.append(f"{folder}: no scores for {which}")
            else:
                faults.append((folder, f"no scores for {which}"))
        elif metric == "wer" and layout.edition != "vpc2022" and (*key, "ASR_eval") not in recomputed.values:
            add_missing(f"exp/asr/{dataset}_asr{contents.suffix if conditions == 'a' else ''}/text", "is missing")
    return faults, notes


def _expected(protocol: Protocol, corpora: Mapping[str, Corpus], layout: ArchiveLayout) -> list[tuple[str, str, str]]:
    """Return the figures that a summary must have for the given sets: metric, dataset, condition."""
    keys: list[tuple[str, str, str]] = []
    conditions = ("aa",) if layout.edition == "vpc2026" else ("oo", "aa")
    for verification in protocol.verification:
        for trials in verification.trials:
            if trials.set in corpora and verification.enroll in corpora:
                dataset = dataset_name(verification.dataset, verification.subset, trials.gender)
                keys += [("eer", dataset, condition) for condition in conditions]
    for recognition in protocol.recognition:
        if all(name in corpora for name in recognition.sets):
            keys += [("wer", recognition.dataset, condition) for condition in "oa"]
    for emotion in protocol.emotion:
        if emotion.set in corpora:
            keys += [("uar", emotion.dataset, condition) for condition in "oa"]
    return keys


def _compare_hashes(contents: SubmissionContents, notes: list[str]) -> None:
    path = contents.path(f"{contents.summary.rpartition('/')[0]}/SHA256SUMS{contents.suffix}")
    if path is None:
        notes.append("no SHA256SUMS: whether the audio is that which was evaluated is known by its length alone")
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        matches = (_SUM.fullmatch(line.rstrip("\n")) for line in lines)
        listed = {match[2]: match[1] for match in matches if match}
    for audio in contents.speech.values():
        audio.compare(listed)
