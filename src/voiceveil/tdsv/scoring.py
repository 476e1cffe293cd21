"""Scores of the trials of a challenge, each computed independently of the others.

The test recordings can be anonymized first: the verifier, or attacker, then compares original enrollment with
anonymized tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.models.speaker.encoders import encoder as encoder_of
from voiceveil.run.context import RunContext
from voiceveil.systems.batch import anonymize
from voiceveil.tdsv.challenge import Challenge
from voiceveil.tdsv.features import RecordingFeatures, extract_features
from voiceveil.tdsv.lists import TdsvModel, Trial
from voiceveil.tdsv.system import System

__all__ = ["TrialScores", "anonymized_tests", "score", "score_trials"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrialScores:
    """Scores of voice and wording and LLR of each trial, shape (n,), in the order of the list."""

    voice: Floats
    wording: Floats
    llr: Floats


def score(
    system: System,
    challenge: Challenge,
    subset: str = "eval",
    *,
    free_text: bool = True,
    tests: Mapping[str, Path] | None = None,
    context: RunContext | None = None,
) -> TrialScores:
    """Score the trials of a subset of a challenge.

    Parameters
    ----------
    system : System
        A trained system.
    challenge : Challenge
        The challenge.
    subset : str
        ``dev`` or ``eval``.
    free_text : bool
        Use the free text of task 2 to enroll voices.
    tests : mapping, optional
        File id -> recording that replaces the test recording of the challenge.
    context : RunContext, optional
        Cache, processes and progress.

    Raises
    ------
    InputError
        If the system is for another task, or its encoder has changed.
    """
    if system.task != (challenge.task or system.task):
        raise InputError(
            f"the system is for task {system.task}, the challenge is of task {challenge.task}",
            where=challenge.root,
            fix="train a system on data of this task",
        )
    part = challenge.subset(subset)
    claimed = {trial.model for trial in part.trials}
    models = {key: model for key, model in part.models.items() if key in claimed}
    if not free_text or system.fusion_free is None:
        models = {key: replace(model, free_text=()) for key, model in models.items()}
    network = encoder_of(system.encoder)
    network.check()
    if network.fingerprint() != system.fingerprint:
        raise InputError(
            f"the encoder {system.encoder} is not the one that the system was trained with",
            fix="train the system again",
        )
    files = {file for model in models.values() for file in model.files}
    free = {file for model in models.values() for file in model.free_text}
    enrolled = [u for u in challenge.enrollment(subset) if u.id in files]
    tested = list(challenge.tests(subset))
    if tests is not None:
        tested = [replace(u, path=tests[u.id]) for u in tested]

    def measured(utterances: list[Utterance]) -> Mapping[str, RecordingFeatures]:
        return extract_features(utterances, network, system.content, voice_only=free, context=context)

    return score_trials(system, models, part.trials, measured(enrolled), measured(tested))


def score_trials(
    system: System,
    models: Mapping[str, TdsvModel],
    trials: Iterable[Trial],
    enrollment: Mapping[str, RecordingFeatures],
    tests: Mapping[str, RecordingFeatures],
) -> TrialScores:
    """Return the scores of trials from the features of recordings; each model and test is processed once."""
    listed = list(trials)
    enrolled = {
        key: system.enroll(
            [enrollment[file] for file in models[key].passphrase],
            [enrollment[file] for file in models[key].free_text],
            models[key].phrase,
        )
        for key in dict.fromkeys(trial.model for trial in listed)
    }
    analyzed = {file: system.analyze(tests[file]) for file in dict.fromkeys(trial.test for trial in listed)}
    rows = [system.score(enrolled[trial.model], analyzed[trial.test]) for trial in listed]
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return TrialScores(table[:, 0], table[:, 1], table[:, 2])


def anonymized_tests(
    tests: Corpus,
    system: str,
    folder: str | Path,
    *,
    seed: int | None = None,
    overwrite: bool = False,
    context: RunContext | None = None,
) -> dict[str, Path]:
    """Anonymize test recordings, each with a pseudo-speaker of its own; return file id -> recording.

    An interrupted run goes on where it stopped, if a seed is given.

    Parameters
    ----------
    tests : Corpus
        See :meth:`~voiceveil.tdsv.challenge.Challenge.test_corpus`.
    system : str
        Anonymization system.
    folder : path
        Output folder.
    seed, overwrite
        See :func:`voiceveil.anonymize`.
    context : RunContext, optional
        Processes, device and progress.

    Raises
    ------
    InputError
        If a recording cannot be anonymized.
    """
    run = context or RunContext()
    summary = anonymize(
        tests,
        folder,
        system=system,
        level="utterance",
        seed=seed,
        overwrite=overwrite,
        jobs=run.jobs,
        device=run.device,
        quiet=not run.progress,
    )
    if summary.failures:
        first = summary.failures[0]
        raise InputError(f"{len(summary.failures)} recordings failed, e.g. {first.id}: {first.error}", where=folder)
    paths = {u.id: summary.output / f"{u.id}.wav" for u in tests}
    missing = [path for path in paths.values() if not path.is_file()]
    if missing:
        raise InputError("no such anonymized recording", where=missing[0])
    return paths
