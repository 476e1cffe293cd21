"""The members of an archive that nobody vouches for: tar, tar.gz and zip, read as a stream, with limits.

Conventions: sizes are in bytes. Nothing is written to disk here, and no more than a block of a member is in memory.
Whatever is wrong with the archive as such is an ``InputError`` that names the member, before its content is used:

* names that are absolute, climb (``..``), hold backslashes, control characters or drive letters, or are too long;
* links, devices, pipes, sparse files: a submission holds regular files and folders;
* the same name twice, also in another case or another Unicode form, and a file in the place of a folder;
* more members, folders, bytes, or a higher ratio of compression than speech and tables can have; folders nested too
  deeply, and zip files with 64-bit records, of which the rest of their directory may know nothing.

The tar reader is our own: the standard library's reads extended headers of any length into memory.
"""

from __future__ import annotations

import gzip
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Protocol

from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file
from voiceveil.core.zip_files import check_zip

__all__ = ["Limits", "Member", "read_members"]

_BLOCK = 512
_CHUNK = 1 << 16
_LONGEST_HEADER, _MOST_RECORDS = 1 << 16, 100  # bytes and entries of a pax or GNU header that goes before a member
_LOCAL_HEADER = 30  # bytes of a zip file before a name
_REFUSED = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a named pipe",
    b"K": "a link with a long target",
    b"S": "a sparse file",
}
_DAMAGED = "is it complete? copy it again from its source"


@dataclass(frozen=True)
class Limits:
    """Limits of an archive; the defaults allow twice the speech of the challenge."""

    members: int = 300_000
    total: int = 200 << 30  # unpacked
    ratio: float = 100.0  # unpacked to packed, once ``free`` is used up; speech has 2, a table of scores 5
    free: int = 64 << 20
    name: int = 300  # characters
    depth: int = 32  # folders within each other; the challenges' own files have six
    folders: int = 10_000


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass
class Member:
    """A regular file in an archive; its content can be read once, in order, before the next member."""

    name: str
    size: int
    _source: _Readable = field(repr=False)
    archive: Path | None = None
    _left: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._left = self.size

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end; a member that ends too early is an ``InputError``."""
        wanted = min(size, self._left)
        with _faults_of(self.archive, f"{self.name}: "):
            data = self._source.read(wanted) if wanted else b""
            if len(data) < wanted:
                raise InputError(f"{self.name}: the archive ends in the middle of it", fix=_DAMAGED)
        self._left -= len(data)
        return data

    def blocks(self) -> Iterator[bytes]:
        """Yield the rest of the content in blocks."""
        while data := self.read(_CHUNK):
            yield data


def read_members(path: Path, limits: Limits | None = None) -> Iterator[Member]:
    """Yield the files of an archive, one after the other."""
    limits = limits or Limits()
    with _faults_of(path), open_file(path) as file:
        start = file.read(4)
        file.seek(0)
        if start[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield from _tar_members(_Counted(unpacked, file, limits), limits, path)
        elif start in (b"PK\x03\x04", b"PK\x05\x06"):
            yield from _zip_members(file, limits, path)
        else:
            yield from _tar_members(_Counted(file, file, limits), limits, path)


@contextmanager
def _faults_of(path: Path | None, member: str = "") -> Iterator[None]:
    """Turn errors of the block into an ``InputError`` about this archive."""
    try:
        yield
    except InputError as error:
        if error.where is None:
            raise InputError(error.what, where=path, fix=error.fix) from error
        raise
    except (EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, struct.error, ValueError) as error:
        raise InputError(f"{member}damaged: {error}", where=path, fix=_DAMAGED) from error
    except OSError as error:  # gzip.BadGzipFile is one
        raise InputError(f"{member}cannot be read: {error.strerror or error}", where=path, fix=_DAMAGED) from error


class _Counted:
    """A stream that is read in order and limits the ratio of compression."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, packed: BinaryIO, limits: Limits) -> None:
        self._stream, self._packed, self._limits = stream, packed, limits
        self._count = 0
        self.member = "the beginning"

    def read(self, size: int) -> bytes:
        """Return exactly ``size`` bytes, fewer only at the end of the stream."""
        parts = []
        while size > 0 and (data := self._stream.read(min(size, _CHUNK))):
            parts.append(data)
            size -= len(data)
            self._count += len(data)
            _check_ratio(self.member, self._count, self._packed.tell(), self._limits)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Skip ``size`` bytes."""
        while size > 0 and (data := self.read(min(size, _CHUNK))):
            size -= len(data)
        if size > 0:
            raise InputError(f"{self.member}: the archive ends in the middle of it", fix=_DAMAGED)


def _check_ratio(name: str, unpacked: int, packed: int, limits: Limits) -> None:
    if unpacked - limits.free > limits.ratio * packed:
        problem = f"{name}: {unpacked} bytes out of {packed}, more than {limits.ratio:g} times as many"
        raise InputError(problem, fix="no speech and no table packs so well: this is no submission")


@dataclass
class _Names:
    """The names so far; names that are the same file on some file systems are refused."""

    limits: Limits
    seen: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    total: int = 0

    def add(self, name: str, size: int) -> None:
        """Check and store the name of a file."""
        key = _key(name)
        if key in self.seen:
            problem = "is there twice" if self.seen[key] == name else f"is the same as {self.seen[key]} on some disks"
            raise InputError(f"{name}: {problem}", fix="each file once")
        parents = ["/".join(key.split("/")[:k]) for k in range(1, key.count("/") + 1)]
        if key in self.folders or any(parent in self.seen for parent in parents):
            raise InputError(f"{name}: a file in the place of a folder", fix="give it another name")
        self.seen[key] = name
        self.folders.update(parents)
        if len(self.folders) > self.limits.folders:
            raise InputError(f"{name}: more than {self.limits.folders} folders", fix="this is no submission")
        self.total += size
        if len(self.seen) > self.limits.members:
            raise InputError(f"{name}: more than {self.limits.members} files", fix="this is no submission")
        if size < 0 or self.total > self.limits.total:
            problem = f"{name}: of {size} bytes, with which the archive has more than {self.limits.total}"
            raise InputError(problem, fix="this is no submission")


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _safe_name(raw: bytes, limits: Limits) -> str:
    """Return the name of a member without leading ``./`` and final ``/``; names that leave the folder are refused."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{raw[:80]!r}: a name that is not UTF-8", fix="rename the file") from None
    name = text.removesuffix("/")
    while name.startswith("./"):
        name = name[2:]
    parts = name.split("/")
    if text.startswith("/") or (len(parts[0]) > 1 and parts[0][1] == ":"):
        raise InputError(f"{text[:80]!r}: an absolute path", fix="pack paths below the current folder")
    if ".." in parts:
        raise InputError(f"{text[:80]!r}: a path that leads out of the archive", fix="pack paths without `..`")
    if name != "." and ("" in parts or "." in parts or "\\" in name or not name.isprintable()):
        raise InputError(f"{text[:80]!r}: not a plain name", fix="rename the file")
    if len(name) > limits.name:
        raise InputError(f"{name[:80]!r}...: a name of {len(name)} characters", fix="rename the file")
    if len(parts) > limits.depth:
        problem = f"{name[:80]!r}...: {len(parts)} levels deep, more than {limits.depth}"
        raise InputError(problem, fix="pack it in the layout of the challenge")
    return name


def _tar_members(stream: _Counted, limits: Limits, path: Path) -> Iterator[Member]:
    names = _Names(limits)
    extended: dict[str, bytes] = {}
    headers = 0
    while True:
        header = stream.read(_BLOCK)
        if header == bytes(_BLOCK):
            return
        kind, name, size = _tar_header(header)
        headers += 1
        if headers > 3 * limits.members:
            raise InputError(f"more than {3 * limits.members} headers", fix="this is no submission")
        padding = -size % _BLOCK
        if kind in b"xgL":
            if size > _LONGEST_HEADER:
                raise InputError(f"a header of {size} bytes after {stream.member}", fix="this is no submission")
            data = stream.read(size)
            stream.skip(padding)
            extended |= {"path": data.rstrip(b"\0")} if kind == b"L" else _pax(data, stream.member, kind == b"g")
            continue
        name = extended.get("path", name)  # the header itself has the beginning of a long one
        safe = stream.member = _safe_name(name, limits)
        size = _number(extended["size"], 10, safe) if "size" in extended else size
        extended = {}
        if kind in _REFUSED or kind not in (b"0", b"\0", b"5", b"7"):
            problem = _REFUSED.get(kind, f"of the unknown type {kind!r}")
            raise InputError(f"{safe}: {problem}", fix="a submission holds regular files and folders alone")
        if kind == b"5" or name.endswith(b"/"):
            if size:
                raise InputError(f"{safe}: a folder with content", fix="this is no submission")
            continue
        names.add(safe, size)
        member = Member(safe, size, stream, path)
        yield member
        stream.skip(member._left + -size % _BLOCK)


def _tar_header(header: bytes) -> tuple[bytes, bytes, int]:
    """Return type, name and size of a header block (POSIX 1003.1, ustar)."""
    if len(header) < _BLOCK:
        raise InputError("not a tar archive, or one that is cut off", fix=_DAMAGED)
    stated = _number(header[148:156], 8, "a header")
    if sum(header[:148]) + 8 * ord(" ") + sum(header[156:]) != stated:
        raise InputError("not a tar archive, or a damaged one: the checksum of a header is wrong", fix=_DAMAGED)
    name = header[:100].split(b"\0")[0]
    prefix = header[345:500].split(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    raw = header[124:136]
    shown = name.decode("utf-8", "replace")[:80]
    size = int.from_bytes(raw[1:], "big") if raw[0] == 0x80 else _number(raw, 8, shown)
    return header[156:157], prefix + b"/" + name if prefix else name, size


def _number(text: bytes, base: int, where: str) -> int:
    digits = text.strip(b" \0")
    if not digits.isdigit() or len(digits) > 20 or (base == 8 and set(digits) & set(b"89")):
        raise InputError(f"{where}: a header without a number where one should be", fix=_DAMAGED)
    return int(digits, base)


def _pax(data: bytes, after: str, is_global: bool) -> dict[str, bytes]:
    """Return the records ``<length> <key>=<value>`` of an extended header that matter: path and size."""
    headers: dict[str, bytes] = {}
    start = records = 0
    while start < len(data):
        records += 1
        if records > _MOST_RECORDS:
            raise InputError(
                f"after {after}: more than {_MOST_RECORDS} entries in a header", fix="this is no submission"
            )
        digits, _, _ = data[start : start + 32].partition(b" ")
        length = _number(digits, 10, f"after {after}")
        record = data[start + len(digits) + 1 : start + length]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n") or length <= len(digits):
            raise InputError(f"after {after}: not an extended header", fix=_DAMAGED)
        if key in (b"path", b"size", b"linkpath") or key.startswith(b"GNU.sparse"):
            if is_global or key not in (b"path", b"size"):
                raise InputError(f"after {after}: a header that sets {key.decode('ascii', 'replace')!r}", fix=_DAMAGED)
            headers[key.decode()] = value[:-1]
        start += length
    return headers


def _zip_members(file: BinaryIO, limits: Limits, path: Path) -> Iterator[Member]:
    packed = check_zip(file)
    names = _Names(limits)
    with zipfile.ZipFile(file) as archive:
        kept = []
        for info in archive.infolist():
            name = _safe_name(info.orig_filename.encode("utf-8", "surrogateescape"), limits)
            mode = info.external_attr >> 16
            if info.create_system == 3 and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise InputError(
                    f"{name}: a link or a device", fix="a submission holds regular files and folders alone"
                )
            if info.flag_bits & 1:
                raise InputError(f"{name}: encrypted", fix="pack it without a password")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"{name}: packed in a way that is not read here", fix="use deflate")
            if not info.is_dir():
                names.add(name, info.file_size)
                _check_ratio(name, names.total, packed, limits)
                kept.append((name, info))
        _check_overlap(kept)
        for name, info in kept:
            with archive.open(info) as content:
                yield Member(name, info.file_size, content, path)


def _check_overlap(kept: list[tuple[str, zipfile.ZipInfo]]) -> None:
    """Refuse files that share bytes, by which zip bombs work (Fifield, WOOT 2019)."""
    ordered = sorted(kept, key=lambda pair: pair[1].header_offset)
    for (name, info), (_, following) in pairwise(ordered):
        if info.header_offset + _LOCAL_HEADER + info.compress_size > following.header_offset:
            raise InputError(f"{name}: shares its bytes with another file", fix="this is no submission")
