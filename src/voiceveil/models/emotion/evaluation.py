"""Is the emotion kept? Recognizers trained on the original speech of others judge original and anonymized speech.

Conventions: rates are fractions; labels are those of the corpus, e.g. ``ang hap neu sad``; ids, labels and folds of a
test corpus come from the *original* corpus, by utterance id, so that an anonymized folder needs no labels.

The protocol is that of the VoicePrivacy 2024 Challenge (evaluation plan, section 3.2, Table 2 and section 4.3.2): each
fold is held out once, a recognizer is trained on the original speech of the other folds, and the UAR is the mean over
the folds. The folds are those of the corpus (sessions of IEMOCAP) or, if it has none, its speakers.

>>> folds = emotion_folds(original)                                         # doctest: +SKIP
>>> recognizer = train_emotion_recognizer(original, folds)                  # doctest: +SKIP
>>> print(evaluate_emotion(original, folds, recognizer).uar)                # doctest: +SKIP
82.7% [77.5, 87.1]
>>> print(evaluate_emotion(anonymized, folds, recognizer).uar)              # doctest: +SKIP
55.1% [48.7, 61.0]

The embedded recognizer is linear, on the functionals of :mod:`voiceveil.models.emotion.functionals`; the challenge's
is a wav2vec2 model, for which see :mod:`voiceveil.models.emotion.neural`. Their figures are not comparable.

No recognizer is told who speaks: anonymized speech has no speaker to normalize by, and a normalization by the *true*
speaker would use what is to be hidden. What may be used is in ``normalize``:

* ``corpus`` (default): features are standardized over the whole corpus under test, all speakers and emotions together
  and without labels. A system that changes all voices alike (their timbre, their noise) is not punished for that.
* ``training``: by the training speech alone, as in the challenge. It asks whether speech can be given to a recognizer
  that does not expect anonymization; a linear one then mostly measures how far the timbre has moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.metrics.emotion import FoldUAR, uar_over_folds
from voiceveil.models.emotion.folds import EMOTIONS, EmotionFolds, emotion_folds
from voiceveil.models.emotion.functionals import Functionals
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator
from voiceveil.stats.intervals import Range, interval
from voiceveil.stats.logistic import LinearClassifier, choose_penalty, fit, standard
from voiceveil.stats.values import Estimate

__all__ = [
    "EMOTIONS",
    "EmotionFolds",
    "EmotionRecognizer",
    "EmotionResult",
    "LinearRecognizer",
    "emotion_folds",
    "evaluate_emotion",
    "train_emotion_recognizer",
]

Array = NDArray[np.float64]
Normalization = Literal["corpus", "training"]


class EmotionRecognizer(Protocol):
    """What judges utterances, each by the model that has not seen its fold."""

    def recognize(
        self, utterances: Sequence[Utterance], folds: EmotionFolds, context: RunContext | None = None
    ) -> dict[str, str]:
        """Utterance id -> emotion."""
        ...


@dataclass(frozen=True, eq=False)
class EmotionResult:
    """``uar``: the mean over the folds, with an interval over speakers; ``folds``: the parts of that mean.

    ``hyps``: utterance id -> what was recognized. ``missing``: utterances of the judged speakers that the original
    corpus has and the corpus under test has not; where there are any, the figures of two systems may not compare.
    """

    uar: Estimate
    folds: FoldUAR
    hyps: Mapping[str, str]
    missing: int

    @property
    def chance(self) -> float:
        """What guessing gives: 1 / number of classes."""
        return 1 / len(self.folds.recalls)


@dataclass(frozen=True, eq=False)
class LinearRecognizer:
    """The embedded recognizer: one linear classifier a fold, on one vector of features an utterance."""

    classifiers: Mapping[str, LinearClassifier]  # of the fold that it has not seen
    features: Evaluator[Array]
    normalize: Normalization

    def recognize(
        self,
        utterances: Sequence[Utterance],
        folds: EmotionFolds,
        context: RunContext | None = None,
    ) -> dict[str, str]:
        """Utterance id -> emotion."""
        if unknown := sorted({folds.fold[u.id] for u in utterances} - set(self.classifiers)):
            raise InputError(f"the recognizer was not trained for fold {unknown[0]}", fix="use the folds it came from")
        if self.normalize == "corpus":
            _check_classes(utterances, folds)
        vectors = (context or RunContext()).extract(utterances, self.features)
        x = np.array([vectors[u.id] for u in utterances])
        classifiers = self.classifiers
        if self.normalize == "corpus":
            mean, scale = standard(x)
            classifiers = {fold: replace(c, mean=mean, scale=scale) for fold, c in classifiers.items()}
        rows = zip(utterances, x, strict=True)
        return {u.id: classifiers[folds.fold[u.id]].predict(row[None])[0] for u, row in rows}


def _check_classes(utterances: Sequence[Utterance], folds: EmotionFolds) -> None:
    """Half of the emotions, standardized over themselves, would look like other emotions."""
    if lacking := sorted(set(folds.emotions) - {folds.emotion[u.id] for u in utterances}):
        raise InputError(
            f"the corpus under test has no {lacking[0]}", fix='judge all emotions, or use normalize="training"'
        )


def train_emotion_recognizer(
    corpus: Corpus,
    folds: EmotionFolds,
    context: RunContext | None = None,
    *,
    features: Evaluator[Array] | None = None,
    normalize: Normalization = "corpus",
) -> LinearRecognizer:
    """For each fold a classifier from the original speech of the others.

    Its penalty comes from a cross-validation over the training folds (over their speakers, if only one fold is left to
    train on): the speakers that are judged have no part in any choice.
    """
    if normalize not in ("corpus", "training"):
        raise InputError(f"unknown normalization {normalize!r}", fix="use 'corpus' or 'training'")
    evaluator = Functionals() if features is None else features
    listed = [_member(corpus, name) for name in folds.fold]
    run = context or RunContext()
    vectors = run.extract(listed, evaluator)
    x = np.array([vectors[u.id] for u in listed])
    fold = np.array([folds.fold[u.id] for u in listed])
    emotion = np.array([folds.emotion[u.id] for u in listed])
    group = np.array([folds.speaker[u.id] for u in listed]) if len(folds.names) == 2 else fold
    classifiers = {}
    for held_out in folds.names:
        rest = fold != held_out
        chosen = x[rest], emotion[rest].tolist(), group[rest].tolist()
        penalty = run.cache.remember("emotion penalty 1", chosen, partial(choose_penalty, *chosen))
        classifiers[held_out] = fit(chosen[0], chosen[1], penalty)
    return LinearRecognizer(classifiers, evaluator, normalize)


def _member(corpus: Corpus, name: str) -> Utterance:
    if name not in corpus:
        raise InputError(f"utterance {name} of the folds is not in the corpus", where=corpus.root)
    return corpus[name]


def evaluate_emotion(
    test: Corpus,
    folds: EmotionFolds,
    recognizer: EmotionRecognizer,
    context: RunContext | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> EmotionResult:
    """Return the UAR of a corpus, original or anonymized; its utterances that ``folds`` does not know are left out.

    For the development or evaluation set of IEMOCAP give those speakers alone:
    ``corpus.filter(lambda u: u.subset == "dev")``.
    """
    listed = [u for u in test if u.id in folds.fold]
    if not listed:
        fix = "an anonymized corpus must keep the utterance ids of the original"
        raise InputError("the corpus has no utterance of the folds", where=test.root, fix=fix)
    hyps = recognizer.recognize(listed, folds, context)
    judged = {folds.speaker[u.id] for u in listed}
    missing = sum(speaker in judged and name not in hyps for name, speaker in folds.speaker.items())
    columns = [[column[u.id] for u in listed] for column in (folds.emotion, hyps, folds.fold, folds.speaker)]
    refs, found, fold, speakers = columns
    result = uar_over_folds(refs, found, fold)
    replicates, count = _replicates(refs, found, fold, speakers, resamples, seed)
    estimate = interval(result.value, replicates, count, span=Range(mirrored=True), unit="%")
    return EmotionResult(estimate, result, hyps, missing)


def _replicates(
    refs: Sequence[str], hyps: Sequence[str], folds: Sequence[str], speakers: Sequence[str], resamples: int, seed: int
) -> tuple[Array, int]:
    """The mean UAR over the folds when speakers are drawn with replacement, shape (resamples,); and how many they are.

    A fold weighs what the share of its speakers weighs that was drawn, so that the mean of all draws is the mean over
    the folds. The recognizers stay as they are: the interval is about other speakers, not about other training data.
    """
    names, speaker = np.unique(speakers, return_inverse=True)
    labels, label = np.unique(refs, return_inverse=True)
    right = np.asarray(refs) == np.asarray(hyps)
    count, hits = np.zeros((2, len(names), len(labels)))
    np.add.at(count, (speaker, label), 1)
    np.add.at(hits, (speaker, label), right)
    weights = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    total, mass = np.zeros(resamples), np.zeros(resamples)
    for fold in sorted(set(folds)):
        members = np.unique(speaker[np.asarray(folds) == fold])
        drawn = weights[:, members]
        seen = drawn @ count[members]
        recall = np.divide(drawn @ hits[members], seen, out=np.zeros_like(seen), where=seen > 0)
        share = drawn.sum(axis=1) / len(members)
        total += share * recall.sum(axis=1) / np.maximum((seen > 0).sum(axis=1), 1)
        mass += share
    return total / mass, len(names)
