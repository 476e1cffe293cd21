"""Emotion recognition: the unweighted average recall (UAR) on original and anonymized speech.

Conventions: rates are fractions; labels are those of the corpus, e.g. ``ang hap neu sad``; labels and folds of a test
corpus come from the *original* corpus, by utterance id, so that an anonymized folder needs no labels.

The protocol is that of the VoicePrivacy 2024 Challenge (evaluation plan, section 3.2, Table 2 and section 4.3.2): each
fold is held out once, a recognizer is trained on the original speech of the other folds, and the UAR is the mean over
the folds. The folds are those of the corpus (sessions of IEMOCAP) or, if it has none, its speakers.

>>> folds = emotion_folds(original)                                         # doctest: +SKIP
>>> recognizer = train_emotion_recognizer(original, folds)                  # doctest: +SKIP
>>> print(evaluate_emotion(original, folds, recognizer).uar)                # doctest: +SKIP
82.7% [77.5, 87.1]
>>> print(evaluate_emotion(anonymized, folds, recognizer).uar)              # doctest: +SKIP
55.1% [48.7, 61.0]

The default recognizer is linear, on the functionals of :mod:`voiceveil.models.emotion.functionals`; the challenge's is
a wav2vec2 model, see :mod:`voiceveil.models.emotion.neural`. Their figures are not comparable.

Features are never normalized by speaker: anonymized speech has no known speaker, and the *true* speaker is what is to
be hidden. The argument ``normalize`` selects:

* ``corpus`` (default): features are standardized over the whole corpus under test, all speakers and emotions together
  and without labels. A system that changes all voices alike (their timbre, their noise) is not penalized for that.
* ``training``: features are standardized with the statistics of the training speech, as in the challenge. This measures
  how well a recognizer works that is not prepared for anonymization; with a linear one, the result mostly shows how
  much the timbre has changed.
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
from voiceveil.metrics.emotion import FoldUAR, Method, uar_over_folds
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
    """Recognizes the emotion of utterances, each with the model that was trained without its fold."""

    @property
    def uar_method(self) -> Method:
        """Definition of the UAR, see :mod:`voiceveil.metrics.emotion`."""
        ...

    def recognize(
        self, utterances: Sequence[Utterance], folds: EmotionFolds, context: RunContext | None = None
    ) -> dict[str, str]:
        """Return utterance id -> emotion.

        Parameters
        ----------
        utterances
            Of the corpus under test; all are in ``folds``.
        folds
            Labels and folds of the original corpus.
        context
            Cache, jobs and progress.
        """
        ...


@dataclass(frozen=True, eq=False)
class EmotionResult:
    """Emotion recognition on a corpus.

    Attributes
    ----------
    uar
        Mean over the folds, with an interval over speakers.
    folds
        The recalls that the mean is computed from.
    hyps
        Utterance id -> recognized emotion.
    missing
        Number of utterances of the tested speakers that are in the original corpus but not in the one under test; if
        there are any, figures of two systems may not be comparable.
    """

    uar: Estimate
    folds: FoldUAR
    hyps: Mapping[str, str]
    missing: int

    @property
    def chance(self) -> float:
        """UAR of guessing: 1 / number of classes."""
        return 1 / len(self.folds.recalls)


@dataclass(frozen=True, eq=False)
class LinearRecognizer:
    """The default recognizer: a linear classifier for each fold, on one feature vector per utterance."""

    classifiers: Mapping[str, LinearClassifier]  # fold -> classifier that was trained without it
    features: Evaluator[Array]
    normalize: Normalization
    uar_method: Method = "published"

    def recognize(
        self,
        utterances: Sequence[Utterance],
        folds: EmotionFolds,
        context: RunContext | None = None,
    ) -> dict[str, str]:
        """Return utterance id -> emotion, for utterances of ``folds``."""
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
    """Raise an ``InputError`` if an emotion is missing: the mean over the others would be no neutral reference."""
    if missing := sorted(set(folds.emotions) - {folds.emotion[u.id] for u in utterances}):
        fix = 'test on all emotions, or use normalize="training"'
        raise InputError(f"the corpus under test has no utterance with the emotion {missing[0]}", fix=fix)


def train_emotion_recognizer(
    corpus: Corpus,
    folds: EmotionFolds,
    context: RunContext | None = None,
    *,
    features: Evaluator[Array] | None = None,
    normalize: Normalization = "corpus",
) -> LinearRecognizer:
    """Return the linear recognizer: for each fold, a classifier trained on the original speech of the other folds.

    Its penalty is chosen by cross-validation over the training folds (over their speakers, if only one fold is left to
    train on), so that the held-out speakers influence no choice.

    Parameters
    ----------
    corpus
        Original speech with all utterances of ``folds``.
    folds
        See :func:`emotion_folds`.
    context
        Cache, jobs and progress.
    features
        Returns the feature vector of an utterance; default: :class:`Functionals`.
    normalize
        ``corpus`` or ``training``, see the module.

    Raises
    ------
    InputError
        If an utterance of ``folds`` is missing, or ``normalize`` is unknown.
    """
    if normalize not in ("corpus", "training"):
        raise InputError(f"unknown normalization {normalize!r}", fix="use 'corpus' or 'training'")
    evaluator = Functionals() if features is None else features
    utterances = [_member(corpus, name) for name in folds.fold]
    run = context or RunContext()
    vectors = run.extract(utterances, evaluator)
    x = np.array([vectors[u.id] for u in utterances])
    fold = np.array([folds.fold[u.id] for u in utterances])
    emotion = np.array([folds.emotion[u.id] for u in utterances])
    group = np.array([folds.speaker[u.id] for u in utterances]) if len(folds.names) == 2 else fold
    classifiers = {}
    for held_out in folds.names:
        training = fold != held_out
        data = x[training], emotion[training].tolist(), group[training].tolist()
        penalty = run.cache.remember("emotion penalty 1", data, partial(choose_penalty, *data))
        classifiers[held_out] = fit(data[0], data[1], penalty)
    return LinearRecognizer(classifiers, evaluator, normalize)


def _member(corpus: Corpus, name: str) -> Utterance:
    if name not in corpus:
        fix = "give the corpus that the folds were made from"
        raise InputError(f"utterance {name} of the folds is not in the corpus", where=corpus.root, fix=fix)
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
    """Return the UAR of emotion recognition on a corpus.

    Parameters
    ----------
    test
        Original or anonymized speech; utterances that are not in ``folds`` are ignored. For the development set of
        IEMOCAP give ``corpus.filter(lambda u: u.subset == "dev")``.
    folds
        Labels and folds of the original corpus.
    recognizer
        From :func:`train_emotion_recognizer`, or a :class:`~voiceveil.models.emotion.neural.PretrainedRecognizer`.
    context
        Cache, jobs and progress.
    resamples, seed
        Of the bootstrap that gives the interval.

    Raises
    ------
    InputError
        If ``test`` has no utterance of ``folds``.
    """
    tested = [u for u in test if u.id in folds.fold]
    if not tested:
        fix = "an anonymized corpus must keep the utterance ids of the original"
        raise InputError("the corpus has no utterance of the folds", where=test.root, fix=fix)
    hyps = recognizer.recognize(tested, folds, context)
    tested_speakers = {folds.speaker[u.id] for u in tested}
    missing = sum(speaker in tested_speakers and name not in hyps for name, speaker in folds.speaker.items())
    columns = [[column[u.id] for u in tested] for column in (folds.emotion, hyps, folds.fold, folds.speaker)]
    refs, recognized, fold, speakers = columns
    uar = uar_over_folds(refs, recognized, fold, method=recognizer.uar_method)
    replicates, count = _replicates(refs, recognized, fold, speakers, resamples, seed)
    estimate = interval(uar.value, replicates, count, span=Range(mirrored=True), unit="%")
    return EmotionResult(estimate, uar, hyps, missing)


def _replicates(
    refs: Sequence[str], hyps: Sequence[str], folds: Sequence[str], speakers: Sequence[str], resamples: int, seed: int
) -> tuple[Array, int]:
    """Return the UAR (resamples,) of bootstrap samples of the speakers, and the number of speakers.

    A fold is weighted by the number of its speakers that were drawn, relative to their expected number, so that the
    mean of all draws is the mean over the folds. The recognizers are not retrained: the interval is about other test
    speakers, not about other training data.
    """
    names, speaker = np.unique(speakers, return_inverse=True)
    labels, label = np.unique(refs, return_inverse=True)
    correct = np.asarray(refs) == np.asarray(hyps)
    count, hits = np.zeros((2, len(names), len(labels)))  # of utterances, and of correct ones
    np.add.at(count, (speaker, label), 1)
    np.add.at(hits, (speaker, label), correct)
    draws = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    weighted_sum, weights = np.zeros(resamples), np.zeros(resamples)
    for fold in sorted(set(folds)):
        members = np.unique(speaker[np.asarray(folds) == fold])
        drawn = draws[:, members]
        utterances = drawn @ count[members]  # (resamples, labels)
        recall = np.divide(drawn @ hits[members], utterances, out=np.zeros_like(utterances), where=utterances > 0)
        weight = drawn.sum(axis=1) / len(members)
        weighted_sum += weight * recall.sum(axis=1) / np.maximum((utterances > 0).sum(axis=1), 1)
        weights += weight
    return weighted_sum / weights, len(names)
