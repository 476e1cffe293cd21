"""A look at a zip file before its directory, which Python reads as a whole, is in memory."""

from __future__ import annotations

import struct
from typing import BinaryIO

from voiceveil.core.errors import InputError

__all__ = ["check_zip"]

_LONGEST_DIRECTORY = 1 << 24  # bytes
_MOST_FILES = 65_534  # without 64-bit records
#: The records of a zip file: its end, the pointer to a 64-bit end, and a file in the directory.
_END, _POINTER, _FILE = b"PK\x05\x06", b"PK\x06\x07", b"PK\x01\x02"
_BEFORE = 56 + 20  # bytes of a 64-bit end and its pointer, which stand before the end


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
