"""Score an untrusted archive: all figures are computed from its scores and transcripts.

Conventions: EERs and WERs that a team has written (EER, wer, result_for_rank ...) are not read at all. For the
VoicePrivacy Challenges the official layout is searched for the scores of the attacker that was trained on anonymized
speech,

    2024: exp/asv_anon<suffix>/<enrolls><suffix>-<trials><suffix>/scores     exp/asr/<dataset>_asr<suffix>/text
    2022: ASV-<enrolls><suffix>-<trials><suffix>/scores                      ASR-<dataset>_asr<suffix>/text

and transcripts; all else in the archive is ignored within the limits, also the audio unless the contest verifies it
(:mod:`voiceveil.apps.board.audio`). Scores must be of exactly the official trials, transcripts of exactly the official
utterances. UAR, pitch correlation, and the WER of a 2022 archive without transcripts are as stated
(:mod:`voiceveil.apps.board.stated`). TdSV: ``answer.txt`` in a ZIP
file.

Files are unpacked into a temporary folder beside the upload, which is deleted when the scoring ends; the files that a
killed server leaves there are deleted when the next one starts.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from voiceveil import metrics
from voiceveil.apps.board.audio import SubmittedAudio
from voiceveil.apps.board.contest import TDSV, Contest
from voiceveil.apps.board.lists import open_set, parts_of, tdsv_keys
from voiceveil.apps.board.stated import STATED, stated_figures, stated_wer
from voiceveil.attack.checks import check_scores
from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import Limits, Member, read_members
from voiceveil.corpus import Trials
from voiceveil.corpus.score_files import read_key, read_scores
from voiceveil.evaluation.protocol import ProtocolTrialSet, Recognition, Verification
from voiceveil.evaluation.results import Figure
from voiceveil.metrics import ScoredTrials, estimate
from voiceveil.metrics.wer import word_errors
from voiceveil.official.submission.archive_layout import UNOFFICIAL
from voiceveil.official.submission.recomputing import read_transcripts
from voiceveil.stats import ratio

__all__ = [
    "LIMITS",
    "Sample",
    "ScoredSubmission",
    "eer_figure",
    "gather_files",
    "in_sample",
    "score_submission",
    "select",
    "submitted_figures",
    "wer_figure",
]

T = TypeVar("T")
Floats = NDArray[np.float64]
#: Set -> the utterances that count.
Sample = Mapping[str, Container[str]]

ATTACKER = {"attacker": "ASV_eval^anon", "knowledge": "semi-informed"}
RECOGNIZER = "ASR_eval"
#: Twice the speech of 2024 with train-clean-360: 45 GB in 115,000 files.
LIMITS = Limits(members=300_000, total=100 << 30)
_HIGHEST_EER = 0.55  # an attacker that does worse than chance would only have to invert its scores
_LARGEST = 64 << 20  # bytes of a score file or a transcript
_INNER = re.compile(r"(.*/)?result_for_submission[^/]*\.zip")
_WANTED = re.compile(rf"(.*/)?[^/]+/(scores|text|{STATED})")
_SUFFIX = r"(?P<suffix>_[A-Za-z0-9._+-]+)"


@dataclass(frozen=True)
class ScoredSubmission:
    """The figures of a submission, and whether its archive holds the audio to verify them."""

    figures: tuple[Figure, ...]
    has_audio: bool = False


def score_submission(contest: Contest, archive: Path, *, limits: Limits = LIMITS) -> ScoredSubmission:
    """Compute the figures of a submission from its scores and transcripts.

    Parameters
    ----------
    contest
        Rules and data.
    archive
        The uploaded file.
    limits
        Sizes that the archive may not exceed.

    Raises
    ------
    InputError
        If scores, transcripts or required audio are missing or not usable.
    """
    if contest.protocol == TDSV:
        return ScoredSubmission(_tdsv(contest, archive))
    with tempfile.TemporaryDirectory(prefix="unpacked-", dir=archive.parent) as folder:
        audio = SubmittedAudio(contest)
        files = gather_files(archive, Path(folder), limits, audio.take)
        figures = submitted_figures(contest, files)
        if any(name.startswith(UNOFFICIAL) for name in files):  # `voiceveil submit --unofficial` says so in every name
            figures = tuple(replace(figure, detail={**figure.detail, "unofficial": True}) for figure in figures)
        return ScoredSubmission(figures, audio.check_complete())


def gather_files(
    archive: Path, folder: Path, limits: Limits, take: Callable[[Member], bool] = lambda member: False
) -> dict[str, Path]:
    """Write the score files and transcripts of an archive into ``folder``.

    Parameters
    ----------
    archive
        The archive; an official ``result_for_submission*.zip`` inside of it is opened as well.
    folder
        An empty folder.
    limits
        Sizes that the archive may not exceed.
    take
        Is offered every other member first, and returns True for those that it has used.

    Returns
    -------
    dict
        Name of the member -> its file.
    """
    files: dict[str, Path] = {}
    inner = folder / "inner.zip"
    for member in read_members(archive, limits):
        if _INNER.fullmatch(member.name) and not inner.exists():
            _keep(member, inner, 1 << 30)
        elif take(member):
            _read_to_end(member)
        else:
            _gather(member, folder, files)
    if inner.exists():
        for member in read_members(inner, limits):
            _gather(member, folder, files)
    return files


def _read_to_end(member: Member) -> None:
    """Read the rest of a member, so that the limits count all unpacked bytes."""
    for _ in member.blocks():
        pass


def _gather(member: Member, folder: Path, files: dict[str, Path]) -> None:
    if not _WANTED.fullmatch(member.name) or member.name.startswith("data/"):
        _read_to_end(member)
        return
    if member.name in files:
        raise InputError(f"{member.name} is in the archive twice", fix="pack it once, outside or inside the zip file")
    files[member.name] = folder / str(len(files))  # never the name in the archive
    _keep(member, files[member.name], _LARGEST)


def _keep(member: Member, path: Path, largest: int) -> None:
    if member.size > largest:
        raise InputError(f"{member.name}: {member.size} bytes, more than {largest}", fix="this is no submission")
    with path.open("xb") as file:
        file.writelines(member.blocks())


def submitted_figures(contest: Contest, files: Mapping[str, Path], sample: Sample | None = None) -> tuple[Figure, ...]:
    """Return the figures that the submitted scores and transcripts give.

    ``sample``: set -> the utterances that EERs and WERs are of; None counts all.
    """
    verifications, recognitions = parts_of(contest)
    figures = [_attack(contest, part, trials, files, sample) for part in verifications for trials in part.trials]
    figures += [_words(contest, part, files, sample) for part in recognitions]
    return (*figures, *stated_figures(contest, files))


def _attack(
    contest: Contest, part: Verification, trials: ProtocolTrialSet, files: Mapping[str, Path], sample: Sample | None
) -> Figure:
    pair = f"{re.escape(part.enroll)}{_SUFFIX}-{re.escape(trials.set)}(?P=suffix)"
    # In 2022 both attackers have a folder: results-<time>.orig is that of the attacker of original speech.
    of_2022, of_2024 = rf"(?!.*\.orig/)(.*/)?ASV-{pair}/scores", rf"(.*/)?asv_anon[^/]*/{pair}/scores"
    where = of_2022 if contest.has_layout_of_2022 else of_2024
    name = _only(files, where, f"scores of {part.enroll} and {trials.set}, both anonymized")
    key = read_key(contest.data / trials.set / "trials")
    scores = _of_member(name, lambda: read_scores(files[name], key))
    _of_member(name, lambda: _refuse_invented(scores, key.target))
    listed = Trials(np.array(key.speakers)[key.enroll], np.array(key.utterances)[key.utterance], key.target)
    if sample is not None:
        chosen = in_sample(listed, sample[trials.set])
        listed, scores = select(listed, chosen), scores[chosen]
    return eer_figure(contest, part, trials, listed, scores, ATTACKER)


def in_sample(trials: Trials, sample: Container[str]) -> NDArray[np.bool_]:
    """Return which trials (n,) are of an utterance of the sample."""
    return np.array([utterance in sample for utterance in trials.utterance.tolist()], dtype=np.bool_)


def select(trials: Trials, chosen: NDArray[np.bool_]) -> Trials:
    """Return some of the trials, by a mask (n,)."""
    return Trials(trials.enroll[chosen], trials.utterance[chosen], trials.target[chosen])


def eer_figure(
    contest: Contest,
    part: Verification,
    trial_set: ProtocolTrialSet,
    trials: Trials,
    scores: Floats,
    attacker: Mapping[str, Any],
) -> Figure:
    """Return the EER of scores (n,) of trials as the challenge computes it, with its 95% interval over speakers.

    ``attacker`` holds the fields ``attacker`` and ``knowledge`` of the figure.
    """
    method = contest.rules.eer
    value = metrics.eer(scores[trials.target], scores[~trials.target], method=method)
    speaker_of = {u.id: u.speaker or "" for u in open_set(contest.data / trial_set.set)}
    interval = estimate(ScoredTrials.of_trials(trials, scores, speaker_of), "eer", resamples=300)
    return Figure(
        "eer", value, part.dataset, min(interval.low, value), max(interval.high, value), part.split, trial_set.gender,
        part.subset, "aa", detail={"trials": len(trials)}, **attacker,
    )  # fmt: skip


def _refuse_invented(scores: Floats, target: NDArray[np.bool_]) -> None:
    """Raise an ``InputError`` for scores that no attack gives: one value for most trials, or an EER above 55%."""
    for check in check_scores(scores[target], scores[~target]):
        if check.name in ("constant-scores", "tied-scores"):
            raise InputError(check.seen.rstrip("."), fix="submit the scores of a working attack: it tells trials apart")
    rate = metrics.eer(scores[target], scores[~target], method="speechbrain")
    if rate > _HIGHEST_EER:
        problem = f"an EER of {rate:.1%}, above {_HIGHEST_EER:.0%}: targets score lower than nontargets"
        raise InputError(
            problem, fix="higher scores must mean the same speaker: are they distances, or labels swapped?"
        )


def _words(contest: Contest, part: Recognition, files: Mapping[str, Path], sample: Sample | None) -> Figure:
    prefix = "ASR-" if contest.has_layout_of_2022 else "asr/"
    where = rf"(.*/)?{prefix}{re.escape(part.dataset)}_asr{_SUFFIX}/text"
    if contest.has_layout_of_2022 and not any(re.fullmatch(where, name) for name in files):
        stated = stated_wer(contest, part, files)  # the official archives have no transcripts
        if stated is not None:
            return stated
    member = _only(files, where, f"transcripts of {part.dataset}, anonymized")
    spoken = {u.id: u.text or "" for name in part.sets for u in open_set(contest.data / name)}
    return _of_member(
        member, lambda: wer_figure(contest, part, read_transcripts(files[member], spoken), RECOGNIZER, sample)
    )


def wer_figure(
    contest: Contest, part: Recognition, transcripts: Mapping[str, str], model: str, sample: Sample | None
) -> Figure:
    """Return the WER of transcripts (utterance -> words) with its 95% interval over speakers.

    With a ``sample`` only its utterances count, and only they need a transcript.
    """
    spoken = {
        u.id: u for each in part.sets for u in open_set(contest.data / each) if sample is None or u.id in sample[each]
    }
    recognized = transcripts if sample is None else {key: words for key, words in transcripts.items() if key in spoken}
    errors = word_errors({key: u.text or "" for key, u in spoken.items()}, recognized, normalize=True)
    wrong = errors.counts[:, :3].sum(axis=1)
    words = errors.counts[:, 0] + errors.counts[:, 1] + errors.counts[:, 3]
    rate = ratio(wrong, words, [spoken[key].speaker or "" for key in errors.utterances], resamples=300)
    detail = {"words": int(words.sum()), "errors": int(wrong.sum())}
    return Figure(
        "wer", rate.value, part.dataset, rate.low, rate.high, part.split, condition="a", model=model, detail=detail
    )


def _only(files: Mapping[str, Path], where: str, description: str) -> str:
    """Return the one member whose name matches ``where``; ``description`` says in errors what it holds."""
    names = [name for name in files if re.fullmatch(where, name)]
    if len(names) != 1:
        how = "no" if not names else f"{len(names)} files with"
        raise InputError(
            f"{how} {description}", fix="pack the result files in the layout of the challenge's scripts, once"
        )
    return names[0]


def _of_member(name: str, read: Callable[[], T]) -> T:
    """Read a file of the archive; errors show its name in the archive, not its path in the temporary folder."""
    try:
        return read()
    except InputError as error:
        raise InputError(error.what, where=name, line=error.line, fix=error.fix) from error


def _tdsv(contest: Contest, archive: Path) -> tuple[Figure, ...]:
    from voiceveil.tdsv.answers import check_submission
    from voiceveil.tdsv.evaluation import evaluate

    keys = tdsv_keys(contest.data, contest.split)
    scores = np.asarray(check_submission(archive, len(keys)), dtype=np.float64)
    _refuse_invented(scores, np.array([key.type == "TC" for key in keys]))
    overall = evaluate(scores, keys, resamples=300).overall
    detail = {"trials": len(keys)}
    return tuple(
        Figure(name, estimate.value, "tdsv", estimate.low, estimate.high, contest.split, detail=detail)
        for name, estimate in (("min_dcf", overall.min_dcf), ("eer", overall.eer))
    )
