"""Phrase models, which score whether a recording contains the passphrase.

Conventions: content has shape (frames, k); a score grows with the evidence for the passphrase, and is not calibrated.
:class:`Projection` keeps the main directions of the content of training speech, without the mean of each recording
(voice, microphone).

* :class:`PhraseClassifier`  known phrases (task 1): classifies the phrases of the training labels and free text
* :class:`PhraseMatch`       unknown phrases (task 2): distance to the enrollment by dynamic time warping
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.stats import logistic

__all__ = ["PhraseClassifier", "PhraseMatch", "PhraseModel", "Projection", "Templates"]

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
        """Fit to at most ``most`` recordings, evenly chosen."""
        chosen = contents[:: max(1, -(-len(contents) // most))]
        frames = np.concatenate([np.asarray(content, np.float64) for content in chosen])
        mean = frames.mean(axis=0)
        vectors = np.linalg.eigh(np.cov((frames - mean).T))[1][:, ::-1]
        return cls(mean.astype(np.float32), np.ascontiguousarray(vectors[:, :_DIMENSIONS], np.float32))

    def __call__(self, content: Content) -> Frames:
        """Return L2-normalized frames (n, p), centered on the mean of the recording."""
        if not len(content):
            raise InputError("a recording is too short for content features", fix="leave it out")
        frames = (np.asarray(content, np.float32) - self.mean) @ self.matrix
        frames = frames - frames.mean(axis=0)
        return np.asarray(frames / np.maximum(np.linalg.norm(frames, axis=1, keepdims=True), 1e-6), np.float32)


@dataclass(frozen=True, eq=False, slots=True)
class Templates:
    """An enrolled passphrase: the concatenated frames of its recordings and their ends, or the phrase's number."""

    frames: Frames
    ends: NDArray[np.int64]
    phrase: int = -1


class PhraseModel(Protocol):
    """Verifies a passphrase; each call processes one model or one test."""

    kind: ClassVar[str]

    def enroll(self, contents: Sequence[Content], phrase: str | None) -> Templates:
        """Return the template of a model from the content of its recordings."""
        ...

    def analyze(self, content: Content) -> NDArray[Any]:
        """Return the features of a test from its content."""
        ...

    def score(self, templates: Templates, test: NDArray[Any]) -> float:
        """Return a score that grows with the evidence for the passphrase."""
        ...


@dataclass(frozen=True, eq=False)
class PhraseMatch:
    """Negative mean warped distance between the test and the enrollment recordings."""

    projection: Projection
    kind: ClassVar[str] = "match"

    @classmethod
    def fit(cls, contents: Sequence[Content], phrases: Sequence[str]) -> PhraseMatch:
        """Fit the projection; the phrases are not used."""
        return cls(Projection.fit(contents))

    def enroll(self, contents: Sequence[Content], phrase: str | None = None) -> Templates:
        """Return the frames of all recordings."""
        frames = [self.projection(content) for content in contents]
        return Templates(np.concatenate(frames), np.cumsum([len(part) for part in frames]))

    def analyze(self, content: Content) -> Frames:
        """Return the frames of a test, shape (n, p)."""
        return self.projection(content)

    def score(self, templates: Templates, test: NDArray[Any]) -> float:
        """Return the negative mean distance, from -2 to 0."""
        return -float(mean_warped_distance(templates.frames, templates.ends, test))


@dataclass(frozen=True, eq=False)
class PhraseClassifier:
    """Log-odds of the claimed phrase against all others, by logistic regression on the content over time.

    A recording is cut into eight equal parts; the means of their frames, concatenated, represent the order of sounds.
    """

    projection: Projection
    classifier: logistic.LinearClassifier
    kind: ClassVar[str] = "classifier"

    @classmethod
    def fit(cls, contents: Sequence[Content], phrases: Sequence[str]) -> PhraseClassifier:
        """Fit to labeled recordings; free text is one of the phrases."""
        if len(set(phrases)) < 2:
            raise InputError("the training labels have fewer than two phrases", fix="give recordings of two or more")
        projection = Projection.fit(contents)
        segments = np.stack([_segment_means(projection(content)) for content in contents])
        return cls(projection, logistic.fit(segments, list(phrases), _PENALTY))

    def enroll(self, contents: Sequence[Content], phrase: str | None) -> Templates:
        """Return the number of the phrase; the recordings are not used."""
        labels = list(self.classifier.labels)
        if phrase not in labels:
            fix = did_you_mean(str(phrase), labels)
            raise InputError(f"phrase {phrase!r} is not among the phrases of the training", fix=fix)
        return Templates(np.zeros((0, 0), np.float32), np.zeros(0, np.int64), labels.index(phrase))

    def analyze(self, content: Content) -> Floats:
        """Return the log-odds of each phrase against the mean of all others, shape (phrases,)."""
        logits = self.classifier.scores(_segment_means(self.projection(content))[None])[0]
        others = [np.logaddexp.reduce(np.delete(logits, k)) for k in range(len(logits))]
        return np.asarray(logits - np.array(others) + np.log(len(logits) - 1))

    def score(self, templates: Templates, test: NDArray[Any]) -> float:
        """Return the log-odds of the claimed phrase."""
        return float(test[templates.phrase])


def _segment_means(frames: Frames) -> Floats:
    """Return the means of eight equal parts, shape (8 p,); parts of short recordings overlap."""
    edges = np.linspace(0, len(frames), _SEGMENTS + 1)
    parts = [frames[int(a) : max(int(np.ceil(b)), int(a) + 1)].mean(axis=0) for a, b in pairwise(edges)]
    return np.concatenate(parts).astype(np.float64)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def warped_distance(first: Frames, second: Frames) -> float:
    """Return the mean distance along the best path, from 0 (equal) to 2.

    Frames have shape (n, k), L2-normalized; the distance of two frames is 1 minus their cosine. Paths step (1, 0),
    (0, 1) or (1, 1); a diagonal step counts twice, so that every path has the weight n + m by which the sum is divided
    (Sakoe and Chiba 1978, symmetric form without slope constraint).
    """
    n, m, k = first.shape[0], second.shape[0], first.shape[1]
    above = np.full(m + 1, np.inf)
    current = np.full(m + 1, np.inf)
    above[0] = 0.0
    for i in range(n):
        current[0] = np.inf
        for j in range(m):
            dot = np.float32(0.0)
            for d in range(k):
                dot += first[i, d] * second[j, d]
            cost = 1.0 - dot
            best = above[j] + 2.0 * cost
            best = min(best, above[j + 1] + cost)
            best = min(best, current[j] + cost)
            current[j + 1] = best
        above, current = current, above
    return float(above[m] / (n + m))


@njit(cache=True)
def mean_warped_distance(templates: Frames, ends: NDArray[np.int64], test: Frames) -> float:
    """Return the mean distance of a test to recordings that are concatenated in ``templates`` and end at ``ends``."""
    total = 0.0
    start = 0
    for end in ends:
        total += warped_distance(templates[start:end], test)
        start = end
    return total / len(ends)
