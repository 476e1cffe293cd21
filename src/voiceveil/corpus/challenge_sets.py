"""The sets of the VoicePrivacy Challenges, built from LibriSpeech, VCTK and IEMOCAP as they are distributed.

Names are those of the challenges. ``libri_{dev,test}_{enrolls,trials_f,trials_m}`` follow the ids of
:mod:`.challenge_ids`. The VCTK sets follow the lists of the organizers, which only they distribute. The IEMOCAP sets
are those of Table 2 of the 2024 plan.

====================== ===============================================================================================
2020, 2022             also ``libri_*_trials_all``, ``vctk_*``, ``train-clean-360`` (a speaker for each chapter, for
                       speech recognition) and ``train-clean-360-asv`` (the real speakers, for speaker verification)
2024                   also ``IEMOCAP_dev``, ``IEMOCAP_test``, ``train-clean-360`` (the real speakers)
2026, track 1          as 2024, with ``libri_*_trials_mixed`` (every enrolled speaker x every trial utterance) and
                       ``libri_*_trials_pooled`` (pairs of one gender only) instead of ``trials_f`` and ``trials_m``
====================== ===============================================================================================

A set of which an utterance is missing is not built; :class:`ChallengeSets` says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.corpus.challenge_ids import libri_ids
from voiceveil.corpus.faults import strict
from voiceveil.corpus.iemocap import TABLE_2, read_iemocap
from voiceveil.corpus.kaldi import read_trials
from voiceveil.corpus.librispeech import read_librispeech
from voiceveil.corpus.lines import read_table
from voiceveil.corpus.model import Corpus, Trials, Utterance
from voiceveil.corpus.trial_design import make_set, product_trials
from voiceveil.corpus.vctk import read_vctk

__all__ = ["EDITIONS", "TRAINING", "ChallengeSets", "Sources", "build_challenge_sets"]

EDITIONS = ("vpc2020", "vpc2022", "vpc2024", "vpc2026")
TRAINING = "train-clean-360"
_WITH_VCTK = ("vpc2020", "vpc2022")
_SPLITS = ("dev", "test")
_GENDERS = ("f", "m")
#: Files with the organizers' lists, in ``vctk_dev`` and ``vctk_test``: set -> file.
_VCTK_TRIALS = {
    f"trials_{gender}{subset}": f"trials_{gender}{subset}_mic2" for gender in _GENDERS for subset in ("", "_common")
}
_PUNCTUATION = str.maketrans(",!?.", "    ")


@dataclass(frozen=True)
class Sources:
    """Folders of the corpora as they are distributed; None: not at hand.

    Parameters
    ----------
    librispeech
        Holds ``SPEAKERS.TXT``, ``dev-clean``, ``test-clean`` and ``train-clean-360``.
    vctk
        Holds ``speaker-info.txt``, ``wav48_silence_trimmed`` and ``txt`` (version 0.92).
    vctk_lists
        Holds ``vctk_dev`` and ``vctk_test`` with the organizers' ``enrolls_mic2``, ``trials_f_mic2``, ...
    iemocap
        Holds ``Session1`` to ``Session5``.
    """

    librispeech: Path
    vctk: Path | None = None
    vctk_lists: Path | None = None
    iemocap: Path | None = None


@dataclass
class ChallengeSets:
    """The sets that could be built, and for each of the others the reason why it could not.

    ``missing``: sets whose corpus is incomplete. ``not_requested``: sets whose corpus was not given.
    """

    sets: dict[str, Corpus] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    not_requested: dict[str, str] = field(default_factory=dict)

    def add(self, corpus: Corpus) -> None:
        """Add a complete set."""
        self.sets[corpus.name] = corpus

    def leave_out(self, names: Iterable[str], why: str) -> None:
        """Remove sets, if they are there, and record why they are incomplete."""
        for name in names:
            self.sets.pop(name, None)
            self.missing.setdefault(name, why)


def build_challenge_sets(edition: str, sources: Sources) -> ChallengeSets:
    """Build all sets of an edition from the corpora at hand; no audio file is opened.

    Raises
    ------
    InputError
        If the edition is unknown, or a corpus is not laid out as it is distributed.
    """
    if edition not in EDITIONS:
        raise InputError(f"unknown edition {edition!r}", fix=f"give one of {', '.join(EDITIONS)}")
    if not sources.librispeech.is_dir():
        fix = "give the folder of LibriSpeech that has SPEAKERS.TXT, dev-clean, test-clean and train-clean-360"
        raise InputError("no such folder", where=sources.librispeech, fix=fix)
    built = ChallengeSets()
    for split in _SPLITS:
        _add_libri(built, edition, split, sources.librispeech)
    if edition in _WITH_VCTK:
        vctk = None if sources.vctk is None or sources.vctk_lists is None else _read_vctk(sources.vctk)
        for split in _SPLITS:
            _add_vctk(built, split, vctk, sources)
    else:
        _add_iemocap(built, sources.iemocap)
    _add_training(built, edition, sources.librispeech)
    return built


def _add_libri(built: ChallengeSets, edition: str, split: str, librispeech: Path) -> None:
    """Add ``libri_<split>_*``: enrollment, and the trials of the edition."""
    base, folder = f"libri_{split}", librispeech / f"{split}-clean"
    parts = {"vpc2024": _GENDERS, "vpc2026": ("mixed", "pooled")}.get(edition, (*_GENDERS, "all"))
    names = [f"{base}_enrolls", *(f"{base}_trials_{part}" for part in parts)]
    if not folder.is_dir():
        built.leave_out(names, f"no folder {folder}")
        return
    corpus = read_librispeech(folder)
    ids = {part: libri_ids()[f"{base}_{part}"] for part in ("enrolls", "trials_f", "trials_m")}
    problem = _missing_ids(corpus, sorted({key for part in ids.values() for key in part}), folder)
    if not problem and any(utterance.gender is None for utterance in corpus):
        problem = f"no genders: {librispeech / 'SPEAKERS.TXT'} is missing, or does not name all speakers"
    if problem:
        built.leave_out(names, problem)
        return
    enrollment = make_set(f"{base}_enrolls", _chosen(corpus, ids["enrolls"]), "enroll", corpus)
    built.add(enrollment)
    tried = {gender: _chosen(corpus, ids[f"trials_{gender}"]) for gender in _GENDERS}
    gender_of = {speaker: spoken[0].gender for speaker, spoken in enrollment.by_speaker.items()}
    by_gender = {
        gender: product_trials([s for s in gender_of if gender_of[s] == gender], tried[gender]) for gender in _GENDERS
    }
    everything = [*tried["f"], *tried["m"]]
    same_gender = _joined(by_gender.values())
    utterances = {**tried, "all": everything, "pooled": everything, "mixed": everything}
    trials = {**by_gender, "all": same_gender, "pooled": same_gender}
    if "mixed" in parts:
        trials["mixed"] = product_trials(gender_of, everything)
    for part in parts:
        built.add(make_set(f"{base}_trials_{part}", utterances[part], "trial", corpus, trials[part]))


def _read_vctk(folder: Path) -> Corpus:
    """Return VCTK with transcripts as the challenges have them: ``, ! ? .`` become spaces, upper case."""
    corpus = read_vctk(folder)
    texts = {u.id: None if u.text is None else " ".join(u.text.translate(_PUNCTUATION).split()).upper() for u in corpus}
    return replace(corpus, utterances=tuple(replace(u, text=texts[u.id]) for u in corpus))


def _add_vctk(built: ChallengeSets, split: str, corpus: Corpus | None, sources: Sources) -> None:
    """Add ``vctk_<split>_*`` by the organizers' lists."""
    base = f"vctk_{split}"
    names = [f"{base}_{part}" for part in ("enrolls", *_VCTK_TRIALS, "trials_f_all", "trials_m_all", "trials_all")]
    if corpus is None or sources.vctk is None or sources.vctk_lists is None:
        built.not_requested |= dict.fromkeys(names, "needs VCTK and the organizers' lists: --vctk and --vctk-lists")
        return
    lists = sources.vctk_lists / base
    absent = [file for file in ("enrolls_mic2", *_VCTK_TRIALS.values()) if not (lists / file).is_file()]
    if absent:
        built.leave_out(names, f"no {', '.join(absent)} in {lists}")
        return
    enrolled = list(read_table(lists / "enrolls_mic2", strict, empty_values=True).values)
    trials = {part: read_trials(lists / file, strict)[0] for part, file in _VCTK_TRIALS.items()}
    for gender in _GENDERS:
        trials[f"trials_{gender}_all"] = _joined([trials[f"trials_{gender}"], trials[f"trials_{gender}_common"]])
    trials["trials_all"] = _joined([trials["trials_f_all"], trials["trials_m_all"]])
    wanted = {*enrolled, *trials["trials_all"].utterance.tolist()}
    if problem := _missing_ids(corpus, sorted(wanted), sources.vctk):
        built.leave_out(names, problem)
        return
    built.add(make_set(f"{base}_enrolls", _chosen(corpus, enrolled), "enroll", corpus))
    for part, listed in trials.items():
        utterances = _chosen(corpus, sorted(set(listed.utterance.tolist())))
        built.add(make_set(f"{base}_{part}", utterances, "trial", corpus, listed))


def _add_iemocap(built: ChallengeSets, folder: Path | None) -> None:
    """Add ``IEMOCAP_dev`` and ``IEMOCAP_test``, with emotions and folds, if all counts are those of Table 2."""
    names = {"dev": "IEMOCAP_dev", "eval": "IEMOCAP_test"}
    if folder is None:
        built.not_requested |= dict.fromkeys(names.values(), "needs IEMOCAP: --iemocap")
        return
    corpus = read_iemocap(folder)
    problems = list(_table_2_differences(corpus, folder))
    if problems:
        built.leave_out(names.values(), "; ".join(problems))
        return
    for subset, name in names.items():
        utterances = [u for u in corpus if u.subset == subset]
        built.add(make_set(name, [replace(u, subset=None) for u in utterances], "", corpus))


def _table_2_differences(corpus: Corpus, folder: Path) -> Iterator[str]:
    """Yield where a copy of IEMOCAP is not complete."""
    counts = []
    for (session, gender), expected in TABLE_2.items():
        speaker = f"Ses0{session}{gender.upper()}"
        count = len(corpus.by_speaker.get(speaker, ()))
        if count != expected:
            counts.append(f"{speaker} {count} (Table 2: {expected})")
    if counts:
        yield f"utterances of the four emotions in {folder}: {', '.join(counts)}"
    absent = [utterance.path for utterance in corpus if not utterance.path.is_file()]
    if absent:
        yield f"{len(absent)} of {len(corpus)} audio files are missing, e.g. {absent[0]}"


def _add_training(built: ChallengeSets, edition: str, librispeech: Path) -> None:
    """Add ``train-clean-360`` with the real speakers, in 2020 and 2022 also with one speaker for each chapter."""
    both = edition in _WITH_VCTK
    real = f"{TRAINING}-asv" if both else TRAINING
    folder = librispeech / TRAINING
    if not folder.is_dir():
        built.leave_out([TRAINING, real], f"no folder {folder}")
        return
    corpus = read_librispeech(folder)
    utterances = [replace(u, subset=None) for u in corpus]
    if both:
        chapters = [replace(u, speaker=u.id.rpartition("-")[0]) for u in utterances]
        built.add(make_set(TRAINING, chapters, "", corpus))
    built.add(make_set(real, utterances, "", corpus))


def _missing_ids(corpus: Corpus, ids: Sequence[str], folder: Path) -> str:
    """Return a sentence about ids that a corpus lacks, or an empty one."""
    absent = [key for key in ids if key not in corpus]
    return f"{len(absent)} of {len(ids)} utterances are not in {folder}, e.g. {absent[0]}" if absent else ""


def _chosen(corpus: Corpus, ids: Iterable[str]) -> list[Utterance]:
    return [replace(corpus[key], subset=None) for key in ids]


def _joined(lists: Iterable[Trials]) -> Trials:
    """Return the trials of all lists, one list after the other."""
    columns = zip(*((trials.enroll, trials.utterance, trials.target) for trials in lists), strict=True)
    return Trials(*(np.concatenate(column) for column in columns))
