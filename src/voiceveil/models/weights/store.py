"""The weights that ship with the package: ``NAME.safetensors`` beside this module, and ``cards/NAME.json``.

A card describes the file: kind and architecture, data and their license, hours of training, the command, measured
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

__all__ = ["card", "names", "path", "recorded_sha256", "shipped_name", "verified"]

FOLDER = Path(__file__).parent
_REINSTALL = "install voiceveil again"


@dataclass(frozen=True)
class _TrainingRecord:
    """The only entry of ``record.json`` that is used here."""

    sha256: str | None = None


def names() -> list[str]:
    """Return the names of the weights that ship, sorted."""
    return sorted(file.stem for file in (FOLDER / "cards").glob("*.json"))


def card(name: str) -> dict[str, Any]:
    """Return the card of weights; an ``InputError`` if none of that name ship."""
    file = FOLDER / "cards" / f"{name}.json"
    if not file.is_file():
        raise InputError(f"no weights named {name!r} ship with voiceveil", fix=did_you_mean(name, names()))
    return dict(read_json(file, fix=_REINSTALL))


def path(name: str) -> Path:
    """Return the file of weights, after checking its sha256 against the card."""
    return verified(FOLDER / f"{name}.safetensors", str(card(name)["sha256"]), fix=_REINSTALL)


def shipped_name(file: Path) -> str:
    """Return the name of weights that ship, or an empty string for another file."""
    return file.stem if file.parent == FOLDER else ""


def recorded_sha256(file: Path) -> str | None:
    """Return the sha256 of trained weights according to the ``record.json`` beside them; None if there is none."""
    record = file.parent / "record.json"
    if not record.is_file():
        return None
    fix = "copy the whole folder again"
    return build(_TrainingRecord, read_json(record, nan=True, fix=fix), where=record, unknown=True, fix=fix).sha256


def verified(file: Path, sha256: str, *, fix: str) -> Path:
    """Return a file of weights after checking its hash, which is computed once per process unless the file changes.

    Parameters
    ----------
    file
        The weights.
    sha256
        The expected hash.
    fix
        Advice in the error message.

    Raises
    ------
    InputError
        If the file is missing or has another hash.
    """
    try:
        status = file.stat()
    except OSError as error:
        raise InputError("the weights are missing", where=file, fix=fix) from error
    actual = _hash(file, status.st_mtime_ns, status.st_size)
    if actual != sha256:
        problem = (
            f"the weights were changed: their sha256 begins with {actual[:12]}, it should begin with {sha256[:12]}"
        )
        raise InputError(problem, where=file, fix=fix)
    return file


@lru_cache(maxsize=16)
def _hash(file: Path, modified: int, size: int) -> str:
    return sha256_file(file)
