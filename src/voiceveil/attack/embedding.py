"""Embeddings of corpora, enrollment, scores of trials, score files.

Conventions: as in :mod:`voiceveil.attack.backends`. A speaker is enrolled by the unweighted mean of the raw embeddings
of all their enrollment utterances, as in the challenges.

An encoder with a trunk (:class:`~voiceveil.models.speaker.encoders.AdaptableEncoder`) is run up to its last layer:
the output of the trunk is cached, and both the embedding and an adapted last layer follow from it. *Raw* vectors are
the output of the trunk, or the embeddings of an encoder without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from voiceveil.attack.backends import Scorer
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.corpus import Trials, Utterance
from voiceveil.corpus.ids import safe_id
from voiceveil.models.speaker.covariances import Codes, Floats
from voiceveil.models.speaker.encoders import AdaptableEncoder, CombinedEncoder, DerivedEncoder, SpeakerEncoder
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator

__all__ = [
    "Embedded",
    "Enrolled",
    "audio_models",
    "embed",
    "embed_raw",
    "enroll",
    "from_raw",
    "has_trunk",
    "score_trials",
    "write_scores",
]


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
        """Return the vectors of some utterances, in their order."""
        return self.vectors[[self.row[key] for key in ids]]

    def means(self, groups: Mapping[str, Sequence[str]]) -> Embedded:
        """Return the mean vectors of groups of utterances, by the names of the groups; without groups, all vectors."""
        if not groups:
            return self
        return Embedded(tuple(groups), np.array([self.of(ids).mean(axis=0) for ids in groups.values()]))


def has_trunk(encoder: SpeakerEncoder) -> TypeGuard[AdaptableEncoder]:
    """Return whether an encoder has a trunk and a linear last layer."""
    return isinstance(encoder, AdaptableEncoder)


def audio_models(encoder: SpeakerEncoder) -> tuple[Evaluator[Any], ...]:
    """Return the parts of an encoder that process audio, whose results are cached; most encoders have one."""
    if isinstance(encoder, CombinedEncoder):
        return tuple(model for part in encoder.parts for model in audio_models(part))
    if isinstance(encoder, DerivedEncoder):
        return (encoder.source(),)
    return (encoder.trunk() if has_trunk(encoder) else encoder,)


def from_raw(encoder: SpeakerEncoder, raw: Floats) -> Floats:
    """Return the embeddings (n, d) for raw vectors (n, w) of an encoder."""
    if not has_trunk(encoder):
        return raw
    weight, bias = (np.asarray(array, dtype=np.float64) for array in encoder.last_layer())
    return np.asarray(raw @ weight.T + bias)


def embed_raw(utterances: Iterable[Utterance], encoder: SpeakerEncoder, context: RunContext) -> Embedded:
    """Return the raw vectors of utterances: the output of the encoder's trunk, or embeddings if it has no trunk.

    Parameters
    ----------
    utterances
        With distinct ids.
    encoder
        The speaker encoder.
    context
        Cache and processes.

    Raises
    ------
    InputError
        If a vector is not finite.
    """
    if isinstance(encoder, CombinedEncoder):
        spoken = list(utterances)
        parts = [embed(spoken, part, context) for part in encoder.parts]
        return Embedded(parts[0].ids, np.concatenate([part.vectors for part in parts], axis=1))
    results = context.extract(utterances, *audio_models(encoder))
    if isinstance(encoder, DerivedEncoder):
        results = {key: encoder.derive(result) for key, result in results.items()}
    vectors = np.asarray(list(results.values()), dtype=np.float64)
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        key = list(results)[int(bad.argmax())]
        raise InputError(f"the embedding of {key} is not finite", fix="listen to it: is it silent?")
    return Embedded(tuple(results), vectors)


def embed(
    utterances: Iterable[Utterance], encoder: SpeakerEncoder, context: RunContext, *, trunk: bool = False
) -> Embedded:
    """Return the embeddings of utterances or, with ``trunk``, the output of the trunk; see :func:`embed_raw`."""
    if trunk and not has_trunk(encoder):
        raise InputError(f"the encoder {encoder.name} has no last layer that can be adapted")
    raw = embed_raw(utterances, encoder, context)
    return raw if trunk else Embedded(raw.ids, from_raw(encoder, raw.vectors))


@dataclass(frozen=True, eq=False)
class Enrolled:
    """Enrolled speakers: ids, mean embeddings (s, d), and numbers of utterances (s,)."""

    speakers: tuple[str, ...]
    means: Floats
    counts: Codes


def enroll(embedded: Embedded, utterances: Mapping[str, Sequence[str]]) -> Enrolled:
    """Return the unweighted mean embedding of each speaker.

    Parameters
    ----------
    embedded : Embedded
        Embeddings of all enrollment utterances.
    utterances : mapping
        Speaker -> ids of the enrollment utterances.

    Raises
    ------
    InputError
        If a speaker has no enrollment utterance.
    """
    for speaker, ids in utterances.items():
        if not ids:
            raise InputError(f"speaker {speaker} has no enrollment utterance")
    means = np.array([embedded.of(ids).mean(axis=0) for ids in utterances.values()])
    return Enrolled(tuple(utterances), means, np.array([len(ids) for ids in utterances.values()]))


def score_trials(trials: Trials, enrolled: Enrolled, test: Embedded, scorer: Scorer) -> Floats:
    """Return the score of each trial, shape (trials,), in the order of the list.

    Parameters
    ----------
    trials
        Pairs of an enrolled speaker and a test utterance.
    enrolled
        The enrolled speakers.
    test
        Embeddings of the test utterances.
    scorer
        A fitted back-end.
    """
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
