"""Text-dependent speaker verification (TdSV) on files: make a challenge, train, score, evaluate, pack an answer.

A challenge is a folder in the layout of the TdSV Challenge 2024, see :mod:`voiceveil.tdsv.challenge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voiceveil.attack.checks import check_scores
from voiceveil.core.checks import Check
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_files, refuse_overlap, refuse_same_files
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.corpus.lines import write_lines
from voiceveil.corpus.readers import find_reader
from voiceveil.run.context import RunContext
from voiceveil.run.outputs import refuse_corpora
from voiceveil.tdsv import scoring, training
from voiceveil.tdsv.answers import read_answer, write_answer, write_submission
from voiceveil.tdsv.challenge import Challenge, open_challenge
from voiceveil.tdsv.challenge_design import ChallengeDesign, ChallengePlan, design
from voiceveil.tdsv.challenge_writer import write_challenge
from voiceveil.tdsv.evaluation import TdsvEvaluation, complete_keys, evaluate
from voiceveil.tdsv.features import CONTENT
from voiceveil.tdsv.lists import read_models, read_trials
from voiceveil.tdsv.serialization import load_system, save_system
from voiceveil.tdsv.system import System
from voiceveil.tdsv.tables import phrase_texts, read_matching_keys
from voiceveil.training.augmentation import Augmentation

__all__ = [
    "AnswerOptions", "SystemSettings", "TrialLists", "evaluate_answers", "make_challenge", "pack_answer",
    "score_challenge", "train_system",
]  # fmt: skip

REPORT_TITLE = "Who speaks, and is it the passphrase?"


def make_challenge(
    corpus: str | Path, out: Path, plan: ChallengePlan, *, jobs: int = 1, quiet: bool = True
) -> ChallengeDesign:
    """Design a challenge from a corpus with speakers and phrases, and write it.

    Parameters
    ----------
    corpus
        Corpus, as for :func:`voiceveil.anonymize`.
    out
        Folder that is new or empty.
    plan
        Settings of the challenge.
    jobs, quiet
        Processes, and whether to show no progress.

    Raises
    ------
    InputError
        If the corpus is too small for the plan, or ``out`` cannot be used.
    """
    opened = open_corpus(corpus)
    refuse_corpora(out, [opened], [find_reader(corpus)[1]])
    designed = design(opened, plan)
    write_challenge(designed, out, source=opened.name, jobs=jobs, quiet=quiet)
    return designed


@dataclass(frozen=True)
class SystemSettings:
    """Models of a verification system.

    Parameters
    ----------
    encoder : str
        Speaker encoder; ``ecapa`` trains the baseline of the challenge on the training files.
    backend : str
        Back-end of the encoder.
    content : str
        Content features.
    epochs, channels : int, optional
        With ``ecapa``: epochs of the training and width of the network.
    augmentation : Augmentation, optional
        With ``ecapa``: copies of the training files with reverberation, noise or music.

    Raises
    ------
    InputError
        If another encoder is to be trained on copies, or on babble: the challenge allows no other speech.
    train : sequence of corpora
        Other corpora to train encoder and back-end on as well, as :func:`voiceveil.open_corpus` takes them: their
        training parts, without any recording of the challenge.
    """

    encoder: str = "campplus"
    backend: str = training.DEFAULT_BACKEND
    content: str = CONTENT
    epochs: int | None = None
    channels: int | None = None
    augmentation: Augmentation | None = None
    train: Sequence[str | Path] = ()

    def __post_init__(self) -> None:
        if self.augmentation is None:
            return
        if self.encoder != "ecapa":
            raise InputError(f"--augment, but {self.encoder} is not trained", fix="add --encoder ecapa")
        if "babble" in self.augmentation.kinds:
            problem = "--augment babble adds speech of others, which the TdSV challenge does not allow"
            raise InputError(problem, fix="use --augment reverb,noise,music")


def train_system(
    challenge: Path, out: Path, settings: SystemSettings, context: RunContext, *, overwrite: bool = False
) -> System:
    """Train a system on the training files of a challenge, and write it.

    Parameters
    ----------
    challenge
        Folder of the challenge.
    out
        File of the system. With the encoder ``ecapa`` the encoder is trained into the folder ``<out>-ecapa`` beside it.
    settings
        Models of the system.
    context
        Cache, processes, device and progress.
    overwrite
        Replace existing files.

    Raises
    ------
    InputError
        If the challenge has too few training files, or an output is in the way.
    """
    opened = open_challenge(challenge)
    more = [open_corpus(spec) for spec in settings.train]
    refuse_overlap(out, [challenge])
    refuse_files([out], overwrite=overwrite)
    encoder = settings.encoder
    if encoder == "ecapa":
        folder = out.with_name(f"{out.stem}-ecapa")
        refuse_overlap(folder, [challenge])
        added = training.added_training(opened, more).utterances
        corpora = [training.training_corpus(opened), *([Corpus("added", added)] if added else [])]
        _train_encoder(corpora, folder, settings, context, overwrite=overwrite)
        encoder = f"ecapa:{folder}"
    system = training.train(
        opened,
        encoder=encoder,
        backend=settings.backend,
        content=settings.content,
        more=more,
        context=context,
    )
    save_system(out, system)
    return system


def _train_encoder(
    corpora: Sequence[Corpus], folder: Path, settings: SystemSettings, context: RunContext, *, overwrite: bool
) -> None:
    from voiceveil.training.asv import AsvSettings, train_asv
    from voiceveil.training.training_run import TrainingRun, recorded_training

    processes = context.jobs if isinstance(context.jobs, int) else 1  # trained on this computer
    with recorded_training(folder, overwrite=overwrite):
        train_asv(
            corpora,
            folder,
            AsvSettings(epochs=settings.epochs, channels=settings.channels, augmentation=settings.augmentation),
            TrainingRun(context.device, overwrite=overwrite, jobs=processes, quiet=not context.progress),
        )


@dataclass(frozen=True)
class AnswerOptions:
    """Options of an answer to the trials of a challenge.

    Parameters
    ----------
    subset : str
        ``dev`` or ``eval``.
    free_text : bool
        Task 2: enroll voices from the free text as well.
    anonymizer : str, optional
        System that anonymizes the test recordings first.
    anonymized_to : Path, optional
        Folder for the anonymized recordings, which later runs use again.
    seed : int, optional
        Of the pseudo-speakers.
    parts : Path, optional
        File for ``<voice> <wording> <LLR>`` of each trial.
    overwrite : bool
        Replace existing files.

    Raises
    ------
    InputError
        If only one of ``anonymizer`` and ``anonymized_to`` is given.
    """

    subset: str = "eval"
    free_text: bool = True
    anonymizer: str | None = None
    anonymized_to: Path | None = None
    seed: int | None = None
    parts: Path | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.anonymizer is not None and self.anonymized_to is None:
            raise InputError("--anonymize needs a folder for the speech", fix="add --anonymized-to DIR")
        if self.anonymizer is None and self.anonymized_to is not None:
            raise InputError("--anonymized-to without --anonymize", fix="name the system, e.g. --anonymize b2")


def score_challenge(
    system: Path, challenge: Path, out: Path, options: AnswerOptions, context: RunContext
) -> scoring.TrialScores:
    """Score the trials of a challenge, and write the answer: one log-likelihood ratio (LLR) per line.

    Parameters
    ----------
    system
        File that :func:`train_system` wrote.
    challenge
        Folder of the challenge.
    out
        File of the answer.
    options
        Trials and recordings.
    context
        Cache, processes, device and progress.

    Raises
    ------
    InputError
        If system and challenge do not fit, or an output is in the way.
    """
    files = [out, *([] if options.parts is None else [options.parts])]
    folders = [] if options.anonymized_to is None else [options.anonymized_to]
    for path in (*files, *folders):
        refuse_overlap(path, [challenge, system])
    refuse_files(files, overwrite=options.overwrite)
    loaded, opened = load_system(system), open_challenge(challenge)
    opened.subset(options.subset)  # a missing subset is found before anything is anonymized
    scores = scoring.score(
        loaded,
        opened,
        options.subset,
        free_text=options.free_text,
        tests=_anonymized_tests(opened, options, context),
        context=context,
    )
    write_answer(out, scores.llr)
    if options.parts is not None:
        columns = zip(scores.voice.tolist(), scores.wording.tolist(), scores.llr.tolist(), strict=True)
        rows = (f"{voice:.6f} {wording:.6f} {llr:.6f}" for voice, wording, llr in columns)
        write_lines(options.parts, ["voice wording llr", *rows])
    return scores


def _anonymized_tests(challenge: Challenge, options: AnswerOptions, context: RunContext) -> dict[str, Path] | None:
    """Return file id -> anonymized test recording; None if they are not anonymized."""
    if options.anonymizer is None or options.anonymized_to is None:
        return None
    return scoring.anonymized_tests(
        challenge.test_corpus(options.subset),
        options.anonymizer,
        options.anonymized_to,
        seed=options.seed,
        overwrite=options.overwrite,
        context=context,
    )


@dataclass(frozen=True)
class TrialLists:
    """Files of the trials, of their keys and, optionally, of the enrollment: genders and phrases of the keys."""

    trials: Path
    keys: Path
    models: Path | None = None

    def files(self) -> list[Path]:
        """Return the files that are given."""
        return [path for path in (self.trials, self.keys, self.models) if path is not None]


def evaluate_answers(
    answers: Sequence[tuple[str, Path]],
    lists: TrialLists,
    *,
    resamples: int = 1000,
    report: Path | None = None,
    title: str = REPORT_TITLE,
    overwrite: bool = False,
) -> tuple[list[TdsvEvaluation], list[Check]]:
    """Evaluate answers to the same trials, and write a report if asked to.

    Parameters
    ----------
    answers
        Name and file of each answer.
    lists
        Trials and keys.
    resamples
        Resamples of the bootstrap.
    report
        HTML file to write.
    title
        Title of the report.
    overwrite
        Replace the report if there is one.

    Returns
    -------
    list of Evaluation, list of Check
        Figures of each answer, and failed checks of the scores.

    Raises
    ------
    InputError
        If an answer does not fit the trials, a trial has no key, or the report is in the way.
    """
    if report is not None:
        refuse_same_files([report], lambda: [*(path for _, path in answers), *lists.files()])
        refuse_files([report], overwrite=overwrite)
    models = None if lists.models is None else read_models(lists.models)[1]
    keys = complete_keys(read_matching_keys(lists.trials, lists.keys), models)
    is_target = np.array([key.type == "TC" for key in keys])
    evaluations: list[TdsvEvaluation] = []
    checks: list[Check] = []
    for name, path in answers:
        scores = read_answer(path, len(keys))
        evaluations.append(evaluate(scores, keys, name=name, resamples=resamples))
        checks += check_scores(scores[is_target], scores[~is_target], where=name)
    if report is not None:
        from voiceveil.report.tdsv import write_page  # here: figures alone need no report

        write_page(report, evaluations, title=title, texts=phrase_texts(lists.keys.parent, keys))
    return evaluations, checks


def pack_answer(answer: Path, trials: Path, out: Path | None = None, *, overwrite: bool = False) -> tuple[Path, int]:
    """Pack an answer for the challenge; return the archive and the number of scores.

    Parameters
    ----------
    answer
        File of the answer.
    trials
        List of the trials that it answers.
    out
        ZIP file to write (default: ``submission.zip`` beside the answer).
    overwrite
        Replace the archive if there is one.

    Raises
    ------
    InputError
        If the answer does not fit the trials, or the archive is in the way.
    """
    archive = out or answer.parent / "submission.zip"
    count = len(read_trials(trials))
    refuse_same_files([archive], lambda: [answer, trials])
    refuse_files([archive], overwrite=overwrite)
    return write_submission(archive, answer, count), count
