"""Apply a model to every utterance of a corpus: embeddings, transcripts, pitch, ratings.

The model is an :class:`Evaluator`: a small picklable object that loads its weights when it is first called in a
process. Workers share its module, and those that it names in ``preload`` (if it has one): they are imported once.
On a graphics card a :class:`BatchEvaluator` takes several utterances at once; on a processor, where that is no faster,
each utterance is taken by itself. Results come from the cache where they are known, and go into it as they are made, so
that a killed run goes on where it stopped. Workers on other machines leave their results as files beside the cache,
from where they are taken into it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from voiceveil.audio import Waveform, info, load
from voiceveil.core.errors import InputError, is_memory_error, memory_error
from voiceveil.corpus import Utterance
from voiceveil.run.batches import MAX_BATCH_SECONDS, group_by_length
from voiceveil.run.cache import Cache, put_in_inbox, result_key
from voiceveil.run.device import AUTO, CPU, OnDevice, current_device, requested_device, worker_device
from voiceveil.run.executor import Executor, Jobs, Local, executor_of
from voiceveil.run.ledger import CHANGED, RUN_AGAIN
from voiceveil.run.progress import Progress
from voiceveil.run.records import recording_hash

__all__ = ["BatchEvaluator", "Evaluator", "SetEvaluator", "extract"]

#: Utterances that are worth another process: it takes seconds to start, as it loads the model.
_SHARE = 50

Value = TypeVar("Value", covariant=True)


class Evaluator(Protocol[Value]):
    """Turns a waveform into a result that is a numpy array or JSON."""

    @property
    def rate(self) -> int:
        """Sampling rate of its input in Hz."""
        ...

    @property
    def minimum(self) -> float:
        """Shortest input in seconds."""
        ...

    def fingerprint(self) -> str:
        """Return text that changes whenever results would: name, version, hash of the weights, options."""
        ...

    def __call__(self, wave: Waveform) -> Value:
        """Return the result for one utterance at ``rate``."""
        ...


@runtime_checkable
class BatchEvaluator(Evaluator[Value], Protocol[Value]):
    """An evaluator that can process several utterances together: faster on a graphics card."""

    def batch(self, waves: Sequence[Waveform]) -> Sequence[Value]:
        """Return the results, equal to those of each utterance alone up to rounding; they have similar lengths."""
        ...


@runtime_checkable
class SetEvaluator(Evaluator[Value], Protocol[Value]):
    """An evaluator whose result for an utterance depends on the set that the utterance is in."""

    def in_set(self, utterances: Sequence[Utterance]) -> Mapping[str, Evaluator[Value]]:
        """Return utterance id -> an evaluator for it that does not depend on the set."""
        ...


@dataclass(frozen=True)
class _Item(Generic[Value]):
    utterance: Utterance
    evaluator: Evaluator[Value]
    key: bytes
    length: float

    @property
    def path(self) -> Path:
        """File of the recording."""
        return self.utterance.path


@dataclass(frozen=True)
class _Batch(Generic[Value]):
    """Utterances that are processed together, by the same evaluator."""

    items: tuple[_Item[Value], ...]

    @property
    def path(self) -> Path:
        """File of the first recording."""
        return self.items[0].path

    @property
    def length(self) -> float:
        """Seconds of audio."""
        return sum(item.length for item in self.items)


@dataclass(frozen=True)
class _Work(Generic[Value]):
    """Applies the evaluator of a batch.

    Returns seconds and result of each utterance; None for a result that goes through the ``inbox`` of the cache.
    """

    inbox: Path | None

    def __call__(self, batch: _Batch[Value]) -> list[tuple[float, Value | None]]:
        return self._results(batch.items)

    def _results(self, items: tuple[_Item[Value], ...]) -> list[tuple[float, Value | None]]:
        """Return the results; a batch that fails is halved, down to the utterance that is at fault."""
        if len(items) == 1:
            return [self._result(items[0])]
        half = len(items) // 2
        evaluator: Any = items[0].evaluator  # a BatchEvaluator: others have batches of one
        try:
            waves = [_load(item) for item in items]
            values = evaluator.batch(waves)
        except Exception:  # too little memory for all, or one recording that cannot be read
            return self._results(items[:half]) + self._results(items[half:])
        return [(wave.duration, value) for wave, value in zip(waves, values, strict=True)]

    def _result(self, item: _Item[Value]) -> tuple[float, Value | None]:
        utterance, evaluator = item.utterance, item.evaluator
        try:
            wave = _load(item)
            value = evaluator(wave)
        except InputError as error:
            if error.where is None:
                raise InputError(error.what, where=utterance.path, fix=error.fix) from error
            raise
        except Exception as error:
            if is_memory_error(error):
                raise memory_error(utterance.path) from error
            raise
        if self.inbox is None:
            return wave.duration, value
        digest = recording_hash(utterance.path)
        if result_key(evaluator.fingerprint(), digest, utterance.start, utterance.duration) != item.key:
            raise InputError(CHANGED, where=utterance.path, fix=RUN_AGAIN)
        put_in_inbox(value, self.inbox, item.key)
        return wave.duration, None


def _load(item: _Item[Any]) -> Waveform:
    utterance = item.utterance
    return load(utterance.path, rate=item.evaluator.rate, start=utterance.start, duration=utterance.duration)


def extract(
    utterances: Iterable[Utterance],
    evaluator: Evaluator[Value],
    *,
    cache: Cache | None = None,
    jobs: Jobs = 1,
    quiet: bool = True,
) -> dict[str, Value]:
    """Apply a model to utterances; return utterance id -> result, in the order of the utterances.

    Parameters
    ----------
    cache
        Known results, and place for new ones (None: memory); for a cluster, on storage that all nodes share.
    jobs
        Number of processes, or an executor.

    Raises
    ------
    InputError
        If audio is missing, unreadable or too short (found before the work begins), or changes meanwhile.
    """
    listed = list(utterances)
    store = Cache(None) if cache is None else cache
    inbox = _inbox(store) if executor_of(jobs).distant else None
    evaluators = _evaluators(listed, evaluator)
    keys = _keys(listed, evaluators, store)
    results: dict[str, Any] = store.get_all(keys)
    waiting = [u for u in listed if results[u.id] is None]
    lengths = _checked_lengths(waiting, evaluator.minimum)
    work = {u.id: u.path.stat().st_size for u in waiting}
    modules = (type(evaluator).__module__, *getattr(evaluator, "preload", ()))
    executor = executor_of(jobs, at_most=1 + len(waiting) // _SHARE)
    items = (_Item(u, evaluators[u.id], keys[u.id], lengths[u.id]) for u in waiting)
    batches: Iterable[_Batch[Value]] = (_Batch((item,)) for item in items)
    if waiting and _takes_batches(evaluator, executor):
        executor = Local() if requested_device() == AUTO else executor
        batches = _padded_batches(list(items))
    outcomes = executor.run(
        OnDevice(_Work[Value](inbox), worker_device(executor)),
        batches,
        folder=inbox or Path(),
        seconds=lambda batch: batch.length,
        preload=modules,
    )
    started, audio = time.monotonic(), 0.0
    try:
        label = f"running {getattr(evaluator, 'name', type(evaluator).__name__)}"
        with Progress(label, len(waiting), work=sum(work.values()), quiet=quiet) as progress, closing(outcomes):
            for batch, outcome in outcomes if waiting else ():
                if isinstance(outcome, Exception):
                    raise outcome
                for item, (seconds, value) in zip(batch.items, outcome, strict=True):
                    utterance = item.utterance
                    if _keys([utterance], evaluators, store) != {utterance.id: item.key}:
                        # The result may be of the old or of the new content.
                        raise InputError(CHANGED, where=utterance.path, fix=RUN_AGAIN)
                    if inbox is None:
                        store.put(item.key, value)
                    results[utterance.id] = value if inbox is None else store.take_from_inbox(item.key)
                    progress.advance(work[utterance.id], audio=seconds)
                    audio += seconds
        store.note_pace(evaluator.fingerprint(), audio, (time.monotonic() - started) * executor.workers)
    finally:
        if inbox is not None:
            store.collect()
        if cache is None:
            store.close()
    return results


def _takes_batches(evaluator: Evaluator[Any], executor: Executor) -> bool:
    """Return whether utterances are processed together: on a graphics card, by networks that can."""
    return isinstance(evaluator, BatchEvaluator) and not executor.distant and current_device() != CPU


def _padded_batches(items: list[_Item[Value]]) -> Iterator[_Batch[Value]]:
    """Yield batches of similar lengths and one evaluator, of at most ``MAX_BATCH_SECONDS`` with padding."""
    members: dict[int, dict[str, _Item[Value]]] = {}
    for item in items:
        members.setdefault(id(item.evaluator), {})[item.utterance.id] = item
    for by_id in members.values():
        durations = {name: item.length for name, item in by_id.items()}
        for group in group_by_length(durations, MAX_BATCH_SECONDS):
            yield _Batch(tuple(by_id[name] for name in group))


def _evaluators(utterances: list[Utterance], evaluator: Evaluator[Value]) -> Mapping[str, Evaluator[Value]]:
    """Return utterance id -> the evaluator for it."""
    if isinstance(evaluator, SetEvaluator):
        return evaluator.in_set(utterances)
    return {utterance.id: evaluator for utterance in utterances}


def _keys(utterances: list[Utterance], evaluators: Mapping[str, Evaluator[Any]], cache: Cache) -> dict[str, bytes]:
    """Return utterance id -> key of its result in the cache."""
    distinct = {id(evaluators[u.id]): evaluators[u.id] for u in utterances}
    fingerprints = {key: evaluator.fingerprint() for key, evaluator in distinct.items()}
    keys: dict[str, bytes] = {}
    for utterance in utterances:
        keys |= cache.keys(fingerprints[id(evaluators[utterance.id])], [utterance])
    return keys


def _inbox(cache: Cache) -> Path:
    if cache.inbox is None:
        raise InputError(
            "a cluster needs a place for its results", fix="give --cache FILE, on storage that all nodes share"
        )
    cache.collect()
    return cache.inbox


def _checked_lengths(utterances: list[Utterance], minimum: float) -> Mapping[str, float]:
    """Return utterance id -> seconds; an ``InputError`` for the first utterance that is too short."""
    lengths = {}
    for utterance in utterances:
        length = utterance.duration or info(utterance.path).duration - utterance.start
        if length < minimum:
            raise InputError(
                f"utterance {utterance.id} has {length:.3f} s, but at least {minimum:g} s are needed",
                where=utterance.path,
            )
        lengths[utterance.id] = length
    return lengths
