"""Check that Ogg, FLAC and MP3 files are complete and have one part: libsndfile reads the first and says nothing.

Files of these formats can be joined by writing one behind the other (``cat``), and some recorders and radio stations do
so. Such a file is refused, with the command that makes one recording of it.

Conventions: sizes and positions are in bytes, rates in Hz.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from voiceveil.core.errors import InputError

__all__ = [
    "COPY_AGAIN",
    "check_flac",
    "check_mp3",
    "check_ogg",
    "estimated_mp3_frame",
    "refuse_parts",
    "set_ogg_serial",
]

COPY_AGAIN = "copy the file again from its source"
_BLOCK = 1 << 20  # bytes read at once
_OGG_HEADER = 27
_OGG_FIRST, _OGG_LAST = 2, 4  # flags of the first and the last page of a stream
_FLAC_STREAM = (b"fLaC\x00\x00\x00\x22", b"fLaC\x80\x00\x00\x22")  # a stream begins: marker, head of STREAMINFO


def refuse_parts(path: Path) -> InputError:
    """Return the error for a file that is several recordings, one behind the other."""
    fix = f"make one recording of it: ffmpeg -i {path.name} {path.stem}.wav; or cut it into its parts"
    return InputError(
        "several recordings, one behind the other, of which only the first can be read", where=path, fix=fix
    )


def check_ogg(file: BinaryIO, path: Path) -> None:
    """Refuse an Ogg file that ends in the middle, or in which streams follow each other (RFC 3533, section 4)."""
    end = file.seek(0, os.SEEK_END)
    open_streams: set[bytes] = set()
    position, begun = 0, False
    while position < end:
        file.seek(position)
        head = file.read(_OGG_HEADER)
        if not head.startswith(b"OggS\0"):  # with the only version there is
            if open_streams:
                problem = f"truncated or damaged: at byte {position} a page should begin"
                raise InputError(problem, where=path, fix=COPY_AGAIN)
            break  # something else behind the last page
        lengths = file.read(head[26]) if len(head) == _OGG_HEADER else b""
        position += _OGG_HEADER + len(lengths) + sum(lengths)
        if len(head) < _OGG_HEADER or len(lengths) < head[26] or position > end:
            raise InputError("truncated: the last page is cut off", where=path, fix=COPY_AGAIN)
        flags, stream = head[5], head[14:18]
        if flags & _OGG_FIRST:
            if begun:  # streams that play at the same time all begin before the first goes on
                raise refuse_parts(path)
            open_streams.add(stream)
        else:
            begun = True
        if flags & _OGG_LAST:
            open_streams.discard(stream)
    if open_streams:
        fix = f"{COPY_AGAIN}; if it was recorded from a live stream, `ffmpeg -i FILE -c copy NEW` completes it"
        raise InputError("truncated: the last page is missing", where=path, fix=fix)


def set_ogg_serial(path: Path, serial: int = 1) -> None:
    """Give the one stream of an Ogg file a serial number; libsndfile draws one from the clock (RFC 3533, section 6)."""
    with path.open("r+b") as file:
        end, position = file.seek(0, os.SEEK_END), 0
        while position < end:
            file.seek(position)
            head = bytearray(file.read(_OGG_HEADER))
            lengths = file.read(head[26])
            body = file.read(sum(lengths))
            head[14:18] = serial.to_bytes(4, "little")
            head[22:26] = bytes(4)
            head[22:26] = _crc(head + lengths + body, 32, 0x04C11DB7).to_bytes(4, "little")
            file.seek(position)
            file.write(head)
            position += len(head) + len(lengths) + len(body)


def check_flac(file: BinaryIO, path: Path) -> None:
    """Refuse a FLAC file in which a second one begins, or that has more samples than its header counts."""
    file.seek(8)
    counted = int.from_bytes(file.read(18)[-8:]) & (1 << 36) - 1  # of STREAMINFO; 0 if it is not known
    end = _flac_end(file)
    if counted and end is not None and end > counted:
        problem = f"it has {end} samples, but its header counts {counted}"
        raise InputError(problem, where=path, fix=f"write it again: ffmpeg -i {path.name} NEW.flac")
    file.seek(4)
    rest = b""
    while block := file.read(_BLOCK):
        data = rest + block
        if any(begin in data for begin in _FLAC_STREAM):
            raise refuse_parts(path)
        rest = data[-len(_FLAC_STREAM[0]) + 1 :]


def _flac_end(file: BinaryIO) -> int | None:
    """Return the number of samples up to the end of the last frame (RFC 9639, section 9); None if it is not found."""
    file.seek(8)
    smallest, largest = (int.from_bytes(file.read(2)) for _ in range(2))  # samples of a frame
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (1 << 16)))
    tail = file.read()
    tail = tail[:-128] if tail[-128:].startswith(b"TAG") else tail
    start = len(tail)
    for _ in range(100):  # the two bytes occur by chance as well
        start = max(tail.rfind(b"\xff\xf8", 0, start), tail.rfind(b"\xff\xf9", 0, start))
        if start < 0:
            return None
        frame = tail[start:]
        header = _flac_header(frame)
        if header is not None and _crc(frame[:-2], 16, 0x8005) == int.from_bytes(frame[-2:]):
            number, samples = header
            if frame[1] & 1:  # frames of varying length: the number is that of the first sample
                return number + samples
            return number * largest + samples if smallest == largest else None
    return None


def _flac_header(frame: bytes) -> tuple[int, int] | None:
    """Return number and samples of a frame, or None if no header of a frame begins here."""
    if len(frame) < 16:
        return None
    code, rate_code = frame[2] >> 4, frame[2] & 15
    ones = 8 - (~frame[4] & 0xFF).bit_length()  # bytes of the number, which is coded as UTF-8 does; 0 for a single one
    if code == 0 or rate_code == 15 or ones in (1, 8):
        return None
    at = 4 + max(ones, 1)
    number = frame[4] & (0x7F >> ones)
    for byte in frame[5:at]:
        number = number << 6 | byte & 0x3F
    extra = {6: 1, 7: 2}.get(code, 0)
    samples = int.from_bytes(frame[at : at + extra]) + 1 if extra else _flac_samples(code)
    at += extra + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    return (number, samples) if _crc(frame[:at], 8, 0x07) == frame[at] else None


def _flac_samples(code: int) -> int:
    return 192 if code == 1 else 576 << code - 2 if code < 6 else 256 << code - 8


def _crc(data: bytes | bytearray, bits: int, polynomial: int) -> int:
    """Return the cyclic redundancy check of FLAC, of 8 or 16 bits, or of Ogg, of 32."""
    value, table, mask = 0, _crc_table(bits, polynomial), (1 << bits) - 1
    for byte in data:
        value = value << 8 & mask ^ table[value >> bits - 8 ^ byte]
    return value


@lru_cache(maxsize=3)
def _crc_table(bits: int, polynomial: int) -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte << bits - 8
        for _ in range(8):
            value = value << 1 ^ (polynomial if value >> bits - 1 else 0)
            value &= (1 << bits) - 1
        table.append(value)
    return tuple(table)


# Tables of ISO 11172-3 and 13818-3, by the bits of a frame's header.
_MP3_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}  # by version
_MP3_KBITS = {
    (True, 1): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # version 1, layer III
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (False, 1): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # versions 2 and 2.5, layers III and II
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
}
_MP3_TOLERANCE = 5  # frames that encoder and decoder may add or take away at the ends


@dataclass(frozen=True)
class _Mp3Frame:
    size: int  # bytes
    samples: int


def _mp3_frame(head: bytes) -> _Mp3Frame | None:
    """Return the frame that begins with these four bytes, or None if none does."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    kbits, rate, padding = head[2] >> 4, head[2] >> 2 & 3, head[2] >> 1 & 1
    if version == 1 or layer == 0 or kbits in (0, 15) or rate == 3:
        return None
    bits = _MP3_KBITS[version == 3, layer][kbits - 1] * 1000
    hertz = _MP3_RATES[version][rate]
    if layer == 3:  # layer I
        return _Mp3Frame((12 * bits // hertz + padding) * 4, 384)
    samples = 576 if layer == 1 and version != 3 else 1152
    return _Mp3Frame(samples // 8 * bits // hertz + padding, samples)


def check_mp3(file: BinaryIO, path: Path, frames: int) -> None:
    """Refuse an MP3 file that holds more samples than the ``frames`` that libsndfile is going to read.

    That happens to joined files, whose header counts the first part alone, and to files of varying bit rate without a
    header, whose length is an estimate. A file of frames that cannot be followed is left to the decoder.
    """
    samples = _mp3_samples(file)
    if samples is not None and samples[0] > frames + _MP3_TOLERANCE * samples[1]:
        fix = f"make one recording of it: ffmpeg -i {path.name} {path.stem}.wav"
        problem = f"it holds {samples[0]} samples, but its header or size promises {frames}"
        raise InputError(f"{problem}: parts that were joined, or a varying bit rate", where=path, fix=fix)


def estimated_mp3_frame(file: BinaryIO) -> int:
    """Return the samples of a frame if the length of an MP3 file is an estimate from its size; 0 if it is counted."""
    file.seek(_behind_tags(file))
    head = file.read(64)
    frame = _mp3_frame(head)
    return 0 if frame is None or any(name in head for name in (b"Xing", b"Info", b"VBRI")) else frame.samples


def _mp3_samples(file: BinaryIO) -> tuple[int, int] | None:
    """Return the samples of all frames, and of one; None if the frames cannot be followed to the end."""
    end = file.seek(0, os.SEEK_END)
    position = _behind_tags(file)
    total, per_frame = 0, 0
    while position < end:
        file.seek(position)
        head = file.read(10)
        frame = _mp3_frame(head)
        if frame is not None:
            total, per_frame = total + frame.samples, frame.samples
            position += frame.size
        elif head.startswith(b"ID3") and len(head) == 10:
            position += _id3_size(head)
        elif head.startswith((b"TAG", b"APETAGEX", b"LYRICSBEG")) or end - position < 4096:
            break
        else:
            return None
    return (total, per_frame) if per_frame else None


def _behind_tags(file: BinaryIO) -> int:
    """Return where the first frame begins: behind the ID3 tags."""
    position = 0
    while True:
        file.seek(position)
        head = file.read(10)
        if not head.startswith(b"ID3") or len(head) < 10:
            return position
        position += _id3_size(head)


def _id3_size(head: bytes) -> int:
    """Return the size of an ID3v2 tag from its ten bytes of head: seven bits a byte, and a footer if a flag says so."""
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size + (10 if head[5] & 0x10 else 0)
