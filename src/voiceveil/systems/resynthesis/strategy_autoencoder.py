"""Pseudo-speakers from an adversarial autoencoder, applied to the source (S1c1, S2c1) or to B1's average (S1, S2).

Systems of VoicePrivacy 2020. The network is trained by `voiceveil train autoencoder`, see
:mod:`voiceveil.models.nets.autoencoder`; its output carries less information on speaker and gender than its input.
S1c1 and S2c1 draw nothing: a voice always becomes the same voice, and anybody who has the network can repeat it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.models.checkpoint import load_tensors
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.weights import store
from voiceveil.systems.resynthesis.pool import Embedding, Pool
from voiceveil.systems.resynthesis.strategies import PoolFarthest, PseudoSpeaker, strategies

__all__ = ["Autoencoded", "AutoencodedFarthest", "reconstruct"]

KIND = "autoencoder of embeddings"
Array = NDArray[np.float32]


@strategies.register("s1c1")
@dataclass(frozen=True)
class Autoencoded:
    """The reconstruction of the source; ``autoencoder``: folder of `voiceveil train autoencoder` ("": the shipped)."""

    autoencoder: str = ""

    needs_source_embedding: ClassVar[bool] = True
    _shipped: ClassVar[str] = "s1"

    def check(self, pool: Pool) -> None:
        """Refuse a network for embeddings of another encoder than the pool's."""
        _check(_file(self.autoencoder, self._shipped), pool)

    def files(self) -> dict[str, Path]:
        """Return the file of the network."""
        return {"autoencoder": _file(self.autoencoder, self._shipped)}

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the reconstruction, with the mean F0 of the pool's nearest speaker."""
        embedding = reconstruct(_file(self.autoencoder, self._shipped), source)
        return PseudoSpeaker(embedding, float(pool.log_f0[int(np.argmax(_cosines(pool, embedding)))]))


@strategies.register("s2c1")
@dataclass(frozen=True)
class AutoencodedTuned(Autoencoded):
    """Variant of s1c1 with a network that was trained with tuned weights of the adversarial branches."""

    _shipped: ClassVar[str] = "s2"


@strategies.register("s1")
@dataclass(frozen=True)
class AutoencodedFarthest(PoolFarthest):
    """The reconstruction of B1's average of far speakers."""

    autoencoder: str = ""

    _shipped: ClassVar[str] = "s1"

    def check(self, pool: Pool) -> None:
        """Refuse a pool that B1 cannot use, or a network for other embeddings."""
        super().check(pool)
        _check(_file(self.autoencoder, self._shipped), pool)

    def files(self) -> dict[str, Path]:
        """Return the file of the network."""
        return {"autoencoder": _file(self.autoencoder, self._shipped)}

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the reconstruction of the average, with its mean F0."""
        average = super().draw(source, gender, pool, rng)
        return average._replace(embedding=reconstruct(_file(self.autoencoder, self._shipped), average.embedding))


@strategies.register("s2")
@dataclass(frozen=True)
class AutoencodedFarthestTuned(AutoencodedFarthest):
    """Variant of s1 with the network of s2c1."""

    _shipped: ClassVar[str] = "s2"


def reconstruct(file: Path, embedding: Embedding) -> Embedding:
    """Return the output (d,) of the network in ``file`` for an L2-normalized embedding (d,), L2-normalized."""
    weights, _ = _load(file, file.stat().st_mtime_ns)
    x = (l2_normalized(embedding) - weights["scale.mean"]) / weights["scale.deviation"]
    code = _layers(weights, "encoder", x)
    code = (code - code.mean()) / np.sqrt(code.var() + 1e-5)
    return l2_normalized(_layers(weights, "decoder", code))


def _layers(weights: dict[str, Array], name: str, x: Array) -> Array:
    hidden = np.maximum(weights[f"{name}.0.weight"] @ x + weights[f"{name}.0.bias"], 0)
    return np.asarray(weights[f"{name}.2.weight"] @ hidden + weights[f"{name}.2.bias"])


def _cosines(pool: Pool, embedding: Embedding) -> NDArray[np.float64]:
    lengths = np.maximum(np.linalg.norm(pool.embeddings, axis=1), 1e-9)
    return np.asarray(pool.embeddings @ embedding / lengths, dtype=np.float64)


def _file(given: str, shipped: str) -> Path:
    if not given:
        return store.path(shipped)
    path = Path(given)
    file = path / "model.safetensors" if path.is_dir() else path
    if not file.is_file():
        raise InputError("no autoencoder here", where=file, fix="give what `voiceveil train autoencoder` wrote")
    return file


def _check(file: Path, pool: Pool) -> None:
    _, record = _load(file, file.stat().st_mtime_ns)
    encoder = str(record.get("parts", {}).get("speaker"))
    if encoder != pool.encoder:
        problem = f"this autoencoder is for another speaker encoder: {encoder!r}, not {pool.encoder!r}"
        raise InputError(problem, where=file, fix="voiceveil train autoencoder --speaker NAME")


@lru_cache(maxsize=4)
def _load(file: Path, stamp: int) -> tuple[dict[str, Array], dict[str, Any]]:
    tensors, record = load_tensors(file, KIND)
    return {name: tensor.float().numpy() for name, tensor in tensors.items()}, record
