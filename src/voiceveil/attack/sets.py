"""Trial sets: enrollment and trials, original and anonymized, found in a folder and checked.

The layout is that of the challenges: ``DATA/<name>_enrolls`` and ``DATA/<name>_trials_<part>`` (with its file
``trials``) are the original data, and the same names with a suffix such as ``_b2`` hold the anonymized speech. Trial
list, speakers and enrollment utterances are those of the original data; an anonymized directory need only have the
audio of each id.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from voiceveil.audio import info
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.corpus import Corpus, Trials, Utterance, read_kaldi

__all__ = ["CONDITIONS", "SIDES", "Condition", "Pairs", "Side", "TrialSet", "check_lengths", "find_sets"]

#: Enrollment and trial: original or anonymized.
Condition = Literal["oo", "oa", "aa"]
CONDITIONS: tuple[Condition, ...] = ("oo", "oa", "aa")
Side = Literal["o", "a"]
#: Trials of a list, or all pairs of enrolled speakers and trial utterances of both genders.
Pairs = Literal["listed", "mixed"]
SIDES: tuple[Side, Side] = ("o", "a")

_SIDES: dict[Condition, tuple[Side, Side]] = {"oo": ("o", "o"), "oa": ("o", "a"), "aa": ("a", "a")}


@dataclass(frozen=True)
class TrialSet:
    """A trial list with its speech; speakers are those of the original data.

    Parameters
    ----------
    name, gender : str
        E.g. ``libri_dev_trials_f``; ``f``, ``m``, or "" if mixed or unknown.
    trials : Trials
        Enrolled speakers and trial utterances, or names of groups of them.
    enrollment : dict
        Speaker -> utterance ids.
    speaker_of : dict
        Trial utterance, or group of them -> speaker.
    original, anonymized : tuple of Corpus
        Enrollment and trial speech.
    groups : dict
        Name of a trial of several utterances -> their ids; empty if each trial is one utterance.
    size : int
        Utterances of a trial.
    pairs : {"listed", "mixed"}
        The trials are those of a list, or all pairs of enrolled speakers and utterances of both genders.
    """

    name: str
    gender: str
    trials: Trials
    enrollment: dict[str, tuple[str, ...]]
    speaker_of: dict[str, str]
    original: tuple[Corpus, Corpus]
    anonymized: tuple[Corpus, Corpus] | None
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    size: int = 1
    pairs: Pairs = "listed"

    @property
    def trial_utterances(self) -> list[str]:
        """Ids of all trial utterances."""
        return [key for name in self.speaker_of for key in self.groups.get(name, (name,))]

    @staticmethod
    def sides(condition: Condition) -> tuple[Side, Side]:
        """Return whether enrollment and trial of a condition are original, ``o``, or anonymized, ``a``."""
        return _SIDES[condition]

    def corpora(self, condition: Condition) -> tuple[Corpus, Corpus]:
        """Return the directories of enrollment and of trial speech that a condition compares."""
        enroll, trial = self.sides(condition)
        return self._side(enroll)[0], self._side(trial)[1]

    def speech(self, condition: Condition) -> tuple[tuple[Utterance, ...], tuple[Utterance, ...]]:
        """Return the enrollment and the trial utterances that a condition compares."""
        enroll, trial = self.corpora(condition)
        enrolled = tuple(enroll[key] for ids in self.enrollment.values() for key in ids)
        return enrolled, tuple(trial[key] for key in self.trial_utterances)

    def _side(self, side: Side) -> tuple[Corpus, Corpus]:
        if side == "o":
            return self.original
        if self.anonymized is None:
            raise InputError(f"{self.name} has no anonymized speech", fix="give the suffix of its directories")
        return self.anonymized


def find_sets(
    data: Path,
    *,
    anon: str | None = None,
    names: Sequence[str] | Mapping[str, str] | None = None,
    anon_data: Path | None = None,
    opened: Mapping[str, Corpus] | None = None,
) -> list[TrialSet]:
    """Return the trial sets in a folder.

    A set without anonymized speech is refused: left out, it would change the mean over the sets in silence.

    Parameters
    ----------
    data
        The folder of the original sets.
    anon
        The suffix of the anonymized sets; None: original speech only.
    names
        Trial set -> enrollment set, as a protocol states them. Or trial sets (``libri_dev_trials_f``), or what their
        names begin with (``libri_dev``); the enrollment set of ``X_trials...`` is then ``X_enrolls``. None: all.
    anon_data
        The folder of the anonymized sets, if it is not ``data``.
    opened
        Original sets that need not be read again.
    """
    if not data.is_dir():
        raise InputError("no such folder", where=data)
    if anon == "":
        raise InputError("the suffix is empty", fix="give the end of the anonymized directories' names, e.g. _b2")
    wanted = names if isinstance(names, Mapping) else {name: _enroll_name(name) for name in _wanted(data, anon, names)}
    home = data if anon_data is None else anon_data
    if anon is not None:
        missing = [name for name in wanted if not (home / f"{name}{anon}").is_dir()]
        if missing:
            present = [name for name in wanted if name not in missing]
            fix = _fix_missing(home, missing[0], anon, present)
            raise InputError(f"no anonymized speech {missing[0]}{anon}", where=home, fix=fix)
    return [_read_set(data, home, (enroll, name), anon, opened or {}) for name, enroll in wanted.items()]


def _fix_missing(home: Path, name: str, anon: str, present: Sequence[str]) -> str:
    """Return what to do about a set without anonymized speech; ``there``: the sets that have it."""
    if present:
        return f"anonymize it too, or attack the others alone: --sets {','.join(present)}"
    versions = sorted(path.name for path in home.glob(f"{glob.escape(name)}?*") if path.is_dir())
    return did_you_mean(name + anon, versions) if versions else "anonymize it first: `voiceveil anonymize`"


def _wanted(data: Path, anon: str | None, names: Sequence[str] | None) -> list[str]:
    """Return the names of original trial sets, in alphabetical order."""
    known = sorted(path.parent.name for path in data.glob("*_trials*/trials"))
    if anon is not None:
        known = [name for name in known if not name.endswith(anon)]
    if not known:
        fix = "it should hold Kaldi directories such as libri_dev_enrolls and libri_dev_trials_f, with a file `trials`"
        raise InputError("no trials here", where=data, fix=fix)
    # a name that extends that of another directory is taken for its anonymized version
    plain = [name for name in known if not any(name != other and name.startswith(f"{other}_") for other in known)]
    if not names:
        return plain
    chosen: list[str] = []
    for wanted in names:
        matching = [wanted] if wanted in known else [name for name in plain if name.startswith(f"{wanted}_")]
        if not matching:
            raise InputError(f"no set {wanted!r}", where=data, fix=did_you_mean(wanted, known))
        chosen += [name for name in matching if name not in chosen]
    return chosen


def _enroll_name(trial_set: str) -> str:
    """Return the enrollment set of a trial set, by the names of the challenges."""
    return trial_set.partition("_trials")[0] + "_enrolls"


def _read_set(
    data: Path, home: Path, names: tuple[str, str], anon: str | None, opened: Mapping[str, Corpus]
) -> TrialSet:
    """Read the enrollment and the trial set of ``names``, original and anonymized, and check them."""
    enroll_name, name = names
    pairs = [(data, "")] if anon is None else [(data, ""), (home, anon)]
    for folder, suffix in pairs:
        if not (folder / f"{enroll_name}{suffix}").is_dir():
            raise InputError(f"{name} needs the enrollment {enroll_name}{suffix}", where=folder)

    def read(folder: Path, suffix: str, name: str) -> Corpus:
        return opened[name] if not suffix and name in opened else read_kaldi(folder / f"{name}{suffix}")

    sides = [(read(*pair, enroll_name), read(*pair, name)) for pair in pairs]
    enroll, trial = sides[0]
    trials = trial.trials
    if trials is None or not trials.target.any() or trials.target.all():
        raise InputError("a trial list needs target and nontarget trials", where=data / name / "trials")
    enrollment = _enrollment(enroll, trials)
    speaker_of = _speakers(trial, trials)
    for enroll_side, trial_side in sides:
        _require_audio(enroll_side, [key for ids in enrollment.values() for key in ids])
        _require_audio(trial_side, list(speaker_of))
    genders = {trial[key].gender for key in speaker_of}
    gender = next(iter(genders)) if len(genders) == 1 else None
    return TrialSet(name, gender or "", trials, enrollment, speaker_of, sides[0], sides[1] if len(sides) > 1 else None)


def _enrollment(enroll: Corpus, trials: Trials) -> dict[str, tuple[str, ...]]:
    """Return speaker -> enrollment utterances: those of the file ``enrolls``, or else all of the directory."""
    listed = any(utterance.role == "enroll" for utterance in enroll)
    enrollment = {}
    for speaker in sorted(set(trials.enroll.tolist())):
        spoken = enroll.by_speaker.get(speaker, ())
        ids = tuple(u.id for u in spoken if u.role == "enroll" or not listed)
        if not ids:
            fix = "add their utterances to wav.scp, utt2spk and enrolls, or remove their trials"
            raise InputError(f"speaker {speaker} of the trials has no enrollment audio", where=enroll.root, fix=fix)
        enrollment[speaker] = ids
    return enrollment


def _speakers(trial: Corpus, trials: Trials) -> dict[str, str]:
    """Return trial utterance -> speaker, in the order of the corpus."""
    used = set(trials.utterance.tolist())
    for key in sorted(used):
        if key not in trial:
            raise InputError(f"utterance {key} of the trials has no audio", where=trial.root, fix="add it to wav.scp")
        if trial[key].speaker is None:
            raise InputError(f"utterance {key} has no speaker", where=trial.root, fix="add it to utt2spk")
    return {u.id: u.speaker for u in trial if u.id in used and u.speaker is not None}


def _require_audio(corpus: Corpus, ids: list[str]) -> None:
    missing = [key for key in ids if key not in corpus]
    if missing:
        fault = f"{len(missing)} utterance(s) are missing, e.g. {missing[0]}"
        raise InputError(fault, where=corpus.root, fix="anonymize all of the original data")


def check_lengths(utterances: Sequence[Utterance], minimum: float, user: str) -> None:
    """Raise an ``InputError`` if audio cannot be opened, or is shorter than the ``minimum`` in seconds of its user."""
    for utterance in utterances:
        length = utterance.duration or info(utterance.path).duration - utterance.start
        if length < minimum:
            fault = f"utterance {utterance.id} has {length:.3f} s, but {user} needs {minimum:g} s"
            raise InputError(fault, where=utterance.path, fix="leave it out of the trials")
