"""A speech recognizer as a speaker encoder: statistics over time of an inner layer of Moonshine.

An anonymizer must keep what a recognizer needs, and with it may keep traits of the speaker (tempo, pauses, accent,
pronunciation), however well the voice is hidden; the features of a recognizer contain them. They were not trained to
tell speakers apart: alone they identify speakers poorly, with a trained back-end possibly better than an encoder of
voices.

Conventions: 16 kHz; an embedding is the means and standard deviations over time of 288 features, (576,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.models.content.features import LEVEL, MoonshineContent, content_encoder
from voiceveil.models.speaker.encoders import Embedding, TrainingRecord

__all__ = ["RecognizerEncoder"]


@dataclass(frozen=True)
class RecognizerEncoder:
    """Statistics of a ``layer``, 1 to 6, of the encoder of Moonshine tiny."""

    layer: int = 3
    family: ClassVar[str] = "moonshine"
    name: ClassVar[str] = "moonshine"

    rate: ClassVar[int] = MoonshineContent.rate
    dimension: ClassVar[int] = 2 * MoonshineContent.dimension

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds: two vectors."""
        return 2 * self._content.minimum

    @property
    def _content(self) -> MoonshineContent:
        return MoonshineContent(self.layer)

    def fingerprint(self) -> str:
        """Return the version (1) of the statistics and the fingerprint of the content encoder."""
        return f"statistics 1 {self._content.fingerprint()}"

    def training(self) -> TrainingRecord:
        """Return that it was trained on original speech, although for recognition."""
        return TrainingRecord("original")

    def check(self) -> None:
        """Raise an ``InputError`` if the model is missing; called before the work begins."""
        content_encoder(f"moonshine:{self.layer}")

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the statistics (576,) of one utterance."""
        level = max(1e-9, float(np.sqrt(np.mean(np.square(wave.samples, dtype=np.float64)))))
        content = self._content(Waveform(wave.samples * np.float32(LEVEL / level), wave.rate)).astype(np.float32)
        return np.concatenate([content.mean(axis=0), content.std(axis=0)])
