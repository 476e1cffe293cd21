"""Diarization of a recording: local segmentation, speaker embeddings, clustering, one timeline.

1. In overlapping windows, which of up to three local speakers are active (:mod:`.segmentation`).
2. A speaker embedding (CAM++) of what each of them says alone.
3. Clusters of these embeddings are the speakers (:mod:`.clustering`); in each window, local speakers are assigned to
   different clusters so that the similarities are largest.
4. In each frame, as many speakers are active as the windows that cover it say on average, those first that most of
   these windows have.

Memory grows with the recording by a few bytes a frame. Conventions: as in :mod:`.segmentation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.core.activity import report_fraction
from voiceveil.corpus.turns import Turn, merge_turns
from voiceveil.models.diarization.clustering import cluster_centers
from voiceveil.models.diarization.segmentation import (
    FRAME_CENTER,
    FRAME_STEP,
    RATE,
    LocalActivity,
    SampleSource,
    local_activities,
)
from voiceveil.models.speaker.campplus import CamPlusPlus
from voiceveil.models.speaker.encoders import l2_normalized

__all__ = ["LocalSpeech", "diarize", "join_speakers", "local_speech", "speaker_name"]

#: Pauses of a speaker in seconds that are filled.
PAUSE = 0.5
_SHORTEST = 0.2  # seconds of speech that is embedded
_ALONE = 0.5  # seconds: with less speech without others, speech with others is embedded too
_LONGEST_EMBEDDED = 6.0  # seconds of a local speaker's speech that is embedded


@dataclass
class LocalSpeech:
    """Who speaks in each window, and what local speakers say: window, column of its activity, embedding, seconds.

    ``length``: of the recording in samples.
    """

    length: int
    activities: list[LocalActivity] = field(default_factory=list)
    window: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    embedding: list[NDArray[np.float32]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def diarize(source: SampleSource, speakers: int | None = None) -> list[Turn]:
    """Return who speaks when.

    Parameters
    ----------
    source
        The recording, at 16 kHz.
    speakers
        Number of speakers; None: estimated, up to 20.

    Returns
    -------
    list of Turn
        Sorted by start; the speakers are ``speaker-1``, ``speaker-2``, ... in the order of their first turns. Empty if
        there is no speech.
    """
    return join_speakers(local_speech(source), speakers)


def local_speech(source: SampleSource) -> LocalSpeech:
    """Return who speaks in each window of a recording, with speaker embeddings: nearly all of the work."""
    speech = LocalSpeech(len(source))
    for activity in local_activities(source):
        _embed(source, activity, speech)
        speech.activities.append(activity)
        report_fraction(activity.first * FRAME_STEP / len(source))
    return speech


def join_speakers(speech: LocalSpeech, speakers: int | None = None) -> list[Turn]:
    """Return who speaks when, from the speech in windows; see :func:`diarize`."""
    if not speech.window:
        return []
    embeddings = np.stack(speech.embedding)
    centers = cluster_centers(embeddings, np.array(speech.seconds), speakers)
    clusters = _assign(speech, embeddings @ centers.T)
    return _named(_turns(_timeline(speech.activities, clusters, len(centers)), speech.length))


def speaker_name(number: int) -> str:
    """Return the neutral name of the ``number``-th speaker, counted from 0."""
    return f"speaker-{number + 1}"


def _embed(source: SampleSource, activity: LocalActivity, speech: LocalSpeech) -> None:
    """Embed what each local speaker of the next window says, preferably alone."""
    encoder = CamPlusPlus()
    alone = activity.active & (activity.active.sum(axis=1, keepdims=True) == 1)
    for column in range(activity.active.shape[1]):
        frames = (
            alone[:, column] if alone[:, column].sum() * FRAME_STEP >= _ALONE * RATE else activity.active[:, column]
        )
        seconds = float(frames.sum() * FRAME_STEP / RATE)
        if seconds < _SHORTEST:
            continue
        pieces = [source.read(*_span(activity.first + a, activity.first + b, len(source))) for a, b in _runs(frames)]
        samples = np.concatenate(pieces)[: int(_LONGEST_EMBEDDED * RATE)]
        if not samples.any():
            continue
        speech.window.append(len(speech.activities))
        speech.column.append(column)
        speech.embedding.append(l2_normalized(encoder(Waveform(samples, RATE))))
        speech.seconds.append(seconds)


def _runs(active: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the ranges (first, last + 1) of frames that are True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _span(first: int, last: int, length: int) -> tuple[int, int]:
    """Return the range of samples of a range of frames."""
    start = FRAME_CENTER - FRAME_STEP // 2 + first * FRAME_STEP
    return min(start, length), min(start + (last - first) * FRAME_STEP, length)


def _assign(speech: LocalSpeech, similarity: NDArray[np.float32]) -> dict[tuple[int, int], int]:
    """Return (window, column) -> cluster.

    Local speakers of a window get different clusters, so that the sum of similarities (n, clusters) is largest; where
    there are too few clusters, those that are left get the most similar one.
    """
    from scipy.optimize import linear_sum_assignment

    clusters = {}
    starts = np.flatnonzero(np.diff([-1, *speech.window, -1]))
    for start, stop in pairwise(starts):
        nearest = similarity[start:stop].argmax(axis=1)
        rows, columns = linear_sum_assignment(similarity[start:stop], maximize=True)
        nearest[rows] = columns
        for row, cluster in enumerate(nearest):
            clusters[speech.window[start], speech.column[start + row]] = int(cluster)
    return clusters


def _timeline(activities: list[LocalActivity], clusters: dict[tuple[int, int], int], count: int) -> NDArray[np.bool_]:
    """Return which clusters are active in each frame, (frames, count)."""
    frames = max(activity.first + len(activity.active) for activity in activities)
    votes = np.zeros((frames, count), dtype=np.uint8)
    covered, speaking = np.zeros(frames, dtype=np.uint8), np.zeros(frames, dtype=np.uint8)
    for window, (first, active) in enumerate(activities):
        part = slice(first, first + len(active))
        covered[part] += 1
        speaking[part] += active.sum(axis=1, dtype=np.uint8)
        for column in range(active.shape[1]):
            if (window, column) in clusters:
                votes[part, clusters[window, column]] += active[:, column]
    expected = np.rint(speaking / np.maximum(covered, 1))
    rank = np.argsort(np.argsort(-votes.astype(np.int16), axis=1, kind="stable"), axis=1, kind="stable")
    return (votes > 0) & (rank < expected[:, np.newaxis])


def _turns(timeline: NDArray[np.bool_], length: int) -> list[Turn]:
    turns = []
    for cluster in range(timeline.shape[1]):
        for first, last in _runs(timeline[:, cluster]):
            start, stop = _span(first, last, length)
            turns.append(Turn(str(cluster), start / RATE, stop / RATE))
    return merge_turns([turn for turn in turns if turn.duration > 0], PAUSE)


def _named(turns: list[Turn]) -> list[Turn]:
    """Name the speakers in the order of their first turns."""
    names: dict[str, str] = {}
    return [turn._replace(speaker=names.setdefault(turn.speaker, speaker_name(len(names)))) for turn in turns]
