"""Embeddings in a Kaldi directory: ``spk2utt`` with an HDF5 file or with Kaldi archives.

    spk2utt         <speaker> <utterance> ...; or utt2spk
    xvector.h5      a dataset for each utterance, as Sidekit writes it (h5py, the extra ``hdf5``); or the only *.h5 file
    xvector.scp     <utterance> <archive>:<offset> (the extra ``kaldi``)
    spk2gender      optional

Only utterances that are listed are read. Links of an HDF5 file to other files or places are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.corpus.faults import strict
from voiceveil.corpus.lines import gender_of, read_table
from voiceveil.risk.embeddings import EmbeddingTable, Norm, check_table

__all__ = ["is_kaldi_vectors", "read_kaldi_vectors"]

_LISTS = ("spk2utt", "utt2spk")
_MOST = 1 << 16  # dimensions of an embedding


def is_kaldi_vectors(path: Path) -> bool:
    """Return whether a folder lists speakers as Kaldi does."""
    return any((path / name).is_file() for name in _LISTS)


def read_kaldi_vectors(path: Path, *, norm: Norm = "check") -> EmbeddingTable:
    """Read the embeddings of all utterances that a Kaldi directory lists.

    Parameters
    ----------
    path : Path
        The folder.
    norm : {"check", "unit", "raw"}
        Treatment of the lengths of vectors.

    Raises
    ------
    InputError
        If a file is missing or wrong, or an utterance has no embedding.
    """
    speaker = _speakers(path)
    genders = read_table(path / "spk2gender", strict).values if (path / "spk2gender").is_file() else {}
    ids = list(speaker)
    vectors = _vector_file(path)
    matrix = _read_hdf5(vectors, ids) if vectors.suffix == ".h5" else _read_archives(vectors, ids)
    names = np.array([speaker[utterance] for utterance in ids])
    gender = np.array([gender_of(genders.get(name, "")) or "" for name in names.tolist()])
    attributes = {"gender": gender} if (gender != "").any() else {}
    return check_table(EmbeddingTable(np.array(ids), names, matrix, None, attributes, vectors, (vectors,)), norm)


def _speakers(path: Path) -> dict[str, str]:
    """Return utterance -> speaker."""
    if not (path / "spk2utt").is_file():
        return dict(read_table(path / "utt2spk", strict).values)
    speaker: dict[str, str] = {}
    table = read_table(path / "spk2utt", strict)
    for name, listed in table.values.items():
        for utterance in listed.split():
            if speaker.setdefault(utterance, name) != name:
                problem = f"utterance {utterance} is of {speaker[utterance]} and of {name}"
                raise InputError(problem, where=table.path, line=table.lines[name], fix="give it one speaker")
    if not speaker:
        raise InputError("no utterances", where=table.path)
    return speaker


def _vector_file(path: Path) -> Path:
    named = [path / name for name in ("xvector.h5", "xvector.scp") if (path / name).is_file()]
    files = named or [*path.glob("*.h5"), *path.glob("xvector*.scp")]
    if len(files) != 1:
        problem = f"{len(files)} files of embeddings" + (f": {', '.join(sorted(f.name for f in files))}" * bool(files))
        raise InputError(problem, where=path, fix="put xvector.h5 or xvector.scp beside spk2utt")
    return files[0]


def _read_hdf5(path: Path, ids: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors (n, d) of utterances from an HDF5 file."""
    try:
        import h5py
    except ImportError as error:
        raise InputError(
            "reading HDF5 needs h5py", where=path, fix="pip install 'voiceveil[hdf5]', or give .npz"
        ) from error
    rows = []
    try:
        with h5py.File(path, "r", rdcc_nbytes=1 << 26) as file:
            for utterance in ids:
                link = file.get(utterance, getlink=True)
                if link is None:
                    problem = f"utterance {utterance} has no embedding"
                    raise InputError(problem, where=path, fix="embed every utterance of spk2utt")
                data = file[utterance] if isinstance(link, h5py.HardLink) else None
                if not isinstance(data, h5py.Dataset) or data.external or data.is_virtual:
                    raise InputError(
                        f"{utterance} is no dataset of this file", where=path, fix="store the vectors in it"
                    )
                if data.dtype.kind not in "fiu" or not 0 < data.size <= _MOST or max(data.shape) != data.size:
                    problem = f"{utterance} has the shape {data.shape} and type {data.dtype}"
                    raise InputError(problem, where=path, fix="store one vector for each utterance")
                rows.append(np.asarray(data[()], dtype=np.float32).reshape(-1))
    except InputError:
        raise
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise InputError(f"not readable as HDF5: {str(error).splitlines()[0]}", where=path) from error
    return _one_dimension(rows, ids, path)


def _read_archives(path: Path, ids: Sequence[str]) -> NDArray[np.float32]:
    from voiceveil.models.speaker.kaldi_files import read_vectors

    return read_vectors(path, ids).astype(np.float32)


def _one_dimension(rows: Sequence[NDArray[np.float32]], ids: Sequence[str], path: Path) -> NDArray[np.float32]:
    for utterance, row in zip(ids, rows, strict=True):
        if len(row) != len(rows[0]):
            problem = f"{utterance} has {len(row)} dimensions, {ids[0]} {len(rows[0])}"
            raise InputError(problem, where=path, fix="embed all with one encoder")
    return np.stack(rows)
