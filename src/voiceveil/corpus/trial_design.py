"""Enrollment and trial sets for any corpus, designed as those of the VoicePrivacy Challenges.

Conventions: a *target* trial compares an enrolled speaker with an utterance of the same speaker, a *nontarget* trial
with one of another speaker of the same gender; every enrolled speaker meets every trial utterance of its gender. No
utterance is both enrolled and tried, and where sessions are known (the chapters of LibriSpeech, the videos of
VoxCeleb) neither is a session: an attacker should recognize the speaker, not the room or the day.

Speakers of unknown gender are left out, unless genders are pooled, and listed in the record. Speakers with too few
utterances for both sides are not enrolled; their utterances are nontarget trials, as are those of about a quarter of
the speakers in the challenges' lists. All draws depend on a seed and on names (:mod:`.sampling`), so that the same
corpus gives the same lists whatever the order of its files.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import PART_PREFIX, RECORDS, atomic_path
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.files import exists
from voiceveil.corpus.checking import check
from voiceveil.corpus.ids import with_safe_ids
from voiceveil.corpus.kaldi import kaldi_files, write_kaldi
from voiceveil.corpus.lines import is_id
from voiceveil.corpus.model import Corpus, Trials, Utterance
from voiceveil.corpus.sampling import Sessions, shuffled, shuffled_utterances

__all__ = ["RECORD", "Design", "design_trials", "make_set", "product_trials", "set_name", "write_design"]

#: The file beside the sets that records how they were drawn.
RECORD = "design.json"


@dataclass(frozen=True)
class Design:
    """Designed sets by name, in the order in which they are written, with their record and further text files.

    ``record`` becomes ``design.json``; ``files`` maps the name of a file beside the sets to its text.
    """

    sets: Mapping[str, Corpus]
    record: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialPlan:
    """Sizes of the sets of a trial design.

    Parameters
    ----------
    enroll : int
        Enrollment utterances of each speaker.
    trials : int, optional
        At most this many trial utterances of each speaker; None: all.
    impostors : int
        This many speakers of each gender are drawn to be in trials only.
    session : str
        The session of an utterance, see :class:`~voiceveil.corpus.sampling.Sessions`.
    pooled : bool
        Ignore genders: one trial set, ``<name>_trials``.
    """

    enroll: int = 10
    trials: int | None = None
    impostors: int = 0
    session: str = "auto"
    pooled: bool = False

    def __post_init__(self) -> None:
        trials = 1 if self.trials is None else self.trials
        _check_counts(enroll=(self.enroll, 1), trials=(trials, 1), impostors=(self.impostors, 0))


def design_trials(corpus: Corpus, plan: TrialPlan | None = None, *, name: str | None = None, seed: int = 0) -> Design:
    """Divide a corpus into the sets ``<name>_enrolls``, ``<name>_trials_f`` and ``<name>_trials_m``.

    Parameters
    ----------
    corpus
        Utterances with speakers, and with genders unless the plan is pooled.
    plan
        Sizes of the sets.
    name
        The first part of the sets' names; None: the name of the corpus.
    seed
        Of all draws.

    Raises
    ------
    InputError
        If fewer than two speakers of a gender can be enrolled, or no gender is known.
    """
    sizes = plan or TrialPlan()
    label = set_name(corpus, name)
    sessions = Sessions(corpus, sizes.session)
    enrolled: list[Utterance] = []
    sets: dict[str, Corpus] = {}
    left_out: dict[str, str] = {}
    counts: dict[str, dict[str, int]] = {}
    for gender, speakers in _by_gender(corpus, sizes.pooled).items():
        enrollment, trial_candidates, reasons = _divide(corpus, speakers, sessions, sizes.enroll, seed, sizes.impostors)
        key = f"{label}_trials" if sizes.pooled else f"{label}_trials_{gender}"
        drawn = [shuffled_utterances(trial_candidates[speaker], seed, "trials")[: sizes.trials] for speaker in speakers]
        trial_utterances = [utterance for utterances in drawn for utterance in utterances]
        sets[key] = make_set(key, trial_utterances, "trial", corpus, product_trials(enrollment, trial_utterances))
        enrolled += [u for utterances in enrollment.values() for u in utterances]
        left_out |= reasons
        counts[key] = _counts(sets[key], enrollment)
    sets = {f"{label}_enrolls": make_set(f"{label}_enrolls", enrolled, "enroll", corpus), **sets}
    unlabeled = [speaker for speaker, spoken in corpus.by_speaker.items() if spoken[0].gender is None]
    record = {
        "format": "voiceveil design 1",
        "what": "verification: enrolled speakers x trial utterances of the same gender",
        "corpus": {"name": corpus.name, "kind": corpus.kind, "utterances": len(corpus)},
        "seed": seed,
        "options": {name: value for name, value in asdict(sizes).items() if name != "session"},
        "sessions": sessions.pattern or "unknown: only utterances are disjoint",
        "sets": counts,
        "enrollment": {"speakers": len({u.speaker for u in enrolled}), "utterances": len(enrolled)},
        "not_enrolled": dict(sorted(left_out.items())),
        "without_gender": [] if sizes.pooled else unlabeled,
    }
    return Design(sets, record)


def _check_counts(**counts: tuple[int, int]) -> None:
    """Raise an ``InputError`` for the first of name=(value, least) that is too small."""
    for option, (value, least) in counts.items():
        if value < least:
            raise InputError(f"{option} is {value}, but must be {least} or more", fix=f"give at least {least}")


def set_name(corpus: Corpus, name: str | None) -> str:
    """Return the first part of the names of the sets: ``name``, or that of the corpus without blanks."""
    label = "_".join(corpus.name.split()) if name is None else name
    if not is_id(label) or "/" in label or label.startswith("."):
        raise InputError(f"{label!r} cannot be the name of a set", fix="give one without blanks and slashes: --name")
    return label


def _by_gender(corpus: Corpus, pooled: bool) -> dict[str, list[str]]:
    """Return gender -> speakers, without those of unknown gender; "" -> all speakers if genders are pooled."""
    if not corpus.by_speaker:
        raise InputError("no utterance has a speaker", where=corpus.root, fix="trials need to know who speaks")
    if pooled:
        return {"": list(corpus.speakers())}
    groups: dict[str, list[str]] = {}
    for speaker, spoken in corpus.by_speaker.items():
        if spoken[0].gender is not None:
            groups.setdefault(spoken[0].gender, []).append(speaker)
    if not groups:
        problem = f"{len(corpus.by_speaker)} speaker(s) of unknown gender, and none of a known one"
        raise InputError(problem, where=corpus.root, fix="add spk2gender, or say --pooled to disregard gender")
    return dict(sorted(groups.items()))


def _divide(
    corpus: Corpus, speakers: Sequence[str], sessions: Sessions, enroll: int, seed: int, impostors: int
) -> tuple[dict[str, list[Utterance]], dict[str, list[Utterance]], dict[str, str]]:
    """Return speaker -> enrollment utterances, -> trial utterances, and -> why the speaker is not enrolled."""
    enrollment: dict[str, list[Utterance]] = {}
    trial_candidates: dict[str, list[Utterance]] = {}
    reasons: dict[str, str] = {}
    for speaker in speakers:
        spoken = corpus.by_speaker[speaker]
        divided = _divide_speaker(spoken, sessions, enroll, seed)
        if divided is None:
            trial_candidates[speaker] = list(spoken)
            reasons[speaker] = _reason(spoken, sessions, enroll)
        else:
            enrollment[speaker], trial_candidates[speaker] = divided
    for speaker in shuffled(enrollment, seed, "impostors")[:impostors]:
        reasons[speaker] = "drawn to be in trials only"
        trial_candidates[speaker] = list(corpus.by_speaker[speaker])
        del enrollment[speaker]
    if len(enrollment) < 2:
        gender = corpus.by_speaker[speakers[0]][0].gender or "any"
        why = next(iter(reasons.values()), "there is no other")
        raise InputError(
            f"too few speakers of gender {gender}: {len(speakers)}, of whom {len(enrollment)} can be enrolled ({why})",
            where=corpus.root,
            fix="2 are needed: lower --enroll or --impostors, or try --session none or --pooled",
        )
    return enrollment, trial_candidates, reasons


def _divide_speaker(
    spoken: Sequence[Utterance], sessions: Sessions, enroll: int, seed: int
) -> tuple[list[Utterance], list[Utterance]] | None:
    """Return the enrollment and the trial utterances of a speaker, from different sessions; None if there are too few.

    Sessions are taken in a drawn order until they hold enough for the enrollment. If no session is left for trials, the
    sessions with most utterances are taken first, because these are the fewest that suffice.
    """
    groups: dict[str, list[Utterance]] = {}
    for utterance in spoken:
        groups.setdefault(sessions.of(utterance), []).append(utterance)
    drawn = shuffled(groups, seed, f"sessions of {spoken[0].speaker}")
    for order in (drawn, sorted(drawn, key=lambda key: -len(groups[key]))):
        taken: list[Utterance] = []
        for number, key in enumerate(order[:-1], start=1):
            taken += groups[key]
            if len(taken) >= enroll:
                rest = [u for other in order[number:] for u in groups[other]]
                return shuffled_utterances(taken, seed, "enrollment")[:enroll], rest
    return None


def _reason(spoken: Sequence[Utterance], sessions: Sessions, enroll: int) -> str:
    """Return why a speaker is not enrolled."""
    if len(spoken) <= enroll:
        return f"{len(spoken)} utterances, not more than the {enroll} of enrollment"
    count = len({sessions.of(u) for u in spoken})
    return f"{count} session(s), which cannot be divided into {enroll} utterances of enrollment and a trial"


def make_set(
    name: str, utterances: Iterable[Utterance], role: str, corpus: Corpus, trials: Trials | None = None
) -> Corpus:
    """Return utterances of a corpus as a set, sorted by id, in the role ``enroll``, ``trial`` or ``""``."""
    ordered = sorted((replace(u, role=role) for u in utterances), key=lambda u: u.id)
    return Corpus(name, tuple(ordered), trials, "kaldi", corpus.root)


def product_trials(speakers: Iterable[str], utterances: Iterable[Utterance]) -> Trials:
    """Return a trial of each speaker with each utterance, in the order of their names."""
    ordered = sorted(utterances, key=lambda u: u.id)
    rows = [(speaker, u.id, u.speaker == speaker) for speaker in sorted(speakers) for u in ordered]
    enroll, utterance, target = zip(*rows, strict=True)
    return Trials(enroll, utterance, target)  # type: ignore[arg-type]  # tuples become arrays


def _counts(trial_set: Corpus, enrollment: Mapping[str, Sequence[Utterance]]) -> dict[str, int]:
    trials = trial_set.trials
    target = 0 if trials is None else int(trials.target.sum())
    return {
        "enrolled_speakers": len(enrollment),
        "trial_speakers": len(trial_set.by_speaker),
        "trial_utterances": len(trial_set),
        "target": target,
        "nontarget": (0 if trials is None else len(trials)) - target,
    }


def write_design(design: Design, out: Path, *, overwrite: bool = False) -> list[Path]:
    """Write the sets as Kaldi directories into ``out``, with their record and files beside them.

    The audio stays in place. The directories are checked as ``voiceveil corpus check`` does, without opening the audio.
    All is written and checked in a temporary folder first, and a failure leaves no new file behind.

    Returns
    -------
    list of Path
        The directories and files.

    Raises
    ------
    InputError
        If a file exists already and ``overwrite`` is False, before anything is written.
    """
    from voiceveil.core.output_guard import refuse_files, replacing

    directories = {name: out / name for name in design.sets}
    tables = [table for directory in directories.values() for table in kaldi_files(directory)]
    files = [out / name for name in (RECORD, *design.files)]
    written = [*tables, *files]
    refuse_files(written, overwrite=overwrite)
    before = {path for path in written if os.path.lexists(path)}
    new_folders = [folder for folder in (out, *directories.values()) if not exists(folder)]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=PART_PREFIX, dir=out) as folder:
            _write_design(design, Path(folder))
            _check_design(design, Path(folder), out)
        with replacing(out, overwrite=overwrite):
            _write_design(design, out)
    except BaseException as error:
        for path in written:
            if path not in before:
                path.unlink(missing_ok=True)
        for directory in reversed(new_folders):
            shutil.rmtree(directory / RECORDS, ignore_errors=True)
            with suppress(OSError):
                directory.rmdir()
        if isinstance(error, OSError):
            raise OutputError(f"cannot write: {error.strerror or error}", where=out) from error
        raise
    return [*directories.values(), *files]


def _write_design(design: Design, out: Path) -> None:
    for name, corpus in design.sets.items():
        write_kaldi(corpus, out / name)
    for name, text in {RECORD: json.dumps(design.record, indent=1) + "\n", **design.files}.items():
        with atomic_path(out / name) as file:
            file.write_text(text, encoding="utf-8")


def _check_design(design: Design, folder: Path, out: Path) -> None:
    """Check what is written in ``folder``; errors name the files as they will be below ``out``."""
    for name, corpus in design.sets.items():
        enrollment = design.sets.get(f"{name.rpartition('_trials')[0]}_enrolls")
        enroll = with_safe_ids(enrollment) if enrollment is not None and corpus.trials is not None else None
        for fault in check(folder / name, enroll=enroll, audio=False):
            if not fault.note:
                place = None if fault.file is None else out / fault.file.relative_to(folder)
                raise InputError(fault.what, where=place, line=fault.line, fix=fault.fix)
