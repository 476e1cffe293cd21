"""Check that an audio file is complete and is one file: libsndfile reads what is left of a truncated one in silence.

Conventions: sizes and positions are in bytes. Checked here are the formats that state their length: RIFF, RIFX and RF64
(WAV), W64, FORM (AIFF), CAF and AU. Ogg, FLAC and MP3 are checked by :mod:`.compressed`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from voiceveil.audio.compressed_headers import COPY_AGAIN, check_flac, check_ogg, refuse_parts
from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file

__all__ = ["complete_file"]

_ByteOrder = Literal["little", "big"]


@dataclass(frozen=True)
class _Format:
    """A format of chunks, each a name, a size and a content; the samples are the content of one of them."""

    order: _ByteOrder
    samples: bytes  # the name of that chunk
    first: int = 12  # position of the first chunk
    size_bytes: int = 4
    inclusive: bool = False  # whether the size counts name and size as well
    alignment: int = 2


def _guid(name: bytes) -> bytes:
    """Return the name of a chunk of a W64 file."""
    return name + (
        bytes.fromhex("2e91cf11a5d628db04c10000") if name == b"riff" else bytes.fromhex("f3acd3118cd100c04f8edb8a")
    )


_WAV = _Format("little", b"data")
_W64 = _Format("little", _guid(b"data"), first=40, size_bytes=8, inclusive=True, alignment=8)
# Bytes that a file begins with -> its format.
_FORMATS = {
    b"RIFF": _WAV,
    b"RF64": _WAV,
    b"RIFX": _Format("big", b"data"),
    b"FORM": _Format("big", b"SSND"),
    b"caff": _Format("big", b"data", first=8, size_bytes=8, alignment=1),
    _guid(b"riff"): _W64,
}
_AU: dict[bytes, _ByteOrder] = {b".snd": "big", b"dns.": "little"}
_MOST_CHUNKS = 1000  # more are not sound but garbage
_TAGS = (b"ID3", b"TAG", b"APETAGEX")  # what other programs put behind a file
_MOST_UNKNOWN = 4096  # bytes behind the last chunk that may be anything


@contextmanager
def complete_file(path: Path, *, header_only: bool = False) -> Iterator[int | BinaryIO]:
    """Yield what to hand to libsndfile: a file descriptor, or a view of a WAV file without sizes, with a mended header.

    A file that is truncated or consists of several is an ``InputError``, and so is all that is no regular file.
    ``header_only`` leaves out the search for a second part of a FLAC file, which reads it to its end.
    """
    with open_file(path, "an audio file") as file:
        unclosed = None
        magic = file.read(16)
        if not magic:
            raise InputError("the file is empty", where=path, fix=COPY_AGAIN)
        if magic.startswith(b"OggS"):
            check_ogg(file, path)
        elif magic.startswith(b"fLaC") and not header_only:
            check_flac(file, path)
        elif magic[:4] in _AU:
            _check_au(file, path, _AU[magic[:4]])
        elif (form := _FORMATS.get(magic[:4]) or _FORMATS.get(magic)) is not None:
            unclosed = _check_chunks(file, path, form)
        if unclosed is None:
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            yield file.fileno()
        else:
            with _Unclosed(file.fileno(), unclosed) as view:
                yield view


def _check_chunks(file: BinaryIO, path: Path, form: _Format) -> int | None:
    """Refuse a file that is shorter or longer than its chunks.

    Returns the position of the samples if their size is stated as 0 and is not.
    """
    end = file.seek(0, os.SEEK_END)
    file.seek(4)
    outer = int.from_bytes(file.read(4), form.order)
    position, size64, has_samples = form.first, 0, False
    head_bytes = len(form.samples) + form.size_bytes
    for _ in range(_MOST_CHUNKS):
        file.seek(position)
        head = file.read(head_bytes)
        name, size = head[: len(form.samples)], int.from_bytes(head[len(form.samples) :], form.order)
        size -= head_bytes if form.inclusive else 0
        start = position + head_bytes
        if len(head) < head_bytes:
            break
        if has_samples and (name == form.samples or name in _FORMATS):
            raise refuse_parts(path)
        if has_samples and not _is_name(name[:4]):
            _refuse_unknown(file, path, position, end)
            return None
        if name == b"ds64":  # the true sizes of an RF64 file: of the whole, then of the samples (EBU Tech 3306)
            size64 = int.from_bytes(file.read(16)[8:], form.order)
        elif name == form.samples:
            has_samples = True
            size = size64 or size
            if size == 0 and form is _WAV:
                # The whole ends where its samples begin, or has no stated end, and yet there is more.
                return start if end > start and (outer + 8 <= start or _is_unstated(outer)) else None
            if _is_unstated(size) or size >> 62:  # up to the end of the file
                return None
            if size > end - start:
                problem = f"truncated: {size - (end - start)} of {size} bytes are missing"
                raise InputError(problem, where=path, fix=COPY_AGAIN)
        elif size > end - start and not has_samples:
            raise InputError("truncated: it ends before its samples", where=path, fix=COPY_AGAIN)
        position = start + size + -size % form.alignment
        if size < 0 or position >= end:
            break
    return None


def _is_name(name: bytes) -> bool:
    """Return whether four bytes can be the name of a chunk."""
    return all(32 <= letter < 127 for letter in name)


def _refuse_unknown(file: BinaryIO, path: Path, position: int, end: int) -> None:
    """Refuse samples that the header does not count; a tag, zeros, or a little of anything may follow a file."""
    file.seek(position)
    begin = file.read(_MOST_UNKNOWN)
    if end - position > _MOST_UNKNOWN and not begin.startswith(_TAGS) and begin.strip(b"\0"):
        problem = f"{end - position} bytes follow the samples that its header counts"
        raise InputError(problem, where=path, fix="its header is wrong: write it again, e.g. with sox --ignore-length")


def _is_unstated(size: int) -> bool:
    """Return whether a size is one that streaming programs write: near 2 GiB (SoX, arecord) or 4 GiB."""
    return 0x7FFFF000 <= size <= 0x80000100 or 0xFFFFF000 <= size <= 0xFFFFFFFF


def _check_au(file: BinaryIO, path: Path, order: _ByteOrder) -> None:
    """Refuse an AU file that is shorter or longer than its header says."""
    end = file.seek(0, os.SEEK_END)
    file.seek(4)
    start, size = (int.from_bytes(file.read(4), order) for _ in range(2))
    if size == 0xFFFFFFFF:  # unknown: up to the end
        return
    if start + size > end:
        problem = f"truncated: {start + size - end} of {size} bytes are missing"
        raise InputError(problem, where=path, fix=COPY_AGAIN)
    file.seek(start + size)
    if file.read(4) in _AU:
        raise refuse_parts(path)
    _refuse_unknown(file, path, start + size, end)


class _Unclosed(io.FileIO):
    """A WAV file whose header says that there are no samples, read as if it said "unknown": up to its end."""

    def __init__(self, handle: int, samples: int) -> None:
        super().__init__(handle, "rb", closefd=False)
        self.seek(0)
        self._patches = (4, samples - 4)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        start = self.tell()
        data = super().read(len(buffer))
        for position in self._patches:
            for i in range(max(position - start, 0), min(position + 4 - start, len(data))):
                data = data[:i] + b"\xff" + data[i + 1 :]
        buffer[: len(data)] = data
        return len(data)
