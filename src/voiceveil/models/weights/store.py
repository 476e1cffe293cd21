"""The store of weights that ship: ``NAME.safetensors`` beside this module, and ``cards/NAME.json``.

A card says what the file is: kind and architecture, data and their licence, hours of training, the command, measured
figures, and the sha256 of the file, which is checked whenever the weights are used. Networks are stored in half
precision and used in single precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from voiceveil.core.documents import build, read_json
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.run.ledger import sha256_file

__all__ = ["card", "checked", "names", "path", "trained_sha256"]

FOLDER = Path(__file__).parent
_REINSTALL = "install voiceveil again"


@dataclass(frozen=True)
class _Hashed:
    """The entry of a training record that is used here."""

    sha256: str | None = None


def names() -> list[str]:
    """Return the weights that there are cards of."""
    return sorted(file.stem for file in (FOLDER / "cards").glob("*.json"))


def card(name: str) -> dict[str, Any]:
    """Return the card of some weights."""
    file = FOLDER / "cards" / f"{name}.json"
    if not file.is_file():
        raise InputError(f"no weights of the name {name!r} ship with voiceveil", fix=did_you_mean(name, names()))
    return dict(read_json(file, fix=_REINSTALL))


def path(name: str) -> Path:
    """Return the file of some weights, which is the one that the card describes."""
    return checked(FOLDER / f"{name}.safetensors", str(card(name)["sha256"]), fix=_REINSTALL)


def trained_sha256(file: Path) -> str | None:
    """What ``record.json`` beside the weights of a training says their hash is, if there is one."""
    record = file.parent / "record.json"
    if not record.is_file():
        return None
    fix = "copy the whole folder again"
    return build(_Hashed, read_json(record, nan=True, fix=fix), where=record, unknown=True, fix=fix).sha256


def checked(file: Path, sha256: str, *, fix: str) -> Path:
    """Return the file, if it is there and has that hash; hashed once a process, unless it changes."""
    try:
        status = file.stat()
    except OSError as error:
        raise InputError("the weights are missing", where=file, fix=fix) from error
    found = _hash(file, status.st_mtime_ns, status.st_size)
    if found != sha256:
        what = f"the weights were changed: their sha256 begins with {found[:12]}, it should with {sha256[:12]}"
        raise InputError(what, where=file, fix=fix)
    return file


@lru_cache(maxsize=16)
def _hash(file: Path, changed: int, size: int) -> str:
    return sha256_file(file)
