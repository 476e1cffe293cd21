"""Is an audio file all there? libsndfile reads what is left of a truncated file and says nothing.

Conventions: sizes and positions are in bytes. Looked at are the containers that state their length: RIFF, RIFX and
RF64 (WAV), FORM (AIFF), and Ogg, whose last page bears a flag. FLAC and MP3 are left to their decoders.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from voiceveil.errors import InputError

__all__ = ["COPY_AGAIN", "complete_file"]

COPY_AGAIN = "copy the file again from its source"

_ByteOrder = Literal["little", "big"]
# First four bytes -> byte order, and the chunk that holds the samples.
_CHUNKED: dict[bytes, tuple[_ByteOrder, bytes]] = {
    b"RIFF": ("little", b"data"),
    b"RF64": ("little", b"data"),
    b"RIFX": ("big", b"data"),
    b"FORM": ("big", b"SSND"),
}
_MOST_CHUNKS = 1000  # more are not sound but garbage
_OGG_HEADER = 27
_LONGEST_OGG_PAGE = _OGG_HEADER + 255 + 255 * 255  # RFC 3533, section 6
_OGG_END = 4  # flag of the last page


@contextmanager
def complete_file(path: Path) -> Iterator[bytes | BinaryIO]:
    """What to hand to libsndfile: the path, or a view of a WAV file that was never closed, with a mended header.

    A file that is truncated is an ``InputError``.
    """
    with path.open("rb") as file:
        magic = file.read(4)
        if magic == b"OggS":
            _check_ogg(file, path)
        unclosed = _check_chunks(file, path, *_CHUNKED[magic]) if magic in _CHUNKED else None
    if unclosed is None:
        yield os.fsencode(path)  # soundfile takes no names that are not text, unless as bytes
        return
    with _Unclosed(path, unclosed) as view:
        yield view


def _check_chunks(file: BinaryIO, path: Path, order: _ByteOrder, samples: bytes) -> int | None:
    """Refuse a file shorter than its samples; the position of the samples if their size is stated as 0 and is not."""
    end = path.stat().st_size
    file.seek(4)
    outer = int.from_bytes(file.read(4), order)
    file.seek(12)
    size64 = 0
    for _ in range(_MOST_CHUNKS):
        head = file.read(8)
        name, size = head[:4], int.from_bytes(head[4:], order)
        if name == b"ds64":  # the true sizes of an RF64 file: of the whole, then of the samples (EBU Tech 3306)
            sizes = file.read(16)
            size64 = int.from_bytes(sizes[8:], order)
            file.seek(-len(sizes), os.SEEK_CUR)
        elif name == samples:
            size = size64 or size
            start = file.tell()
            if size == 0 and samples == b"data":
                # The whole ends where its samples begin, or has no stated end, and yet there is more.
                return start if end > start and (outer + 8 <= start or _is_unstated(outer)) else None
            missing = size - (end - start)
            if missing > 0 and not _is_unstated(size):
                raise InputError(f"truncated: {missing} of {size} bytes are missing", where=path, fix=COPY_AGAIN)
            return None
        file.seek(size + size % 2, os.SEEK_CUR)
    return None


def _is_unstated(size: int) -> bool:
    """Whether a size is what programs write that cannot go back to the header: near 2 GiB (SoX, arecord) or 4 GiB."""
    return 0x7FFFF000 <= size <= 0x80000100 or 0xFFFFF000 <= size <= 0xFFFFFFFF


class _Unclosed(io.FileIO):
    """A WAV file whose header says that there are no samples, read as if it said "unknown": up to its end."""

    def __init__(self, path: Path, samples: int) -> None:
        super().__init__(path, "rb")
        self._patches = (4, samples - 4)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        start = self.tell()
        data = super().read(len(buffer))
        for position in self._patches:
            for i in range(max(position - start, 0), min(position + 4 - start, len(data))):
                data = data[:i] + b"\xff" + data[i + 1 :]
        buffer[: len(data)] = data
        return len(data)


def _check_ogg(file: BinaryIO, path: Path) -> None:
    """Refuse an Ogg file whose last page is cut off, or is not marked as the last."""
    file.seek(max(0, path.stat().st_size - 2 * _LONGEST_OGG_PAGE))
    tail = file.read()
    start = len(tail)
    while (start := tail.rfind(b"OggS", 0, start)) >= 0:
        page = tail[start:]
        # The four letters may occur by chance in the sound, but hardly with version 0 and no unknown flag.
        if len(page) >= 6 and (page[4] != 0 or page[5] > 7):
            continue
        if len(page) < _OGG_HEADER or len(page) < _ogg_page_size(page):
            raise InputError("truncated: the last page is cut off", where=path, fix=COPY_AGAIN)
        if not page[5] & _OGG_END:
            fix = f"{COPY_AGAIN}; if it was recorded from a live stream, `ffmpeg -i FILE -c copy NEW` completes it"
            raise InputError("truncated: the last page is missing", where=path, fix=fix)
        return


def _ogg_page_size(page: bytes) -> int:
    segments = page[26]
    return _OGG_HEADER + segments + sum(page[_OGG_HEADER : _OGG_HEADER + segments])
