"""From an archive that nobody vouches for to figures: everything is computed from scores and transcripts.

Conventions: numbers that a team has written (EER, wer, result_for_rank ...) are not read at all. For the VoicePrivacy
Challenges the official layout is looked through for the scores of the attacker that was trained on anonymized speech,

    2024: exp/asv_anon<suffix>/<enrolls><suffix>-<trials><suffix>/scores     exp/asr/<dataset>_asr<suffix>/text
    2022: ASV-<enrolls><suffix>-<trials><suffix>/scores                      ASR-<dataset>_asr<suffix>/text

and transcripts; whatever else is in the archive, the audio too, is passed over within the limits. Scores must be of
exactly the official trials, transcripts of exactly the official utterances. A UAR cannot be computed again from a
submission, nor a pitch correlation without a long look at the audio: neither is ranked by.
TdSV: ``answer.txt`` in a ZIP file.

What is unpacked lies in a temporary folder beside the upload, which is gone when the judging ends; what a killed server
leaves there is deleted when the next one starts.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from voiceveil import metrics
from voiceveil.board.contest import CHALLENGES, Contest
from voiceveil.challenges.protocol import Recognition, TrialSet, Verification, load_protocol
from voiceveil.challenges.results import Figure
from voiceveil.challenges.submission.members import Limits, Member, read_members
from voiceveil.challenges.submission.recomputing import read_transcripts
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.errors import InputError
from voiceveil.metrics.wer import word_errors
from voiceveil.scorefiles import read_key, read_scores
from voiceveil.stats import ScoredTrials, estimate, ratio

__all__ = ["LIMITS", "check_data", "find_split", "judge"]

T = TypeVar("T")

ATTACKER, RECOGNISER = "ASV_eval^anon", "ASR_eval"
LIMITS = Limits(members=300_000, total=40 << 30)
_HIGHEST_EER = 0.55  # an attacker that does worse than chance would only have to invert its scores
_LARGEST = 64 << 20  # bytes of a score file or a transcript
_INNER = re.compile(r"(.*/)?result_for_submission[^/]*\.zip")
_WANTED = re.compile(r"(.*/)?[^/]+/(scores|text)")
_SUFFIX = r"(?P<suffix>_[A-Za-z0-9._+-]+)"


def judge(contest: Contest, archive: Path, *, limits: Limits = LIMITS) -> tuple[Figure, ...]:
    """The figures of a submission; an ``InputError`` says why there are none."""
    if contest.challenge == "tdsv2024":
        return _tdsv(contest, archive)
    with tempfile.TemporaryDirectory(prefix="unpacked-", dir=archive.parent) as folder:
        return _voiceprivacy(contest, _gathered(archive, Path(folder), limits))


def find_split(challenge: str, data: Path) -> str:
    """Return the first split of the challenge, in the order of ``CHALLENGES``, whose lists are all in ``data``.

    Raise an ``InputError`` that names the missing sets of each split if none is complete.
    """
    if not data.is_dir():
        raise InputError("no such folder", where=data, fix="give the folder that holds the lists to score with")
    missing = {split: _missing_lists(challenge, data, split) for split in CHALLENGES[challenge]}
    complete = [split for split, sets in missing.items() if not sets]
    if complete:
        return complete[0]
    told = "; ".join(f"{split}: {', '.join(sets)}" for split, sets in missing.items())
    raise InputError(
        f"no split of {challenge} is complete here; missing of {told}",
        where=data,
        fix="give the folder that holds these sets with their files `trials`, `text` and `utt2spk`",
    )


def _missing_lists(challenge: str, data: Path, split: str) -> list[str]:
    """Return the sets (or key files) of a split that ``data`` lacks, sorted."""
    if challenge == "tdsv2024":
        keys = f"docs/{split}_keys.txt"
        return [] if (data / keys).is_file() else [keys]
    protocol = load_protocol(challenge)
    trials = {t.set for one in protocol.verification if one.split == split for t in one.trials}
    spoken = {name for one in protocol.recognition if one.split == split for name in one.sets}
    needed = [(name, "trials") for name in trials] + [(name, "text") for name in spoken]
    return sorted({name for name, file in needed if not (data / name / file).is_file()})


def check_data(contest: Contest) -> None:
    """Raise an ``InputError`` if a list that is needed to score submissions is missing or unusable."""
    if contest.challenge == "tdsv2024":
        _tdsv_keys(contest.data, contest.split)
        return
    missing = _missing_lists(contest.challenge, contest.data, contest.split)
    if missing:
        sets = f"the {contest.split} sets of {contest.challenge}"
        what = f"{sets} are incomplete: no trials or no text in {', '.join(missing)}"
        raise InputError(what, where=contest.data, fix="give the folder that holds them, or another --split")
    verifications, recognitions = _parts(contest)
    for one in verifications:
        for trials in one.trials:
            read_key(contest.data / trials.set / "trials")
    for name in {name for one in recognitions for name in one.sets}:
        if not all(utterance.text for utterance in _corpus(contest.data / name)):
            raise InputError("an utterance has no text", where=contest.data / name, fix="WERs need the words: `text`")


def _gathered(archive: Path, folder: Path, limits: Limits) -> dict[str, Path]:
    """Member -> where its content is, of score files and transcripts; the official zip file inside is opened, once."""
    found: dict[str, Path] = {}
    inner = folder / "inner.zip"
    for member in read_members(archive, limits):
        if _INNER.fullmatch(member.name) and not inner.exists():
            _keep(member, inner, 1 << 30)
        else:
            _gather(member, folder, found)
    if inner.exists():
        for member in read_members(inner, limits):
            _gather(member, folder, found)
    return found


def _gather(member: Member, folder: Path, found: dict[str, Path]) -> None:
    if not _WANTED.fullmatch(member.name) or member.name.startswith("data/"):
        for _ in member.blocks():  # read to its end: the limits count what is produced
            pass
        return
    if member.name in found:
        raise InputError(f"{member.name}: there twice", fix="pack it once, outside or inside the zip file")
    found[member.name] = folder / str(len(found))  # a name of our own
    _keep(member, found[member.name], _LARGEST)


def _keep(member: Member, path: Path, largest: int) -> None:
    if member.size > largest:
        raise InputError(f"{member.name}: {member.size} bytes, more than {largest}", fix="this is no submission")
    with path.open("xb") as file:
        file.writelines(member.blocks())


def _parts(contest: Contest) -> tuple[list[Verification], list[Recognition]]:
    protocol = load_protocol(contest.challenge)
    return (
        [one for one in protocol.verification if one.split == contest.split],
        [one for one in protocol.recognition if one.split == contest.split],
    )


def _voiceprivacy(contest: Contest, found: dict[str, Path]) -> tuple[Figure, ...]:
    verifications, recognitions = _parts(contest)
    figures = [_attack(contest, one, trials, found) for one in verifications for trials in one.trials]
    return (*figures, *(_words(contest, one, found) for one in recognitions))


def _attack(contest: Contest, one: Verification, trials: TrialSet, found: dict[str, Path]) -> Figure:
    """The EER of one trial list, with its interval over speakers."""
    pair = f"{re.escape(one.enroll)}{_SUFFIX}-{re.escape(trials.set)}(?P=suffix)"
    where = rf"(.*/)?asv_anon[^/]*/{pair}/scores" if contest.challenge == "vpc2024" else rf"(.*/)?ASV-{pair}/scores"
    name = _only(found, where, f"scores of {one.enroll} and {trials.set}, both anonymized")
    key = read_key(contest.data / trials.set / "trials")
    scores = _of_member(name, lambda: read_scores(found[name], key))
    _of_member(name, lambda: _refuse_invented(scores, key.target))
    method = load_protocol(contest.challenge).eer
    value = metrics.eer(scores[key.target], scores[~key.target], method=method)
    speaker_of = {u.id: u.speaker or "" for u in _corpus(contest.data / trials.set)}
    heard = np.array([speaker_of.get(utterance, "") for utterance in key.utterances])[key.utterance]
    enrolled = np.array(key.speakers)[key.enroll]
    interval = estimate(ScoredTrials.of_speakers(scores, key.target, enrolled, heard), "eer", resamples=300)
    return Figure(
        "eer", value, one.dataset, min(interval.low, value), max(interval.high, value), one.split, trials.gender,
        one.subset, "aa", ATTACKER, {"trials": len(key)},
    )  # fmt: skip


def _refuse_invented(scores: NDArray[np.float64], target: NDArray[np.bool_]) -> None:
    """Raise an ``InputError`` if no attack gives such scores: one value for most trials, or an EER above 55%."""
    values, counts = np.unique(scores, return_counts=True)
    most, total = int(counts.max()), len(scores)
    if most > total / 2:
        how_many = f"all {total} scores" if most == total else f"{most} of {total} scores ({most / total:.0%})"
        what = f"{how_many} are {values[counts.argmax()]:g}"
        raise InputError(what, fix="submit the scores of a working attack: it tells trials apart")
    rate = metrics.eer(scores[target], scores[~target], method="speechbrain")
    if rate > _HIGHEST_EER:
        what = f"an EER of {rate:.1%}, above {_HIGHEST_EER:.0%}: targets score lower than nontargets"
        raise InputError(what, fix="higher scores must mean the same speaker: are they distances, or labels swapped?")


def _words(contest: Contest, one: Recognition, found: dict[str, Path]) -> Figure:
    """The WER of one set of transcripts, with its interval over speakers."""
    prefix = "asr/" if contest.challenge == "vpc2024" else "ASR-"
    where = rf"(.*/)?{prefix}{re.escape(one.dataset)}_asr{_SUFFIX}/text"
    name = _only(found, where, f"transcripts of {one.dataset}, anonymized")
    spoken = {u.id: u for each in one.sets for u in _corpus(contest.data / each)}
    refs = {key: u.text or "" for key, u in spoken.items()}
    errors = _of_member(name, lambda: word_errors(refs, read_transcripts(found[name]), normalise=True))
    wrong = errors.counts[:, :3].sum(axis=1)
    words = errors.counts[:, 0] + errors.counts[:, 1] + errors.counts[:, 3]
    rate = ratio(wrong, words, [spoken[key].speaker or "" for key in errors.utterances], resamples=300)
    detail = {"words": int(words.sum()), "errors": int(wrong.sum())}
    return Figure("wer", rate.value, one.dataset, rate.low, rate.high, one.split, "", "", "a", RECOGNISER, detail)


def _only(found: dict[str, Path], where: str, what: str) -> str:
    """The one member whose name fits."""
    names = [name for name in found if re.fullmatch(where, name)]
    if len(names) != 1:
        how = "no" if not names else f"{len(names)} files with"
        raise InputError(f"{how} {what}", fix="pack the result files in the layout of the challenge's scripts, once")
    return names[0]


def _of_member(name: str, read: Callable[[], T]) -> T:
    """What is wrong with a file, by its name in the archive and not in our folder."""
    try:
        return read()
    except InputError as error:
        raise InputError(error.what, where=name, line=error.line, fix=error.fix) from error


@lru_cache(maxsize=16)
def _corpus(path: Path) -> Corpus:
    return open_corpus(path)


def _tdsv(contest: Contest, archive: Path) -> tuple[Figure, ...]:
    from voiceveil.tdsv.answers import check_submission
    from voiceveil.tdsv.evaluation import evaluate

    keys = _tdsv_keys(contest.data, contest.split)
    scores = np.asarray(check_submission(archive, len(keys)), dtype=np.float64)
    _refuse_invented(scores, np.array([key.type == "TC" for key in keys]))
    overall = evaluate(scores, keys, resamples=300).overall
    detail = {"trials": len(keys)}
    return tuple(
        Figure(name, one.value, "tdsv", one.low, one.high, contest.split, detail=detail)
        for name, one in (("min_dcf", overall.min_dcf), ("eer", overall.eer))
    )


@lru_cache(maxsize=4)
def _tdsv_keys(data: Path, split: str) -> tuple[Any, ...]:
    from voiceveil.tdsv.lists import read_keys

    path = data / "docs" / f"{split}_keys.txt"
    if not path.is_file():
        raise InputError("no keys", where=path, fix="the board scores with the keys of the challenge")
    return tuple(read_keys(path))
