"""Content encoders whose weights `voiceveil train` wrote: their file, its network and its record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from voiceveil.core.errors import InputError
from voiceveil.run.device import current_device

__all__ = ["TrainedContent", "weights_file"]


def weights_file(folder: str, network: str, fix: str) -> Path:
    """Return the file of weights in a folder, or the file itself; an ``InputError`` if it is not there.

    ``network`` is what the user calls it, ``fix`` says what to write instead.
    """
    file = Path(folder) / "model.safetensors" if Path(folder).is_dir() else Path(folder)
    if not file.is_file():
        raise InputError(f"there is no trained {network} here", where=folder, fix=fix)
    return file


@dataclass(frozen=True)
class TrainedContent:
    """A content encoder from the weights in ``file``; a class that derives from it builds the network."""

    file: Path

    rate: ClassVar[int] = 16000
    #: Kind of file that the weights are in.
    weights_kind: ClassVar[str] = ""

    @staticmethod
    def build(size: dict[str, Any]) -> Any:
        """Return the network of a size, with any weights."""
        raise NotImplementedError

    @property
    def network(self) -> Any:
        """The network, in evaluation mode, on the current device."""
        return self._loaded()[0]

    @property
    def record(self) -> dict[str, Any]:
        """The record in the file: ``size``, and ``parts``, which has the fingerprints of other models."""
        return self._loaded()[1]

    def _loaded(self) -> tuple[Any, dict[str, Any]]:
        return _load(self.build, self.weights_kind, self.file, self.file.stat().st_mtime_ns, current_device())


@lru_cache(maxsize=2)
def _load(
    build: Callable[[dict[str, Any]], Any], kind: str, file: Path, modified: int, device: str
) -> tuple[Any, dict[str, Any]]:
    """Return the network on a device and the record of a file, loaded again if it is modified."""
    from voiceveil.models.checkpoint import load_network

    network, record = load_network(file, kind, lambda record: build(record["size"]))
    return network.to(device), record
