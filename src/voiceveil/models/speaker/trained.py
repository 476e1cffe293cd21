"""Speaker encoders that the user trained.

``trained:exp/asv`` names a folder that `voiceveil train asv` wrote, with an encoder of any kind; ``ecapa:exp/asv``,
``xvector:...`` and ``resnet34:...`` also require that kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.encoders import Embedding, TrainingRecord, encoders
from voiceveil.models.speaker.networks import MODEL_KIND, MODELS, RATE, SpeakerModel, embed, features, speaker_model
from voiceveil.run.device import current_device
from voiceveil.run.ledger import sha256_file

__all__ = ["TrainedEncoder", "load_encoder"]

_VERSION = 1


@dataclass(frozen=True)
class TrainedEncoder:
    """A trained encoder; ``path`` is its ``model.safetensors``, or the folder of it.

    Digital silence at both ends of the audio is removed first, as the challenge does.
    """

    path: Path

    #: Shortest audio: 0.1 s; features are repeated up to the length that the network needs.
    rate, minimum = RATE, 0.1

    @property
    def file(self) -> Path:
        """File of the weights."""
        path = Path(self.path)
        return path / "model.safetensors" if path.is_dir() else path

    @property
    def model(self) -> SpeakerModel:
        """Kind of encoder."""
        return self._opened()[0]

    @property
    def family(self) -> str:
        """Kind of network, e.g. ``ecapa``."""
        return self.model.name

    @property
    def name(self) -> str:
        """Kind of network and path: ``ecapa:exp/asv``."""
        return f"{self.model.name}:{self.path}"

    @property
    def dimension(self) -> int:
        """Length of an embedding."""
        return int(self._opened()[1].dimension)

    def fingerprint(self) -> str:
        """Return the version and the hash of the weights."""
        return f"trained {_VERSION} {_hash(self.file, _stamp(self.file))}"

    def training(self) -> TrainingRecord:
        """Return the training record from ``record.json`` beside the weights, if there is one."""
        record = self.file.parent / "record.json"
        return TrainingRecord.read(record) if record.exists() else TrainingRecord()

    def check(self) -> None:
        """Raise an ``InputError`` if the weights cannot be used; called before the work begins."""
        self._opened()

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the embedding (dimension,), float32, of one utterance at 16 kHz."""
        return self.batch([wave])[0]

    def batch(self, waves: Sequence[Waveform]) -> list[Embedding]:
        """Return the embeddings of several utterances; those with equally many frames are processed together."""
        model, network = self._opened()
        return embed(network, model, [features(self._trimmed(wave), model.feature) for wave in waves], current_device())

    def _opened(self) -> tuple[SpeakerModel, Any]:
        return _loaded(self.file, _stamp(self.file), current_device())

    def _trimmed(self, wave: Waveform) -> Samples:
        trimmed = np.trim_zeros(wave.samples)
        return trimmed if len(trimmed) >= self.minimum * RATE else wave.samples


def load_encoder(path: Path, device: str) -> tuple[SpeakerModel, Any]:
    """Return kind and network (evaluation mode) of a file of weights, on a device.

    Raises
    ------
    InputError
        If torch is missing, or the file is damaged or of another kind.
    """
    if find_spec("torch") is None:
        raise InputError("a trained encoder needs torch", fix="pip install 'voiceveil[asv]'")
    from voiceveil.models.checkpoint import load_network

    def build(record: dict[str, Any]) -> Any:
        return speaker_model(str(record["model"])).network(int(record["channels"]))

    network, record = load_network(path, MODEL_KIND, build)
    return speaker_model(str(record["model"])), network.to(device)


def _stamp(path: Path) -> tuple[int, int]:
    """Return modification time and size of a file, so that it is loaded again after it changes."""
    try:
        status = path.stat()
    except OSError as error:
        fix = "give a folder that `voiceveil train asv` wrote"
        raise InputError("no such file", where=path, fix=fix) from error
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=2)
def _loaded(path: Path, stamp: tuple[int, int], device: str) -> tuple[SpeakerModel, Any]:
    return load_encoder(path, device)


@lru_cache(maxsize=16)
def _hash(path: Path, stamp: tuple[int, int]) -> str:
    return sha256_file(path)


def _trained_encoder(argument: str | None, kind: str | None = None) -> TrainedEncoder:
    """Return the encoder of ``trained:FOLDER``, or of ``ecapa:FOLDER``, which must then be of kind ``ecapa``."""
    if argument is None:
        raise InputError("a trained encoder has no default weights", fix=f"write {kind or 'trained'}:FOLDER")
    encoder = TrainedEncoder(Path(argument))
    if kind is not None and encoder.model.name != kind:
        raise InputError(f"the weights are not of {kind}", where=argument, fix=f"write {encoder.name}")
    return encoder


encoders.register("trained")(_trained_encoder)
for _name in MODELS:
    encoders.register(_name)(partial(_trained_encoder, kind=_name))
