"""Adaptation of an encoder to anonymized speech: candidates, and the choice among them.

The attacker has anonymized speech of other speakers with known identities. From
its embeddings a back-end is learned; which one is decided by cross-validation over *speakers* of that training data,
never on the trials that are attacked. A fold mimics the attack: its speakers are enrolled with half of their utterances
(at most twelve) and others are compared with them, women and men apart. Speakers with several recording sessions are
enrolled with some and heard in others, as in the challenges: a microphone that was heard before betrays its speaker.

Conventions: as in :mod:`voiceveil.attack.backends`. A candidate works on embeddings, or on what the encoder's last
layer sees (its trunk), where it stands in the place of that layer.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from voiceveil import metrics
from voiceveil.attack.backends import Backend, Centered, Cosine, Lda, MarginSoftmax, Scaled, Scorer, SNorm, Wccn
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.speaker.covariances import Codes, Floats
from voiceveil.models.speaker.plda import Plda
from voiceveil.run.cache import Cache

__all__ = [
    "Adapted",
    "Candidate",
    "TrainingSet",
    "adapt",
    "candidates",
    "recording_units",
    "training_accuracy",
    "validate",
]

_FOLDS = 4
_ENROLLED = 12  # utterances at most: about what the challenges' speakers have


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Labelled training speech: ``embeddings`` (n, d), ``trunk`` (n, w) or None, ``speaker`` and ``gender`` (n,).

    ``unit`` (n,) says what must not be both in the enrollment and in the trials, see :func:`recording_units`.
    """

    embeddings: Floats
    trunk: Floats | None
    speaker: Codes
    gender: NDArray[np.str_]
    unit: NDArray[np.str_]
    sessions: int = 0  # how many speakers have several recording sessions

    @property
    def speakers(self) -> int:
        """How many have enough utterances to be enrolled, four."""
        return int((np.unique(self.speaker, return_counts=True)[1] >= 4).sum())

    def vectors(self, on_trunk: bool) -> Floats:
        """What a candidate works on."""
        if not on_trunk:
            return self.embeddings
        if self.trunk is None:
            raise InputError("this encoder has no last layer that can be adapted")
        return self.trunk


def recording_units(utterances: Sequence[Utterance]) -> NDArray[np.str_]:
    """The recording session of each utterance, or the utterance itself where a speaker has but one session.

    A session is what ids tell: the second part of ``<speaker>-<session>-<number>``, as in LibriSpeech and VoxCeleb. A
    single utterance beside the longest session is no second one: it would be all that there is to hear.
    """
    sessions: list[str] = []
    of_speaker: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    for utterance in utterances:
        parts = re.split("[-_]", utterance.id)
        told = len(parts) > 2 and parts[0] == utterance.speaker
        sessions.append(f"{parts[0]} {parts[1]}" if told else "")
        of_speaker[utterance.speaker][sessions[-1]] += 1
    several = {speaker for speaker, found in of_speaker.items() if found.total() - max(found.values()) >= 2}
    listed = zip(utterances, sessions, strict=True)
    return np.array([session if u.speaker in several and session else u.id for u, session in listed])


@dataclass(frozen=True)
class Candidate:
    """A back-end, and what it works on."""

    backend: Backend
    on_trunk: bool = False

    @property
    def name(self) -> str:
        """What the tables call it."""
        return f"{'trunk ' if self.on_trunk else ''}{self.backend.name}"


@dataclass(frozen=True, eq=False)
class Adapted:
    """The chosen candidate, fitted to all training data, and how all did on speakers held out (EER, a fraction)."""

    candidate: Candidate
    scorer: Scorer
    validation: tuple[tuple[str, float], ...]  # name, EER; best first
    unadapted: float  # the EER of plain cosines on the same folds
    accuracy: float  # of the training speakers' identification
    speakers: int
    utterances: int
    validated: int  # of the speakers have enough utterances to be enrolled,
    sessions: int  # and so many of them were enrolled in one recording session and heard in another

    @property
    def validation_eer(self) -> float:
        """Of the chosen one."""
        return self.validation[0][1]


def candidates(training: TrainingSet) -> tuple[Candidate, ...]:
    """All that are tried, simple ones first."""
    plain: list[Backend] = [Cosine(), Centered(), Wccn(0.05), Wccn(0.3), Lda(20), Lda(60), Plda(60)]
    plain += [Plda(60, by_count=False), MarginSoftmax(), SNorm(Wccn(0.05)), SNorm(Wccn(0.3)), SNorm(Lda(60))]
    found = [Candidate(backend) for backend in plain]
    if training.trunk is not None:
        deep: list[Backend] = [Wccn(0.3), Lda(60, 0.3), Plda(60, 0.3, by_count=False), SNorm(Wccn(0.1))]
        found += [Candidate(backend, True) for backend in deep]
    else:
        found += [Candidate(SNorm(Scaled(Wccn(shrinkage)))) for shrinkage in (0.1, 0.5, 0.8)]
    return tuple(found)


def adapt(training: TrainingSet, tried: Sequence[Candidate] | None = None, *, cache: Cache | None = None) -> Adapted:
    """Validate the candidates on held-out speakers, and fit the best one to all training data.

    ``cache`` keeps how they did, which is long in the making, by the content of the training data.
    """
    tried = candidates(training) if tried is None else tried
    store = Cache(None) if cache is None else cache
    known = [training.embeddings, training.trunk, training.speaker, training.gender, training.unit]
    rates = [store.remember("validation 1", [*known, one], partial(validate, one, training)) for one in tried]
    ranked = sorted(zip(rates, tried, strict=True), key=lambda pair: pair[0])  # stable: of equals the simpler one
    best = ranked[0][1]
    vectors = training.vectors(best.on_trunk)
    scorer = best.backend.fit(vectors, training.speaker)
    accuracy = store.remember(
        "training accuracy 1", [*known, best], lambda: training_accuracy(scorer, vectors, training.speaker)
    )
    return Adapted(
        best,
        scorer,
        tuple((one.name, rate) for rate, one in ranked),
        validate(Candidate(Cosine()), training),
        accuracy,
        len(np.unique(training.speaker)),
        len(training.speaker),
        training.speakers,
        training.sessions,
    )


def validate(candidate: Candidate, training: TrainingSet) -> float:
    """The mean EER over folds and genders of held-out speakers."""
    vectors = training.vectors(candidate.on_trunk)
    rates = []
    for held_out, groups in _folds(training):
        scorer = candidate.backend.fit(vectors[~held_out], training.speaker[~held_out])
        for group in groups:
            target, nontarget = _attack(scorer, vectors[group], training.speaker[group], training.unit[group])
            rates.append(metrics.eer(target, nontarget))
    return float(np.mean(rates))


def _folds(training: TrainingSet) -> Iterator[tuple[NDArray[np.bool_], list[Codes]]]:
    """For each fold which utterances (n,) are held out, and the rows of each gender that can be attacked."""
    labels, codes, counts = np.unique(training.speaker, return_inverse=True, return_counts=True)
    gender = np.array([training.gender[codes == i][0] for i in range(len(labels))])
    fold = np.zeros(len(labels), dtype=np.int64)
    for sex in np.unique(gender):  # speakers with much and with little speech are spread evenly
        members = np.flatnonzero(gender == sex)
        fold[members[np.argsort(-counts[members], kind="stable")]] = np.arange(len(members)) % _FOLDS
    found = False
    for number in range(_FOLDS):
        groups = []
        for sex in np.unique(gender):
            inside = (fold == number) & (gender == sex)
            if (inside & (counts >= 4)).sum() >= 2:
                groups.append(np.flatnonzero(inside[codes]))
        if groups:
            found = True
            yield (fold == number)[codes], groups
    if not found:
        raise InputError(
            f"{int((counts >= 4).sum())} training speaker(s) with four utterances are too few to validate an attacker",
            fix="give more training data: sixteen such speakers at least, of both genders",
        )


def _attack(scorer: Scorer, vectors: Floats, speaker: Codes, unit: NDArray[np.str_]) -> tuple[Floats, Floats]:
    """Target and nontarget scores within a group of held-out speakers."""
    means, counts, names = [], [], []
    rest: list[int] = []
    for label in np.unique(speaker):
        rows = np.flatnonzero(speaker == label)
        enrolled, others = _split(rows, unit[rows])
        if len(enrolled):
            means.append(vectors[enrolled].mean(axis=0))
            counts.append(len(enrolled))
            names.append(label)
        rest += others.tolist()
    scores = scorer(np.array(means), np.array(counts), vectors[rest])
    same = np.array(names)[:, None] == speaker[rest][None]
    return scores[same], scores[~same]


def _split(rows: Codes, unit: NDArray[np.str_]) -> tuple[Codes, Codes]:
    """Rows for enrollment and for trials: the first units up to half of the rows, or to twelve, and the other units.

    Nothing is enrolled of a speaker with less than four utterances.
    """
    half = min(len(rows) // 2, _ENROLLED)
    names, first, size = np.unique(unit, return_index=True, return_counts=True)
    order = np.argsort(first)
    count = max(int((np.cumsum(size[order]) <= half).sum()), 1)
    if len(rows) < 4 or count == len(names):
        return rows[:0], rows
    inside = np.isin(unit, names[order[:count]])
    return rows[inside][:half], rows[~inside]


def training_accuracy(scorer: Scorer, vectors: Floats, speaker: Codes) -> float:
    """The share of training utterances whose own speaker, enrolled with the others of theirs, scores highest."""
    _, codes, counts = np.unique(speaker, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts >= 4)
    sums = np.array([vectors[codes == i].sum(axis=0) for i in several])
    right = total = 0
    for place, i in enumerate(several):
        mine = vectors[codes == i]
        others = scorer(sums / counts[several, None], counts[several], mine)
        others[place] = -np.inf
        without = (sums[place] - mine) / (counts[i] - 1)
        own = np.diagonal(scorer(without, np.full(len(mine), counts[i] - 1), mine))
        right += int((own > others.max(axis=0)).sum())
        total += len(mine)
    return right / total
