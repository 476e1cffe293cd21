"""Parts of a recording that are removed, and what is heard instead.

Conventions: times in seconds; spans are sorted and do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.dsp.tone import tone

__all__ = [
    "FADE",
    "KINDS",
    "Kind",
    "Reason",
    "Redacted",
    "Replacement",
    "merge",
    "replace_spans",
    "silence_spans",
    "union",
]

Kind = Literal["words", "names", "numbers"]
#: Kinds of what is removed, and their names in sentences.
KINDS: dict[Kind, str] = {"words": "word(s) of the list", "names": "name(s)", "numbers": "number(s)"}
Reason = Literal["found", "not located", "still heard"]
Replacement = Literal["tone", "silence"]
Frames = TypeVar("Frames", bound=NDArray[np.float32])
#: Seconds of the fade at either end of a span, within it.
FADE = 0.01


class Redacted(NamedTuple):
    """A part of the recording that is removed, why, and for which word or words (never written unless asked for)."""

    start: float
    end: float
    kind: Kind
    reason: Reason
    text: str = ""


def union(spans: Iterable[tuple[float, ...] | Redacted]) -> list[tuple[float, float]]:
    """Return the parts (start, end) that are covered, sorted and without overlap."""
    covered: list[tuple[float, float]] = []
    for start, end, *_ in sorted(spans, key=lambda span: span[0]):
        if covered and start <= covered[-1][1]:
            covered[-1] = covered[-1][0], max(end, covered[-1][1])
        else:
            covered.append((start, end))
    return covered


def merge(spans: Sequence[Redacted], more: Iterable[Redacted]) -> list[Redacted]:
    """Return both, without those of ``more`` that ``spans`` cover."""
    covered = union(spans)
    new = [span for span in more if not any(a <= span.start and span.end <= b for a, b in covered)]
    return sorted([*spans, *new])


def _inside(count: int, rate: int, start: float, spans: Iterable[tuple[float, float]]) -> NDArray[np.float32]:
    """Return how far each sample is inside the spans: 0 outside, 1 inside, with fades at the ends."""
    place = start + (np.arange(count) + 0.5) / rate
    weight = np.zeros(count, dtype=np.float32)
    for first, last in spans:
        if count and last > place[0] and first < place[-1] + 1 / rate:
            ramp = np.minimum((place - first) / FADE, (last - place) / FADE)
            weight = np.maximum(weight, np.clip(ramp, 0, 1).astype(np.float32))
    return weight


def silence_spans(frames: Frames, rate: int, start: float, spans: Sequence[tuple[float, float]]) -> Frames:
    """Return samples (n,) or frames (n, channels) that begin at ``start``, with silence in the spans."""
    if not spans:
        return frames
    kept = 1 - _inside(len(frames), rate, start, spans)
    return frames * (kept if frames.ndim == 1 else kept[:, np.newaxis])  # type: ignore[return-value]


def replace_spans(
    frames: Frames, rate: int, start: float, spans: Sequence[tuple[float, float]], replacement: Replacement
) -> Frames:
    """Return samples (n,) or frames (n, channels) with a tone or silence in the spans; nothing else is left there."""
    if not spans:
        return frames
    weight = _inside(len(frames), rate, start, spans)
    sound = weight * tone(len(frames), rate, start) if replacement == "tone" else np.zeros_like(weight)
    kept = 1 - weight
    if frames.ndim == 2:
        kept, sound = kept[:, np.newaxis], sound[:, np.newaxis]
    return frames * kept + sound  # type: ignore[return-value]
