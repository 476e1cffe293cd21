"""Cross-validation of attackers over the speakers of their training speech, never on the attacked trials.

Each fold mimics the attack: a quarter of the speakers is held out; they are enrolled with half of their utterances (at
most twelve) and compared with the other utterances, women and men separately. Speakers with several recording sessions
are enrolled with some sessions and tested with others, as in the challenges, because a known microphone would give the
speaker away. If there are enough such speakers, only their target trials count.

Conventions: as in :mod:`voiceveil.attack.backends`. Folds depend on the labels alone: attackers with the same training
speech have the same folds and trials, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil import metrics
from voiceveil.attack.backends import Backend, Cosine, Scorer, fit_with_enrollment
from voiceveil.attack.groups import disjoint_groups
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.covariances import Codes, Floats

__all__ = ["FEWEST_UTTERANCES", "Candidate", "HeldOutScores", "LabeledEmbeddings", "held_out_scores", "validate"]

FOLDS = 4
_ENROLLED = 12  # utterances at most, about as many as the challenges' speakers have
FEWEST_UTTERANCES = 4  # of a speaker who can be enrolled and tested
_ENOUGH_SESSIONS = 4 * FOLDS  # speakers with several sessions, about two of each gender in a fold


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
        Utterances of one unit are not split between enrollment and trials: recording sessions, or single utterances.
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
        return int((np.unique(self.speaker, return_counts=True)[1] >= FEWEST_UTTERANCES).sum())

    def vectors(self, on_trunk: bool) -> Floats:
        """Return the output of the trunk (n, w) or the embeddings (n, d)."""
        if not on_trunk:
            return self.embeddings
        if self.trunk is None:
            raise InputError("this encoder has no last layer that can be adapted")
        return self.trunk


@dataclass(frozen=True)
class Candidate:
    """A back-end, on embeddings or on the output of the encoder's trunk.

    Parameters
    ----------
    backend : Backend
        The back-end.
    on_trunk : bool
        It takes the place of the encoder's last layer.
    from_enrollment : bool
        It also learns from the enrollment utterances of the attacked speakers, with their labels.
    """

    backend: Backend
    on_trunk: bool = False
    from_enrollment: bool = False

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{'trunk ' if self.on_trunk else ''}{self.backend.name}"


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of trials among held-out training speakers.

    Parameters
    ----------
    score, target : array of shape (n,)
        Scores, and whether the speaker is the enrolled one.
    fold, group : array of int, shape (n,)
        The fold in which the speakers were held out, and a number of its speakers of one gender.
    """

    score: Floats
    target: NDArray[np.bool_]
    fold: Codes
    group: Codes

    def eer(self, score: Floats | None = None) -> float:
        """Return the mean EER over the groups, of these scores or of others of the same trials, as a fraction."""
        scores = self.score if score is None else score
        rates = []
        for number in np.unique(self.group):
            inside = self.group == number
            rates.append(metrics.eer(scores[inside & self.target], scores[inside & ~self.target]))
        return float(np.mean(rates))


def validate(candidate: Candidate, training: LabeledEmbeddings) -> float:
    """Return the EER of a candidate on held-out speakers, as a fraction: the mean over folds and genders."""
    return held_out_scores(candidate, training).eer()


def held_out_scores(candidate: Candidate, training: LabeledEmbeddings, size: int = 1) -> HeldOutScores:
    """Return the scores of trials among held-out speakers.

    Parameters
    ----------
    candidate
        The back-end, which is fitted to the other speakers of each fold and, if it learns from enrollment, to the
        enrollment utterances of those held out.
    training
        The training speech.
    size
        Utterances of a trial, whose mean embedding is compared.

    Raises
    ------
    InputError
        If there are too few training speakers.
    """
    vectors = training.vectors(candidate.on_trunk)
    parts = []
    group_number = 0
    for number, (held_out, groups) in enumerate(_folds(training, size)):
        learned = ~held_out
        if candidate.from_enrollment:
            enrolled = [row for group in groups for rows in group.enrolled for row in rows]
            learned[enrolled] = True
            scorer = fit_with_enrollment(
                candidate.backend, vectors[learned], training.speaker[learned], held_out[learned]
            )
        else:
            scorer = candidate.backend.fit(vectors[learned], training.speaker[learned])
        for group in groups:
            scores = group.scores(scorer, vectors)[group.counted]
            target = group.target[group.counted]
            parts.append((scores, target, np.full(len(scores), number), np.full(len(scores), group_number)))
            group_number += 1
    return HeldOutScores(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class _Group:
    """Held-out speakers of one gender: rows of their enrollment, and rows of each trial, with labels (s, t)."""

    enrolled: Sequence[Codes]
    tests: Sequence[Codes]
    target: NDArray[np.bool_]
    counted: NDArray[np.bool_]

    def scores(self, scorer: Scorer, vectors: Floats) -> Floats:
        """Return the scores (s, t)."""
        means = np.array([vectors[rows].mean(axis=0) for rows in self.enrolled])
        tests = np.array([vectors[rows].mean(axis=0) for rows in self.tests])
        return scorer(means, np.array([len(rows) for rows in self.enrolled]), tests)


def _folds(training: LabeledEmbeddings, size: int) -> list[tuple[NDArray[np.bool_], list[_Group]]]:
    """Return for each fold a mask (n,) of held-out utterances, and the trials of each gender."""
    labels, codes, counts = np.unique(training.speaker, return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    gender = np.array([training.gender[codes == i][0] for i in range(len(labels))])
    fold = np.zeros(len(labels), dtype=np.int64)
    for sex in np.unique(gender):  # spread speakers with much and with little speech evenly
        members = np.flatnonzero(gender == sex)
        fold[members[np.argsort(-counts[members], kind="stable")]] = np.arange(len(members)) % FOLDS
    several = np.array([len(set(training.unit[codes == i])) < counts[i] for i in range(len(labels))])
    across = several if (several & (counts >= FEWEST_UTTERANCES)).sum() >= _ENOUGH_SESSIONS else np.ones_like(several)
    folds = []
    for number in range(FOLDS):
        groups = []
        for sex in np.unique(gender):
            inside = (fold == number) & (gender == sex)
            group = _group(training, np.flatnonzero(inside), codes, across, size)
            if group is not None:
                groups.append(group)
        if groups:
            folds.append(((fold == number)[codes], groups))
    if not folds:
        raise InputError(
            f"{int((counts >= FEWEST_UTTERANCES).sum())} training speaker(s) with four utterances are too few to "
            "validate an attacker",
            fix="give more training data: at least sixteen such speakers, of both genders",
        )
    return folds


def _group(
    training: LabeledEmbeddings, speakers: Codes, codes: Codes, across: NDArray[np.bool_], size: int
) -> _Group | None:
    """Return the trials among some speakers; None if fewer than two of them can be enrolled and one be tested."""
    enrolled, names, tests, tested = [], [], [], []
    for speaker in speakers.tolist():
        rows = np.flatnonzero(codes == speaker)
        own, others = split_rows(rows, training.unit[rows])
        if len(own):
            enrolled.append(own)
            names.append(speaker)
        ids = {str(row): row for row in others.tolist()}
        for members in disjoint_groups(sorted(ids), size, speaker=str(speaker)):
            tests.append(np.array([ids[key] for key in members]))
            tested.append(speaker)
    if len(enrolled) < 2:
        return None
    target = np.array(names)[:, None] == np.array(tested, dtype=np.int64)[None]
    counted = ~target | across[np.array(names)][:, None]
    if not (target & counted).any() or not (~target).any():
        return None
    return _Group(enrolled, tests, target, counted)


def split_rows(rows: Codes, unit: NDArray[np.str_]) -> tuple[Codes, Codes]:
    """Return the rows of one speaker for enrollment and for trials.

    The first units are enrolled, up to half of the rows and at most twelve; the others are tested. A speaker with less
    than four utterances is not enrolled.
    """
    half = min(len(rows) // 2, _ENROLLED)
    names, first, size = np.unique(unit, return_index=True, return_counts=True)
    order = np.argsort(first)
    count = max(int((np.cumsum(size[order]) <= half).sum()), 1)
    if len(rows) < FEWEST_UTTERANCES or count == len(names):
        return rows[:0], rows
    inside = np.isin(unit, names[order[:count]])
    return rows[inside][:half], rows[~inside]


def unadapted_eer(training: LabeledEmbeddings) -> float:
    """Return the EER of plain cosines on held-out speakers, as a fraction."""
    return validate(Candidate(Cosine()), training)
