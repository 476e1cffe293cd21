"""Apply a model to every utterance of a corpus: embeddings, transcripts, pitch, ratings.

The model is an :class:`Evaluator`: a small picklable object that loads its weights when it is first called in a
process. Workers share its module, and those that it names in ``preload`` (if it has one): they are imported once.
Results come from the cache where they are known, and go into it as they are made, so that a killed run goes on where
it stopped. Workers on other machines leave their results as files beside the cache, from where they are taken into it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from voiceveil.audio import Waveform, info, load
from voiceveil.core.errors import InputError, is_memory_error, memory_error
from voiceveil.corpus import Utterance
from voiceveil.run.cache import Cache, put_in_inbox, result_key
from voiceveil.run.executor import Jobs, executor_of
from voiceveil.run.ledger import CHANGED, RUN_AGAIN, recording_hash
from voiceveil.run.progress import Progress

__all__ = ["Evaluator", "extract"]

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
        """Changes whenever a result would: name, version, hash of the weights, options."""
        ...

    def __call__(self, wave: Waveform) -> Value:
        """Return the result for one utterance at ``rate``."""
        ...


@dataclass(frozen=True)
class _Work(Generic[Value]):
    """Applies the evaluator; returns None for a result that goes through the ``inbox`` of the cache."""

    evaluator: Evaluator[Value]
    inbox: Path | None

    def __call__(self, item: _Item) -> tuple[float, Value | None]:
        utterance = item.utterance
        try:
            wave = load(utterance.path, rate=self.evaluator.rate, start=utterance.start, duration=utterance.duration)
            value = self.evaluator(wave)
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
        if result_key(self.evaluator.fingerprint(), digest, utterance.start, utterance.duration) != item.key:
            raise InputError(CHANGED, where=utterance.path, fix=RUN_AGAIN)
        put_in_inbox(value, self.inbox, item.key)
        return wave.duration, None


@dataclass(frozen=True)
class _Item:
    utterance: Utterance
    key: bytes
    length: float

    @property
    def path(self) -> Path:
        """File of the recording."""
        return self.utterance.path


def extract(
    utterances: Iterable[Utterance],
    evaluator: Evaluator[Value],
    *,
    cache: Cache | None = None,
    jobs: Jobs = 1,
    quiet: bool = True,
) -> dict[str, Value]:
    """Utterance id -> result, in the order of the utterances; the first failure is raised.

    Audio that is missing, unreadable or too short is found before the work begins. ``jobs``: processes, or an executor;
    one that has a cluster do the work needs a ``cache`` on storage that all nodes share.
    """
    listed = list(utterances)
    store = Cache(None) if cache is None else cache
    inbox = _inbox(store) if executor_of(jobs).distant else None
    keys = store.keys(evaluator.fingerprint(), listed)
    results: dict[str, Any] = store.get_all(keys)
    waiting = [u for u in listed if results[u.id] is None]
    lengths = _checked_lengths(waiting, evaluator.minimum)
    work = {u.id: u.path.stat().st_size for u in waiting}
    modules = (type(evaluator).__module__, *getattr(evaluator, "preload", ()))
    executor = executor_of(jobs, at_most=1 + len(waiting) // _SHARE)
    items = (_Item(u, keys[u.id], lengths[u.id]) for u in waiting)
    outcomes = executor.run(
        _Work(evaluator, inbox), items, folder=inbox or Path(), seconds=lambda item: item.length, preload=modules
    )
    started, audio = time.monotonic(), 0.0
    try:
        label = f"running {getattr(evaluator, 'name', type(evaluator).__name__)}"
        with Progress(label, len(waiting), work=sum(work.values()), quiet=quiet) as progress, closing(outcomes):
            for item, result in outcomes if waiting else ():
                if isinstance(result, Exception):
                    raise result
                utterance, (seconds, value) = item.utterance, result
                if store.keys(evaluator.fingerprint(), [utterance]) != {utterance.id: item.key}:
                    raise InputError(
                        CHANGED, where=utterance.path, fix=RUN_AGAIN
                    )  # the result may be of either content
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


def _inbox(cache: Cache) -> Path:
    if cache.inbox is None:
        raise InputError(
            "a cluster needs a place for its results", fix="give --cache FILE, on storage that all nodes share"
        )
    cache.collect()
    return cache.inbox


def _checked_lengths(utterances: list[Utterance], minimum: float) -> Mapping[str, float]:
    """Utterance id -> seconds; an ``InputError`` for the first that is too short."""
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
