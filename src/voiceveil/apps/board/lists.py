"""The organizer's lists of a contest: trials, texts, speakers and keys, found in its data and checked.

Conventions: DATA is only read. A set is a Kaldi directory of DATA by its name in the protocol, ``libri_dev_trials_f``.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from voiceveil.apps.board.contest import TDSV, Contest, load_rules, splits_of
from voiceveil.attack import Attacker, make_attackers
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.corpus.score_files import read_key
from voiceveil.evaluation.inventory import take_inventory
from voiceveil.evaluation.protocol import Recognition, Verification

__all__ = [
    "audio_sets",
    "check_data",
    "contest_attackers",
    "emotion_sets",
    "find_split",
    "open_set",
    "parts_of",
    "tdsv_keys",
    "training_sets",
]


def find_split(protocol: str, data: Path) -> str:
    """Return the first split of a protocol, ``test`` before others, whose lists are all in ``data``.

    Raises
    ------
    InputError
        If no split is complete; it names the missing sets of each.
    """
    if not data.is_dir():
        raise InputError("no such folder", where=data, fix="give the folder that holds the lists to score with")
    missing = {split: _missing_lists(protocol, data, split) for split in splits_of(protocol)}
    complete = [split for split, sets in missing.items() if not sets]
    if complete:
        return complete[0]
    listing = "; ".join(f"{split}: {', '.join(sets)}" for split, sets in missing.items())
    raise InputError(
        f"no split of {protocol} is complete here; missing of {listing}",
        where=data,
        fix="give the folder that holds these sets with their files `trials`, `text` and `utt2spk`",
    )


def _missing_lists(protocol: str, data: Path, split: str) -> list[str]:
    """Return the sets (or key files) of a split that ``data`` lacks, sorted."""
    if protocol == TDSV:
        keys = f"docs/{split}_keys.txt"
        return [] if (data / keys).is_file() else [keys]
    rules = load_rules(protocol)
    trials = {t.set for part in rules.verification if part.split == split for t in part.trials}
    spoken = {name for part in rules.recognition if part.split == split for name in part.sets}
    needed = [(name, "trials") for name in trials] + [(name, "text") for name in spoken]
    return sorted({name for name, file in needed if not (data / name / file).is_file()})


def check_data(contest: Contest) -> None:
    """Raise an ``InputError`` if a list that is needed to score submissions is missing or unusable."""
    if contest.protocol == TDSV:
        tdsv_keys(contest.data, contest.split)
        return
    missing = _missing_lists(contest.protocol, contest.data, contest.split)
    if missing:
        sets = f"the {contest.split} sets of {contest.rules.name}"
        problem = f"{sets} are incomplete: no trials or no text in {', '.join(missing)}"
        raise InputError(problem, where=contest.data, fix="give the folder that holds them, or another --split")
    verifications, recognitions = parts_of(contest)
    for part in verifications:
        for trials in part.trials:
            read_key(contest.data / trials.set / "trials")
    for name in {name for part in recognitions for name in part.sets}:
        if not all(utterance.text for utterance in open_set(contest.data / name)):
            raise InputError("an utterance has no text", where=contest.data / name, fix="WERs need the words: `text`")
    if contest.is_verified or contest.require_audio:
        _check_audio(contest)


def _check_audio(contest: Contest) -> None:
    """Raise an ``InputError`` if a set has no original audio: anonymized audio is compared with it."""
    for name in audio_sets(contest):
        if not (contest.data / name / "wav.scp").is_file():
            problem = f"no set {name}: verification needs the original audio of enrollment and trials"
            raise InputError(problem, where=contest.data, fix="add the Kaldi directory, or leave out --require-audio")
        absent = next((u for u in open_set(contest.data / name) if not u.path.is_file()), None)
        if absent is not None:
            problem = f"utterance {absent.id} of {name} has no audio file: verification needs the original audio"
            raise InputError(problem, where=absent.path, fix="restore it, or leave out --require-audio and --verify")


def parts_of(contest: Contest) -> tuple[list[Verification], list[Recognition]]:
    """Return the verification and the recognition parts of the protocol on the split of the contest."""
    protocol = contest.rules
    return (
        [part for part in protocol.verification if part.split == contest.split],
        [part for part in protocol.recognition if part.split == contest.split],
    )


def contest_attackers(contest: Contest) -> list[Attacker]:
    """Return the attackers of the verification.

    Raises
    ------
    InputError
        If an attacker is not known, or has no encoder to compare anonymized with anonymized speech.
    """
    attackers = make_attackers(contest.attackers)
    for attacker in attackers:
        if attacker.encoder is None or "aa" not in attacker.conditions():
            raise InputError(
                f"{attacker.name} is no attacker to verify with",
                fix="use an encoder, e.g. campplus, that compares anonymized enrollment with anonymized trials",
            )
    return attackers


def training_sets(contest: Contest) -> tuple[str, ...]:
    """Return the sets that attackers train on; none if no attacker of the contest needs training."""
    if not contest.is_verified:
        return ()
    learners = [attacker.name for attacker in contest_attackers(contest) if attacker.needs_training]
    if not learners:
        return ()
    sets = take_inventory(contest.rules, contest.data).training
    if not sets:
        problem = f"the attacker {learners[0]} needs training speech, and DATA holds none"
        raise InputError(problem, where=contest.data, fix="add the training set of the challenge, or use campplus")
    return sets


def audio_sets(contest: Contest) -> tuple[str, ...]:
    """Return the sets whose anonymized audio is needed to attack and transcribe a submission again."""
    verifications, recognitions = parts_of(contest)
    names = [name for part in verifications for name in (part.enroll, *(trials.set for trials in part.trials))]
    names += [name for part in recognitions for name in part.sets]
    return tuple(dict.fromkeys((*names, *emotion_sets(contest), *training_sets(contest))))


def emotion_sets(contest: Contest) -> tuple[str, ...]:
    """Return the sets whose emotions are recognized again; none if the ranking does not ask for it or DATA lacks some.

    The speech of a verification is compared with the original, whose labels (``utt2emo``) are needed as well.
    """
    sets = tuple(part.set for part in contest.rules.emotion)
    there = all((contest.data / name / file).is_file() for name in sets for file in ("wav.scp", "utt2emo"))
    return sets if there and "uar" in contest.ranking.by else ()


@lru_cache(maxsize=16)
def open_set(path: Path) -> Corpus:
    """Return a set of the organizer's data, read once."""
    return open_corpus(path)


@lru_cache(maxsize=4)
def tdsv_keys(data: Path, split: str) -> tuple[Any, ...]:
    """Return the keys of a text-dependent challenge, in the order of its trials."""
    from voiceveil.tdsv.lists import read_keys

    path = data / "docs" / f"{split}_keys.txt"
    if not path.is_file():
        raise InputError("no keys", where=path, fix="the board scores with the keys of the challenge")
    return tuple(read_keys(path))
