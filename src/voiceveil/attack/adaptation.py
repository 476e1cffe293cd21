"""Adaptation of an encoder to anonymized speech: candidate back-ends, and the choice among them.

The attacker has anonymized speech of other speakers with known identities. A back-end is fitted to its embeddings; the
candidates are compared by cross-validation over *speakers* of this training speech, never on the attacked trials. Each
fold mimics the attack: speakers are enrolled with half of their utterances (at most twelve) and compared with the other
utterances, women and men separately. Speakers with several recording sessions are enrolled with some sessions and
tested with others, as in the challenges, because a known microphone would give the speaker away.

Conventions: as in :mod:`voiceveil.attack.backends`. A candidate works on embeddings, or on the output of the encoder's
trunk, where it takes the place of the last layer.
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
from voiceveil.run.progress import Progress

__all__ = [
    "Adapted",
    "Candidate",
    "LabeledEmbeddings",
    "adapt",
    "candidates",
    "recording_units",
    "training_accuracy",
    "validate",
]

_FOLDS = 4
_ENROLLED = 12  # utterances at most, about as many as the challenges' speakers have
_FEWEST = 4  # utterances of a speaker who can be enrolled and tested


@dataclass(frozen=True, eq=False)
class LabeledEmbeddings:
    """Embeddings of training speech, with labels.

    Parameters
    ----------
    embeddings : array of shape (n, d)
        One row per utterance.
    trunk : array of shape (n, w), optional
        Output of the encoder's trunk.
    speaker : array of int, shape (n,)
        Numbers of the speakers.
    gender : array of str, shape (n,)
        ``f``, ``m`` or "".
    unit : array of str, shape (n,)
        Utterances of one unit are not split between enrollment and trials, see :func:`recording_units`.
    sessions : int
        Number of speakers with several recording sessions.
    """

    embeddings: Floats
    trunk: Floats | None
    speaker: Codes
    gender: NDArray[np.str_]
    unit: NDArray[np.str_]
    sessions: int = 0

    @property
    def speakers(self) -> int:
        """Number of speakers with enough utterances to be enrolled, four."""
        return int((np.unique(self.speaker, return_counts=True)[1] >= _FEWEST).sum())

    def vectors(self, on_trunk: bool) -> Floats:
        """Return the output of the trunk (n, w) or the embeddings (n, d)."""
        if not on_trunk:
            return self.embeddings
        if self.trunk is None:
            raise InputError("this encoder has no last layer that can be adapted")
        return self.trunk


def recording_units(utterances: Sequence[Utterance]) -> NDArray[np.str_]:
    """Return the recording session of each utterance, or its own id if its speaker has one session only.

    Sessions are read from ids of the form ``<speaker>-<session>-<number>``, as in LibriSpeech and VoxCeleb. A single
    utterance beside the longest session does not count as a second session: nothing would be left for the trials.
    """
    sessions: list[str] = []
    of_speaker: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    for utterance in utterances:
        parts = re.split("[-_]", utterance.id)
        has_session = len(parts) > 2 and parts[0] == utterance.speaker
        sessions.append(f"{parts[0]} {parts[1]}" if has_session else "")
        of_speaker[utterance.speaker][sessions[-1]] += 1
    several = {speaker for speaker, counts in of_speaker.items() if counts.total() - max(counts.values()) >= 2}
    pairs = zip(utterances, sessions, strict=True)
    return np.array([session if u.speaker in several and session else u.id for u, session in pairs])


@dataclass(frozen=True)
class Candidate:
    """A back-end, on embeddings or on the output of the encoder's trunk."""

    backend: Backend
    on_trunk: bool = False

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{'trunk ' if self.on_trunk else ''}{self.backend.name}"


@dataclass(frozen=True, eq=False)
class Adapted:
    """The result of :func:`adapt`.

    Parameters
    ----------
    candidate : Candidate
        The best one.
    scorer : Scorer
        Its back-end, fitted to all training speech.
    validation : tuple of (str, float)
        Names of all candidates and their EERs on held-out speakers, best first.
    unadapted : float
        EER of plain cosines on the same folds.
    accuracy : float
        Share of training utterances whose speaker is identified.
    speakers, utterances : int
        Size of the training speech.
    validated, sessions : int
        Number of speakers who were enrolled in the validation, and of those tested in another recording session.
    """

    candidate: Candidate
    scorer: Scorer
    validation: tuple[tuple[str, float], ...]
    unadapted: float
    accuracy: float
    speakers: int
    utterances: int
    validated: int
    sessions: int

    @property
    def validation_eer(self) -> float:
        """EER of the best candidate on held-out speakers."""
        return self.validation[0][1]


def candidates(training: LabeledEmbeddings) -> tuple[Candidate, ...]:
    """Return the candidates for some training speech, simple ones first."""
    plain: list[Backend] = [Cosine(), Centered(), Wccn(0.05), Wccn(0.3), Lda(20), Lda(60), Plda(60)]
    plain += [Plda(60, by_count=False), MarginSoftmax(), SNorm(Wccn(0.05)), SNorm(Wccn(0.3)), SNorm(Lda(60))]
    chosen = [Candidate(backend) for backend in plain]
    if training.trunk is not None:
        deep: list[Backend] = [Wccn(0.3), Lda(60, 0.3), Plda(60, 0.3, by_count=False), SNorm(Wccn(0.1))]
        chosen += [Candidate(backend, True) for backend in deep]
    else:
        chosen += [Candidate(SNorm(Scaled(Wccn(shrinkage)))) for shrinkage in (0.1, 0.5, 0.8)]
    return tuple(chosen)


def adapt(
    training: LabeledEmbeddings,
    tried: Sequence[Candidate] | None = None,
    *,
    cache: Cache | None = None,
    quiet: bool = True,
) -> Adapted:
    """Compare candidates on held-out speakers, and fit the best one to all training speech.

    Parameters
    ----------
    training : TrainingSet
        The training speech.
    tried : sequence of Candidate, optional
        By default those of :func:`candidates`.
    cache : Cache, optional
        Keeps the validation EERs, which take long, by the content of the training speech.
    quiet : bool
        Show no progress.

    Raises
    ------
    InputError
        If there are too few training speakers.
    """
    tried = candidates(training) if tried is None else tried
    store = Cache(None) if cache is None else cache
    known = [training.embeddings, training.trunk, training.speaker, training.gender, training.unit]
    rates = []
    with Progress("attacker learning", len(tried), unit="back-ends", quiet=quiet) as progress:
        for candidate in tried:
            rates.append(store.remember("validation 1", [*known, candidate], partial(validate, candidate, training)))
            progress.advance()
    ranked = sorted(zip(rates, tried, strict=True), key=lambda pair: pair[0])  # stable: the simpler one of equals
    best = ranked[0][1]
    vectors = training.vectors(best.on_trunk)
    scorer = best.backend.fit(vectors, training.speaker)
    accuracy = store.remember(
        "training accuracy 1", [*known, best], lambda: training_accuracy(scorer, vectors, training.speaker)
    )
    return Adapted(
        best,
        scorer,
        tuple((candidate.name, rate) for rate, candidate in ranked),
        validate(Candidate(Cosine()), training),
        accuracy,
        len(np.unique(training.speaker)),
        len(training.speaker),
        training.speakers,
        training.sessions,
    )


def validate(candidate: Candidate, training: LabeledEmbeddings) -> float:
    """Return the EER of a candidate on held-out speakers, as a fraction: the mean over folds and genders."""
    vectors = training.vectors(candidate.on_trunk)
    rates = []
    for held_out, groups in _folds(training):
        scorer = candidate.backend.fit(vectors[~held_out], training.speaker[~held_out])
        for group in groups:
            target, nontarget = _fold_scores(scorer, vectors[group], training.speaker[group], training.unit[group])
            rates.append(metrics.eer(target, nontarget))
    return float(np.mean(rates))


def _folds(training: LabeledEmbeddings) -> Iterator[tuple[NDArray[np.bool_], list[Codes]]]:
    """Yield for each fold a mask (n,) of held-out utterances, and the held-out rows of each gender."""
    labels, codes, counts = np.unique(training.speaker, return_inverse=True, return_counts=True)
    gender = np.array([training.gender[codes == i][0] for i in range(len(labels))])
    fold = np.zeros(len(labels), dtype=np.int64)
    for sex in np.unique(gender):  # spread speakers with much and with little speech evenly
        members = np.flatnonzero(gender == sex)
        fold[members[np.argsort(-counts[members], kind="stable")]] = np.arange(len(members)) % _FOLDS
    usable = False
    for number in range(_FOLDS):
        groups = []
        for sex in np.unique(gender):
            inside = (fold == number) & (gender == sex)
            if (inside & (counts >= _FEWEST)).sum() >= 2:
                groups.append(np.flatnonzero(inside[codes]))
        if groups:
            usable = True
            yield (fold == number)[codes], groups
    if not usable:
        raise InputError(
            f"{int((counts >= _FEWEST).sum())} training speaker(s) with four utterances are too few to validate an "
            "attacker",
            fix="give more training data: at least sixteen such speakers, of both genders",
        )


def _fold_scores(scorer: Scorer, vectors: Floats, speaker: Codes, unit: NDArray[np.str_]) -> tuple[Floats, Floats]:
    """Return the target and the nontarget scores within a group of held-out speakers."""
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
    """Return the rows of one speaker for enrollment and for trials.

    The first units are enrolled, up to half of the rows and at most twelve; the others are tested. A speaker with less
    than four utterances is not enrolled.
    """
    half = min(len(rows) // 2, _ENROLLED)
    names, first, size = np.unique(unit, return_index=True, return_counts=True)
    order = np.argsort(first)
    count = max(int((np.cumsum(size[order]) <= half).sum()), 1)
    if len(rows) < _FEWEST or count == len(names):
        return rows[:0], rows
    inside = np.isin(unit, names[order[:count]])
    return rows[inside][:half], rows[~inside]


def training_accuracy(scorer: Scorer, vectors: Floats, speaker: Codes) -> float:
    """Return the share of training utterances whose own speaker scores highest, as a fraction.

    Speakers are enrolled with all their utterances; the own speaker without the one that is tested.
    """
    _, codes, counts = np.unique(speaker, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts >= _FEWEST)
    sums = np.array([vectors[codes == i].sum(axis=0) for i in several])
    right = total = 0
    for row, i in enumerate(several):
        utterances = vectors[codes == i]
        others = scorer(sums / counts[several, None], counts[several], utterances)
        others[row] = -np.inf
        without = (sums[row] - utterances) / (counts[i] - 1)
        own = np.diagonal(scorer(without, np.full(len(utterances), counts[i] - 1), utterances))
        right += int((own > others.max(axis=0)).sum())
        total += len(utterances)
    return right / total
