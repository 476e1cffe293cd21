"""Evaluate an anonymization system under a protocol: anonymize, run all tasks, write the results.

Each long step keeps its own results (the ledger of the anonymization, the cache of the models): a second run computes
only what is new, and a killed one continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from voiceveil.attack.checks import check_audio
from voiceveil.core.atomic_files import remove_parts
from voiceveil.core.checks import Check, merged
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus, write_kaldi
from voiceveil.evaluation.attackers import usable_attackers, why_unusable
from voiceveil.evaluation.details import Details, utterance_record, write_details
from voiceveil.evaluation.external_anonymization import find_anonymized
from voiceveil.evaluation.inventory import Inventory, take_inventory
from voiceveil.evaluation.provenance import provenance, started
from voiceveil.evaluation.resource_rules import resource_faults
from voiceveil.evaluation.result_files import recorded_evaluation
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.settings import EvaluationSettings
from voiceveil.evaluation.tasks import Task, TaskContext, TaskOptions, TaskResult, TaskSetup, available_tasks
from voiceveil.metrics import WordErrors
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.executor import executor_of
from voiceveil.run.outputs import refuse_corpora
from voiceveil.systems import Anonymizer, anonymize
from voiceveil.systems.keys import Key
from voiceveil.systems.speaker_embeddings import SpeakerEmbeddings, mean_speaker_embeddings

__all__ = [
    "DEFAULT_ATTACKERS",
    "Evaluation",
    "Outcome",
    "evaluate",
    "prepare",
]

#: Attackers that can attack any system.
DEFAULT_ATTACKERS = ("campplus", "campplus-adapted", "free")

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A checked evaluation: made by :func:`prepare`, run by :func:`evaluate`.

    Parameters
    ----------
    settings : EvaluationSettings
        Data, protocol, attackers and options.
    inventory : Inventory
        The sets of the protocol that the data have.
    out : Path
        Folder of the results.
    system : Anonymizer or None
        None if the data were anonymized elsewhere.
    suffix : str
        End of the anonymized sets' names.
    given : mapping
        Set -> speech that was anonymized elsewhere.
    """

    settings: EvaluationSettings
    inventory: Inventory
    out: Path
    system: Anonymizer | None
    suffix: str
    given: Mapping[str, Corpus] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the system, or the suffix of the data."""
        return self.system.name if self.system else self.suffix.strip("_")

    @property
    def attackers(self) -> tuple[str, ...]:
        """Attackers that are asked for: those of the settings, or those of any system and those made for this one."""
        if self.settings.attackers is not None:
            return tuple(self.settings.attackers)
        return (*DEFAULT_ATTACKERS, *(() if self.system is None else self.system.attackers))

    def task_setup(self) -> TaskSetup:
        """Return the setup of the tasks, with the attackers that the data allow."""
        usable = usable_attackers(self.attackers, self.inventory)
        chosen = self.settings.options
        options = TaskOptions(usable, self.settings.models, chosen.report, tuple(chosen.trial_utterances), chosen.mixed)
        return TaskSetup(self.inventory, self.settings.data, options)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results of an evaluation, and further data for official result files.

    Parameters
    ----------
    results : Results
        All figures.
    out, suffix : Path, str
        Folder of the results, and the end of the anonymized sets' names.
    word_errors : mapping
        (dataset, condition) -> errors of the first recognizer.
    trials : mapping
        Set -> its trial list.
    time : datetime
        When the evaluation was first started.
    """

    results: Results
    out: Path
    suffix: str
    word_errors: Mapping[tuple[str, str], WordErrors]
    trials: Mapping[str, Trials]
    time: datetime


#: Writes further files from an outcome; returns the results, with the files in their ``info``.
Export = Callable[[Outcome], Results]


def prepare(settings: EvaluationSettings, *, system: Anonymizer | None = None, anon: str | None = None) -> Evaluation:
    """Find and check the data; nothing is written.

    Parameters
    ----------
    settings : EvaluationSettings
        Data, protocol, output and options.
    system : Anonymizer, optional
        The system to evaluate. Give it, or ``anon``.
    anon : str, optional
        Suffix of sets in the data that were anonymized elsewhere.

    Raises
    ------
    InputError
        If data, protocol or options cannot be used.
    """
    if (system is None) == (anon is None):
        raise InputError(
            "one of a system and the suffix of anonymized data is needed", fix="--system b2, or --anon _b2"
        )
    if system is not None and not system.name:
        raise InputError(
            f"the system {type(system).__name__} has no name", fix='write @register("name") above its class'
        )
    options = settings.options
    inventory = take_inventory(settings.protocol, settings.data, train=options.train, emotion=options.emotion)
    given: Mapping[str, Corpus] = {}
    if system is None:
        given = find_anonymized(inventory.corpora, settings.data, anon or "")
    suffix = f"_{system.name}" if system is not None else anon or ""
    out = settings.results_folder(suffix.strip("_") if system is None else system.name)
    refuse_corpora(out, [*inventory.corpora.values(), *given.values()])
    evaluation = Evaluation(settings, inventory, out, system, suffix, given)
    setup = TaskSetup(inventory, settings.data, TaskOptions())
    for task in available_tasks(setup):
        task.check_data(setup)
    if not options.overwrite:
        _check_output(evaluation)
    return evaluation


def _check_output(evaluation: Evaluation) -> None:
    """Raise an ``InputError`` if the output holds the results of another system or protocol."""
    path = evaluation.out / "results.json"
    if not path.exists():
        return
    before = Results.load(path)
    now = (evaluation.name, evaluation.inventory.protocol.name)
    if (before.system, before.protocol) != now:
        problem = f"holds the results of {before.system} under {before.protocol}, not of {now[0]} under {now[1]}"
        raise InputError(problem, where=evaluation.out, fix="give another folder for the results, or --overwrite")


def evaluate(evaluation: Evaluation, *, exports: Sequence[Export] = ()) -> Results:
    """Run everything that the protocol asks for and the data allow; write ``results.json`` and the score files.

    Parameters
    ----------
    evaluation : Evaluation
        See :func:`prepare`.
    exports : sequence of callables
        Write further files, e.g. :func:`voiceveil.official.tree.write_tree`.

    Returns
    -------
    Results
        All figures, with notes, provenance and failed checks.

    Raises
    ------
    InputError
        If a model or an attacker cannot be used, or files are in the way.
    """
    settings, setup = evaluation.settings, evaluation.task_setup()
    tasks = available_tasks(setup)
    for task in tasks:
        task.check(setup)
    with _exclusive_cache(evaluation) as cache:
        time = started(evaluation.out)
        run = RunContext(cache, settings.jobs, settings.device, settings.options.progress)
        anonymized = _anonymize(evaluation, run)
        out = evaluation.out
        context = TaskContext(setup, anonymized, run, out, evaluation.suffix, anon_data=out / "data")
        measured = _run_tasks(tasks, context, settings.say)
        if settings.options.report:
            write_details(_details(measured, context), out)
        figures = tuple(figure for result in measured for figure in result.figures)
        checks = [check for result in measured for check in result.checks]
        checks += _check_other_sets(evaluation.inventory, anonymized, cache)
        info = _info(evaluation, tasks, context, measured) | {"time": time.isoformat()}
        results = Results(evaluation.name, settings.protocol.name, figures, info, merged(checks))
        for export in exports:
            results = export(_outcome(results, evaluation, measured, time))
        results.save(out / "results.json", overwrite=True)  # the folder's record decides
    return results


def _info(
    evaluation: Evaluation, tasks: Sequence[Task], context: TaskContext, measured: Sequence[TaskResult]
) -> dict[str, Any]:
    """Return notes, provenance and parameters of an evaluation, for its results."""
    settings, inventory, cache = evaluation.settings, evaluation.inventory, context.run.cache
    notes = [f"missing: {name}" for name in inventory.missing] + [*inventory.remarks, *inventory.differences]
    left_out = [name for name in evaluation.attackers if name not in context.setup.options.attackers]
    if evaluation.system is not None:
        notes += resource_faults(settings.protocol, evaluation.system)
    notes += [f"attacker {name} left out: {why_unusable(name, inventory)}" for name in left_out]
    return {
        "notes": [*notes, *(note for result in measured for note in result.notes)],
        **{key: value for result in measured for key, value in result.info.items()},
        **provenance(context, tasks, seed=settings.seed, has_key_file=settings.options.key_file is not None),
        "parameters": {} if evaluation.system is None else evaluation.system.parameters(),
        "suffix": evaluation.suffix,
        "given": evaluation.system is None,
        "real_time_factor": cache.pace(f"system {evaluation.name}"),
    }


def _run_tasks(tasks: Sequence[Task], context: TaskContext, say: Say) -> list[TaskResult]:
    results = []
    for task in tasks:
        say(task.progress(context.setup))
        results.append(task.run(context))
    return results


def _details(measured: Sequence[TaskResult], context: TaskContext) -> Details:
    """Return one table for each set that a task has columns for, and all similarity matrices."""
    tables = {}
    for name in dict.fromkeys(name for result in measured for name in result.columns):
        by_task = [result.columns.get(name, {}) for result in measured]
        tables[name] = tuple(
            utterance_record(
                original, anonymized, {k: v for rows in by_task for k, v in rows.get(original.id, {}).items()}
            )
            for original, anonymized in context.pairs(name)
        )
    return Details(tables, {name: matrices for result in measured for name, matrices in result.similarity.items()})


def _outcome(results: Results, evaluation: Evaluation, measured: Sequence[TaskResult], time: datetime) -> Outcome:
    corpora = evaluation.inventory.corpora
    trials = {name: corpus.trials for name, corpus in corpora.items() if corpus.trials is not None}
    word_errors = {key: errors for result in measured for key, errors in result.word_errors.items()}
    return Outcome(results, evaluation.out, evaluation.suffix, word_errors, trials, time)


def _check_other_sets(inventory: Inventory, anonymized: Mapping[str, Corpus], cache: Cache) -> Iterator[Check]:
    """Yield the failed checks of the audio of sets that no attack has checked: training, emotions, other words."""
    attacked = {entry.enroll for entry in inventory.verification} | {t.set for _, t in inventory.trial_sets()}
    for name, corpus in anonymized.items():
        if name not in attacked:
            originals = {u.id: u for u in inventory.corpora[name]}
            yield from check_audio({u.id: u for u in corpus}, originals, cache, where=name)


@contextmanager
def _exclusive_cache(evaluation: Evaluation) -> Iterator[Cache]:
    """Lock the output against other evaluations, and open the cache; only files of the program are replaced."""
    out = evaluation.out
    with recorded_evaluation(evaluation):
        remove_parts([out])
        remove_parts([out / name for name in ("scores", "details", "exp")], below=True)
        cache = Cache(evaluation.settings.cache_file(out))
        try:
            yield cache
        finally:
            cache.close()


def _anonymize(evaluation: Evaluation, run: RunContext) -> dict[str, Corpus]:
    """Return set -> anonymized corpus, all of them in ``out/data``; audio that was given stays where it is."""
    settings, inventory, system = evaluation.settings, evaluation.inventory, evaluation.system
    options, home = settings.options, evaluation.out / "data"
    for name, corpus in evaluation.given.items():
        write_kaldi(corpus, home / f"{name}{evaluation.suffix}", {u.id: u.path for u in corpus})
    key = Key.fresh()  # without a seed and a key file: one for all sets
    embeddings = {} if system is None else _speaker_embeddings(evaluation, system, run)
    for name in inventory.corpora if system is not None else ():
        settings.say(f"anonymizing {name}")
        role = inventory.draw_role(name)
        summary = anonymize(
            settings.data / name,
            home,
            system=system,
            jobs=run.jobs,
            device=run.device,
            level=inventory.level(name),
            seed=settings.seed,
            key_file=options.key_file,
            key_namespace=settings.key_namespace,
            key=key,
            suffix=evaluation.suffix,
            overwrite=options.overwrite or "changed",
            feature_cache=options.feature_cache,
            role=role,
            speaker_embeddings=embeddings.get(role or ""),
            quiet=not run.progress,
        )
        seconds = summary.seconds * executor_of(run.jobs).workers
        run.cache.note_pace(f"system {evaluation.name}", summary.audio_seconds, seconds)
        if summary.failures:
            first = summary.failures[0]
            raise InputError(f"{len(summary.failures)} utterances of {name} could not be anonymized: {first.error}")
    return {name: open_corpus(home / f"{name}{evaluation.suffix}") for name in inventory.corpora}


def _speaker_embeddings(
    evaluation: Evaluation, system: Anonymizer, run: RunContext
) -> dict[str, Callable[[], SpeakerEmbeddings]]:
    """Return role -> function that computes the mean embedding of each speaker over all sets of that role, once."""
    inventory, options = evaluation.inventory, evaluation.settings.options
    by_role: dict[str, dict[str, Utterance]] = {}
    for name, corpus in inventory.corpora.items():
        if role := inventory.draw_role(name):
            by_role.setdefault(role, {}).update(corpus.by_id)

    def mean(role: str) -> SpeakerEmbeddings:
        evaluation.settings.say(f"computing the mean speaker embeddings of the {role} sets")
        spoken = Corpus(role, tuple(by_role[role].values()))
        features = None if options.feature_cache is None else Path(options.feature_cache)
        return mean_speaker_embeddings(
            spoken, system.for_level("speaker"), run.jobs, folder=evaluation.out, features=features
        )

    return {role: cache(partial(mean, role)) for role in by_role}
