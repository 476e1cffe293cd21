"""Apply a model to every utterance of a corpus: embeddings, transcripts, pitch, ratings.

The model is an :class:`Evaluator`: a small picklable object that loads its weights when it is first called in a
process. Workers share its module, and those that it names in ``preload`` (if it has one): they are imported once.
Results come from the cache where they are known, and go into it as they are made, so that a killed run goes on where
it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from voiceveil.audio import Waveform, info, load
from voiceveil.corpus import Utterance
from voiceveil.errors import InputError
from voiceveil.run.cache import Cache
from voiceveil.run.ledger import CHANGED, RUN_AGAIN
from voiceveil.run.local import run_items
from voiceveil.run.progress import Progress

__all__ = ["Evaluator", "extract"]

#: Utterances that are worth another process: it takes seconds to start, as it loads the model.
_SHARE = 50

Value = TypeVar("Value", covariant=True)


class Evaluator(Protocol[Value]):
    """Turns a waveform into a result that is a numpy array or JSON."""

    @property
    def rate(self) -> int:
        """The sampling rate in Hz that it takes."""
        ...

    @property
    def minimum(self) -> float:
        """The shortest audio in seconds that it can take."""
        ...

    def fingerprint(self) -> str:
        """Changes whenever a result would: name, version, hash of the weights, options."""
        ...

    def __call__(self, wave: Waveform) -> Value:
        """The result for one utterance at ``rate``."""
        ...


@dataclass(frozen=True)
class _Work(Generic[Value]):
    evaluator: Evaluator[Value]

    def __call__(self, utterance: Utterance) -> tuple[float, Value]:
        wave = load(utterance.path, rate=self.evaluator.rate, start=utterance.start, duration=utterance.duration)
        try:
            return wave.duration, self.evaluator(wave)
        except InputError as error:
            if error.where is None:
                raise InputError(error.what, where=utterance.path, fix=error.fix) from error
            raise


def extract(
    utterances: Iterable[Utterance],
    evaluator: Evaluator[Value],
    *,
    cache: Cache | None = None,
    jobs: int = 1,
    quiet: bool = True,
) -> dict[str, Value]:
    """Utterance id -> result, in the order of the utterances; the first failure is raised.

    Audio that is missing, unreadable or too short is found before the work begins.
    """
    listed = list(utterances)
    store = Cache(None) if cache is None else cache
    keys = store.keys(evaluator.fingerprint(), listed)
    results: dict[str, Any] = store.get_all(keys)
    waiting = [u for u in listed if results[u.id] is None]
    _check_lengths(waiting, evaluator.minimum)
    work = {u.id: u.path.stat().st_size for u in waiting}
    progress = Progress(len(waiting), sum(work.values()), style="quiet" if quiet else "auto")
    modules = (type(evaluator).__module__, *getattr(evaluator, "preload", ()))
    jobs = min(jobs, 1 + len(waiting) // _SHARE)
    started, audio = time.monotonic(), 0.0
    try:
        for utterance, result in run_items(_Work(evaluator), waiting, jobs=jobs, preload=modules):
            if isinstance(result, Exception):
                raise result
            seconds, value = result
            if store.keys(evaluator.fingerprint(), [utterance]) != {utterance.id: keys[utterance.id]}:
                raise InputError(CHANGED, where=utterance.path, fix=RUN_AGAIN)  # whose result this is, nobody knows
            store.put(keys[utterance.id], value)
            results[utterance.id] = value
            progress.add(work=work[utterance.id], audio=seconds)
            audio += seconds
        store.note_pace(evaluator.fingerprint(), audio, (time.monotonic() - started) * jobs)
    finally:
        progress.close()
        if cache is None:
            store.close()
    return results


def _check_lengths(utterances: list[Utterance], minimum: float) -> None:
    for utterance in utterances:
        length = utterance.duration or info(utterance.path).duration - utterance.start
        if length < minimum:
            raise InputError(
                f"utterance {utterance.id} has {length:.3f} s, but at least {minimum:g} s are needed",
                where=utterance.path,
            )
