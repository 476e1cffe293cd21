"""The plan of an evaluation: its steps, how much of them is cached, time and disk space. Nothing is written.

Conventions: audio in seconds; a pace is processor seconds for a second of audio. A step is one model (or the
anonymization) on all the audio that it processes, as the tasks declare it; audio that two tasks share is counted once.
Sets with very many utterances are sampled, and the plan says that its figures are approximate.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voiceveil.attack.attacker import ModelWork, SpeechPart
from voiceveil.attack.sets import Side
from voiceveil.attack.work_estimate import PACES
from voiceveil.audio import info
from voiceveil.corpus import Utterance
from voiceveil.evaluation.evaluate import Evaluation
from voiceveil.evaluation.tasks import TaskSetup, available_tasks
from voiceveil.run.cache import Cache, result_key
from voiceveil.run.extract import Evaluator
from voiceveil.run.ledger import changed_settings, finished_items
from voiceveil.systems.jobs import digest_secret, source_digest
from voiceveil.systems.settings import RunOptions, make_settings

__all__ = ["Plan", "PlanStep", "make_plan"]

#: Sets of more than `_MANY` utterances are represented by a sample of `_SAMPLE`.
_MANY, _SAMPLE = 5000, 1000
#: Number of audio files of a set whose headers are read; the lengths of others are estimated from their sizes.
_HEADERS = 40
#: Processor seconds for a second of audio (by `benchmarks/pace.py`), if the cache has none of an earlier run.
_PACES = {
    **PACES,
    "b2": 0.008,
    "b2-2020": 0.008,
    "b2-2022": 0.008,
    "d1": 0.008,
    "identity": 0.004,
    "PocketSphinx": 0.3,
    "DNSMOS": 0.3,
    "Functionals": 0.033,
    "Autocorrelation": 0.02,
}


@dataclass(frozen=True)
class PlanStep:
    """A model on audio.

    Parameters
    ----------
    name : str
        The model, or ``anonymize``.
    utterances, cached : int
        All utterances, and those whose result is known.
    audio : float
        Seconds of audio that are left to do.
    pace : float, optional
        Processor seconds for a second of audio; None if it was never measured.
    again : str
        Why earlier results do not count any more.
    """

    name: str
    utterances: int
    cached: int
    audio: float
    pace: float | None
    again: str = ""

    @property
    def left(self) -> int:
        """Number of utterances that are not cached."""
        return self.utterances - self.cached

    @property
    def seconds(self) -> float | None:
        """Processor seconds that the step will take; None if the pace was never measured."""
        return None if self.pace is None and self.left else self.audio * (self.pace or 0.0)


@dataclass(frozen=True)
class Plan:
    """The steps of an evaluation, and its disk space.

    Parameters
    ----------
    steps : tuple of Step
        In the order in which they run.
    disk, free : float
        Bytes that the anonymized speech will take, and bytes that are free.
    sampled : bool
        True if the figures are approximate.
    """

    steps: tuple[PlanStep, ...]
    disk: float
    free: float
    sampled: bool

    def seconds(self, jobs: int) -> float:
        """Return the wall-clock time in seconds, without steps whose pace is unknown."""
        return sum(step.seconds or 0.0 for step in self.steps) / jobs

    @property
    def unknown(self) -> tuple[str, ...]:
        """Steps that were never timed."""
        return tuple(step.name for step in self.steps if step.seconds is None)


def make_plan(evaluation: Evaluation) -> Plan:
    """Return the work that :func:`~voiceveil.evaluation.evaluate.evaluate` would do, from data, ledgers and cache."""
    cache = Cache(evaluation.settings.cache_file(evaluation.out), readonly=True)
    try:
        lookup = _Lookup(evaluation, cache)
        steps = [lookup.anonymization()] if evaluation.system is not None else []
        steps += [lookup.step(work) for work in _work(evaluation.task_setup(), cache)]
    finally:
        cache.close()
    rate = evaluation.system.rate if evaluation.system else 0
    out = evaluation.out.absolute()
    folder = next(parent for parent in (out, *out.parents) if parent.exists())
    disk = 2.0 * rate * steps[0].audio if steps and evaluation.system else 0.0  # 16 bits a sample
    return Plan(tuple(steps), disk, float(shutil.disk_usage(folder).free), lookup.sampled)


def _work(setup: TaskSetup, cache: Cache) -> list[ModelWork]:
    """Return each model once, with all that the tasks will run it on."""
    titles: dict[str, list[str]] = {}
    models: dict[str, tuple[Evaluator[Any], list[SpeechPart]]] = {}
    for task in available_tasks(setup):
        for work in task.work(setup, cache):
            key = work.evaluator.fingerprint()
            models.setdefault(key, (work.evaluator, []))[1].extend(work.parts)
            if work.title not in titles.setdefault(key, []):
                titles[key].append(work.title)
    return [ModelWork(", ".join(titles[key]), model, parts) for key, (model, parts) in models.items()]


@dataclass
class _Lookup:
    """Looks up ledgers, cache and files, and remembers the answers."""

    evaluation: Evaluation
    cache: Cache
    sampled: bool = False
    finished: dict[str, dict[str, str]] = field(default_factory=dict)  # set -> id -> sha256 of anonymized speech
    digests: dict[Path, str] = field(default_factory=dict)
    sizes: dict[Path, int] = field(default_factory=dict)
    seconds_per_byte: dict[str, float] = field(default_factory=dict)  # of a set

    def sample(self, ids: Sequence[str]) -> Sequence[str]:
        """Return all ids, or a random sample of them if they are many."""
        if len(ids) <= _MANY:
            return ids
        self.sampled = True
        return random.Random(0).sample(ids, _SAMPLE)  # at random, not every n-th: corpora are often periodic

    def anonymization(self) -> PlanStep:
        """Return the step of the anonymization, from the ledgers of the sets; keep the hashes of finished speech."""
        evaluation, system = self.evaluation, self.evaluation.system
        assert system is not None  # noqa: S101 -- asked by make_plan
        counts, audio, again = [0.0, 0.0], 0.0, ""
        chosen = evaluation.settings
        for name, corpus in evaluation.inventory.corpora.items():
            options = RunOptions(
                level=evaluation.inventory.level(name),
                seed=chosen.seed,
                key_file=chosen.options.key_file,
                key_namespace=chosen.key_namespace,
                role=evaluation.inventory.draw_role(name),
            )
            settings = make_settings(system, options).with_formats(like_input=False)
            ledger = evaluation.out / "data" / f"{name}{evaluation.suffix}" / ".voiceveil" / "ledger.jsonl"
            again = again or changed_settings(ledger, settings.record(), settings.renamed)
            secret = digest_secret(settings, ledger, make=False)
            items = finished_items(ledger, settings.record(), settings.renamed)
            ids = self.sample([u.id for u in corpus])
            finished = {}
            for utterance in (corpus[id] for id in ids if id in items):
                item = items[utterance.id]
                content = self.digest(utterance.path)
                if item.source == source_digest(secret, content, utterance) and (ledger.parent / item.file).is_file():
                    finished[utterance.id] = item.sha256
            self.finished[name] = finished
            scale = len(corpus) / max(len(ids), 1)
            counts[0] += len(corpus)
            counts[1] += len(finished) * scale
            audio += scale * sum(self.length(name, corpus[id]) for id in ids if id not in finished)
        pace = self.cache.pace(f"system {system.name}") or _PACES.get(system.name)
        return PlanStep("anonymize", round(counts[0]), round(counts[1]), audio, pace, again)

    def step(self, work: ModelWork) -> PlanStep:
        """Return the step of a model, with the number of its results that the cache has."""
        fingerprint = work.evaluator.fingerprint()
        is_empty = self.cache.empty()  # then no recording need be read
        total, cached, audio = 0.0, 0.0, 0.0
        wanted: dict[tuple[str, Side], dict[str, None]] = {}
        for set_name, side, ids in work.parts:
            wanted.setdefault((set_name, side), {}).update(dict.fromkeys(ids))
        for (set_name, side), all_ids in wanted.items():
            corpus = self.evaluation.inventory.corpora[set_name]
            ids = self.sample(list(all_ids))
            scale = len(all_ids) / max(len(ids), 1)
            for id in ids:
                key = None if is_empty else self.key(fingerprint, set_name, side, corpus[id])
                if key is not None and self.cache.has(key):
                    cached += scale
                else:
                    audio += scale * self.length(set_name, corpus[id])
            total += len(all_ids)
        pace = self.cache.pace(fingerprint) or _PACES.get(type(work.evaluator).__name__)
        return PlanStep(work.title, round(total), round(cached), audio, pace)

    def key(self, fingerprint: str, name: str, side: str, utterance: Utterance) -> bytes | None:
        """Return the key of a result in the cache; None if the audio is not there yet."""
        if side == "o":
            return result_key(fingerprint, self.digest(utterance.path), utterance.start, utterance.duration)
        given = self.evaluation.given.get(name)
        finished = self.finished.get(name, {})
        sha256 = finished.get(utterance.id) if given is None else self.digest(given[utterance.id].path)
        return None if sha256 is None else result_key(fingerprint, sha256, 0.0, None)

    def digest(self, path: Path) -> str:
        """Return the sha256 of a file."""
        if path not in self.digests:
            self.digests[path] = self.cache.digest(path)
        return self.digests[path]

    def length(self, name: str, utterance: Utterance) -> float:
        """Return seconds of audio: as the corpus states, or estimated from the size of the file."""
        if utterance.length is not None:
            return utterance.length
        if name not in self.seconds_per_byte:
            paths = [u.path for u in self.evaluation.inventory.corpora[name]]
            some = paths[:: max(1, len(paths) // _HEADERS)]
            total = sum(info(path).duration for path in some)
            self.seconds_per_byte[name] = total / max(1, sum(path.stat().st_size for path in some))
        if utterance.path not in self.sizes:
            self.sizes[utterance.path] = utterance.path.stat().st_size
        return self.seconds_per_byte[name] * self.sizes[utterance.path]
