"""Speak the spans of a conversation in their new voices, in sync with the recording.

The spans of a voice are converted together: cut at pauses into pieces of at most half a minute, packed one behind the
other with a short silence between, so that short turns have the context that systems need and time goes into speech
alone. Each piece keeps its place and its level. Where two voices meet they are crossfaded.

Conventions: mono float32 at 16 kHz.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from voiceveil.audio import Samples
from voiceveil.core.activity import report_fraction
from voiceveil.models.asr.segmentation import cut_at_pauses
from voiceveil.systems.conversation.sample_file import RATE, SampleFile
from voiceveil.systems.conversation.spans import FADE, Span
from voiceveil.systems.conversation.voices import Voice

__all__ = ["loudest_speech", "mean_level", "render"]

_LONGEST = 30.0  # seconds of a piece
_PACK = 40 * RATE  # samples that are converted together
_SILENCE = RATE // 10  # samples between pieces of a pack
_FADE = round(FADE * RATE)
_MOST_GAIN = 4.0
_SAMPLED = 5 * RATE  # samples of a piece of speech that a voice is tried on
_MOST_READ = 120 * RATE  # samples of a speaker's speech that level and voice are taken from


class Piece(NamedTuple):
    """Samples ``start`` to ``stop`` of the recording; ``fade_in``, ``fade_out``: a new voice is before, behind it."""

    start: int
    stop: int
    fade_in: bool
    fade_out: bool


def render(source: SampleFile, spans: Sequence[Span], voices: Mapping[str, Voice], output: SampleFile) -> None:
    """Write everything that is not copied to ``output`` in its new voices, and a little more, for crossfades.

    Parameters
    ----------
    source
        The recording.
    spans
        Its plan, which covers it.
    voices
        Speaker -> new voice, of all speakers in the plan.
    output
        Empty file; it becomes as long as the recording.
    """
    total = max(1.0, sum(span.end - span.start for span in spans if span.voice is not None))
    done = 0
    for speaker, voice in voices.items():
        for pack in _packs(_pieces(source, spans, speaker)):
            _convert(source, pack, voice, output)
            done += sum(piece.stop - piece.start for piece in pack)
            report_fraction(min(1.0, done / RATE / total))
    if len(output) < len(source):
        output.add(len(source) - 1, np.zeros(1, dtype=np.float32))


def _pieces(source: SampleFile, spans: Sequence[Span], speaker: str) -> Iterator[Piece]:
    """Yield the pieces of a speaker's spans, each of at most half a minute."""
    for index, span in enumerate(spans):
        if span.voice != speaker:
            continue
        start, stop = (min(round(time * RATE), len(source)) for time in span[1:])
        fade_in = index > 0 and spans[index - 1].voice is not None
        fade_out = index + 1 < len(spans) and spans[index + 1].voice is not None
        cuts = [start, *_cuts(source, start, stop), stop]
        for first, last in pairwise(cuts):
            yield Piece(first, last, fade_in or first > start, fade_out or last < stop)


def _cuts(source: SampleFile, start: int, stop: int) -> Iterator[int]:
    """Yield where a long span is cut: in pauses, found a minute at a time."""
    longest = round(_LONGEST * RATE)
    while stop - start > longest:
        block = source.read(start, min(start + 2 * longest, stop))
        start += cut_at_pauses(block, RATE, _LONGEST)[0][1]
        yield start


def _packs(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    pack: list[Piece] = []
    size = 0
    for piece in pieces:
        length = piece.stop - piece.start + 2 * _FADE + _SILENCE
        if pack and size + length > _PACK:
            yield pack
            pack, size = [], 0
        pack.append(piece)
        size += length
    if pack:
        yield pack


def _convert(source: SampleFile, pack: Sequence[Piece], voice: Voice, output: SampleFile) -> None:
    """Convert the pieces of a pack, each with a crossfade on either side, and add them to the output."""
    spoken = [source.read(*_extended(piece, len(source))) for piece in pack]
    silence = np.zeros(_SILENCE, dtype=np.float32)
    packed = np.concatenate([part for samples in spoken for part in (samples, silence)])
    converted = voice.convert(packed)
    position = 0
    for piece, samples in zip(pack, spoken, strict=True):
        part = converted[position : position + len(samples)]
        position += len(samples) + _SILENCE
        start, _ = _extended(piece, len(source))
        output.add(start, part * _gain(samples, part) * _window(piece, start, len(samples)))


def _extended(piece: Piece, length: int) -> tuple[int, int]:
    return max(0, piece.start - _FADE), min(length, piece.stop + _FADE)


def _window(piece: Piece, first: int, length: int) -> Samples:
    """Return the weights of a piece with its crossfades: those of neighbors add up to 1 around their border."""
    place = np.arange(first, first + length) + 0.5
    rise = np.clip((place - piece.start) / _FADE + 0.5, 0, 1) if piece.fade_in else np.ones(length)
    fall = np.clip((piece.stop - place) / _FADE + 0.5, 0, 1) if piece.fade_out else np.ones(length)
    return np.asarray(rise * fall, dtype=np.float32)


def _gain(before: Samples, after: Samples) -> np.float32:
    """Return the factor that brings converted speech to the level of the original, within reason."""
    return np.float32(min(_MOST_GAIN, _rms(before) / max(1e-9, _rms(after))))


def _rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) if len(samples) else 0.0


def _speech(source: SampleFile, regions: Sequence[tuple[float, float]]) -> Samples:
    """Return the speech in the regions (start, end) in seconds, one behind the other, two minutes at most."""
    parts, size = [np.zeros(0, dtype=np.float32)], 0
    for start, end in regions:
        first, last = round(start * RATE), min(round(end * RATE), len(source))
        parts.append(source.read(first, min(last, first + _MOST_READ - size)) if last > first else parts[0])
        size += len(parts[-1])
        if size >= _MOST_READ:
            break
    return np.concatenate(parts)


def mean_level(source: SampleFile, regions: Sequence[tuple[float, float]]) -> float:
    """Return the root mean square of the speech in regions (start, end) in seconds."""
    return _rms(_speech(source, regions))


def loudest_speech(source: SampleFile, regions: Sequence[tuple[float, float]], seconds: int = 20) -> Samples:
    """Return about so many seconds of the speech in regions: the pieces of up to 5 s with most energy, in order."""
    speech = _speech(source, regions)
    pieces = np.split(speech, range(_SAMPLED, len(speech), _SAMPLED))
    loudest = np.argsort([-np.square(piece, dtype=np.float64).sum() for piece in pieces], kind="stable")
    chosen = np.sort(loudest[: max(1, seconds * RATE // _SAMPLED)])
    return np.concatenate([pieces[index] for index in chosen])
