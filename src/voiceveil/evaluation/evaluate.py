"""Evaluate an anonymization system under a protocol: anonymize, run all tasks, write the results.

Each long step keeps its own results (the ledger of the anonymization, the cache of the models): a second run computes
only what is new, and a killed one continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from voiceveil.attack.checks import check_audio
from voiceveil.core.atomic_files import remove_parts
from voiceveil.core.checks import Check, merged
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, open_corpus, write_kaldi
from voiceveil.evaluation.attackers import usable_attackers, why_unusable
from voiceveil.evaluation.details import Details, utterance_record, write_details
from voiceveil.evaluation.external_anonymization import find_anonymized
from voiceveil.evaluation.inventory import Inventory, take_inventory
from voiceveil.evaluation.protocol import Protocol, load_protocol
from voiceveil.evaluation.provenance import provenance, started
from voiceveil.evaluation.result_files import recorded_evaluation
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.tasks import Task, TaskContext, TaskOptions, TaskResult, TaskSetup, available_tasks
from voiceveil.metrics import WordErrors
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.executor import Jobs, executor_of
from voiceveil.run.outputs import refuse_corpora
from voiceveil.systems import Anonymizer, anonymize
from voiceveil.systems.keys import Key

__all__ = [
    "DEFAULT_ATTACKERS",
    "Evaluation",
    "Outcome",
    "default_attackers",
    "evaluate",
    "prepare",
    "task_setup",
]

#: Attackers that can attack any system.
DEFAULT_ATTACKERS = ("campplus", "campplus-adapted", "free")

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A checked evaluation: made by :func:`prepare`, run by :func:`evaluate`."""

    inventory: Inventory
    data: Path
    out: Path
    system: Anonymizer | None  # None: the data were anonymized elsewhere
    suffix: str
    anon_data: Path
    given: Mapping[str, Corpus] = field(default_factory=dict)  # set -> speech that was anonymized elsewhere
    overwrite: bool = False  # start again, and replace files in the output that the program did not write
    feature_cache: Path | None = None  # see `voiceveil.systems.feature_cache`

    @property
    def name(self) -> str:
        """Name of the system, or the suffix of the data."""
        return self.system.name if self.system else self.suffix.strip("_")


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results of an evaluation and what official result files need besides.

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


def prepare(
    data: str | Path,
    out: str | Path,
    *,
    protocol: str | Path | Protocol = "vpc2024",
    system: Anonymizer | None = None,
    anon: str | None = None,
    train: Sequence[str] = (),
    emotion: Sequence[str] = (),
    overwrite: bool = False,
) -> Evaluation:
    """Find and check the data; nothing is written.

    Parameters
    ----------
    data : path
        Folder of Kaldi directories, named as in the protocol.
    out : path
        Folder for all results; it may neither be, hold nor lie in the data.
    protocol : str, path or Protocol
        A name such as ``vpc2024``, a TOML file, or a protocol.
    system : Anonymizer, optional
        The system to evaluate. Give it, or ``anon``.
    anon : str, optional
        Suffix of sets in ``data`` that were anonymized elsewhere.
    train, emotion : sequence of str
        Sets to use instead of the training and the emotion sets of the protocol.
    overwrite : bool
        Start again where another evaluation left its results, and replace files that are in the way.

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
        what = f"the system {type(system).__name__} has no name"
        raise InputError(what, fix='write @register("name") above its class')
    declared = protocol if isinstance(protocol, Protocol) else load_protocol(protocol)
    inventory = take_inventory(declared, Path(data), train=train, emotion=emotion)
    given: Mapping[str, Corpus] = {}
    if system is None:
        given = find_anonymized(inventory.corpora, Path(data), anon or "")
    suffix, anon_data = (anon or "", Path(data)) if system is None else (f"_{system.name}", Path(out) / "data")
    refuse_corpora(Path(out), [*inventory.corpora.values(), *given.values()])
    evaluation = Evaluation(inventory, Path(data), Path(out), system, suffix, anon_data, given, overwrite)
    setup = TaskSetup(inventory, Path(data), TaskOptions())
    for task in available_tasks(setup):
        task.check_data(setup)
    if not overwrite:
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
        what = f"holds the results of {before.system} under {before.protocol}, not of {now[0]} under {now[1]}"
        raise InputError(what, where=evaluation.out, fix="give another folder for the results, or --overwrite")


def evaluate(
    evaluation: Evaluation,
    *,
    attackers: Sequence[str] | None = None,
    recognizers: Sequence[str] = ("moonshine",),
    emotion_models: Sequence[str] = ("functionals",),
    jobs: Jobs = 1,
    seed: int | None = None,
    key_file: str | Path | None = None,
    key_namespace: str | None = None,
    cache_file: Path | None = None,
    details: bool = True,
    exports: Sequence[Export] = (),
    quiet: bool = True,
    say: Say = lambda line: None,
) -> Results:
    """Run everything that the protocol asks for and the data allow; write ``results.json`` and the score files.

    Parameters
    ----------
    evaluation : Evaluation
        See :func:`prepare`.
    attackers : sequence of str, optional
        See :mod:`voiceveil.attack.registry` (default: :func:`default_attackers`). Attackers that need training speech
        are left out if there is none.
    recognizers, emotion_models : sequence of str
        Models that recognize words and emotions. The first ones count in rankings and official files.
    jobs : int or Executor
        Processes.
    seed, key_file, key_namespace
        See :func:`voiceveil.systems.anonymize`.
    cache_file : path, optional
        Keeps the models' results (default: ``cache.sqlite`` in the output); several systems may share one.
    details : bool
        Keep the details that a report shows, see :mod:`voiceveil.evaluation.details`.
    exports : sequence of callables
        Write further files, e.g. :func:`voiceveil.official.tree.write_tree`.
    quiet : bool
        Show no progress bars.
    say : callable
        Called with a line for each step.
    """
    wanted = default_attackers(evaluation) if attackers is None else tuple(attackers)
    setup = task_setup(evaluation, wanted, recognizers, emotion_models, details=details)
    inventory = evaluation.inventory
    notes = [f"missing: {name}" for name in inventory.missing] + [*inventory.remarks, *inventory.differences]
    left_out = {name: why_unusable(name, inventory) for name in wanted if name not in setup.options.attackers}
    notes += [f"attacker {name} left out: {reason}" for name, reason in left_out.items()]
    tasks = available_tasks(setup)
    for task in tasks:
        task.check(setup)
    with _exclusive_cache(evaluation, cache_file) as cache:
        time = started(evaluation.out)
        namespace = key_namespace_of(evaluation, key_file, key_namespace)
        # Without a seed and a key file, one fresh key for all sets.
        key = {"seed": seed, "key_file": key_file, "key_namespace": namespace, "key": Key.fresh()}
        anonymized = _anonymize(evaluation, cache, key, jobs=jobs, quiet=quiet, say=say)
        out = evaluation.out
        run = RunContext(cache, jobs, progress=not quiet)
        context = TaskContext(setup, anonymized, run, out, evaluation.suffix, anon_data=out / "data")
        measured = _run_tasks(tasks, context, say)
        if details:
            write_details(_details(measured, context), evaluation.out)
        info = {
            "notes": [*notes, *(note for result in measured for note in result.notes)],
            **{key: value for result in measured for key, value in result.info.items()},
            **provenance(setup, tasks, anonymized, cache, seed=seed, has_key_file=key_file is not None),
            "parameters": {} if evaluation.system is None else evaluation.system.parameters(),
            "suffix": evaluation.suffix,
            "given": evaluation.system is None,
            "real_time_factor": cache.pace(f"system {evaluation.name}"),
            "time": time.isoformat(),
        }
        figures = tuple(figure for result in measured for figure in result.figures)
        checks = [check for result in measured for check in result.checks]
        checks += _check_other_sets(inventory, anonymized, cache)
        results = Results(evaluation.name, inventory.protocol.name, figures, info, merged(checks))
        for export in exports:
            results = export(_outcome(results, evaluation, measured, time))
        results.save(evaluation.out / "results.json", overwrite=True)  # the folder's record decides
    return results


def task_setup(
    evaluation: Evaluation,
    attackers: Sequence[str],
    recognizers: Sequence[str],
    emotion_models: Sequence[str],
    *,
    details: bool = True,
) -> TaskSetup:
    """Return the setup of the tasks, with the attackers that the data allow."""
    usable = usable_attackers(attackers, evaluation.inventory)
    options = TaskOptions(usable, tuple(recognizers), tuple(emotion_models), details)
    return TaskSetup(evaluation.inventory, evaluation.data, options)


def default_attackers(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the attackers to use if none are named: those of any system, and those made for this one."""
    return (*DEFAULT_ATTACKERS, *(() if evaluation.system is None else evaluation.system.attackers))


def key_namespace_of(evaluation: Evaluation, key_file: str | Path | None, given: str | None) -> str | None:
    """Return the one key namespace of all sets: a speaker of several sets is one pseudo-speaker in each role.

    It is the name of the data folder unless it is ``given``, and None if there is no key file.
    """
    return evaluation.data.resolve().name if key_file is not None and given is None else given


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
def _exclusive_cache(evaluation: Evaluation, cache_file: Path | None) -> Iterator[Cache]:
    """Lock the output against other evaluations, and open the cache; only files of the program are replaced."""
    out = evaluation.out
    with recorded_evaluation(evaluation):
        remove_parts([out])
        remove_parts([out / name for name in ("scores", "details", "exp")], below=True)
        cache = Cache(out / "cache.sqlite" if cache_file is None else cache_file)
        try:
            yield cache
        finally:
            cache.close()


def _anonymize(
    evaluation: Evaluation, cache: Cache, key: dict[str, Any], *, jobs: Jobs, quiet: bool, say: Say
) -> dict[str, Corpus]:
    """Return set -> anonymized corpus, all of them in ``out/data``; audio that was given stays where it is."""
    inventory, system = evaluation.inventory, evaluation.system
    home = evaluation.out / "data"
    for name, corpus in evaluation.given.items():
        write_kaldi(corpus, home / f"{name}{evaluation.suffix}", {u.id: u.path for u in corpus})
    for name in inventory.corpora if system is not None else ():
        say(f"anonymizing {name}")
        summary = anonymize(
            evaluation.data / name,
            home,
            system=system or "",
            level="speaker" if inventory.level(name) == "speaker" else "utterance",
            jobs=jobs,
            **key,
            suffix=evaluation.suffix,
            overwrite=evaluation.overwrite or "changed",
            feature_cache=evaluation.feature_cache,
            quiet=quiet,
        )
        seconds = summary.seconds * executor_of(jobs).workers
        cache.note_pace(f"system {evaluation.name}", summary.audio_seconds, seconds)
        if summary.failures:
            first = summary.failures[0]
            raise InputError(f"{len(summary.failures)} utterances of {name} could not be anonymized: {first.error}")
    return {name: open_corpus(home / f"{name}{evaluation.suffix}") for name in inventory.corpora}
