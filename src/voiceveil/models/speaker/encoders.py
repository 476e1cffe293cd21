"""Speaker encoders: what turns an utterance into a vector that tells who speaks.

An encoder is an :class:`~voiceveil.run.extract.Evaluator` whose result is one vector. A new one is a class with the
decorator ``@encoders.register("name")`` on a function that takes the part after the colon of ``name:FILE`` (or None)
and gives the encoder; third parties use entry points of the group ``voiceveil.encoders``.
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

__all__ = ["AdaptableEncoder", "Embedding", "SpeakerEncoder", "TrainingData", "TrainingRecord", "encoder", "encoders"]

Embedding = NDArray[np.float32]

#: What an encoder was trained on: original speech, speech of the system that is attacked, or of a similar one.
TrainingData = Literal["original", "anonymized", "similar"]


@dataclass(frozen=True)
class TrainingRecord:
    """How an encoder was trained, as far as its maker has written it down; rates are fractions."""

    data: TrainingData = "original"
    speakers: int | None = None
    utterances: int | None = None
    accuracy: float | None = None  # of the training speakers' classification, at the end
    validation_eer: float | None = None  # on speakers that were not trained on
    peak_reached: bool | None = None  # whether the learning rate got to its largest value, and came down
    speaker_ids: tuple[str, ...] = ()  # who was trained on

    @classmethod
    def read(cls, path: Path) -> TrainingRecord:
        """Read a JSON file; keys that mean nothing here are passed over, and NaN is what was not measured."""
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
        """Plain values for JSON."""
        return asdict(self)


class SpeakerEncoder(Evaluator[Embedding], Protocol):
    """An evaluator whose result is an embedding of shape (dimension,), float32.

    A class that derives from it defines ``name``, ``rate``, ``minimum``, ``dimension``, ``fingerprint`` and
    ``__call__``, and what differs from the rest.
    """

    @property
    def name(self) -> str:
        """Name in tables: the family, with other weights than the usual ones after a colon: ``ecapa:exp/asv``."""
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
    """An encoder with a trunk, whose results are cached, and a linear last layer, which can be trained anew."""

    def trunk(self) -> Evaluator[Embedding]:
        """Return the part that looks at audio; its result has shape (width,)."""
        ...

    def last_layer(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weight (dimension, width) and bias (dimension,): the embedding is ``weight @ trunk + bias``."""
        ...


Factory = Callable[[str | None], SpeakerEncoder]

#: Name -> what makes the encoder from the part after the colon of ``name:FILE``.
encoders: Registry[Factory] = Registry(
    "encoder", group="voiceveil.encoders", modules=("voiceveil.models.speaker.trained",)
)


@encoders.register("campplus")
def _campplus(argument: str | None) -> SpeakerEncoder:
    if find_spec("torch") is None:  # found, not imported: to plan an attack takes no network
        raise InputError("CAM++ cannot be used: torch is not installed", fix="pip install 'voiceveil[asv]'")
    from voiceveil.models.speaker.campplus import CamPlusPlus

    return CamPlusPlus(argument or "", f"campplus:{Path(argument).stem}" if argument else "campplus")


@encoders.register("moonshine")
def _moonshine(argument: str | None) -> SpeakerEncoder:
    if argument and not argument.isdecimal():
        raise InputError(f"{argument!r} is no layer of Moonshine tiny", fix="use moonshine:1 to moonshine:6")
    from voiceveil.models.speaker.recognizer_statistics import RecognizerEncoder

    made = RecognizerEncoder(int(argument)) if argument else RecognizerEncoder()
    made.check()
    return made


def encoder(spec: str) -> SpeakerEncoder:
    """Return the encoder of a name such as ``campplus``, or ``trained:exp/asv`` with weights of one's own.

    >>> encoder("campplus").dimension
    192
    """
    name, _, argument = spec.partition(":")
    return encoders[name](argument or None)


def l2_normalized(vector: NDArray[np.floating[Any]]) -> Embedding:
    """Return a vector (d,) as float32, scaled to length 1; zeros stay zeros."""
    return np.asarray(vector / max(1e-9, float(np.linalg.norm(vector))), dtype=np.float32)
