"""Embeddings of corpora, enrollment, scores of trials, score files.

Conventions: as in :mod:`voiceveil.attack.backends`. A speaker is enrolled by the unweighted mean of the embeddings of
all their enrollment utterances, as in the challenges (raw embeddings: a loud one weighs no more, a long one does not).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from voiceveil.attack.backends import Scorer
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.corpus import Trials, Utterance
from voiceveil.corpus.ids import safe_id
from voiceveil.models.speaker.covariances import Codes, Floats
from voiceveil.models.speaker.encoders import Layered, SpeakerEncoder
from voiceveil.run.cache import Cache
from voiceveil.run.executor import Jobs
from voiceveil.run.extract import Evaluator, extract

__all__ = ["Embedded", "Enrolled", "embed", "enroll", "score_trials", "write_scores"]


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings ``vectors`` (n, d) of the utterances ``ids``."""

    ids: tuple[str, ...]
    vectors: Floats

    @cached_property
    def row(self) -> dict[str, int]:
        """Utterance id -> row."""
        return {key: number for number, key in enumerate(self.ids)}

    def of(self, ids: Iterable[str]) -> Floats:
        """The vectors of some utterances, in their order."""
        return self.vectors[[self.row[key] for key in ids]]

    def through(self, weight: Floats, bias: Floats) -> Embedded:
        """Behind a linear layer of shape (k, d)."""
        return Embedded(self.ids, self.vectors @ np.asarray(weight, np.float64).T + bias)


def embed(
    utterances: Iterable[Utterance],
    encoder: SpeakerEncoder,
    *,
    trunk: bool = False,
    cache: Cache | None = None,
    jobs: Jobs = 1,
    quiet: bool = True,
) -> Embedded:
    """Embeddings of utterances; or, with ``trunk``, what comes out of the encoder before its last layer.

    Of an encoder with a trunk it is the trunk's result that is kept in the cache: both follow from it.
    """
    if isinstance(encoder, Layered):
        result = _extract(utterances, encoder.trunk(), cache, jobs, quiet)
        weight, bias = encoder.last_layer()
        return result if trunk else result.through(np.asarray(weight, np.float64), np.asarray(bias, np.float64))
    if trunk:
        raise InputError(f"the encoder {encoder.name} has no last layer that can be adapted")
    return _extract(utterances, encoder, cache, jobs, quiet)


def _extract(
    utterances: Iterable[Utterance], evaluator: Evaluator[object], cache: Cache | None, jobs: Jobs, quiet: bool
) -> Embedded:
    results = extract(utterances, evaluator, cache=cache, jobs=jobs, quiet=quiet)
    vectors = np.asarray(list(results.values()), dtype=np.float64)
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        key = list(results)[int(bad.argmax())]
        raise InputError(f"the embedding of {key} is not finite", fix="listen to it: is it silent?")
    return Embedded(tuple(results), vectors)


@dataclass(frozen=True, eq=False)
class Enrolled:
    """Speakers (s,), the means of their embeddings (s, d), and of how many utterances each is (s,)."""

    speakers: tuple[str, ...]
    means: Floats
    counts: Codes


def enroll(embedded: Embedded, utterances: Mapping[str, Sequence[str]]) -> Enrolled:
    """The unweighted mean embedding of each speaker; ``utterances``: speaker -> utterance ids."""
    for speaker, ids in utterances.items():
        if not ids:
            raise InputError(f"speaker {speaker} has no enrollment utterance")
    means = np.array([embedded.of(ids).mean(axis=0) for ids in utterances.values()])
    return Enrolled(tuple(utterances), means, np.array([len(ids) for ids in utterances.values()]))


def score_trials(trials: Trials, enrolled: Enrolled, test: Embedded, scorer: Scorer) -> Floats:
    """The score of each trial (trials,), in the order of the list."""
    speakers = {speaker: number for number, speaker in enumerate(enrolled.speakers)}
    ids, column = np.unique(trials.utterance, return_inverse=True)
    matrix = scorer(enrolled.means, enrolled.counts, test.of(ids.tolist()))
    row = np.array([speakers[speaker] for speaker in trials.enroll.tolist()])
    return np.asarray(matrix[row, column.reshape(-1)])


def write_scores(path: Path, trials: Trials, scores: Floats) -> None:
    """Write a score file, ``<speaker> <utterance> <score>``, in the order of the trials; ids are made safe."""
    names = {text: safe_id(text) for text in {*trials.enroll.tolist(), *trials.utterance.tolist()}}
    columns = zip(trials.enroll.tolist(), trials.utterance.tolist(), scores.tolist(), strict=True)
    text = "".join(f"{names[speaker]} {names[utterance]} {score!r}\n" for speaker, utterance, score in columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")
