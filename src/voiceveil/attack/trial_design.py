"""Further trials from those of a list: several utterances, both genders together, one half of the speakers.

The trial lists of the challenges compare single utterances with speakers of the same gender. An attacker may have
several utterances that are known to be of one person (:mod:`voiceveil.attack.groups`), and need not know the gender.
Halves of the speakers make an honest choice possible: what is chosen on speakers with odd ids is reported on those with
even ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from voiceveil.attack.groups import disjoint_groups
from voiceveil.attack.sets import TrialSet
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials

__all__ = ["Half", "group_trials", "in_half", "mix_genders", "mixed_name", "single_utterances", "take_half"]

#: Speakers whose numeric id is odd, or even.
Half = Literal["odd", "even"]


def group_trials(trial_set: TrialSet, size: int, *, seed: int = 0) -> TrialSet | None:
    """Return trials of ``size`` utterances each; None if no speaker has as many, or one class of trials is missing.

    A group is compared with every enrolled speaker that the list compares all its utterances with.

    Parameters
    ----------
    trial_set
        Trials of single utterances.
    size
        Utterances of a trial.
    seed
        Of the groups.
    """
    if size == 1:
        return trial_set
    enrolled: dict[str, dict[str, bool]] = {}
    trials = trial_set.trials
    for speaker, key, target in zip(
        trials.enroll.tolist(), trials.utterance.tolist(), trials.target.tolist(), strict=True
    ):
        enrolled.setdefault(key, {})[speaker] = target
    spoken: dict[str, list[str]] = {}
    for key, speaker in trial_set.speaker_of.items():
        spoken.setdefault(speaker, []).append(key)
    groups: dict[str, tuple[str, ...]] = {}
    speaker_of: dict[str, str] = {}
    rows: list[tuple[str, str, bool]] = []
    for speaker, keys in spoken.items():
        for members in disjoint_groups(keys, size, speaker=speaker, seed=seed):
            name = "+".join(members)
            groups[name], speaker_of[name] = members, speaker
            shared = set.intersection(*(set(enrolled[key]) for key in members))
            rows += [(claimed, name, enrolled[members[0]][claimed]) for claimed in sorted(shared)]
    return _with_trials(replace(trial_set, groups=groups, size=size, speaker_of=speaker_of), rows)


def single_utterances(trial_set: TrialSet) -> TrialSet:
    """Return the trials of the single utterances of grouped trials: those of the first trial, of the second, ..."""
    trials = trial_set.trials
    members = [trial_set.groups[name] for name in trials.utterance.tolist()]
    repeated = np.repeat(np.arange(len(trials)), trial_set.size)
    single = Trials(trials.enroll[repeated], np.array([key for ids in members for key in ids]), trials.target[repeated])
    speaker_of = {key: trial_set.speaker_of[name] for name, ids in trial_set.groups.items() for key in ids}
    return replace(trial_set, trials=single, speaker_of=speaker_of, groups={}, size=1)


def mix_genders(sets: Sequence[TrialSet]) -> list[TrialSet]:
    """Return all pairs of enrolled speakers and trial utterances, of women and men together.

    Sets with the same enrollment whose names differ in the gender alone (``libri_dev_trials_f`` and ``..._m``) become
    one set, ``libri_dev_trials_mixed``. Sets of one gender whose counterpart is missing are left out.
    """
    families: dict[tuple[str, str], list[TrialSet]] = {}
    for trial_set in sets:
        name = mixed_name(trial_set.name) if trial_set.gender else trial_set.name
        families.setdefault((trial_set.original[0].name, name), []).append(trial_set)
    mixed = []
    for (_, name), members in families.items():
        genders = {member.gender for member in members}
        if genders in ({"f", "m"}, {""}):
            mixed.append(_mixed(name, members))
    return mixed


def mixed_name(name: str) -> str:
    """Return the name of the set of both genders for that of one of them."""
    return re.sub(r"_[fm](?=_|$)", "_mixed", name, count=1)


def _mixed(name: str, members: Sequence[TrialSet]) -> TrialSet:
    """Return the set of all pairs."""
    enrollment = {speaker: ids for member in members for speaker, ids in member.enrollment.items()}
    speaker_of = {key: speaker for member in members for key, speaker in member.speaker_of.items()}
    rows = [(claimed, key, claimed == speaker) for claimed in enrollment for key, speaker in speaker_of.items()]
    sides = [member.original for member in members]
    anonymized = [member.anonymized for member in members if member.anonymized is not None]
    first = replace(
        members[0],
        name=name,
        gender="",
        enrollment=enrollment,
        speaker_of=speaker_of,
        original=(sides[0][0], _joined(name, [trial for _, trial in sides])),
        anonymized=(anonymized[0][0], _joined(name, [trial for _, trial in anonymized])) if anonymized else None,
        pairs="mixed",
    )
    result = _with_trials(first, rows)
    assert result is not None  # noqa: S101 -- both members have target and nontarget trials
    return result


def _joined(name: str, corpora: Sequence[Corpus]) -> Corpus:
    utterances = {utterance.id: utterance for corpus in corpora for utterance in corpus}
    return Corpus(name, tuple(utterances.values()), kind=corpora[0].kind, root=corpora[0].root)


def _with_trials(trial_set: TrialSet, rows: Sequence[tuple[str, str, bool]]) -> TrialSet | None:
    """Return a set with other trials; None if target or nontarget trials are missing."""
    if len({target for _, _, target in rows}) < 2:
        return None
    enroll, utterance, target = (np.array(column) for column in zip(*rows, strict=True))
    return replace(trial_set, trials=Trials(enroll, utterance, target))


def in_half(half: Half) -> Callable[[str], bool]:
    """Return a function that tells whether a speaker belongs to a half, by the number in their id: 84, p225, S01.

    Raises
    ------
    InputError
        If the half is not known, or an id has no number.
    """
    if half not in get_args(Half):
        raise InputError(f"unknown half {half!r} of the speakers", fix="use odd or even")

    def belongs(speaker: str) -> bool:
        numbers = re.findall(r"\d+", speaker)
        if not numbers:
            raise InputError(f"the speaker id {speaker!r} has no number, which --speakers {half} needs")
        return int(numbers[-1]) % 2 == (half == "odd")

    return belongs


def take_half(trial_set: TrialSet, half: Half) -> TrialSet:
    """Return the trials among the speakers of one half: both the enrolled and the tested one belong to it.

    Raises
    ------
    InputError
        If no target or no nontarget trial is left, or a speaker's id has no number.
    """
    belongs = in_half(half)
    speaker_of = {key: speaker for key, speaker in trial_set.speaker_of.items() if belongs(speaker)}
    enrollment = {speaker: ids for speaker, ids in trial_set.enrollment.items() if belongs(speaker)}
    trials = trial_set.trials
    kept = np.isin(trials.enroll, list(enrollment)) & np.isin(trials.utterance, list(speaker_of))
    chosen = trials[kept]
    if not chosen.target.any() or chosen.target.all():
        raise InputError(f"{trial_set.name}: the speakers with {half} ids have no target or no nontarget trials")
    return replace(trial_set, trials=chosen, speaker_of=speaker_of, enrollment=enrollment)
