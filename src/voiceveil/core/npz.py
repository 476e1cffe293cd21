"""Arrays from an ``.npz`` file that nobody vouches for.

``numpy.load`` believes the header of an array and makes room for what it says; here the header is held against the size
of the member first. Arrays of Python objects, which would have to be unpickled, are refused.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file
from voiceveil.core.zip_limits import check_zip

__all__ = ["read_npz"]

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_npz(path: Path, *, largest: int) -> dict[str, NDArray[Any]]:
    """Name -> array; a ``ValueError`` if the file is no such, or would take more than ``largest`` bytes.

    An ``InputError``, which is one, if it cannot be opened.
    """
    try:
        with open_file(path) as file, zipfile.ZipFile(_checked(file)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > largest:
                raise ValueError("too large")
            arrays = {}
            for member in members:
                with archive.open(member) as stream:
                    arrays[member.filename.removesuffix(".npy")] = _read_array(stream, member.file_size)
            return arrays
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OverflowError, SyntaxError, TokenError) as error:
        # RuntimeError: encrypted, packed in a way that zipfile does not know, or nested too deeply;
        # SyntaxError and TokenError: a header that is no literal
        raise ValueError(f"damaged: {error}") from error


def _checked(file: BinaryIO) -> BinaryIO:
    try:
        check_zip(file)
    except InputError as error:
        raise ValueError(error.what) from error
    return file


def _read_array(stream: IO[bytes], size: int) -> NDArray[Any]:
    read_header = _HEADERS.get(np.lib.format.read_magic(stream))
    if read_header is None:
        raise ValueError("an array of another version")
    shape, fortran, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("an array of Python objects")
    count = math.prod(shape)
    if min(shape, default=1) < 0 or stream.tell() + count * dtype.itemsize != size:
        raise ValueError("an array of another size than its header says")
    values = np.frombuffer(bytearray(stream.read(count * dtype.itemsize)), dtype)
    return values.reshape(shape, order="F" if fortran else "C")
