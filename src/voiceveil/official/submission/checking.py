"""Is a submission complete and true to itself? Everything is recomputed from the archive and the original corpus.

:func:`check` goes through an archive once, as a stream; see :mod:`.members` for what is refused at once, and
:mod:`.speech` and :mod:`.recomputing` for what is looked at. All other faults are collected, each with its member.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import Limits, Member
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.evaluation.protocol import Protocol, load_protocol
from voiceveil.official.submission.contents import Sorted, sort_members
from voiceveil.official.submission.recomputing import Recomputed, recompute, stated
from voiceveil.official.submission.speech import Speech
from voiceveil.run.progress import Progress

__all__ = ["Finding", "Verdict", "check"]

_MOST_MISSING = 20  # names of missing utterances a set; the number is said in full
_SUM = re.compile(r"([0-9a-f]{64})  (data/\S+)")


@dataclass(frozen=True)
class Finding:
    """A fault: the member (or what is missing), and what is wrong with it."""

    member: str
    what: str

    def __str__(self) -> str:
        return f"{self.member}: {self.what}"


@dataclass(frozen=True)
class Verdict:
    """What was found: ``sets`` (utterances there, and expected), how many stated numbers were recomputed, faults."""

    archive: str
    suffix: str
    sets: Mapping[str, tuple[int, int]]
    hours: float
    recomputed: int
    faults: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"good": self.is_good, **asdict(self)}


def check(
    archive: str | Path,
    data: str | Path,
    *,
    protocol: str | Path = "vpc2024",
    partial: bool = False,
    tolerance: float = 0.25,
    limits: Limits | None = None,
    quiet: bool = True,
) -> Verdict:
    """Check a submission against the original sets in ``data``, which a protocol (its name or TOML file) states.

    ``partial``: whole sets, and the results that need them, may be missing. ``tolerance``: by which share of its length
    an anonymized utterance may differ from the original. An archive that is damaged or hostile is an ``InputError``.
    """
    archive, data = Path(archive), Path(data)
    if not archive.is_file():
        raise InputError("no such file", where=archive)
    rules = load_protocol(protocol)
    roles = rules.roles()
    corpora = {name: open_corpus(data / name) for name in roles if (data / name / "wav.scp").exists()}
    if not corpora:
        raise InputError(
            "no set of the challenge is here", where=data, fix=f"it should hold Kaldi directories such as {min(roles)}"
        )
    count, size = sum(map(len, corpora.values())), archive.stat().st_size
    speech = {name: Speech(name, corpus, tolerance) for name, corpus in corpora.items()}
    with tempfile.TemporaryDirectory(prefix="voiceveil-") as folder:
        with Progress("checking", count, work=size, quiet=quiet) as progress:
            found = sort_members(archive, Path(folder), speech, roles, limits=limits, heard=_listener(progress))
        again = recompute(found, rules, corpora, data)
        faults, notes = _completeness(found, rules, corpora, again, partial)
        _compare_hashes(found, notes)
    for one in speech.values():
        one.repeated()
    heard = [fault for one in speech.values() for fault in one.faults]
    return Verdict(
        archive.name,
        found.suffix,
        {name: (len(one.member_of), len(one.original)) for name, one in speech.items()},
        sum(one.seconds for one in speech.values()) / 3600,
        again.compared,
        tuple(Finding(*map(_printable, fault)) for fault in [*faults, *found.faults, *heard, *again.faults]),
        tuple(map(_printable, [*notes, *again.notes])),
    )


def _printable(text: str) -> str:
    """Without the characters that command a terminal: what is quoted comes from the archive."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _listener(progress: Progress) -> Any:
    def heard(member: Member) -> None:
        if member.name.endswith(".wav"):
            progress.advance(member.size // 2)  # about what it takes when packed

    return heard


def _completeness(
    found: Sorted, protocol: Protocol, corpora: Mapping[str, Corpus], again: Recomputed, partial: bool
) -> tuple[list[tuple[str, str]], list[str]]:
    faults: list[tuple[str, str]] = []
    notes: list[str] = []

    def lacking(what: str, why: str) -> None:
        if partial:
            notes.append(f"{what}: {why}")
        else:
            faults.append((what, f"{why} (a part of a submission is checked with --partial)"))

    for name in protocol.roles():
        if name not in found.speech:
            seen = "in the archive, but " if name in found.unknown_sets else ""
            lacking(f"data/{name}{found.suffix}", f"{seen}not checked: the original set is not at hand")
        elif not found.speech[name].member_of:
            lacking(f"data/{name}{found.suffix}", "the whole set is missing")
        elif missing := found.speech[name].missing:
            for utterance in missing[:_MOST_MISSING]:
                faults.append((f"data/{name}{found.suffix}/wav/{utterance}.wav", "is missing"))
            if len(missing) > _MOST_MISSING:
                faults.append((f"data/{name}{found.suffix}", f"{len(missing)} utterances are missing in all"))
    summary = f"exp/results_summary/result_for_rank{found.suffix}"
    if summary not in found.results:
        faults.append((summary, "is missing"))
    said = {(f.metric, f.dataset, f.gender, f.condition) for f in stated(found)}
    for key in _expected(protocol, corpora):
        metric, dataset, gender, conditions = key
        which = " ".join(filter(None, [metric.upper(), dataset, gender, conditions]))
        if key not in said:
            lacking(summary, f"no {which}")
        elif metric == "eer" and conditions == "aa" and (*key, "ASV_eval^anon") not in again.values:
            faults.append((f"exp/asv_anon{found.suffix}", f"no scores for {which}"))
        elif metric == "wer" and (*key, "ASR_eval") not in again.values:
            lacking(f"exp/asr/{dataset}_asr{found.suffix if conditions == 'a' else ''}/text", "is missing")
    return faults, notes


def _expected(protocol: Protocol, corpora: Mapping[str, Corpus]) -> list[tuple[str, str, str, str]]:
    """The figures that a summary must have, of the sets that are at hand: metric, dataset, gender, conditions."""
    keys: list[tuple[str, str, str, str]] = []
    for one in protocol.verification:
        for trials in one.trials:
            if trials.set in corpora and one.enroll in corpora:
                keys += [("eer", one.dataset, trials.gender, conditions) for conditions in ("oo", "aa")]
    for heard in protocol.recognition:
        if all(name in corpora for name in heard.sets):
            keys += [("wer", heard.dataset, "", conditions) for conditions in "oa"]
    for judged in protocol.emotion:
        if judged.set in corpora:
            keys += [("uar", judged.dataset, "", conditions) for conditions in "oa"]
    return keys


def _compare_hashes(found: Sorted, notes: list[str]) -> None:
    path = found.path(f"exp/results_summary/SHA256SUMS{found.suffix}")
    if path is None:
        notes.append("no SHA256SUMS: whether the audio is that which was evaluated is known by its length alone")
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        matches = (_SUM.fullmatch(line.rstrip("\n")) for line in lines)
        listed = {match[2]: match[1] for match in matches if match}
    for one in found.speech.values():
        one.compare(listed)
