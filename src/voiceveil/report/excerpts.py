"""Short recordings inside the page, of the speakers who are protected worst: only when asked for.

The originals are personal data, and whoever has the page has them. An excerpt is at most six seconds, mono at 16 kHz,
as FLAC without tags in a ``data:`` address.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile

from voiceveil.audio import load
from voiceveil.core.errors import InputError
from voiceveil.evaluation.details import Heard
from voiceveil.report.report_data import Material
from voiceveil.report.speakers import SpeakerEer

__all__ = ["Excerpt", "excerpts"]

_RATE = 16000  # Hz
_SECONDS = 6.0


@dataclass(frozen=True)
class Excerpt:
    """Two recordings as ``data:`` addresses, or why there are none."""

    speaker: SpeakerEer
    original: str = ""
    anonymized: str = ""
    fault: str = ""


def excerpts(material: Material, speakers: Sequence[SpeakerEer], count: int) -> list[Excerpt]:
    """Of the first ``count`` speakers, the utterance that the attacker recognised best."""
    return [_excerpt(material, one) for one in speakers[:count]]


def _excerpt(material: Material, one: SpeakerEer) -> Excerpt:
    rows = material.details.utterances.get(one.set, ())
    row = next((row for row in rows if row.utterance == one.closest), None)
    if row is None:
        return Excerpt(one, fault="the details do not have this utterance")
    try:
        original, anonymized = _sides(material.folder, row)
    except InputError:
        return Excerpt(one, fault="the audio is no longer where it was")  # no path: it may name people
    return Excerpt(one, original, anonymized)


def _sides(folder: Path, row: Heard) -> tuple[str, str]:
    longest = _SECONDS if row.duration is None else min(_SECONDS, row.duration)
    return _address(folder / row.original, row.start, longest), _address(folder / row.anonymized, 0.0, longest)


def _address(path: Path, start: float, seconds: float) -> str:
    wave = load(path, rate=_RATE, start=start)
    buffer = io.BytesIO()
    samples = wave.samples[: int(seconds * _RATE)]
    soundfile.write(buffer, samples, _RATE, format="FLAC", subtype="PCM_16")
    return f"data:audio/flac;base64,{base64.b64encode(buffer.getvalue()).decode()}"
