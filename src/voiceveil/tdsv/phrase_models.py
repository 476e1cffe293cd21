"""What is said: is it the passphrase?

Conventions: content has shape (frames, k); a score grows with the evidence for the passphrase, and is no likelihood
ratio yet. :class:`Projection` keeps the main directions of the content of training speech, without what is constant
in a recording (voice, microphone).

* :class:`PhraseClassifier`  known phrases (task 1): which of those that the training labels name, or free text?
* :class:`PhraseMatch`       unknown phrases (task 2): how near is the test to the enrollment, warped in time?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.stats import logistic
from voiceveil.tdsv import dtw

__all__ = ["PhraseClassifier", "PhraseMatch", "Projection", "Templates", "Wording"]

Content = NDArray[Any]
Frames = NDArray[np.float32]
Floats = NDArray[np.float64]

_DIMENSIONS = 32
_SEGMENTS = 8
_PENALTY = 0.03


@dataclass(frozen=True, eq=False)
class Projection:
    """The mean (k,) and the first principal directions (k, p) of the frames of training speech."""

    mean: Frames
    matrix: Frames

    @classmethod
    def fit(cls, contents: Sequence[Content], most: int = 300) -> Projection:
        """Learn from (at most so many, evenly chosen) recordings."""
        chosen = contents[:: max(1, -(-len(contents) // most))]
        frames = np.concatenate([np.asarray(content, np.float64) for content in chosen])
        mean = frames.mean(axis=0)
        vectors = np.linalg.eigh(np.cov((frames - mean).T))[1][:, ::-1]
        return cls(mean.astype(np.float32), np.ascontiguousarray(vectors[:, :_DIMENSIONS], np.float32))

    def __call__(self, content: Content) -> Frames:
        """Frames (n, p) of length 1, around the mean of the recording."""
        if not len(content):
            raise InputError("a recording too short to say anything")
        frames = (np.asarray(content, np.float32) - self.mean) @ self.matrix
        frames = frames - frames.mean(axis=0)
        return np.asarray(frames / np.maximum(np.linalg.norm(frames, axis=1, keepdims=True), 1e-6), np.float32)


@dataclass(frozen=True, eq=False, slots=True)
class Templates:
    """What a model keeps of its passphrase: the frames of its recordings in a row; or the phrase's number."""

    frames: Frames
    ends: NDArray[np.int64]
    phrase: int = -1


class Wording(Protocol):
    """Verifies a passphrase; each call sees one model or one test."""

    kind: ClassVar[str]

    def enroll(self, contents: Sequence[Content], phrase: str | None) -> Templates:
        """What a model keeps."""
        ...

    def hear(self, content: Content) -> NDArray[Any]:
        """What a test says."""
        ...

    def score(self, templates: Templates, heard: NDArray[Any]) -> float:
        """How much it is the passphrase."""
        ...


@dataclass(frozen=True, eq=False)
class PhraseMatch:
    """Minus the mean warped distance of the test from the enrollment recordings."""

    projection: Projection
    kind: ClassVar[str] = "match"

    @classmethod
    def fit(cls, contents: Sequence[Content], phrases: Sequence[str]) -> PhraseMatch:
        """Nothing is learned of phrases."""
        return cls(Projection.fit(contents))

    def enroll(self, contents: Sequence[Content], phrase: str | None = None) -> Templates:
        """The frames of all recordings."""
        frames = [self.projection(content) for content in contents]
        return Templates(np.concatenate(frames), np.cumsum([len(one) for one in frames]))

    def hear(self, content: Content) -> Frames:
        """Its frames."""
        return self.projection(content)

    def score(self, templates: Templates, heard: NDArray[Any]) -> float:
        """From -2 to 0."""
        return -float(dtw.mean_distance(templates.frames, templates.ends, heard))


@dataclass(frozen=True, eq=False)
class PhraseClassifier:
    """The log-odds of the claimed phrase against all others, by logistic regression on the course of the content.

    A recording is cut into eighths; the means of their frames, one after the other, say what came when.
    """

    projection: Projection
    classifier: logistic.LinearClassifier
    kind: ClassVar[str] = "classifier"

    @classmethod
    def fit(cls, contents: Sequence[Content], phrases: Sequence[str]) -> PhraseClassifier:
        """Learn from labelled recordings; free text is a phrase like any other."""
        if len(set(phrases)) < 2:
            raise InputError("training labels of fewer than two phrases", fix="a classifier needs two or more")
        projection = Projection.fit(contents)
        courses = np.stack([_course(projection(content)) for content in contents])
        return cls(projection, logistic.fit(courses, list(phrases), _PENALTY))

    def enroll(self, contents: Sequence[Content], phrase: str | None) -> Templates:
        """The number of the phrase: its recordings are not needed."""
        labels = list(self.classifier.labels)
        if phrase not in labels:
            fix = did_you_mean(str(phrase), labels)
            raise InputError(f"phrase {phrase!r} is not among those of the training", fix=fix)
        return Templates(np.zeros((0, 0), np.float32), np.zeros(0, np.int64), labels.index(phrase))

    def hear(self, content: Content) -> Floats:
        """Log-odds of each phrase against the mean of all others (phrases,)."""
        logits = self.classifier.scores(_course(self.projection(content))[None])[0]
        others = [np.logaddexp.reduce(np.delete(logits, k)) for k in range(len(logits))]
        return np.asarray(logits - np.array(others) + np.log(len(logits) - 1))

    def score(self, templates: Templates, heard: NDArray[Any]) -> float:
        """Those of the claimed phrase."""
        return float(heard[templates.phrase])


def _course(frames: Frames) -> Floats:
    """The means of eight equal parts (8 p,); of fewer than eight frames some count twice."""
    edges = np.linspace(0, len(frames), _SEGMENTS + 1)
    parts = [frames[int(a) : max(int(np.ceil(b)), int(a) + 1)].mean(axis=0) for a, b in pairwise(edges)]
    return np.concatenate(parts).astype(np.float64)
