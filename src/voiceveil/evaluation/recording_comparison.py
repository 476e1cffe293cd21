"""Did the anonymization of these recordings work? Voice, words and naturalness before and after.

Conventions: ``original`` and ``anonymized`` are the two sides of a :class:`RecordingPair`. Similarity is the cosine of
CAM++ embeddings, -1 to 1, read beside what same and different people score (:func:`reference`, measured once by
``scripts/measure_comparison.py``). Words kept are those that a recognizer finds in the original and again in the
anonymized recording. Naturalness is DNSMOS, 1 to 5. Voice and intonation of long recordings are measured in their
middle 60 s, naturalness, which takes longer, in their middle 12 s. Intervals
are over speakers, or over recordings where speakers are not known.

A low similarity does not prove protection: a trained attacker may still recognize the voice
(:mod:`voiceveil.risk`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.metrics import pitch_correlation, word_errors
from voiceveil.metrics.wer import Edit
from voiceveil.models.asr.recognition import normalization_of
from voiceveil.models.asr.recognition import recognizer as open_recognizer
from voiceveil.models.asr.speech_check import Kind, SpeechCheck, kind_of
from voiceveil.models.asr.text_normalization import normalizer
from voiceveil.models.naturalness import DNSMOS
from voiceveil.models.pitch.trackers import tracker
from voiceveil.models.speaker.encoders import encoder
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator

__all__ = ["MIDDLE", "PairComparison", "RecordingPair", "Reference", "compare_pairs", "reference", "sounds_like"]

#: Seconds in the middle of a recording in which voice and intonation are measured.
MIDDLE = 60.0
_RATED = 12.0  # seconds in the middle in which naturalness is measured
Likeness = Literal["the same person", "in between", "another person"]


@dataclass(frozen=True)
class RecordingPair:
    """A recording before and after anonymization, as files of a corpus or as waveforms."""

    id: str
    original: Utterance | Waveform
    anonymized: Utterance | Waveform
    speaker: str | None = None


@dataclass(frozen=True)
class PairComparison:
    """The measures of one pair; None where one could not be computed."""

    id: str
    speaker: str | None
    seconds: tuple[float, float]
    similarity: float | None = None
    alignment: tuple[Edit, ...] | None = None
    transcripts: tuple[str, str] | None = None
    quality: tuple[float, float] | None = None
    pitch_correlation: float | None = None
    kind: Kind | None = None

    @property
    def words(self) -> int:
        """Words that are recognized in the original."""
        return sum(edit.ref is not None for edit in self.alignment or ())

    @property
    def hits(self) -> int:
        """Words of these that are recognized in the anonymized recording."""
        return sum(edit.operation == "hit" for edit in self.alignment or ())

    @property
    def words_kept(self) -> float | None:
        """Share of the words that are kept; None if the original has none."""
        return self.hits / self.words if self.words else None

    @property
    def marked_text(self) -> str:
        """The recognized words of the original, with changes in brackets: ``the [quick -> thick] fox``."""
        pieces = [
            str(edit.ref) if edit.operation == "hit" else f"[{edit.ref or '-'} -> {edit.hyp or '-'}]"
            for edit in self.alignment or ()
        ]
        return " ".join(pieces).lower()


@dataclass(frozen=True)
class Reference:
    """Percentiles 5, 50 and 95 of real speech: cosines of the same and of different people, and naturalness."""

    seconds: float
    same: tuple[float, float, float]
    different: tuple[float, float, float]
    naturalness: tuple[float, float, float]

    @property
    def threshold(self) -> float:
        """The cosine halfway between the lowest scores of the same person and the highest of different people."""
        return (self.same[0] + self.different[2]) / 2


@lru_cache(maxsize=1)
def _references() -> tuple[Reference, ...]:
    data = tomllib.loads((files("voiceveil.evaluation") / "comparison_reference.toml").read_text(encoding="utf-8"))
    rating = tuple(data["naturalness"]["ovr"])
    return tuple(
        Reference(row["seconds"], tuple(row["same"]), tuple(row["different"]), rating) for row in data["similarity"]
    )


def reference(seconds: float) -> Reference:
    """Return what real recordings of about this length score: longer ones of one person are more alike."""
    return min(_references(), key=lambda row: abs(np.log(max(seconds, 0.1) / row.seconds)))


def sounds_like(similarity: float, seconds: float) -> Likeness:
    """Return whom the anonymized voice sounds like to a speaker recognizer.

    Parameters
    ----------
    similarity
        Cosine with the original.
    seconds
        Length of the shorter recording.
    """
    known = reference(seconds)
    if similarity >= known.threshold:
        return "the same person"
    return "another person" if similarity <= known.different[2] else "in between"


@dataclass(frozen=True)
class _Middle:
    """An evaluator of the middle of a recording; ``name`` is shown while it runs."""

    inner: Evaluator[Any]
    name: str
    seconds: float = MIDDLE

    @property
    def rate(self) -> int:
        """Sampling rate in Hz."""
        return self.inner.rate

    @property
    def minimum(self) -> float:
        """Shortest input in seconds."""
        return self.inner.minimum

    def fingerprint(self) -> str:
        """Return the fingerprint of the evaluator, and the length of the middle."""
        return f"middle {self.seconds:g} {self.inner.fingerprint()}"

    def __call__(self, wave: Waveform) -> Any:
        """Return the result for the middle."""
        length = round(self.seconds * wave.rate)
        start = max(0, (len(wave) - length) // 2)
        return self.inner(replace(wave, samples=wave.samples[start : start + length]))


def compare_pairs(
    pairs: Sequence[RecordingPair],
    lengths: Sequence[tuple[float, float]],
    context: RunContext,
    *,
    recognizer: str = "moonshine",
) -> tuple[list[PairComparison], list[str]]:
    """Return the comparison of each pair, and notes on measures that could not be computed.

    Parameters
    ----------
    pairs
        With different ids.
    lengths
        Seconds of both sides of each pair.
    context
        Cache, jobs and progress.
    recognizer
        Speech recognizer for the words, see :func:`voiceveil.models.recognizer`.
    """
    notes: list[str] = []

    def measured(
        name: str, model: Callable[[], Evaluator[Any]], sides: Sequence[str] = ("original", "anonymized")
    ) -> list[dict[str, Any]] | None:
        try:
            evaluator = model()
            long_enough = [
                pair for pair, seconds in zip(pairs, lengths, strict=True) if min(seconds) >= evaluator.minimum
            ]
            if not long_enough:
                raise InputError(f"no recording is long enough, at least {evaluator.minimum:g} s are needed")
            return [_evaluate(long_enough, side, evaluator, context) for side in sides]
        except InputError as error:
            if name:
                notes.append(f"{name} was not measured: {error}")
            return None

    embeddings = measured("voice similarity", lambda: _Middle(encoder("campplus"), "voice similarity"))
    texts = measured("words kept", lambda: open_recognizer(recognizer))
    normalize = normalizer("plain") if texts is None else normalizer(normalization_of(open_recognizer(recognizer)))
    ratings = measured("quality", lambda: _Middle(DNSMOS(), "naturalness", _RATED))
    tracks = measured("pitch correlation", lambda: _Middle(tracker(), "intonation"))
    checks = measured("", _speech_check, ("original",))
    compared = []
    for pair, seconds in zip(pairs, lengths, strict=True):
        vectors, words, quality, f0, check = (
            None if results is None or pair.id not in results[0] else [result[pair.id] for result in results]
            for results in (embeddings, texts, ratings, tracks, checks)
        )
        transcripts = None if words is None else (str(words[0]), str(words[1]))
        compared.append(
            PairComparison(
                pair.id,
                pair.speaker,
                seconds,
                None if vectors is None else _cosine(*vectors),
                None if transcripts is None else _align(*map(normalize, transcripts)),
                transcripts,
                None if quality is None else (quality[0]["ovr"], quality[1]["ovr"]),
                None if f0 is None or max(seconds) > MIDDLE else pitch_correlation(*f0),
                None if check is None else kind_of(check[0]),
            )
        )
    return compared, notes


def _speech_check() -> SpeechCheck:
    check = SpeechCheck()
    check.check()
    return check


def _evaluate(
    pairs: Sequence[RecordingPair], side: str, evaluator: Evaluator[Any], context: RunContext
) -> dict[str, Any]:
    """Return pair id -> result of one side; waveforms are evaluated here, files in the processes of the context."""
    recordings = {pair.id: getattr(pair, side) for pair in pairs}
    results = {
        id: evaluator(item.resampled(evaluator.rate)) for id, item in recordings.items() if isinstance(item, Waveform)
    }
    utterances = [replace(item, id=id) for id, item in recordings.items() if isinstance(item, Utterance)]
    return results | (context.extract(utterances, evaluator) if utterances else {})


def _cosine(first: Any, second: Any) -> float:
    return float(np.dot(first, second) / max(np.linalg.norm(first) * np.linalg.norm(second), 1e-12))


def _align(first: str, second: str) -> tuple[Edit, ...]:
    return word_errors({"pair": first}, {"pair": second}).alignments[0] if first.split() else ()
