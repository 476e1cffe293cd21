"""Estimate of the duration of an attack: audio that its models have not processed yet, and training of back-ends.

Conventions: a pace is processor seconds for a second of audio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from voiceveil.attack.adaptation import PRINCIPAL
from voiceveil.attack.attacker import Attacker, TrainingSpeech
from voiceveil.attack.sets import Condition, TrialSet
from voiceveil.audio import info
from voiceveil.core.terminal import clock
from voiceveil.corpus import Corpus, Utterance
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.executor import executor_of
from voiceveil.run.extract import Evaluator

__all__ = ["PACES", "describe_work"]

#: Processor seconds for a second of audio (by `benchmarks/pace.py`), if the cache has none of an earlier run.
PACES = {
    "CamPlusPlusTrunk": 0.033,
    "InvertingEncoder": 0.05,
    "Moonshine": 0.038,
    "LayerStatistics": 0.012,
    "FrameSample": 0.012,
    "CodeHistogram": 0.012,
    "Cues": 0.005,
}
_HEADERS = 40  # files of a set whose headers are read; the lengths of others are estimated from their sizes
_FITS = 5  # of a back-end: four folds and the final one
_BACKENDS = 15  # that an attacker tries, about
_OPERATIONS = 1.5e10  # a second, of one core


def describe_work(
    attackers: Sequence[Attacker],
    sets: Sequence[TrialSet],
    conditions: Sequence[Condition],
    training: TrainingSpeech,
    context: RunContext,
) -> str:
    """Return a sentence: how many attackers, how much audio their models have to process, and about how long it takes.

    Parameters
    ----------
    attackers, sets, conditions, training
        Of the attack.
    context
        The cache, whose results and paces are taken into account, and the number of processes.
    """
    corpora = _corpora(sets, training)
    names = {corpus.name: [u.id for u in corpus] for corpus in training.anonymized}
    models: dict[str, tuple[Evaluator[Any], dict[tuple[str, str, str], Utterance]]] = {}
    for attacker in attackers:
        for work in attacker.work(sets, conditions, names, context.cache):
            speech = models.setdefault(work.evaluator.fingerprint(), (work.evaluator, {}))[1]
            for part in work.parts:
                corpus = corpora.get((part.set, part.side))
                if corpus is not None:
                    speech.update({(part.set, part.side, id): corpus[id] for id in part.ids})
    lengths = _Lengths()
    audio = seconds = 0.0
    unknown = []
    for fingerprint, (model, speech) in models.items():
        todo = sum(lengths.of(u) for u in speech.values() if not _is_cached(context.cache, fingerprint, u))
        pace = context.cache.pace(fingerprint) or PACES.get(type(model).__name__)
        audio += todo
        seconds += todo * (pace or 0.0)
        if pace is None and todo:
            unknown.append(type(model).__name__)
    jobs = executor_of(context.jobs).workers
    total = seconds / jobs + sum(_learning_seconds(attacker, training) for attacker in attackers)
    rest = f", and the time of {', '.join(dict.fromkeys(unknown))}, never measured here" if unknown else ""
    listed = ", ".join(attacker.name for attacker in attackers)
    plural = "s" if len(attackers) > 1 else ""
    return (
        f"{len(attackers)} attacker{plural} ({listed}): {len(models)} models on {clock(audio)} (h:mm:ss) of audio, "
        f"about {clock(total)} with {jobs} job{'s' if jobs > 1 else ''}{rest}"
    )


def _is_cached(cache: Cache, fingerprint: str, utterance: Utterance) -> bool:
    """Return whether the cache has the result of a model; files are read only if it has some results."""
    return not cache.empty() and cache.has(cache.keys(fingerprint, [utterance])[utterance.id])


def _corpora(sets: Sequence[TrialSet], training: TrainingSpeech) -> Mapping[tuple[str, str], Corpus]:
    """Return (name of an original set, side) -> its speech."""
    corpora = {(corpus.name, "a"): corpus for corpus in training.anonymized}
    corpora |= {(corpus.name, "o"): corpus for corpus in training.original}
    for trial_set in sets:
        names = [corpus.name for corpus in trial_set.original]
        corpora |= {(name, "o"): corpus for name, corpus in zip(names, trial_set.original, strict=True)}
        if trial_set.anonymized is not None:
            corpora |= {(name, "a"): corpus for name, corpus in zip(names, trial_set.anonymized, strict=True)}
    return corpora


def _learning_seconds(attacker: Attacker, training: TrainingSpeech) -> float:
    """Return about how long an attacker learns: covariances of n utterances and their inverses, for each back-end."""
    encoder = attacker.encoder
    if not attacker.needs_training or encoder is None:
        return 0.0
    n, d = sum(map(len, training.anonymized)), encoder.dimension or 256
    rank = d if d <= PRINCIPAL else min(n, d)
    return _FITS * _BACKENDS * (2.0 * n * d * rank + 4.0 * rank**3) / _OPERATIONS


class _Lengths:
    """Lengths of utterances in seconds: as the corpus states, or estimated from the sizes of files."""

    def __init__(self) -> None:
        self._read: dict[Any, float] = {}  # folder -> seconds for a byte
        self._count: dict[Any, int] = {}

    def of(self, utterance: Utterance) -> float:
        """Return the length of an utterance."""
        if utterance.length is not None:
            return utterance.length
        folder, size = utterance.path.parent, utterance.path.stat().st_size
        if self._count.get(folder, 0) < _HEADERS:
            duration = info(utterance.path).duration
            before = self._count.get(folder, 0)
            self._read[folder] = (self._read.get(folder, 0.0) * before + duration / max(size, 1)) / (before + 1)
            self._count[folder] = before + 1
            return duration
        return self._read[folder] * size
