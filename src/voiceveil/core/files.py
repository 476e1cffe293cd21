"""Open files that came from somewhere else: regular files alone, without waiting, and with a plain error otherwise.

Reading a named pipe, a terminal or a device can wait for ever or never end, and ``/proc`` and ``/sys`` hold the
kernel's own state. All of these are refused, also behind symbolic links. Every failure is an
:class:`~voiceveil.core.errors.InputError` that names the file.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from voiceveil.core.errors import InputError

__all__ = [
    "AUDIO_SUFFIXES",
    "LONGEST_LINE",
    "MEDIA_SUFFIXES",
    "bounded_lines",
    "exists",
    "file_stamp",
    "open_file",
    "read_bytes",
    "read_text",
    "resolved",
    "shortened",
]

Line = TypeVar("Line", bytes, str, covariant=True)

#: Suffixes of videos and of recordings that are read by PyAV.
MEDIA_SUFFIXES = frozenset(
    {".m4a", ".m4b", ".aac", ".wma", ".amr", ".mka", ".ac3", ".ape", ".wv"}
    | {
        ".mp4",
        ".m4v",
        ".mov",
        ".3gp",
        ".3g2",
        ".webm",
        ".mkv",
        ".avi",
        ".wmv",
        ".mpg",
        ".mpeg",
        ".mts",
        ".m2ts",
        ".flv",
    }
)
#: Suffixes of recordings, with or without a picture.
AUDIO_SUFFIXES = MEDIA_SUFFIXES | {
    ".wav", ".flac", ".ogg", ".opus", ".oga", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64"
}  # fmt: skip
#: Bytes of the largest file that is read into memory at once, unless the caller allows more.
MOST_BYTES = 1 << 28
#: Bytes of the longest line of a list.
LONGEST_LINE = 1 << 20
_SPECIAL = {
    stat.S_IFIFO: "a named pipe, not a regular file",
    stat.S_IFSOCK: "a socket, not a regular file",
    stat.S_IFCHR: "a device, not a regular file",
    stat.S_IFBLK: "a device, not a regular file",
}
_KERNEL = ("/proc/", "/sys/", "/dev/")
_REASONS = {
    errno.ENOTDIR: ("a part of its path is not a folder", ""),
    errno.EACCES: ("no permission to read this file", ""),
    errno.ELOOP: ("a symbolic link that leads back to itself", "remove the link"),
    errno.ENAMETOOLONG: ("the path is too long for a file", "shorten it"),
    errno.ENXIO: (_SPECIAL[stat.S_IFSOCK], ""),
}


def open_file(path: str | os.PathLike[str], kind: str = "a file") -> io.BufferedReader:
    """Open a regular file for reading bytes; anything else is an ``InputError``, at once.

    ``kind``: what the error calls the file if it is missing or a folder, with its article ("an audio file").
    """
    try:
        _refuse_special(Path(path).stat(), path, kind)  # before it is opened: opening some devices has an effect
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _refuse_special(os.fstat(handle), path, kind)  # what is there may have changed meanwhile
            _refuse_kernel(handle, path)
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise
    except FileNotFoundError as error:
        raise InputError(f"no such {kind.partition(' ')[2]}", where=shortened(path)) from error
    except OSError as error:
        problem, fix = _REASONS.get(error.errno or 0, (f"cannot read this file: {error.strerror or error}", ""))
        raise InputError(problem, where=shortened(path), fix=fix) from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("no such file: its path holds a zero byte", where=repr(path)) from error


def _refuse_special(status: os.stat_result, path: str | os.PathLike[str], kind: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"a folder, not {kind}", where=shortened(path))
    if not stat.S_ISREG(status.st_mode):
        raise InputError(_SPECIAL.get(stat.S_IFMT(status.st_mode), "not a regular file"), where=shortened(path))


def _refuse_kernel(handle: int, path: str | os.PathLike[str]) -> None:
    """Refuse files that the kernel makes on the fly, as in ``/proc``; ``/dev/shm`` holds real files."""
    try:
        real = str(Path(f"/proc/self/fd/{handle}").readlink())
    except OSError:  # a system without /proc
        return
    if real.startswith(_KERNEL) and not real.startswith("/dev/shm/"):  # noqa: S108 -- read, never written
        raise InputError("a file of the operating system's kernel, not a regular file", where=shortened(path))


def shortened(path: str | os.PathLike[str]) -> str:
    """Return the path for an error message; the middle of a very long one is left out."""
    text = os.fspath(path)
    return text if len(text) <= 1000 else f"{text[:200]}...{text[-100:]}"


def exists(path: str | os.PathLike[str]) -> bool:
    """Return whether the path exists; False for an impossible path, for which ``Path.exists`` may raise."""
    return os.path.exists(path)  # noqa: PTH110


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path without symbolic links; a link that leads back to itself stays, and is no error."""
    return Path(os.path.realpath(path))


def file_stamp(status: os.stat_result) -> str:
    """Return values that change when a file is written or replaced: size, times of modification and change, inode.

    Size and time of modification alone would not change if a copy with the old time (``cp -p``, ``rsync -t``, ``tar``)
    replaced the file.
    """
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def read_bytes(path: str | os.PathLike[str], *, at_most: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file of up to ``at_most`` bytes."""
    with open_file(path) as file:
        try:
            data = file.read(at_most + 1)
        except OSError as error:
            problem = f"cannot read this file: {error.strerror or error}"
            raise InputError(problem, where=shortened(path)) from error
    if len(data) > at_most:
        raise InputError(f"larger than {_amount(at_most)}, which is more than such a file holds", where=path)
    return data


def _amount(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"


def read_text(path: str | os.PathLike[str], *, at_most: int = MOST_BYTES) -> str:
    """Return the text of a regular file in UTF-8, of up to ``at_most`` bytes; a byte order mark is left out."""
    try:
        return read_bytes(path, at_most=at_most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error.reason} at byte {error.start}", where=path, fix="convert it") from error


class _Lines(Protocol[Line]):
    """An open file that yields lines: of bytes or of text, possibly compressed."""

    def readline(self, size: int, /) -> Line:
        """Return the rest of a line, up to ``size``."""
        ...


def bounded_lines(file: _Lines[Line], path: str | os.PathLike[str], *, longest: int = LONGEST_LINE) -> Iterator[Line]:
    """Yield the lines of an open file with their ends; one of more than ``longest`` bytes is an ``InputError``."""
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            fix = "is this a text file of lines? JSON must not be indented"
            raise InputError(f"a line of more than {_amount(longest)}", where=path, line=number, fix=fix)
        yield line
