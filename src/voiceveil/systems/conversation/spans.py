"""The plan of a conversation: which parts are copied, and in whose new voice each of the others is spoken.

It fails closed. A part is copied only if a speaker who is kept talks there, nobody who is hidden does, and the turns of
those who are hidden are further away than the margin. Everything else is spoken in a new voice: overlapped speech in
that of the louder speaker, pauses, noise and speech that nobody was found for in that of the nearest turn.

Conventions: times in seconds; spans are sorted and cover the recording without gap or overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.terminal import clock
from voiceveil.corpus.turns import Turn

__all__ = ["FADE", "Overlap", "Span", "alone_spans", "clip_turns", "copied_seconds", "measure_overlap", "plan_spans"]

#: Seconds of a crossfade between two spans.
FADE = 0.02
#: Seconds of the shortest part that is copied: two crossfades and something between.
SHORTEST_COPY = 0.2
_OVERSHOOT = 1.0  # seconds by which turns may go beyond the end of the recording


class Span(NamedTuple):
    """A part of the recording, spoken in the new voice of ``voice``; None: copied."""

    voice: str | None
    start: float
    end: float


@dataclass(frozen=True)
class Overlap:
    """Seconds in which somebody speaks, and in which several do."""

    speech: float
    overlap: float


def clip_turns(turns: Iterable[Turn], length: float) -> list[Turn]:
    """Return the turns within a recording of ``length`` seconds; an ``InputError`` if one is far outside."""
    inside = []
    for turn in turns:
        if turn.end > length + _OVERSHOOT:
            problem = f"a turn of {turn.speaker} ends at {clock(turn.end)}, but the recording at {clock(length)}"
            raise InputError(problem, fix="are these the turns of this recording, in seconds?")
        if turn.start < length:
            inside.append(turn._replace(end=min(turn.end, length)))
    return inside


def plan_spans(
    turns: Sequence[Turn], hidden: set[str], levels: Mapping[str, float], length: float, margin: float
) -> list[Span]:
    """Return the spans of a recording.

    Parameters
    ----------
    turns
        Who speaks when, within the recording; at least one.
    hidden
        Speakers to hide.
    levels
        Speaker -> level of their speech: the louder one is heard in overlapped speech.
    length
        Of the recording.
    margin
        Seconds around turns of hidden speakers that are not copied.
    """
    names = sorted(levels, key=lambda name: (-levels[name], name))
    near = [(max(0.0, t.start - margin), min(length, t.end + margin)) for t in turns if t.speaker in hidden]
    cuts = np.unique([0.0, length, *(time for turn in turns for time in turn[1:]), *np.ravel(near)])
    active = np.stack([_inside(cuts, [turn[1:] for turn in turns if turn.speaker == name]) for name in names])
    copied = active.any(axis=0) & ~_inside(cuts, near)
    loudest = np.where(active.any(axis=0), active.argmax(axis=0), -1)
    pieces = zip(copied.tolist(), loudest.tolist(), cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    return _voiced(_without_short_copies(list(pieces)), names)


def _without_short_copies(pieces: list[tuple[bool, int, float, float]]) -> list[tuple[bool, int, float, float]]:
    """Return the pieces (copied, loudest, start, end) with those that are too short to be copied not copied."""
    result = []
    for copied, group in groupby(pieces, key=lambda piece: piece[0]):
        run = list(group)
        long_enough = run[-1][3] - run[0][2] >= SHORTEST_COPY
        result += [(copied and long_enough, *piece[1:]) for piece in run]
    return result


def _voiced(pieces: Sequence[tuple[bool, int, float, float]], names: Sequence[str]) -> list[Span]:
    """Return spans: pauses (loudest -1) are divided between the speakers before and after; neighbors are joined."""
    runs = [(key, list(group)) for key, group in groupby(pieces, key=lambda piece: piece[:2])]
    spans: list[Span] = []
    for index, ((copied, who), run) in enumerate(runs):
        start, end = run[0][2], run[-1][3]
        if who >= 0:
            spans.append(Span(None if copied else names[who], start, end))
            continue
        before = runs[index - 1][0][1] if index else -1
        after = runs[index + 1][0][1] if index + 1 < len(runs) else -1
        middle = start if before < 0 else end if after < 0 else (start + end) / 2
        spans += [Span(names[before], start, middle)] if middle > start else []
        spans += [Span(names[after], middle, end)] if middle < end else []
    joined = []
    for voice, group in groupby(spans, key=lambda span: span.voice):
        same = list(group)
        joined.append(Span(voice, same[0].start, same[-1].end))
    return joined


def _inside(cuts: NDArray[np.float64], regions: Iterable[tuple[float, ...]]) -> NDArray[np.bool_]:
    """Return which of the intervals between cuts are inside the regions, whose edges are among the cuts."""
    inside = np.zeros(len(cuts) - 1, dtype=bool)
    for start, end in regions:
        inside[slice(*np.searchsorted(cuts, (start, end)))] = True
    return inside


def _speaking(turns: Sequence[Turn]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return cuts, and how many speakers talk in each interval between them."""
    cuts = np.unique([time for turn in turns for time in turn[1:]])
    names = {turn.speaker for turn in turns}
    counts = [_inside(cuts, [turn[1:] for turn in turns if turn.speaker == name]) for name in names]
    return cuts, np.sum(counts, axis=0, dtype=np.int64)


def measure_overlap(turns: Sequence[Turn]) -> Overlap:
    """Return how long somebody speaks, and how long several do."""
    cuts, counts = _speaking(turns)
    lengths = np.diff(cuts)
    return Overlap(float(lengths[counts > 0].sum()), float(lengths[counts > 1].sum()))


def alone_spans(turns: Sequence[Turn], speaker: str) -> list[tuple[float, float]]:
    """Return when a speaker talks alone, or, if never, when the speaker talks."""
    cuts, counts = _speaking(turns)
    own = [(turn.start, turn.end) for turn in turns if turn.speaker == speaker]
    alone = _inside(cuts, own) & (counts == 1)
    return [(float(a), float(b)) for a, b, keep in zip(cuts, cuts[1:], alone, strict=False) if keep] or own


def copied_seconds(spans: Iterable[Span], turns: Iterable[Turn] = ()) -> float:
    """Return how much is copied; with ``turns``, how much of these turns."""
    copies = [(span.start, span.end) for span in spans if span.voice is None]
    inside = [(turn.start, turn.end) for turn in turns]
    if not inside:
        return sum(end - start for start, end in copies)
    cuts = np.unique([*np.ravel(copies), *np.ravel(inside)])
    if len(cuts) < 2:
        return 0.0
    return float(np.diff(cuts)[_inside(cuts, copies) & _inside(cuts, inside)].sum())
