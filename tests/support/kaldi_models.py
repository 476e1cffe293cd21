"""Files of Kaldi's speaker verification, written byte by byte as Kaldi writes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Plda", "binary", "make_plda", "plda_bytes", "plda_text", "text", "write_model", "write_xvectors"]

Array = NDArray[Any]
Plda = tuple[Array, Array, Array]  # mean (k,), transform (k, k), psi (k,)


def binary(array: Array, *, double: bool = True) -> bytes:
    """Return a vector or matrix as `WriteKaldiObject` does, without the mark of binary files."""
    sizes = b"".join(b"\4" + struct.pack("<i", size) for size in array.shape)
    kind = ("D" if double else "F") + ("V" if array.ndim == 1 else "M")
    return f"{kind} ".encode() + sizes + array.astype("<f8" if double else "<f4").tobytes()


def text(array: Array) -> str:
    """Return a vector on one line, or a matrix with a row a line, in brackets."""
    if array.ndim == 1:
        return " [ " + " ".join(repr(float(x)) for x in array) + " ]\n"
    return " [\n" + "\n".join("  " + " ".join(repr(float(x)) for x in row) for row in array) + " ]\n"


def make_plda(size: int, seed: int = 0) -> Plda:
    """Return a random model."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, 0.1, size), rng.normal(size=(size, size)), np.sort(rng.uniform(0.1, 5.0, size))[::-1]


def plda_bytes(plda: Plda, *, double: bool = True) -> bytes:
    """Return a PLDA model as `Plda::Write` does in binary mode."""
    return b"\0B<Plda> " + b"".join(binary(array, double=double) for array in plda) + b"</Plda> "


def plda_text(plda: Plda) -> str:
    """Return a PLDA model as `ivector-copy-plda --binary=false` does."""
    return "<Plda> " + "".join(text(array) for array in plda) + "</Plda> "


def write_xvectors(folder: Path, vectors: Mapping[str, Array]) -> Path:
    """Write an archive of float vectors and its list; return the path of the list."""
    folder.mkdir(parents=True)
    content, lines = b"", []
    for key, vector in vectors.items():
        content += f"{key} ".encode()
        lines.append(f"{key} {folder / 'xvector.1.ark'}:{len(content)}\n")
        content += b"\0B" + binary(vector, double=False)
    (folder / "xvector.1.ark").write_bytes(content)
    (folder / "xvector.scp").write_text("".join(lines))
    return folder / "xvector.scp"


def write_model(folder: Path, plda: Plda, mean: Array, transform: Array) -> Path:
    """Write ``plda``, ``mean.vec`` and ``transform.mat``; return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plda").write_bytes(plda_bytes(plda))
    (folder / "mean.vec").write_text(text(mean))
    (folder / "transform.mat").write_bytes(b"\0B" + binary(transform, double=False))
    return folder
