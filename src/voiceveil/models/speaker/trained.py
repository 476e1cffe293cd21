"""A trained speaker encoder as an evaluator.

``trained:exp/asv`` names the folder that `voiceveil train asv` wrote, whatever is in it; ``ecapa:exp/asv``,
``xvector:...`` and ``resnet34:...`` also say what it has to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.encoders import Embedding, TrainingRecord, encoders
from voiceveil.models.speaker.networks import MODELS, RATE, SpeakerModel, features, speaker_model
from voiceveil.run.ledger import sha256_file

__all__ = ["TrainedEncoder", "load_encoder"]

_VERSION = 1


@dataclass(frozen=True)
class TrainedEncoder:
    """Embeddings of an encoder of our own; ``path`` is its ``model.safetensors`` or the folder that has it.

    Zeros at both ends of the audio, digital silence, are cut off first, as the challenge does.
    """

    path: Path

    #: 0.1 s; what is shorter than the network needs is repeated.
    rate, minimum = RATE, 0.1

    @property
    def file(self) -> Path:
        """The file of the weights."""
        path = Path(self.path)
        return path / "model.safetensors" if path.is_dir() else path

    @property
    def model(self) -> SpeakerModel:
        """The kind of encoder."""
        return _loaded(self.file, _stamp(self.file))[0]

    @property
    def family(self) -> str:
        """The kind of network, e.g. ``ecapa``."""
        return self.model.name

    @property
    def name(self) -> str:
        """The kind of network, and where it lies: ``ecapa:exp/asv``."""
        return f"{self.model.name}:{self.path}"

    @property
    def dimension(self) -> int:
        """The length of an embedding."""
        return int(_loaded(self.file, _stamp(self.file))[1].dimension)

    def fingerprint(self) -> str:
        """Version and hash of the weights."""
        return f"trained {_VERSION} {_hash(self.file, _stamp(self.file))}"

    def training(self) -> TrainingRecord:
        """What ``record.json`` beside the weights tells."""
        record = self.file.parent / "record.json"
        return TrainingRecord.read(record) if record.exists() else TrainingRecord()

    def check(self) -> None:
        """An ``InputError`` now, before the work begins, if the weights cannot be used."""
        _loaded(self.file, _stamp(self.file))

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the embedding (dimension,), float32, of one utterance at 16 kHz."""
        from voiceveil.models.speaker.embedding import embed

        model, network = _loaded(self.file, _stamp(self.file))
        sound = np.trim_zeros(wave.samples)
        frames = features(sound if len(sound) >= self.minimum * RATE else wave.samples, model.feature)
        return embed(network, model, frames)


def load_encoder(path: Path) -> tuple[SpeakerModel, Any]:
    """Kind and network (evaluation mode, CPU) of a file of weights; a file of another kind is an ``InputError``."""
    if find_spec("torch") is None:
        raise InputError("a trained encoder needs torch", fix="pip install 'voiceveil[asv]'")
    from voiceveil.models.checkpoint import load_network
    from voiceveil.models.speaker.networks import MODEL_KIND

    def make(record: dict[str, Any]) -> Any:
        return speaker_model(str(record["model"])).network(int(record["channels"]))

    network, record = load_network(path, MODEL_KIND, make)
    return speaker_model(str(record["model"])), network


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when the file does: a network that was trained anew in the same place is loaded anew."""
    try:
        status = path.stat()
    except OSError as error:
        fix = "give the folder that `voiceveil train asv` wrote"
        raise InputError("no such file", where=path, fix=fix) from error
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=2)
def _loaded(path: Path, stamp: tuple[int, int]) -> tuple[SpeakerModel, Any]:
    return load_encoder(path)


@lru_cache(maxsize=16)
def _hash(path: Path, stamp: tuple[int, int]) -> str:
    return sha256_file(path)


def _make(argument: str | None, model: str | None = None) -> TrainedEncoder:
    """Return the encoder of ``trained:FOLDER``, or of ``ecapa:FOLDER``, which must then be an ECAPA-TDNN."""
    if argument is None:
        raise InputError("a trained encoder has no default weights", fix=f"write {model or 'trained'}:FOLDER")
    made = TrainedEncoder(Path(argument))
    if model is not None and made.model.name != model:
        raise InputError(f"the weights are not of {model}", where=argument, fix=f"write {made.name}")
    return made


encoders.register("trained")(_make)
for _name in MODELS:
    encoders.register(_name)(partial(_make, model=_name))
