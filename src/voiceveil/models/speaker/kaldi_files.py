"""Kaldi's files of speaker verification: x-vector archives, PLDA, global mean and LDA.

Conventions: d dimensions of an x-vector, k after LDA; all arrays are float64. Files may be binary or text. Binary
arrays are read by ``kaldiio`` (the extra ``kaldi``), but only where a binary vector or matrix begins: left to itself it
would unpickle what an archive marks as pickled, and run what a list ends with ``|``.

    xvector.scp        <utterance> <archive>:<offset>, as `sid/nnet3/xvector/extract_xvectors.sh` writes it
    plda               mean (k,), transform (k, k) and psi (k,), as `ivector-compute-plda` writes it
    mean.vec           (d,), of the training x-vectors
    transform.mat      (k, d) or, with an offset in its last column, (k, d + 1), as `ivector-compute-lda` writes it
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.models.speaker.covariances import Floats
from voiceveil.models.speaker.plda import TwoCovariance

__all__ = ["KaldiPlda", "check_kaldiio", "read_array", "read_plda", "read_vectors"]

_BINARY = b"\0B"
_TYPES = (b"FV ", b"DV ", b"FM ", b"DM ")
_MOST = 1 << 28  # bytes of a file that is read at once: a matrix of 5,000 x 5,000


@dataclass(frozen=True, eq=False)
class KaldiPlda:
    """PLDA in the space where the covariance within speakers is I, and that between speakers is diag(psi)."""

    mean: Floats  # (k,)
    transform: Floats  # (k, k)
    psi: Floats  # (k,)

    def covariances(self) -> TwoCovariance:
        """Return the model with covariances (k, k) in the space of the vectors that it is given.

        Raises
        ------
        InputError
            If the transform cannot be inverted.
        """
        try:
            inverse = np.linalg.inv(self.transform)
        except np.linalg.LinAlgError as error:
            raise InputError("the transform of the PLDA model cannot be inverted") from error
        return TwoCovariance(self.mean, (inverse * self.psi) @ inverse.T, inverse @ inverse.T)


def check_kaldiio() -> None:
    """Raise an ``InputError`` if kaldiio is not installed."""
    from importlib.util import find_spec

    if find_spec("kaldiio") is None:
        raise InputError("Kaldi's archives need the package kaldiio", fix="pip install 'voiceveil[kaldi]'")


def read_plda(path: Path) -> KaldiPlda:
    """Read a PLDA model, binary or text.

    Raises
    ------
    InputError
        If it is no such file, or its parts do not fit.
    """
    data = _bytes(path)
    is_binary = data.startswith(_BINARY)
    body = data[len(_BINARY) :] if is_binary else data
    head, end = b"<Plda> ", b"</Plda>"
    if not body.lstrip().startswith(head.strip()) or end not in body:
        raise InputError("not a PLDA model of Kaldi", where=path, fix="give the file `plda` of ivector-compute-plda")
    body = body[body.index(head.strip()) + len(head) :] if is_binary else body.split(b">", 1)[1]
    arrays = []
    for _ in range(3):
        array, size = _binary_array(body, path) if is_binary else _text_array(body, path)
        arrays.append(array)
        body = body[size:]
    mean, transform, psi = arrays
    k = len(mean)
    if (mean.shape, transform.shape, psi.shape) != ((k,), (k, k), (k,)) or not k or (psi < 0).any():
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise InputError(f"mean, transform and psi of the shapes {shapes} are no PLDA model", where=path)
    return KaldiPlda(mean, transform, psi)


def read_array(path: Path) -> Floats:
    """Read a vector or matrix, binary or text."""
    data = _bytes(path)
    if data.startswith(_BINARY):
        return _binary_array(data[len(_BINARY) :], path)[0]
    return _text_array(data, path)[0]


def read_vectors(scp: Path, ids: Iterable[str]) -> Floats:
    """Return the vectors (n, d) of some utterances from the archives that a list names.

    Archives are looked for where the list says, and else beside the list.

    Raises
    ------
    InputError
        If an utterance is missing, a line has a command or a range, or vectors are not finite or of different lengths.
    """
    places = _read_scp(scp)
    wanted = list(ids)
    missing = [key for key in wanted if key not in places]
    if missing:
        problem = f"{len(missing)} of {len(wanted)} utterances have no x-vector, e.g. {missing[0]}"
        raise InputError(problem, where=scp, fix="extract the x-vectors of the whole set")
    vectors: dict[str, Floats] = {}
    by_archive: dict[Path, list[str]] = {}
    for key in wanted:
        by_archive.setdefault(places[key][0], []).append(key)
    for archive, keys in by_archive.items():
        with _archive(archive, scp).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            for key in keys:
                vectors[key] = _vector_at(file, places[key][1], size, archive)
    lengths = sorted({len(vector) for vector in vectors.values()})
    if len(lengths) > 1:
        raise InputError(f"x-vectors of {lengths[0]} and of {lengths[-1]} dimensions", where=scp)
    array = np.array([vectors[key] for key in wanted])
    if not np.isfinite(array).all():
        key = wanted[int(np.argmax(~np.isfinite(array).all(axis=1)))]
        raise InputError(f"the x-vector of {key} is not finite", where=scp, fix="extract it again")
    return array


def _bytes(path: Path) -> bytes:
    if not path.is_file():
        raise InputError("no such file", where=path)
    if path.stat().st_size > _MOST:
        raise InputError(f"larger than {_MOST >> 20} MB", where=path, fix="give a vector, a matrix or a PLDA model")
    return path.read_bytes()


def _read_scp(scp: Path) -> dict[str, tuple[Path, int]]:
    """Return utterance -> archive and offset."""
    if not scp.is_file():
        raise InputError("no such list of x-vectors", where=scp, fix="extract the x-vectors of this set with Kaldi")
    places: dict[str, tuple[Path, int]] = {}
    for number, line in enumerate(scp.read_text(encoding="utf-8", errors="surrogateescape").splitlines(), 1):
        if not line.strip():
            continue
        key, _, place = line.strip().partition(" ")
        archive, _, offset = place.strip().rpartition(":")
        if not archive or not offset.isdecimal() or "|" in place:
            fix = "each line is `<utterance> <archive>:<offset>`, without a command or a range"
            raise InputError(f"line {number}: cannot be read: {line[:60]!r}", where=scp, fix=fix)
        if key in places:
            raise InputError(f"line {number}: {key} is there twice", where=scp)
        places[key] = Path(archive), int(offset)
    return places


def _archive(archive: Path, scp: Path) -> Path:
    beside = scp.parent / archive.name
    for path in (archive, beside):
        if path.is_file():
            return path
    raise InputError(f"no archive {archive}", where=scp, fix=f"start where Kaldi ran, or put it at {beside}")


def _vector_at(file: BinaryIO, offset: int, size: int, archive: Path) -> Floats:
    """Return the binary or text vector at an offset of an archive of ``size`` bytes."""
    if not 0 <= offset < size:
        raise InputError(f"offset {offset} is beyond its end", where=archive, fix="extract the x-vectors again")
    file.seek(offset)
    head = file.read(2)
    if head == _BINARY:
        kind = file.read(3)
        count = file.read(5)
        if kind in _TYPES[:2] and len(count) == 5:
            length = struct.unpack("<xi", count)[0]
            if 0 < length <= (size - offset) // 4:
                return _binary_array(kind + count + file.read(length * (4 if kind[:1] == b"F" else 8)), archive)[0]
    elif head.strip().startswith(b"["):
        return _text_array(head + file.read(1 << 16), archive)[0]
    raise InputError(f"no vector at offset {offset}", where=archive, fix="extract the x-vectors again")


def _binary_array(body: bytes, path: Path) -> tuple[Floats, int]:
    """Return the array at the beginning of ``body``, after the mark of binary files, and its size in bytes."""
    check_kaldiio()
    from kaldiio.matio import read_matrix_or_vector

    if not body.startswith(_TYPES):
        raise InputError("no vector or matrix", where=path, fix="give a file of Kaldi that is not compressed")
    try:
        array, size = read_matrix_or_vector(BytesIO(_BINARY + body), return_size=True)
    except (AssertionError, ValueError, struct.error) as error:
        raise InputError("it ends within a vector or matrix", where=path, fix="copy it again") from error
    return np.asarray(array, dtype=np.float64), size - len(_BINARY)


def _text_array(body: bytes, path: Path) -> tuple[Floats, int]:
    """Return the array in the first brackets, a row a line, and the number of bytes up to their end."""
    begin, end = body.find(b"["), body.find(b"]")
    try:
        if not 0 <= begin < end:
            raise ValueError
        rows = [[float(number) for number in line.split()] for line in body[begin + 1 : end].splitlines()]
        array = np.array([row for row in rows if row], dtype=np.float64)
    except ValueError as error:
        raise InputError("no vector or matrix", where=path, fix="give a file of Kaldi, binary or text") from error
    is_vector = b"\n" not in body[begin:end].strip(b"[ \n") and not body[begin + 1 : end].startswith(b"\n")
    return (array[0] if is_vector and len(array) == 1 else array), end + 1
