"""Is this English speech? How sure the English recognizer is of the words that it writes down.

Content encoders of this package know English alone. On other languages, music or noise they still return something, and
the recognizer that they come from (Moonshine) writes something down, but it is unsure: the mean entropy of its choices
of a token is far higher. A recording counts as

* ``english`` if the entropy is at most :data:`ENTROPY`;
* ``hardly speech`` if it is above, and there are few tokens for the time, or a phrase is repeated without end;
* ``not english`` if it is above, and neither is the case: another language, or speech that noise covers.

Detection and false alarm rates, with the data that they were measured on, are in docs/guide/limitations.md;
``scripts/measure_speech_check.py`` measures them. Conventions: 16 kHz mono; entropies are in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.moonshine import Moonshine, decode_with_entropy
from voiceveil.models.asr.recognition import recognizer

__all__ = ["ENTROPY", "FEW_TOKENS", "Kind", "SpeechCheck", "kind_of", "loudest"]

Kind = Literal["english", "not english", "hardly speech"]

#: Mean entropy of the tokens, in nats, above which a recording is not clear English speech.
ENTROPY = 1.29
#: Tokens per second below which there is hardly any speech.
FEW_TOKENS = 2.3
_RATE = 16000


@dataclass(frozen=True)
class SpeechCheck:
    """Entropy, tokens per second and repetition of Moonshine tiny on the loudest ``seconds`` of a recording."""

    seconds: float = 8.0
    rate: ClassVar[int] = _RATE
    minimum: ClassVar[float] = 1.5  # seconds: a single word may be anything

    def fingerprint(self) -> str:
        """Return the recognizer's fingerprint, the version (1) of this check, and its length."""
        return f"speech check 1 {self.seconds} {Moonshine().fingerprint()}"

    def check(self) -> None:
        """Raise an ``InputError`` if the recognizer is not installed."""
        recognizer("moonshine")

    def __call__(self, wave: Waveform) -> dict[str, float]:
        """Return ``{"entropy": ..., "tokens_per_second": ..., "repeated": 0 or 1}``."""
        if wave.rate != _RATE or wave.duration < self.minimum:
            problem = f"{wave.duration:.2f} s of audio at {wave.rate} Hz cannot be checked"
            raise InputError(problem, fix=f"give at least {self.minimum} s at {_RATE} Hz")
        samples = loudest(wave.samples, round(self.seconds * _RATE))
        decoded = decode_with_entropy(samples)
        return {
            "entropy": decoded.entropy,
            "tokens_per_second": decoded.tokens / (len(samples) / _RATE),
            "repeated": float(decoded.repeated),
        }


def kind_of(measured: dict[str, float]) -> Kind:
    """Return what a recording is, from the result of :class:`SpeechCheck`.

    >>> kind_of({"entropy": 2.4, "tokens_per_second": 6.0, "repeated": 0})
    'not english'
    """
    if measured["entropy"] <= ENTROPY:
        return "english"
    hardly = measured["repeated"] or measured["tokens_per_second"] < FEW_TOKENS
    return "hardly speech" if hardly else "not english"


def loudest(samples: Samples, length: int) -> Samples:
    """Return the ``length`` samples with the most energy, of windows that begin at full seconds; all if fewer."""
    if len(samples) <= length:
        return samples
    energy = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    starts = np.arange(0, len(samples) - length + 1, _RATE)
    start = int(starts[np.argmax(energy[starts + length] - energy[starts])])
    return samples[start : start + length]
