"""Diarization error: how far turns of speakers agree with those of a reference.

Conventions: times in seconds. Speakers of the two lists have names of their own; they are matched one to one so that
the time they speak together is longest (Fiscus et al., "The Rich Transcription 2006 Spring meeting recognition
evaluation"). In overlapped speech every speaker counts. With R, H and C the numbers of speakers of the reference, of
the hypothesis, and of both (matched) at a time:

    miss = max(0, R - H),  false alarm = max(0, H - R),  confusion = min(R, H) - C

each integrated over time and divided by the time of the reference's speech, the integral of R.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.corpus.turns import Turn

__all__ = ["DiarizationErrors", "diarization_errors", "match_speakers"]

Regions = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class DiarizationErrors:
    """Seconds of speech of the reference, and of each kind of error; add two to pool recordings."""

    speech: float = 0.0
    miss: float = 0.0
    false_alarm: float = 0.0
    confusion: float = 0.0

    def __add__(self, other: DiarizationErrors) -> DiarizationErrors:
        return DiarizationErrors(*(a + b for a, b in zip(self._seconds(), other._seconds(), strict=True)))

    def _seconds(self) -> tuple[float, float, float, float]:
        return self.speech, self.miss, self.false_alarm, self.confusion

    @property
    def rate(self) -> float:
        """Diarization error rate: all errors by the time of speech; NaN without speech."""
        return (self.miss + self.false_alarm + self.confusion) / self.speech if self.speech else float("nan")


def diarization_errors(
    reference: Iterable[Turn], hypothesis: Iterable[Turn], *, regions: Regions | None = None, collar: float = 0.0
) -> DiarizationErrors:
    """Return the diarization errors of a recording.

    Parameters
    ----------
    reference, hypothesis
        Turns; turns of one speaker may overlap and count once.
    regions
        Parts (start, end) of the recording that are scored (default: from 0 to the end of the last turn).
    collar
        Seconds on each side of every start and end of the reference that are not scored.

    Raises
    ------
    InputError
        If ``collar`` is negative.
    """
    if not collar >= 0:
        raise InputError(f"a collar is not negative, as {collar} s is")
    said, told = list(reference), list(hypothesis)
    edges = sorted({time for turn in said for time in turn[1:]})
    end = max([turn.end for turn in (*said, *told)], default=0.0)
    scored = [(0.0, end)] if regions is None else list(regions)
    excluded = [(time - collar, time + collar) for time in edges] if collar else []
    cuts = np.unique([*edges, *(t for turn in told for t in turn[1:]), *np.ravel(scored), *np.ravel(excluded)])
    if len(cuts) < 2:
        return DiarizationErrors()
    weights = np.diff(cuts) * _inside(cuts, scored) * ~_inside(cuts, excluded)
    in_reference, in_hypothesis = _active(cuts, said), _active(cuts, told)
    matched = _matched(in_reference, in_hypothesis, weights)
    speaking, claimed = in_reference.sum(axis=0), in_hypothesis.sum(axis=0)
    correct = sum((in_reference[r] & in_hypothesis[h] for r, h in matched), np.zeros(len(weights), dtype=np.int64))
    return DiarizationErrors(
        speech=float(weights @ speaking),
        miss=float(weights @ np.maximum(0, speaking - claimed)),
        false_alarm=float(weights @ np.maximum(0, claimed - speaking)),
        confusion=float(weights @ (np.minimum(speaking, claimed) - correct)),
    )


def match_speakers(reference: Iterable[Turn], hypothesis: Iterable[Turn]) -> dict[str, str]:
    """Return speaker of the hypothesis -> speaker of the reference, so that they speak together longest."""
    said, told = list(reference), list(hypothesis)
    cuts = np.unique([time for turn in (*said, *told) for time in turn[1:]])
    if len(cuts) < 2:
        return {}
    matched = _matched(_active(cuts, said), _active(cuts, told), np.diff(cuts))
    names, others = _names(said), _names(told)
    return {others[h]: names[r] for r, h in matched}


def _names(turns: Iterable[Turn]) -> list[str]:
    return sorted({turn.speaker for turn in turns})


def _active(cuts: NDArray[np.float64], turns: Sequence[Turn]) -> NDArray[np.bool_]:
    """Return (speakers, intervals between cuts): who speaks in each."""
    names = _names(turns)
    active = np.zeros((len(names), len(cuts) - 1), dtype=bool)
    for turn in turns:
        first, last = np.searchsorted(cuts, turn[1:])
        active[names.index(turn.speaker), first:last] = True
    return active


def _inside(cuts: NDArray[np.float64], regions: Regions) -> NDArray[np.bool_]:
    inside = np.zeros(len(cuts) - 1, dtype=bool)
    for start, end in regions:
        inside[slice(*np.searchsorted(cuts, (start, end)))] = True
    return inside


def _matched(
    reference: NDArray[np.bool_], hypothesis: NDArray[np.bool_], weights: NDArray[np.float64]
) -> list[tuple[int, int]]:
    """Return pairs of rows that together are active longest (the Hungarian algorithm)."""
    from scipy.optimize import linear_sum_assignment

    together = (reference * weights) @ hypothesis.T
    rows, columns = linear_sum_assignment(together, maximize=True)
    return [(int(r), int(h)) for r, h in zip(rows, columns, strict=True) if together[r, h] > 0]
