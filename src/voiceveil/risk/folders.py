"""From two plain folders to sets A and B and the lengths of conversations that the recordings allow.

Conventions: everything here reads names and headers of files alone, so that it can be decided, and refused, before any
long work. The paper's amounts (2 minutes for A, 3 more for B) are used if most speakers have them; otherwise A gets two
thirds of as many utterances as most speakers have, and B the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import RECORDS
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError
from voiceveil.core.files import bounded_lines, open_file
from voiceveil.corpus import Corpus, Utterance
from voiceveil.corpus.legal_sets import design_legal_sets
from voiceveil.corpus.trial_design import Design

__all__ = ["LengthChoice", "choose_lengths", "design_sets", "read_release", "refuse_swapped", "too_few_to_learn"]

#: The paper's conversation lengths.
LENGTHS = (1, 3, 30)
_MOST_SPEAKERS = 0.8  # share of the speakers who must have enough speech for a design
_SPEAKERS_TO_LEARN, _RECORDINGS_TO_LEARN = 8, 4
_TESTED = 0.5  # share of the speakers of B who must have enough utterances for a length


def design_sets(corpus: Corpus, *, seed: int = 0) -> Design:
    """Divide a corpus into A and B: by the paper's amounts, or by as many utterances as most speakers have.

    Raises
    ------
    InputError
        If the corpus does not say who speaks, or has fewer than two speakers with three utterances each.
    """
    nameless = next((u for u in corpus if u.speaker is None), None)
    if nameless is not None:
        raise InputError(
            "it is not known who speaks in this recording",
            where=nameless.path,
            fix="put the recordings of each speaker into a sub-folder of their own",
        )
    counts = sorted((len(spoken) for spoken in corpus.by_speaker.values()), reverse=True)
    usable = [count for count in counts if count >= 3]
    if len(usable) < 2:
        raise InputError(
            f"{len(usable)} of {len(counts)} speaker(s) have three recordings or more",
            where=corpus.root,
            fix="give at least two speakers with three recordings each: two are compared with a third",
        )
    wanted = max(2, round(_MOST_SPEAKERS * len(usable)))
    try:
        design = design_legal_sets(corpus, seed=seed)
    except InputError:
        pass  # too little speech for the paper's amounts
    else:
        if all(len(part.by_speaker) >= wanted for part in design.sets.values()):
            return design
    third = max(1, usable[wanted - 1] // 3)
    return design_legal_sets(corpus, a=2 * third, b=third, unit="utterances", seed=seed)


def too_few_to_learn(corpora: Sequence[Corpus], known: Mapping[str, Utterance]) -> str:
    """Return why an attacker cannot learn from some speech; "" if it can.

    Its back-end is chosen by cross-validation over speakers with four recordings or more, of whom each fold needs two.

    Parameters
    ----------
    corpora
        Training speech.
    known
        Utterance id -> utterance with its speaker, where a corpus does not say it.
    """
    counts = Counter(known.get(u.id, u).speaker for corpus in corpora for u in corpus)
    able = sum(count >= _RECORDINGS_TO_LEARN for name, count in counts.items() if name is not None)
    if able >= _SPEAKERS_TO_LEARN:
        return ""
    return (
        f"an attacker who learns from anonymized speech: it needs {_SPEAKERS_TO_LEARN} speakers with "
        f"{_RECORDINGS_TO_LEARN} recordings each, and {able} have them; --train takes speech of others"
    )


@dataclass(frozen=True)
class LengthChoice:
    """Lengths of conversations that can be measured, and those of the paper that cannot, with the reason."""

    lengths: tuple[int, ...]
    left_out: tuple[str, ...]


def choose_lengths(
    split: Mapping[str, str], speaker: Mapping[str, str], wanted: Sequence[int] | None = None
) -> LengthChoice:
    """Return the lengths that the sets allow.

    A length L needs 2 L utterances of a speaker in A and L in B, of at least two speakers, and of half of those of B.

    Parameters
    ----------
    split
        Utterance -> "A" or "B".
    speaker
        Utterance -> speaker.
    wanted
        Lengths that the user asked for; None: those of the paper.

    Raises
    ------
    InputError
        If a wanted length, or every length, is impossible.
    """
    a, b = (Counter(speaker[id] for id, side in split.items() if side == name) for name in "AB")
    lengths, left_out = [], []
    for length in sorted(wanted or LENGTHS):
        able = sum(a[name] >= 2 * length and count >= length for name, count in b.items())
        if able >= (2 if wanted else max(2, _TESTED * len(b))):
            lengths.append(length)
            continue
        reason = (
            f"L = {length}: {able} of {len(b)} speakers have {2 * length} utterances in A and {length} in B, "
            "which it needs"
        )
        if wanted:
            possible = choose_lengths(split, speaker).lengths
            raise InputError(reason, fix=f"the recordings allow --lengths {','.join(map(str, possible))}")
        left_out.append(reason)
    if not lengths:
        raise InputError(left_out[0], fix="give at least two speakers with three recordings each")
    return LengthChoice(tuple(lengths), tuple(left_out))


def read_release(folder: str | Path) -> dict[str, Any] | None:
    """Return the settings that a run of this program recorded in its output folder; None if there is no record."""
    ledger = Path(folder) / RECORDS / "ledger.jsonl"
    if not ledger.is_file():
        return None
    with open_file(ledger) as stream:
        first = next(bounded_lines(stream, ledger), b"")
    settings = parse_json(first, where=ledger)
    return settings if isinstance(settings, dict) and "system" in settings else None


def refuse_swapped(original: str | Path, anonymized: str | Path) -> None:
    """Raise an ``InputError`` if two folders are the same, or look swapped: the first is the output of a run."""
    if Path(original).resolve() == Path(anonymized).resolve():
        raise InputError("the original and the anonymized folder are the same", where=original, fix="give both folders")
    if read_release(original) is not None and read_release(anonymized) is None:
        raise InputError(
            "this folder holds anonymized recordings, but stands where the original ones belong",
            where=original,
            fix="give the original folder first, then the anonymized one",
        )
