"""Compare two recordings, such as an original and its anonymized version."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from voiceveil.api.recordings import as_waveform
from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.core.tables import Table, Tabular
from voiceveil.metrics import pitch_correlation, word_errors
from voiceveil.models.asr.recognition import recognizer as open_recognizer
from voiceveil.models.asr.text_normalization import normalizer
from voiceveil.models.naturalness import DNSMOS
from voiceveil.models.pitch.trackers import tracker
from voiceveil.models.speaker.encoders import encoder
from voiceveil.run.extract import Evaluator

__all__ = ["RecordingComparison", "compare"]


@dataclass(frozen=True)
class RecordingComparison(Tabular):
    """Similarity of voices, words kept and quality of two recordings; prints as a table.

    A measure that could not be computed is None, and ``notes`` says why.
    """

    #: Cosine of the speaker embeddings (CAM++), -1 to 1; 1: the same voice.
    similarity: float | None
    #: Share of the words recognized in the first recording that are recognized in the second, 0 to 1.
    words_kept: float | None
    #: Predicted overall quality (DNSMOS) of the two recordings, 1 (bad) to 5 (excellent).
    quality: tuple[float, float] | None
    #: Correlation of the two F0 contours, -1 to 1; 1: the same intonation.
    pitch_correlation: float | None
    #: Recognized words of the two recordings.
    transcripts: tuple[str, str] | None
    notes: tuple[str, ...] = ()

    def records(self) -> list[dict[str, Any]]:
        """Return one record per measure."""
        first, second = self.quality or (None, None)
        values = {
            "similarity": self.similarity,
            "words_kept": self.words_kept,
            "quality_first": first,
            "quality_second": second,
            "pitch_correlation": self.pitch_correlation,
        }
        return [{"measure": name, "value": value} for name, value in values.items()]

    def table(self) -> Table:
        """Return measures, values and how to read them."""
        quality = None if self.quality is None else f"{self.quality[0]:.2f} -> {self.quality[1]:.2f}"
        rows = (
            ("voice similarity", _shown(self.similarity, "{:.2f}"), "1: the same voice; 0: unrelated voices"),
            ("words kept", _shown(self.words_kept, "{:.0%}"), "of those recognized in the first recording"),
            ("quality", quality or "-", "predicted opinion score (DNSMOS), 1 to 5"),
            ("pitch correlation", _shown(self.pitch_correlation, "{:.2f}"), "1: the same intonation"),
        )
        return Table(("measure", "value", "meaning"), rows, self.notes)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return asdict(self)


def compare(
    first: str | os.PathLike[str] | Waveform,
    second: str | os.PathLike[str] | Waveform,
    *,
    recognizer: str = "moonshine",
) -> RecordingComparison:
    """Compare two recordings: voice similarity, words kept, quality, intonation.

    A high similarity shows that the voice was *not* hidden; a low one does not prove that it was, as a trained attacker
    may still recognize it: measure that with :func:`voiceveil.evaluate` or :func:`voiceveil.assess_risk`.

    Parameters
    ----------
    first, second
        Recordings, as files or waveforms, for example an original and its anonymized version.
    recognizer
        Speech recognizer for the words, see :func:`voiceveil.transcribe`.

    Returns
    -------
    RecordingComparison
        Its fields are None where a model is not installed or a recording is too short; ``notes`` says why.

    Examples
    --------
    >>> vv.compare("original.wav", "anonymized.wav").words_kept   # doctest: +SKIP
    0.95
    """
    waves = as_waveform(first), as_waveform(second)
    notes: list[str] = []

    def measured(name: str, model: Callable[[], Evaluator[Any]]) -> list[Any] | None:
        try:
            evaluator = model()
            return [_apply(evaluator, wave) for wave in waves]
        except InputError as error:
            notes.append(f"{name} was not measured: {error}")
            return None

    embeddings = measured("voice similarity", lambda: encoder("campplus"))
    texts = measured("words kept", lambda: open_recognizer(recognizer))
    ratings = measured("quality", DNSMOS)
    tracks = measured("pitch correlation", tracker)
    kept = None if texts is None else _share_of_words(*texts)
    if texts is not None and kept is None:
        notes.append("words kept was not measured: no word was recognized in the first recording")
    return RecordingComparison(
        None if embeddings is None else _cosine(*embeddings),
        kept,
        None if ratings is None else (ratings[0]["ovr"], ratings[1]["ovr"]),
        None if tracks is None else pitch_correlation(*tracks),
        None if texts is None else (texts[0], texts[1]),
        tuple(notes),
    )


def _apply(evaluator: Evaluator[Any], wave: Waveform) -> Any:
    if wave.duration < evaluator.minimum:
        raise InputError(f"the recording has {wave.duration:.2f} s, but at least {evaluator.minimum:g} s are needed")
    return evaluator(wave.resampled(evaluator.rate))


def _cosine(first: Any, second: Any) -> float:
    return float(np.dot(first, second) / max(np.linalg.norm(first) * np.linalg.norm(second), 1e-12))


def _share_of_words(first: str, second: str) -> float | None:
    """Return the share of the words of the first transcript that the second has; None if the first has none."""
    words = normalizer("plain")
    reference = words(first)
    if not reference.split():
        return None
    errors = word_errors({"recording": reference}, {"recording": words(second)})
    return errors.hits / len(reference.split())


def _shown(value: float | None, pattern: str) -> str:
    return "-" if value is None else pattern.format(value)
