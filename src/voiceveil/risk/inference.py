"""Inference, the third criterion of Opinion 05/2014: attributes of a person that can be inferred from the voice.

The paper leaves this criterion open. Here it is attribute inference: a linear classifier predicts gender, age group,
accent or emotion from an x-vector of L anonymized utterances. It is trained on *other* speakers of the release, whose
attributes are assumed to be known (cross-validation over speakers). Three figures go together:

* attack: the unweighted average recall (UAR) on speakers who were not in the training;
* baseline: 1 / number of classes, the UAR of a random guess;
* control: the same attack with shuffled attributes, whose UAR is luck or a fault of the method.

An attribute that is constant within speakers is shuffled over speakers, another over utterances; the latter, such as an
emotion, is inferred from single utterances only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from voiceveil.metrics import legal
from voiceveil.metrics.legal import UtteranceEmbeddings
from voiceveil.risk.embeddings import Names
from voiceveil.risk.sets import RiskAttack

__all__ = ["Inference", "frequent_classes", "infer"]

_FOLDS = 5
_VECTORS = 3000  # x-vectors at most, which bounds the time for 22,024 speakers
_EACH = 4  # x-vectors of one speaker at most
_SPEAKERS = 5  # of each class at least: with fewer, a classifier learns individual speakers
_SHUFFLES = 3


@dataclass(frozen=True)
class Inference:
    """UAR of one attacker for one attribute at one L, with its 95% interval, baseline and control."""

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
        """Return plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class _LabeledVectors:
    """x-vectors with speakers (codes) and labels; ``personal``: the label is constant within speakers."""

    vectors: legal.Vectors
    speaker: legal.Ints
    label: Names
    personal: bool


def frequent_classes(label: Names, speaker: legal.Ints) -> tuple[str, ...]:
    """Return the classes that at least five speakers have, sorted; labels and speaker codes have shape (n,)."""
    return tuple(str(name) for name in np.unique(label) if name and len(np.unique(speaker[label == name])) >= _SPEAKERS)


def infer(attack: RiskAttack, attribute: str, length: int, *, seed: int = 0) -> Inference | None:
    """Return the result of inferring one attribute.

    It is None if fewer than two classes have enough speakers, or if an attribute of utterances is asked for at L > 1.
    """
    from voiceveil import stats

    data = _collect(attack.parts[0].a, attack.labels[attribute], length, seed)
    if data is None:
        return None
    rng = np.random.default_rng([seed, 5])
    penalty = _penalty(data)
    truth, guess = data.label, _cross_validate(data, data.label, penalty)
    classes = tuple(np.unique(truth).tolist())
    uar = stats.uar(truth, guess, data.speaker, seed=seed)
    control = []
    for _ in range(_SHUFFLES):
        shuffled = _shuffle_labels(data, rng)
        control.append(stats.uar(shuffled, _cross_validate(data, shuffled, penalty), data.speaker, resamples=2).value)
    return Inference(
        attack.name,
        attribute,
        length,
        classes,
        uar.value,
        uar.low,
        uar.high,
        1 / len(classes),
        float(np.mean(control)),
        len(np.unique(data.speaker)),
        len(truth),
    )


def _collect(spoken: UtteranceEmbeddings, label: Names, length: int, seed: int) -> _LabeledVectors | None:
    """Return up to four x-vectors of each speaker, at most 3000, of classes that enough speakers have; or None."""
    classes = frequent_classes(label, spoken.codes)
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
    kept = np.isin(drawn, frequent_classes(drawn, speaker))
    if len(set(drawn[kept])) < 2:
        return None
    return _LabeledVectors(vectors[kept], speaker[kept], drawn[kept], personal)


def _groups(codes: legal.Ints, rows: legal.Ints) -> Sequence[legal.Ints]:
    order = rows[np.argsort(codes[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _penalty(data: _LabeledVectors) -> float:
    """Return the penalty of the classifier, by cross-validation over the first speakers.

    These labels are among the tested ones, which makes the attack a little too strong: an error on the safe side.
    """
    from voiceveil.stats.logistic import choose_penalty

    some = slice(0, 600)
    return choose_penalty(data.vectors[some], data.label[some].tolist(), [str(name) for name in data.speaker[some]])


def _cross_validate(data: _LabeledVectors, label: Names, penalty: float) -> Names:
    """Return the predicted labels, shape (n,), by classifiers trained on the speakers of the other folds."""
    from voiceveil.stats.logistic import fit

    names, speaker = np.unique(data.speaker, return_inverse=True)
    # Every fold has speakers of every class.
    first = np.array([label[speaker == number][0] for number in range(len(names))])
    fold = np.empty(len(names), dtype=np.int64)
    fold[np.argsort(first, kind="stable")] = np.arange(len(names)) % _FOLDS
    guess = np.empty(len(label), dtype=label.dtype)
    for number in range(_FOLDS):
        held_out = fold[speaker] == number
        model = fit(data.vectors[~held_out], label[~held_out].tolist(), penalty)
        guess[held_out] = model.predict(data.vectors[held_out])
    return guess


def _shuffle_labels(data: _LabeledVectors, rng: np.random.Generator) -> Names:
    """Return the labels, shuffled over speakers or, if they are not personal, over utterances."""
    if not data.personal:
        return rng.permutation(data.label)
    names, first, speaker = np.unique(data.speaker, return_index=True, return_inverse=True)
    return data.label[first][rng.permutation(len(names))][speaker]
