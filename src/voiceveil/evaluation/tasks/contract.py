"""The contract of evaluation tasks: one class for each thing that is measured.

A task says when it runs, which models it will run on which speech, runs them, and says how its figures are shown. The
runner, the plan, the provenance, the details and the report ask all tasks in turn, and have no lists of their own. A
new measure is one new module of this package, or a class of a third party's package (entry point
``voiceveil.tasks``)::

    @tasks.register("loudness")
    class Loudness(Task): ...

Conventions: see :mod:`voiceveil.evaluation.results`. Everything that processes audio goes through the cache of the
:class:`~voiceveil.run.context.RunContext`.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from voiceveil.attack.attacker import ModelWork, SpeechPart
from voiceveil.attack.sets import SIDES, Side
from voiceveil.core.checks import Check
from voiceveil.core.registry import Registry
from voiceveil.corpus import Corpus, Utterance
from voiceveil.evaluation.details import Column, Similarity
from voiceveil.evaluation.inventory import Inventory
from voiceveil.evaluation.model_choice import ModelChoice
from voiceveil.evaluation.protocol import Recognition, Verification
from voiceveil.evaluation.results import Figure, Results
from voiceveil.metrics import WordErrors
from voiceveil.metrics.catalog import METRICS, MetricInfo
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.stats import Estimate

__all__ = [
    "CONDITIONS",
    "Cell",
    "Section",
    "SectionTable",
    "Task",
    "TaskContext",
    "TaskOptions",
    "TaskResult",
    "TaskSetup",
    "all_tasks",
    "available_tasks",
    "both_sides",
    "figure",
    "place",
    "recognition_parts",
    "tasks",
]

#: The two conditions of a corpus alone, and what a reader calls them.
CONDITIONS = {"o": "original", "a": "anonymized"}


@dataclass(frozen=True)
class TaskOptions:
    """Attackers and models that the user has chosen.

    Parameters
    ----------
    attackers : tuple of str
        Names of attackers that the data allow; see :mod:`voiceveil.attack.registry`.
    models : ModelChoice
        Recognizers, pitch tracker and so on.
    details : bool
        Also measure what only a report shows.
    trial_utterances, mixed
        Trials beside those of the lists, see :class:`~voiceveil.attack.pipeline.AttackOptions`.
    """

    attackers: tuple[str, ...] = ()
    models: ModelChoice = field(default_factory=ModelChoice)
    details: bool = True
    trial_utterances: tuple[int, ...] = (1,)
    mixed: bool = False


@dataclass(frozen=True, eq=False)
class TaskSetup:
    """The sets of an evaluation, the folder ``data`` that holds them, and the options: known before the work begins."""

    inventory: Inventory
    data: Path
    options: TaskOptions

    def requests(self, metrics: Iterable[str]) -> bool:
        """Return True if the protocol asks for one of the metrics."""
        return bool(set(metrics) & set(self.inventory.protocol.metrics))


@dataclass(frozen=True, eq=False)
class TaskContext:
    """Setup, anonymized speech, cache and folders of a running task.

    Parameters
    ----------
    setup : TaskSetup
        Sets and options.
    anonymized : mapping
        Name of a set -> its anonymized speech, with the utterance ids of the original.
    run : RunContext
        Cache and processes.
    out : Path
        Folder of the results.
    suffix : str
        End of the anonymized sets' names, e.g. ``_b2``.
    anon_data : Path
        Folder of the anonymized sets.
    """

    setup: TaskSetup
    anonymized: Mapping[str, Corpus]
    run: RunContext
    out: Path
    suffix: str
    anon_data: Path

    @property
    def inventory(self) -> Inventory:
        """The sets of the protocol that are there."""
        return self.setup.inventory

    def speech(self, condition: str) -> Mapping[str, Corpus]:
        """Return name -> corpus: the original sets for the condition ``o``, the anonymized ones for ``a``."""
        return self.anonymized if condition == "a" else self.inventory.corpora

    def recognition_speech(self, entry: Recognition, condition: str) -> dict[str, list[Utterance]]:
        """Return set -> utterances of a recognition entry: all, or the sample that the protocol asks for."""
        return {
            name: [self.speech(condition)[name][id] for id in self.inventory.recognition_ids(entry, name)]
            for name in entry.sets
        }

    def pairs(self, name: str, utterances: Iterable[Utterance] | None = None) -> list[tuple[Utterance, Utterance]]:
        """Return (original, anonymized) of all utterances of a set, or of some of its original utterances."""
        original = self.inventory.corpora[name] if utterances is None else utterances
        return [(utterance, self.anonymized[name][utterance.id]) for utterance in original]


@dataclass(frozen=True)
class TaskResult:
    """Figures and details that a task has measured.

    Parameters
    ----------
    figures : sequence of Figure
        What goes into ``results.json``.
    notes : sequence of str
        Remarks for the reader of the results.
    columns : mapping
        Set -> utterance id -> column -> value: for the tables of details; the columns are those of the task.
    similarity : mapping
        Set -> voice similarity matrices.
    info : mapping
        Further entries of the results' ``info``.
    checks : sequence of Check
        Checks that failed.
    word_errors : mapping
        (dataset, condition) -> errors by the first recognizer, for official files.
    """

    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    columns: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    similarity: Mapping[str, Similarity] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    checks: Sequence[Check] = ()
    word_errors: Mapping[tuple[str, str], WordErrors] = field(default_factory=dict)


Cell = str | int | Figure | Estimate


@dataclass(frozen=True)
class SectionTable:
    """A table of a report: a cell is text, a count, or a figure or estimate, shown with its unit and interval."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""


@dataclass(frozen=True)
class Section:
    """The part of a report that shows a task.

    Parameters
    ----------
    name, title : str
        Anchor and heading.
    table : Table
        The figures.
    text, note : str
        Sentences above and below the table.
    missing : str
        Why there is nothing to show; "" if there is.
    """

    name: str
    title: str
    table: SectionTable
    text: str = ""
    note: str = ""
    missing: str = ""


class Task(ABC):
    """Base class of tasks. See the module for how to add one."""

    name: ClassVar[str] = ""  # given by the registry
    #: Metrics of a protocol that ask for the task.
    metrics: ClassVar[tuple[str, ...]] = ()
    #: Metrics that the catalog (:mod:`voiceveil.metrics.catalog`) does not have yet: registered with the task.
    own_metrics: ClassVar[tuple[MetricInfo, ...]] = ()
    #: Place among the tasks in results and reports.
    order: ClassVar[int] = 100
    #: Columns that it adds to the tables of details.
    columns: ClassVar[tuple[Column, ...]] = ()

    @abstractmethod
    def available(self, setup: TaskSetup) -> bool:
        """Return True if the protocol asks for the task and the data have what it needs."""

    def check_data(self, setup: TaskSetup) -> None:  # noqa: B027 -- most tasks need no more than `available` says
        """Raise an ``InputError`` if the original data cannot be used; called before models are looked for."""

    def check(self, setup: TaskSetup) -> None:  # noqa: B027
        """Raise an ``InputError`` if models or options cannot be used; called before any work begins."""

    @abstractmethod
    def progress(self, setup: TaskSetup) -> str:
        """Return the line that says that the task runs, e.g. ``recognizing words: moonshine``."""

    @abstractmethod
    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield the models that ``run`` will run, and the speech that each processes.

        Parameters
        ----------
        setup : TaskSetup
            Sets and options.
        cache : Cache
            Results of earlier runs, on which a model may depend.
        """

    def models(self, setup: TaskSetup) -> dict[str, str]:
        """Return the names and fingerprints of the models, for the provenance of the results."""
        return {work.title: work.evaluator.fingerprint() for work in self.work(setup, Cache(None))}

    @abstractmethod
    def run(self, context: TaskContext) -> TaskResult:
        """Run the models, and measure."""

    @abstractmethod
    def section(self, results: Results) -> Section | None:
        """Return how the figures of some results are shown; None if a report need not mention the task."""


class _Tasks(Registry[type[Task]]):
    """The registry; a registered class gets its name, and its own metrics become known."""

    def register(self, name: str):  # type: ignore[no-untyped-def]
        """Return a decorator that adds a class under a name."""
        add = super().register(name)

        def named(task: type[Task]) -> type[Task]:
            task.name = name
            METRICS.update({info.name: info for info in task.own_metrics})
            return add(task)

        return named


def _modules() -> tuple[str, ...]:
    """Return the names of the modules of this package."""
    package = __name__.rpartition(".")[0]
    modules = pkgutil.iter_modules([str(Path(__file__).parent)], f"{package}.")
    return tuple(module.name for module in modules if module.name != __name__)


#: Name -> class of each task.
tasks = _Tasks("evaluation task", group="voiceveil.tasks", modules=_modules())


def all_tasks() -> list[Task]:
    """Return all tasks, in the order in which they run and are shown."""
    instances = [tasks[name]() for name in tasks]
    return sorted(instances, key=lambda task: (task.order, task.name))


def available_tasks(setup: TaskSetup) -> list[Task]:
    """Return the tasks that the protocol asks for and the data allow."""
    return [task for task in all_tasks() if task.available(setup)]


def figure(metric: str, value: Estimate, place: Mapping[str, Any], detail: Mapping[str, Any] | None = None) -> Figure:
    """Return an estimate as a figure; ``place`` holds its other fields: dataset, split, condition and so on."""
    return Figure(metric, value.value, low=value.low, high=value.high, detail=detail or {}, **place)


def place(entry: Verification, gender: str, **fields: str | int) -> dict[str, Any]:
    """Return the fields of a figure that was measured on a trial set; ``fields`` are further ones."""
    return {"dataset": entry.dataset, "split": entry.split, "subset": entry.subset, "gender": gender, **fields}


def recognition_parts(inventory: Inventory, sides: Sequence[Side] = SIDES) -> list[SpeechPart]:
    """Return the original and the anonymized speech, or that of some ``sides``, whose words are recognized."""
    ids = {name: inventory.recognition_ids(entry, name) for entry in inventory.recognition for name in entry.sets}
    return [SpeechPart(name, side, ids[name]) for name in ids for side in sides]


def both_sides(corpora: Mapping[str, Corpus], names: Iterable[str]) -> Iterator[SpeechPart]:
    """Yield the original and the anonymized speech of some sets."""
    for name in dict.fromkeys(names):
        for side in SIDES:
            yield SpeechPart(name, side, [u.id for u in corpora[name]])
