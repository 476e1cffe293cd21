"""The store of weights that ship: ``NAME.safetensors`` beside this module, and ``cards/NAME.json``.

A card says what the file is: kind and architecture, data and their licence, hours of training, the command, measured
figures, and the sha256 of the file, which is checked whenever the weights are used. Networks are stored in half
precision and used in single precision.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from voiceveil.errors import InputError
from voiceveil.registry import did_you_mean
from voiceveil.run.ledger import sha256_file

__all__ = ["card", "checked", "names", "path", "trained_sha256"]

FOLDER = Path(__file__).parent
_REINSTALL = "install voiceveil again"


def names() -> list[str]:
    """The weights that there are cards of."""
    return sorted(file.stem for file in (FOLDER / "cards").glob("*.json"))


def card(name: str) -> dict[str, Any]:
    """The card of some weights."""
    file = FOLDER / "cards" / f"{name}.json"
    if not file.is_file():
        raise InputError(f"no weights of the name {name!r} ship with voiceveil", fix=did_you_mean(name, names()))
    return dict(json.loads(file.read_text(encoding="utf-8")))


def path(name: str) -> Path:
    """The file of some weights, which is the one that the card describes."""
    return checked(FOLDER / f"{name}.safetensors", str(card(name)["sha256"]), fix=_REINSTALL)


def trained_sha256(file: Path) -> str | None:
    """What ``record.json`` beside the weights of a training says their hash is, if there is one."""
    record = file.parent / "record.json"
    try:
        found = json.loads(record.read_text(encoding="utf-8")).get("sha256") if record.is_file() else None
    except (ValueError, AttributeError, OSError) as error:
        raise InputError("not the record of a training", where=record, fix="copy the whole folder again") from error
    return None if found is None else str(found)


def checked(file: Path, sha256: str, *, fix: str) -> Path:
    """The file, if it is there and has that hash; hashed once a process, unless it changes."""
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
