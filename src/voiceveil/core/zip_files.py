"""Zip files and ``.npz`` archives from untrusted sources, read without trusting their headers.

Python reads the whole directory of a zip file into memory, and ``numpy.load`` allocates what an array's header says.
Here the sizes are checked first. Arrays of Python objects, which would have to be unpickled, are refused.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file

__all__ = ["check_zip", "read_npz"]

_LONGEST_DIRECTORY = 1 << 24  # bytes
_MOST_FILES = 65_534  # without 64-bit records
#: The records of a zip file: its end, the pointer to a 64-bit end, and a file in the directory.
_END, _POINTER, _FILE = b"PK\x05\x06", b"PK\x06\x07", b"PK\x01\x02"
_BEFORE = 56 + 20  # bytes of a 64-bit end and its pointer, which stand before the end
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def check_zip(file: BinaryIO, *, zip64: bool = False) -> int:
    """Return the length of a zip file in bytes; an ``InputError`` if its directory is too long.

    64-bit records, which stand behind a directory that looks short, are refused unless ``zip64`` says otherwise. The
    position in the file is then its start.
    """
    file.seek(0, 2)
    length = file.tell()
    start = max(0, length - (1 << 16) - 22 - _BEFORE)
    file.seek(start)
    tail = file.read(length - start)
    end = tail.rfind(_END)
    if end < 0 or len(tail) < end + 22:
        raise InputError("a zip file without a directory", fix="is it complete? copy it again from its source")
    count, size, offset = struct.unpack("<HII", tail[end + 10 : end + 20])
    has64 = end >= _BEFORE and tail[end - 20 :].startswith(_POINTER)
    if not zip64 if has64 else count > _MOST_FILES or offset == 0xFFFFFFFF:
        raise InputError(f"a zip file with more than {_MOST_FILES} files or 4 GiB", fix="pack it as .tar.gz")
    if has64:
        (size,) = struct.unpack("<Q", tail[end - _BEFORE + 40 :][:8])
        end -= _BEFORE
    if size > _LONGEST_DIRECTORY:
        raise InputError(f"a zip file with a directory of {size} bytes", fix=f"at most {_MOST_FILES} files can be read")
    file.seek(max(0, start + end - size))
    if file.read(size).count(_FILE) > _MOST_FILES:
        raise InputError(f"a zip file with more than {_MOST_FILES} files", fix="pack it as .tar.gz")
    file.seek(0)
    return length


def read_npz(path: Path, *, largest: int) -> dict[str, NDArray[Any]]:
    """Return name -> array; a ``ValueError`` if the file is not an ``.npz``, or needs more than ``largest`` bytes.

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
