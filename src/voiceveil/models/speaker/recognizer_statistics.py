"""A recognizer as a speaker encoder: how what an inner layer of Moonshine hears is spread over a recording.

What an anonymizer must keep is what a recognizer listens to; whatever of a speaker comes through with it (tempo,
pauses, accent, the way of making sounds) is in the features of a recognizer, too, however well the voice is hidden.
Nobody has trained them to tell speakers apart: alone they say little, with a back-end that has learned they may say
more than an encoder of voices does.

Conventions: 16 kHz; an embedding is the means and the standard deviations over time of 288 features, (576,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.models.content.features import LEVEL, MoonshineContent, content_features
from voiceveil.models.speaker.encoders import Embedding, TrainingRecord

__all__ = ["RecognizerEncoder"]


@dataclass(frozen=True)
class RecognizerEncoder:
    """Statistics of a ``layer`` of Moonshine tiny's encoder, 1 to 6."""

    layer: int = 3
    family: ClassVar[str] = "moonshine"
    name: ClassVar[str] = "moonshine"

    rate: ClassVar[int] = MoonshineContent.rate
    dimension: ClassVar[int] = 2 * MoonshineContent.dimension

    @property
    def minimum(self) -> float:
        """Two vectors, in seconds."""
        return 2 * self._content.minimum

    @property
    def _content(self) -> MoonshineContent:
        return MoonshineContent(self.layer)

    def fingerprint(self) -> str:
        """That of the content."""
        return f"statistics 1 {self._content.fingerprint()}"

    def training(self) -> TrainingRecord:
        """On original speech, for another purpose."""
        return TrainingRecord("original")

    def check(self) -> None:
        """An ``InputError`` now, before the work begins, if the model is not there."""
        content_features(f"moonshine:{self.layer}")

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the statistics (576,) of one utterance."""
        level = max(1e-9, float(np.sqrt(np.mean(np.square(wave.samples, dtype=np.float64)))))
        heard = self._content(Waveform(wave.samples * np.float32(LEVEL / level), wave.rate)).astype(np.float32)
        return np.concatenate([heard.mean(axis=0), heard.std(axis=0)])
