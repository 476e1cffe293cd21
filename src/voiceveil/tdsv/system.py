"""A system of text-dependent verification: enroll a model, analyze a test, score both.

The rules of the challenge say that a trial is decided from its test and the enrollment of its model alone. The
interface allows nothing else: :meth:`System.enroll` gets the recordings of one model, :meth:`System.analyze` one test,
:meth:`System.score` the results of both. A system is frozen, its arrays are read-only, and everything else in it was
learned from training data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.tdsv.features import RecordingFeatures
from voiceveil.tdsv.fusion import Fusion
from voiceveil.tdsv.phrase_models import PhraseModel, Templates
from voiceveil.tdsv.speaker_models import Voices, VoiceVector

__all__ = ["EnrolledModel", "Score", "System", "TestFeatures"]


@dataclass(frozen=True, eq=False, slots=True)
class EnrolledModel:
    """An enrolled model; ``free_text`` tells whether free text was used for its voice."""

    voice: VoiceVector
    wording: Templates
    free_text: bool


@dataclass(frozen=True, eq=False, slots=True)
class TestFeatures:
    """Features of a test recording."""

    voice: VoiceVector
    wording: NDArray[Any]


class Score(NamedTuple):
    """Scores of one trial: voice, wording, and the LLR of both."""

    voice: float
    wording: float
    llr: float


@dataclass(frozen=True, eq=False)
class System:
    """A trained system of text-dependent verification.

    Parameters
    ----------
    task : int
        1 or 2.
    encoder, fingerprint : str
        Name of the speaker encoder, and its fingerprint, which must not change.
    content : str
        Name of the content features.
    voices : VoiceSpace or PldaSpace
        Compares voices.
    wording : PhraseModel
        Verifies the passphrase.
    fusion, fusion_free : Fusion
        Calibration for enrollment by the passphrase, and with free text (None if it was not trained).
    record : mapping
        Facts about the training.
    """

    task: int
    encoder: str
    fingerprint: str
    content: str
    voices: Voices
    wording: PhraseModel
    fusion: Fusion
    fusion_free: Fusion | None
    record: Mapping[str, Any]

    def __post_init__(self) -> None:
        for array in _arrays(self):
            array.flags.writeable = False

    def enroll(
        self,
        passphrase: Sequence[RecordingFeatures],
        free_text: Sequence[RecordingFeatures] = (),
        phrase: str | None = None,
    ) -> EnrolledModel:
        """Return a model, enrolled from its own recordings."""
        if free_text and self.fusion_free is None:
            raise InputError("this system was not trained for free text", fix="train it on data of task 2")
        voices = np.stack([features.voice for features in (*passphrase, *free_text)])
        contents = [_content(features) for features in passphrase]
        return EnrolledModel(self.voices.represent(voices), self.wording.enroll(contents, phrase), bool(free_text))

    def analyze(self, test: RecordingFeatures) -> TestFeatures:
        """Return the features of one test recording."""
        return TestFeatures(self.voices.represent(test.voice[None]), self.wording.analyze(_content(test)))

    def score(self, model: EnrolledModel, test: TestFeatures) -> Score:
        """Return the scores of one trial."""
        voice = self.voices.score(model.voice, test.voice)
        wording = self.wording.score(model.wording, test.wording)
        fusion = self.fusion_free if model.free_text and self.fusion_free is not None else self.fusion
        return Score(voice, wording, fusion(voice, wording))


def _content(features: RecordingFeatures) -> NDArray[Any]:
    if features.content is None:
        raise InputError("a recording of the passphrase has no content features", fix="extract its content too")
    return features.content


def _arrays(part: object) -> Iterator[NDArray[Any]]:
    """Yield all arrays in a tree of dataclasses."""
    values: Iterable[object] = vars(part).values() if hasattr(part, "__dict__") else ()
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif hasattr(value, "__dataclass_fields__"):
            yield from _arrays(value)
