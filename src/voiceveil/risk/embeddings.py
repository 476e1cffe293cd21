"""Embeddings in a file, .npz or .parquet: one row per utterance, with its speaker and its vector.

Conventions: the columns ``utterance``, ``speaker`` and ``vector`` are needed; ``set`` says A or B; every other column
is an attribute of the utterance (``gender``, ``age``, ``accent``, ``emotion``), empty where it is not known. In an .npz
file a column is an array, ``vector`` of shape (n, d); in a .parquet file ``vector`` is a list of numbers. Nothing is
unpickled.

Vectors of conversations are means, in which a long vector outweighs a short one. The caller says how lengths are
treated (:data:`Norm`): ``check`` (a length other than 1 is an error), ``unit`` (vectors are scaled to length 1),
``raw`` (vectors are averaged as they are).
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file
from voiceveil.core.zip_files import read_npz

__all__ = ["NORMS", "EmbeddingTable", "Norm", "read_table"]

Norm = Literal["check", "unit", "raw"]
NORMS: tuple[Norm, ...] = ("check", "unit", "raw")
Names = NDArray[np.str_]

_LARGEST = 1 << 34  # bytes of a table: twenty million vectors of 192 numbers
_TOLERANCE = 1e-3  # half-precision vectors are that far from length 1
_NEEDED = ("utterance", "speaker", "vector")


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """Embeddings of utterances.

    Parameters
    ----------
    utterance, speaker : array of str, shape (n,)
        Ids.
    vector : array of float32, shape (n, d)
        Embeddings.
    sets : array of str, shape (n,), optional
        ``A`` or ``B`` or "".
    attributes : mapping
        Attribute -> labels (n,), "" where the label is not known.
    where : Path, optional
        The file or folder, for errors.
    files : tuple of Path
        Files that the vectors were read from, for the record.
    """

    utterance: Names
    speaker: Names
    vector: NDArray[np.float32]
    sets: Names | None = None
    attributes: Mapping[str, Names] = field(default_factory=dict)
    where: Path | None = None
    files: tuple[Path, ...] = ()

    def rows(self, chosen: NDArray[Any]) -> EmbeddingTable:
        """Return a table of some rows, by a mask or by numbers."""
        return EmbeddingTable(
            self.utterance[chosen],
            self.speaker[chosen],
            self.vector[chosen],
            None if self.sets is None else self.sets[chosen],
            {name: column[chosen] for name, column in self.attributes.items()},
            self.where,
            self.files,
        )


def read_table(path: Path, *, norm: Norm = "check") -> EmbeddingTable:
    """Read and check a file of embeddings.

    Parameters
    ----------
    path : Path
        A .npz or .parquet file.
    norm : {"check", "unit", "raw"}
        Treatment of the lengths of vectors.

    Raises
    ------
    InputError
        If the file cannot be read, or a row is wrong; names its utterance and speaker.
    """
    if not path.is_file():
        raise InputError("no such file", where=path, fix="give a .npz or .parquet file of embeddings")
    columns = _parquet(path) if path.suffix == ".parquet" else _npz(path)
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise InputError(
            f"no column {missing[0]!r}; there are {', '.join(sorted(columns)) or 'none'}",
            where=path,
            fix="utterance, speaker and vector are needed",
        )
    texts = {name: _text(column, name, path) for name, column in columns.items() if name != "vector"}
    table = EmbeddingTable(
        texts.pop("utterance"), texts.pop("speaker"), columns["vector"], texts.pop("set", None), texts, path, (path,)
    )
    return check_table(table, norm)


def check_table(table: EmbeddingTable, norm: Norm) -> EmbeddingTable:
    """Return the table with float32 vectors, scaled as ``norm`` says; raise an ``InputError`` if a row is wrong."""
    vector = np.asarray(table.vector)
    n = len(table.utterance)
    if vector.ndim != 2 or not np.issubdtype(vector.dtype, np.number) or np.iscomplexobj(vector) or not vector.size:
        raise InputError(f"vectors of shape {vector.shape}", where=table.where, fix="give (utterances, dimension)")
    for name, column in {"speaker": table.speaker, "vector": vector, **table.attributes}.items():
        if len(column) != n:
            raise InputError(f"{len(column)} rows of {name!r} for {n} utterances", where=table.where)
    names, first = np.unique(table.utterance, return_index=True)
    if len(names) < n:
        again = np.setdiff1d(np.arange(n), first)[0]
        raise InputError(
            f"{_describe(table, again)} is there twice", where=table.where, fix="give one row per utterance"
        )
    bad = ~np.isfinite(vector).all(axis=1)
    if bad.any():
        raise InputError(
            f"{_describe(table, int(bad.argmax()))} has a NaN or an infinite value",
            where=table.where,
            fix="check the encoder, or leave it out",
        )
    vector = vector.astype(np.float32)
    lengths = np.linalg.norm(vector, axis=1)
    if not lengths.all():
        raise InputError(
            f"{_describe(table, int((lengths == 0).argmax()))} is all zeros",
            where=table.where,
            fix="leave out utterances without speech",
        )
    off = np.abs(lengths - 1) > _TOLERANCE
    if norm == "check" and off.any():
        row = int(off.argmax())
        raise InputError(
            f"{_describe(table, row)} has length {lengths[row]:.4g}, not 1 (and {int(off.sum()) - 1} others)",
            where=table.where,
            fix="--norm unit divides each by its length, --norm raw averages them as they are",
        )
    if norm == "unit":
        vector = vector / lengths[:, None]
    return replace(table, vector=vector)


def _describe(table: EmbeddingTable, row: int) -> str:
    return f"the vector of utterance {table.utterance[row]} of speaker {table.speaker[row]}"


def _npz(path: Path) -> dict[str, Any]:
    fix = "write it with numpy.savez, names as strings and vectors of one dimension"
    try:
        with open_file(path) as file:
            if not zipfile.is_zipfile(file):
                raise InputError("not readable as .npz: it is no such archive", where=path, fix=fix)
        return read_npz(path, largest=_LARGEST)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = "it is damaged, or holds Python objects, which are not read"
        raise InputError(f"not readable as .npz: {reason}", where=path, fix=fix) from error


def _parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            "reading .parquet needs pyarrow", where=path, fix="pip install 'voiceveil[parquet]', or give .npz"
        ) from error
    try:
        with open_file(path) as file:
            read = parquet.read_table(file)
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"not readable as .parquet: {str(error).splitlines()[0]}", where=path) from error
    columns: dict[str, Any] = {}
    for name in read.column_names:
        column = read.column(name).combine_chunks()
        if name != "vector":
            columns[name] = np.array([_word(value) for value in column.to_pylist()], dtype=np.str_)
            continue
        lengths = np.array([0 if value is None else len(value) for value in column.to_pylist()])
        usual = int(np.bincount(lengths).argmax()) if len(lengths) else 0
        if (lengths != usual).any():
            row = int((lengths != usual).argmax())
            ids = [str(read.column(key)[row]) if key in read.column_names else "?" for key in _NEEDED[:2]]
            raise InputError(
                f"the vector of utterance {ids[0]} of speaker {ids[1]} has {lengths[row]} dimensions, others {usual}",
                where=path,
                fix="embed all with one encoder",
            )
        flat = column.flatten().to_numpy(zero_copy_only=False)
        columns[name] = flat.reshape(len(lengths), usual)
    return columns


def _word(value: Any) -> str:
    return "" if value is None else str(value)


def _text(column: Any, name: str, path: Path) -> Names:
    array = np.asarray(column)
    if array.ndim != 1 or array.dtype.kind not in "UTiub":
        raise InputError(f"the column {name!r} is no list of names", where=path, fix="give one string per row")
    return array.astype(np.str_)
