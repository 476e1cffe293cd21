"""A system of text-dependent verification: enroll a model, hear a test, score the two.

The rules of the challenge say that a trial is decided from its test and the enrollment of its model alone. The
interface leaves nothing else to use: :meth:`System.enroll` sees the recordings of one model, :meth:`System.hear` one
test, :meth:`System.score` what came of the two; a system is frozen, its arrays are read-only, and all it knows besides
was learned from training data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.tdsv.features import Measured
from voiceveil.tdsv.fusion import Fusion
from voiceveil.tdsv.phrase_models import Templates, Wording
from voiceveil.tdsv.speaker_models import Placed, VoiceSpace

__all__ = ["Enrolled", "Heard", "Score", "System"]


@dataclass(frozen=True, eq=False, slots=True)
class Enrolled:
    """What is kept of a model; ``free_text``: whether its voice is of free text too."""

    voice: Placed
    wording: Templates
    free_text: bool


@dataclass(frozen=True, eq=False, slots=True)
class Heard:
    """What is kept of a test."""

    voice: Placed
    wording: NDArray[Any]


class Score(NamedTuple):
    """A trial: the scores of voice and wording, and the LLR of both."""

    voice: float
    wording: float
    llr: float


@dataclass(frozen=True, eq=False)
class System:
    """What was learned from training data; ``fusion``: enrollment by the passphrase, ``fusion_free``: with free text.

    ``encoder`` and ``content`` name what measures recordings; ``fingerprint`` is the encoder's, to be held against.
    """

    task: int
    encoder: str
    fingerprint: str
    content: str
    voices: VoiceSpace
    wording: Wording
    fusion: Fusion
    fusion_free: Fusion | None
    record: Mapping[str, Any]

    def __post_init__(self) -> None:
        for array in _arrays(self):
            array.flags.writeable = False

    def enroll(
        self, passphrase: Sequence[Measured], free_text: Sequence[Measured] = (), phrase: str | None = None
    ) -> Enrolled:
        """One model, from its own recordings."""
        if free_text and self.fusion_free is None:
            raise InputError("this system was not trained for free text", fix="train it on data of task 2")
        voices = np.stack([one.voice for one in (*passphrase, *free_text)])
        contents = [_content(one) for one in passphrase]
        return Enrolled(self.voices.place(voices), self.wording.enroll(contents, phrase), bool(free_text))

    def hear(self, test: Measured) -> Heard:
        """One test."""
        return Heard(self.voices.place(test.voice[None]), self.wording.hear(_content(test)))

    def score(self, model: Enrolled, test: Heard) -> Score:
        """One trial."""
        voice = self.voices.score(model.voice, test.voice)
        wording = self.wording.score(model.wording, test.wording)
        fusion = self.fusion_free if model.free_text and self.fusion_free is not None else self.fusion
        return Score(voice, wording, fusion(voice, wording))


def _content(measured: Measured) -> NDArray[Any]:
    if measured.content is None:
        raise InputError("a recording of the passphrase without content")
    return measured.content


def _arrays(part: object) -> Iterator[NDArray[Any]]:
    """All arrays in a tree of dataclasses."""
    values: Iterable[object] = vars(part).values() if hasattr(part, "__dict__") else ()
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif hasattr(value, "__dataclass_fields__"):
            yield from _arrays(value)
