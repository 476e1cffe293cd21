"""The page of a comparison of recordings: three sentences, players and spectrograms side by side, changed words marked.

Conventions: as in :mod:`voiceveil.report.html`. At most twenty pairs are shown, those first whose voice is most like
the original; of each recording the first 20 s, mono at 16 kHz. The originals are personal data: whoever has the page
has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from voiceveil.audio import Samples, Waveform, load
from voiceveil.core.atomic_files import atomic_path
from voiceveil.corpus import Utterance
from voiceveil.evaluation.recording_comparison import PairComparison, RecordingPair, reference, sounds_like
from voiceveil.evaluation.recording_summary import ComparisonSummary
from voiceveil.report.excerpts import audio_address
from voiceveil.report.html import environment, style_and_policy
from voiceveil.report.spectrogram import spectrogram_address

__all__ = ["write_recording_report"]

_RATE = 16000
_SECONDS = 20.0
_MOST = 20
_QUESTIONS = (
    "Does it sound like the same person?",
    "Are the words still understood?",
    "Does it sound natural?",
)
_LIMITS = (
    "A speaker recognizer that knows nothing of the anonymization compared the voices. An attacker who has learned "
    "from anonymized speech may recognize more: voiceveil risk measures that.",
    "What is said can identify a person as well (names, places, stories), and is neither hidden nor measured here.",
    "Words, voices and naturalness were judged by machines. The recognizer knows English alone.",
)


@dataclass(frozen=True)
class _Side:
    """One recording: its label, and ``data:`` addresses of audio and spectrogram."""

    label: str
    audio: str
    picture: str
    seconds: float


@dataclass(frozen=True)
class _Shown:
    """A pair on the page."""

    pair: PairComparison
    likeness: str
    sides: tuple[_Side, _Side]


def write_recording_report(comparison: ComparisonSummary, sources: Sequence[RecordingPair], path: Path) -> Path:
    """Write the page of a comparison to ``path`` and return it; ``sources`` are the recordings of its pairs."""
    with atomic_path(path) as part:
        part.write_text(render(comparison, sources), encoding="utf-8")
    return path


def render(comparison: ComparisonSummary, sources: Sequence[RecordingPair]) -> str:
    """Return the HTML of the page."""
    style, policy = style_and_policy(("voiceveil.report", "recordings.css"), images=True)
    by_id = {pair.id: pair for pair in sources}
    order = sorted(comparison.pairs, key=lambda pair: -(pair.similarity if pair.similarity is not None else -2.0))
    known = reference(8.0)
    return (
        environment("voiceveil.report")
        .get_template("recordings.html")
        .render(
            policy=policy,
            style=style,
            title="Did the anonymization work?",
            cards=[
                (question, *sentence.split(": ", 1)[1].split(". ", 1))
                for question, sentence in zip(_QUESTIONS, (f"{s} " for s in comparison.sentences), strict=True)
            ],
            comparison=comparison,
            shown=[_shown(pair, by_id[pair.id]) for pair in order[:_MOST]],
            known=known,
            limits=_LIMITS,
        )
    )


def _shown(pair: PairComparison, source: RecordingPair) -> _Shown:
    sides = tuple(
        _side(label, recording, seconds)
        for label, recording, seconds in zip(
            ("original", "anonymized"), (source.original, source.anonymized), pair.seconds, strict=True
        )
    )
    likeness = "" if pair.similarity is None else sounds_like(pair.similarity, min(pair.seconds))
    return _Shown(pair, likeness, (sides[0], sides[1]))


def _side(label: str, recording: Utterance | Waveform, seconds: float) -> _Side:
    samples = _samples(recording)
    return _Side(label, audio_address(samples, _RATE), spectrogram_address(samples), seconds)


def _samples(recording: Utterance | Waveform) -> Samples:
    """Return the first 20 s at 16 kHz."""
    if isinstance(recording, Waveform):
        return recording.resampled(_RATE).samples[: round(_SECONDS * _RATE)]
    length = _SECONDS if recording.duration is None else min(_SECONDS, recording.duration)
    wave = load(recording.path, rate=_RATE, start=recording.start, duration=recording.duration)
    return wave.samples[: round(length * _RATE)]
