"""Inference, the third criterion of Opinion 05/2014: what a voice tells about a person beyond who it is.

The paper leaves this criterion open. Here it is attribute inference: from an x-vector of L anonymized utterances a
linear classifier says the gender, age group, accent or emotion; it has learned from *other* speakers of the release,
whose attributes are taken as known (cross-validation over speakers). Three figures go together:

* attack: the unweighted average recall (UAR) on speakers that the classifier has never heard;
* baseline: 1 / number of classes, the UAR of any guess that does not listen;
* control: the same attack with the attribute shuffled over speakers, which can only be luck or a fault of ours.

An attribute that is the same in all utterances of a speaker is shuffled over speakers, another over utterances; the
latter, such as an emotion, is inferred from single utterances only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from voiceveil.metrics import legal
from voiceveil.metrics.legal import Voices
from voiceveil.risk.embeddings import Names
from voiceveil.risk.sets import Attack

__all__ = ["Inference", "infer", "labelled"]

_FOLDS = 5
_VECTORS = 3000  # x-vectors at most, so that 22,024 speakers take no longer than needed
_EACH = 4  # of a speaker
_SPEAKERS = 5  # with a class at least: with fewer, a classifier learns people
_SHUFFLES = 3


@dataclass(frozen=True)
class Inference:
    """How well an attacker infers an attribute at one L: UAR with its 95 % interval, baseline and control."""

    attacker: str
    attribute: str
    length: int
    classes: tuple[str, ...]
    value: float
    low: float
    high: float
    baseline: float
    control: float
    speakers: int
    vectors: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class _Labelled:
    """x-vectors with their speakers (codes) and labels; ``personal``: the label never changes within a speaker."""

    vectors: legal.Vectors
    speaker: legal.Ints
    label: Names
    personal: bool


def labelled(label: Names, speaker: legal.Ints) -> tuple[str, ...]:
    """The classes that enough speakers have, sorted; fewer than two cannot be told apart."""
    return tuple(str(name) for name in np.unique(label) if name and len(np.unique(speaker[label == name])) >= _SPEAKERS)


def infer(attack: Attack, attribute: str, length: int, *, seed: int = 0) -> Inference | None:
    """The attack on one attribute; None if there are not two classes with enough speakers, or L does not suit it."""
    from voiceveil import stats

    data = _collect(attack.parts[0].a, attack.labels[attribute], length, seed)
    if data is None:
        return None
    rng = np.random.default_rng([seed, 5])
    penalty = _penalty(data)
    truth, guess = data.label, _cross_validate(data, data.label, penalty)
    classes = tuple(np.unique(truth).tolist())
    found = stats.uar(truth, guess, data.speaker, seed=seed)
    control = []
    for _ in range(_SHUFFLES):
        other = _shuffled(data, rng)
        control.append(stats.uar(other, _cross_validate(data, other, penalty), data.speaker, resamples=2).value)
    return Inference(
        attack.name,
        attribute,
        length,
        classes,
        found.value,
        found.low,
        found.high,
        1 / len(classes),
        float(np.mean(control)),
        len(np.unique(data.speaker)),
        len(truth),
    )


def _collect(spoken: Voices, label: Names, length: int, seed: int) -> _Labelled | None:
    """Up to four x-vectors of each of as many speakers as there is room for, in classes that enough speakers have."""
    classes = labelled(label, spoken.codes)
    known = np.flatnonzero(np.isin(label, classes))
    if len(classes) < 2:
        return None
    personal = all(len(set(label[rows])) == 1 for rows in _groups(spoken.codes, known))
    if not personal and length > 1:
        return None
    rng = np.random.default_rng([seed, 4])
    names = np.unique(spoken.codes[known])
    chosen = rng.choice(names, min(len(names), _VECTORS // _EACH), replace=False)
    rows = known[np.isin(spoken.codes[known], chosen)]
    if np.bincount(spoken.codes[rows]).max() < length:
        return None
    groups, counts = legal.draw_rows(spoken.codes[rows], length, most=_EACH, rng=rng)
    vectors = legal.unit_rows(spoken.matrix[rows[groups]].mean(axis=1))
    drawn = label[rows[groups[:, 0]]]
    speaker = np.repeat(np.arange(len(counts)), counts)
    kept = np.isin(drawn, labelled(drawn, speaker))
    if len(set(drawn[kept])) < 2:
        return None
    return _Labelled(vectors[kept], speaker[kept], drawn[kept], personal)


def _groups(codes: legal.Ints, rows: legal.Ints) -> Sequence[legal.Ints]:
    order = rows[np.argsort(codes[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _penalty(data: _Labelled) -> float:
    """Of the classifier, by a cross-validation over the first speakers; the same for attack and control.

    It has seen these labels: the attacker is a little better than honest, which errs on the side of caution.
    """
    from voiceveil.stats.logistic import choose_penalty

    some = slice(0, 600)
    return choose_penalty(data.vectors[some], data.label[some].tolist(), [str(name) for name in data.speaker[some]])


def _cross_validate(data: _Labelled, label: Names, penalty: float) -> Names:
    """What classifiers that have learned from the other folds' speakers say, (n,)."""
    from voiceveil.stats.logistic import fit

    names, speaker = np.unique(data.speaker, return_inverse=True)
    # Every fold has speakers of every class: those of a class are dealt out in turn.
    first = np.array([label[speaker == number][0] for number in range(len(names))])
    fold = np.empty(len(names), dtype=np.int64)
    fold[np.argsort(first, kind="stable")] = np.arange(len(names)) % _FOLDS
    guess = np.empty(len(label), dtype=label.dtype)
    for number in range(_FOLDS):
        held_out = fold[speaker] == number
        model = fit(data.vectors[~held_out], label[~held_out].tolist(), penalty)
        guess[held_out] = model.predict(data.vectors[held_out])
    return guess


def _shuffled(data: _Labelled, rng: np.random.Generator) -> Names:
    """The labels of other people, or of other utterances."""
    if not data.personal:
        return rng.permutation(data.label)
    names, first, speaker = np.unique(data.speaker, return_index=True, return_inverse=True)
    return data.label[first][rng.permutation(len(names))][speaker]
