"""Several speaker encoders as one: their embeddings, one after the other, for a back-end that weighs them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.encoders import Embedding, SpeakerEncoder, TrainingRecord, encoder

__all__ = ["Concatenation"]

_FIX = "name encoders of original speech, e.g. concat:campplus-trunk+moonshine:3"


@dataclass(frozen=True)
class Concatenation(SpeakerEncoder):
    """The embeddings of the ``parts``, one after the other; all parts have one sampling rate."""

    parts: tuple[SpeakerEncoder, ...]

    family: ClassVar[str] = "concat"

    @classmethod
    def parse(cls, argument: str | None) -> Concatenation:
        """Return the encoder of ``concat:NAME+NAME...``."""
        names = [name for name in (argument or "").split("+") if name]
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(f"concat needs two encoders or more, not {argument or 'none'!r}", fix=_FIX)
        parts = tuple(encoder(name) for name in names)
        if len({part.rate for part in parts}) > 1 or {part.training().data for part in parts} != {"original"}:
            raise InputError(f"{argument} cannot be concatenated: sampling rates or training data differ", fix=_FIX)
        return cls(parts)

    @property
    def name(self) -> str:
        """``concat:`` and the names of the parts."""
        return f"{self.family}:{'+'.join(part.name for part in self.parts)}"

    @property
    def rate(self) -> int:
        """Sampling rate in Hz."""
        return self.parts[0].rate

    @property
    def minimum(self) -> float:
        """Shortest utterance in seconds."""
        return max(part.minimum for part in self.parts)

    @property
    def dimension(self) -> int:
        """Sum of the parts' dimensions."""
        return sum(part.dimension for part in self.parts)

    def fingerprint(self) -> str:
        """Return the fingerprints of all parts."""
        return f"concat {' + '.join(part.fingerprint() for part in self.parts)}"

    def training(self) -> TrainingRecord:
        """Return that all parts were trained on original speech."""
        return TrainingRecord("original")

    def check(self) -> None:
        """Raise an ``InputError`` if a part cannot be used."""
        for part in self.parts:
            part.check()

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the embeddings of one utterance."""
        return np.concatenate([part(wave) for part in self.parts])
