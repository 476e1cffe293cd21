"""Recordings to listen to inside the page: the same words before and after anonymization, by one or more systems.

They are of the speakers who are protected worst, and only in the page when asked for: the originals are personal data,
and whoever has the page has them. A recording is at most six seconds, mono at 16 kHz, as FLAC without tags in a
``data:`` address, which browsers play without a network.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile

from voiceveil.audio import Samples, load
from voiceveil.core.errors import InputError
from voiceveil.evaluation.details import Details, UtteranceRecord, read_details
from voiceveil.report.report_data import ReportData
from voiceveil.report.speakers import SpeakerEer

__all__ = ["Excerpt", "ExcerptAudio", "audio_address", "excerpts"]

_RATE = 16000  # Hz
_SECONDS = 6.0


@dataclass(frozen=True)
class ExcerptAudio:
    """One recording as a ``data:`` address; ``label`` is "original" or the name of the system."""

    label: str
    address: str


@dataclass(frozen=True)
class Excerpt:
    """One utterance of a speaker: the original and each system's version of it, or why there are none."""

    speaker: SpeakerEer
    words: str = ""  # the transcript, if there is one
    recordings: tuple[ExcerptAudio, ...] = ()
    fault: str = ""


def excerpts(
    data: ReportData, speakers: Sequence[SpeakerEer], count: int, others: Mapping[str, Path] | None = None
) -> list[Excerpt]:
    """Return the utterance that the attacker recognized best, of each of the first ``count`` speakers.

    Parameters
    ----------
    data
        The evaluation that the report is on.
    speakers
        The speakers, worst protected first.
    count
        How many of them to take.
    others
        System -> the folder of its evaluation. Its version of the utterance is added where that folder has one.
    """
    details = {name: (folder, read_details(folder)) for name, folder in (others or {}).items()} if count else {}
    return [_excerpt(data, speaker, details) for speaker in speakers[:count]]


def _excerpt(data: ReportData, speaker: SpeakerEer, others: Mapping[str, tuple[Path, Details]]) -> Excerpt:
    row = _row(data.details, speaker)
    if row is None:
        return Excerpt(speaker, fault="the details do not have this utterance")
    seconds = _SECONDS if row.duration is None else min(_SECONDS, row.duration)
    try:
        recordings = [
            ExcerptAudio("original", _address(data.folder / row.original, row.start, seconds)),
            ExcerptAudio(data.results.system, _address(data.folder / row.anonymized, 0.0, seconds)),
        ]
        for name, (folder, details) in others.items():
            version = _row(details, speaker)
            if version is not None:
                recordings.append(ExcerptAudio(name, _address(folder / version.anonymized, 0.0, seconds)))
    except InputError:
        return Excerpt(speaker, fault="the audio is no longer where it was")  # no path: it may name people
    return Excerpt(speaker, row.text("reference"), tuple(recordings))


def _row(details: Details, speaker: SpeakerEer) -> UtteranceRecord | None:
    """Return the row of the speaker's best recognized utterance."""
    rows = details.utterances.get(speaker.set, ())
    return next((row for row in rows if row.utterance == speaker.closest), None)


def _address(path: Path, start: float, seconds: float) -> str:
    """Return the first ``seconds`` from ``start`` of a file as a ``data:`` address."""
    wave = load(path, rate=_RATE, start=start)
    return audio_address(wave.samples[: int(seconds * _RATE)], _RATE)


def audio_address(samples: Samples, rate: int) -> str:
    """Return audio as a ``data:`` address, in FLAC without tags."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format="FLAC", subtype="PCM_16")
    return f"data:audio/flac;base64,{base64.b64encode(buffer.getvalue()).decode()}"
