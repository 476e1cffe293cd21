"""Speaker encoders: the contract, the registry, and the record of their training.

An encoder is an :class:`~voiceveil.run.extract.Evaluator` that returns one vector, the embedding of the speaker. A new
one is a class and a function, decorated with ``@encoders.register("name")``, that takes the part after the colon of
``name:FILE`` (None without a colon) and returns the encoder; third parties use entry points of the group
``voiceveil.encoders``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.documents import build, read_json
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.run.extract import Evaluator

__all__ = [
    "AdaptableEncoder",
    "CombinedEncoder",
    "DerivedEncoder",
    "Embedding",
    "SpeakerEncoder",
    "TrainingData",
    "TrainingRecord",
    "encoder",
    "encoders",
]

Embedding = NDArray[np.float32]

#: Training data of an encoder: original speech, output of the system that is attacked, or output of a similar one.
TrainingData = Literal["original", "anonymized", "similar"]


@dataclass(frozen=True)
class TrainingRecord:
    """Training of an encoder, as far as it is recorded (None: not recorded); rates are fractions."""

    data: TrainingData = "original"
    speakers: int | None = None
    utterances: int | None = None
    accuracy: float | None = None  # of the classification of training speakers, at the end
    validation_eer: float | None = None  # on speakers that are not in the training data
    peak_reached: bool | None = None  # whether the learning rate reached its maximum and decreased again
    speaker_ids: tuple[str, ...] = ()  # of the training data

    @classmethod
    def read(cls, path: Path) -> TrainingRecord:
        """Read ``record.json``; unknown keys are ignored, and NaN means not recorded."""
        fix = "copy the record.json that `voiceveil train` wrote"
        values: Any = read_json(path, nan=True, fix=fix)
        if isinstance(values, dict):
            values = {key: None if value != value else value for key, value in values.items()}
        return build(cls, values, where=path, unknown=True, fix=fix)

    def __post_init__(self) -> None:
        for name in ("accuracy", "validation_eer"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate <= 1:
                raise InputError(f"{name} is {rate:g}, but must be a fraction from 0 to 1")
        for name in ("speakers", "utterances"):
            count = getattr(self, name)
            if count is not None and count < 0:
                raise InputError(f"{name} is {count}, but must be 0 or more")

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


class SpeakerEncoder(Evaluator[Embedding], Protocol):
    """An evaluator that returns an embedding (dimension,), float32.

    A class that derives from it defines ``name``, ``rate``, ``minimum``, ``dimension``, ``fingerprint`` and
    ``__call__``; the other methods have defaults.
    """

    @property
    def name(self) -> str:
        """Name in tables: the family, and after a colon weights other than the default ones: ``ecapa:exp/asv``."""
        ...

    @property
    def family(self) -> str:
        """Kind of network, e.g. ``ecapa``."""
        return self.name

    @property
    def dimension(self) -> int:
        """Length of an embedding."""
        ...

    def training(self) -> TrainingRecord:
        """Return how it was trained."""
        return TrainingRecord()

    def check(self) -> None:
        """Raise an ``InputError`` if its weights are missing or of the wrong kind; called before the work begins."""
        return


@runtime_checkable
class AdaptableEncoder(Protocol):
    """An encoder with a linear last layer, which can be retrained on cached results of the trunk before it."""

    def trunk(self) -> Evaluator[Embedding]:
        """Return the network without its last layer; its result has shape (width,)."""
        ...

    def last_layer(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return weight (dimension, width) and bias (dimension,): the embedding is ``weight @ trunk + bias``."""
        ...


@runtime_checkable
class DerivedEncoder(Protocol):
    """An encoder whose embedding follows from the result of a model that several encoders share, and that is cached."""

    def source(self) -> Evaluator[Any]:
        """Return the model that processes the audio."""
        ...

    def derive(self, result: Any) -> Embedding:
        """Return the embedding (dimension,) for a result of the model."""
        ...


@runtime_checkable
class CombinedEncoder(Protocol):
    """An encoder whose embedding is those of several ``parts``, one after the other."""

    @property
    def parts(self) -> tuple[SpeakerEncoder, ...]:
        """The other encoders."""
        ...


EncoderFactory = Callable[[str | None], SpeakerEncoder]

#: Name -> function that returns the encoder for the part after the colon of ``name:FILE``, or for None.
encoders: Registry[EncoderFactory] = Registry(
    "encoder",
    group="voiceveil.encoders",
    modules=("voiceveil.models.speaker.trained", "voiceveil.models.speechbrain.speaker"),
)


@encoders.register("campplus")
def _campplus(argument: str | None) -> SpeakerEncoder:
    _require_torch()
    from voiceveil.models.speaker.campplus import CamPlusPlus

    return CamPlusPlus(argument or "", f"campplus:{Path(argument).stem}" if argument else "campplus")


@encoders.register("campplus-trunk")
def _campplus_trunk(argument: str | None) -> SpeakerEncoder:
    _require_torch()
    from voiceveil.models.speaker.campplus import CamPlusPlusStatistics

    return CamPlusPlusStatistics(argument or "")


def _require_torch() -> None:
    if find_spec("torch") is None:  # located, not imported: an attack is planned without torch
        raise InputError("CAM++ cannot be used: torch is not installed", fix="pip install 'voiceveil[asv]'")


@encoders.register("moonshine")
def _moonshine(argument: str | None) -> SpeakerEncoder:
    from voiceveil.models.speaker.recognizer_statistics import RecognizerEncoder

    statistics = RecognizerEncoder.parse(argument)
    statistics.check()
    return statistics


@encoders.register("words")
def _words(argument: str | None) -> SpeakerEncoder:
    from voiceveil.models.speaker.words import WordsEncoder

    words = WordsEncoder(argument) if argument else WordsEncoder()
    words.check()
    return words


@encoders.register("concat")
def _concat(argument: str | None) -> SpeakerEncoder:
    from voiceveil.models.speaker.concatenation import Concatenation

    return Concatenation.parse(argument)


def encoder(spec: str) -> SpeakerEncoder:
    """Return the encoder of a name such as ``campplus``, or ``trained:exp/asv`` for weights that the user trained.

    >>> encoder("campplus").dimension
    192
    """
    name, _, argument = spec.partition(":")
    return encoders[name](argument or None)


def l2_normalized(vector: NDArray[np.floating[Any]]) -> Embedding:
    """Return a vector (d,) as float32, scaled to length 1; zeros stay zeros."""
    return np.asarray(vector / max(1e-9, float(np.linalg.norm(vector))), dtype=np.float32)
