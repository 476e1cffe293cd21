"""Archives and weights that want to do harm: more than 25 of the first kind, and pickles in the clothes of the second.

``tests/core/test_safe_archive.py`` has the attacks by names and types of members; here are those by numbers: bombs,
entries that share their bytes, sizes and offsets that are not true.
"""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.core.test_safe_archive import ATTACKS, ZIP_ATTACKS, contents, file, tarred, zipped
from tests.faults.test_hostile_data import bounded
from voiceveil.core.errors import InputError


def _local(name: bytes, data: bytes, packed: bytes) -> bytes:
    sizes = struct.pack("<IIIHH", zlib.crc32(data), len(packed), len(data), len(name), 0)
    return b"PK\x03\x04" + struct.pack("<HHHHH", 20, 0, 8, 0, 33) + sizes + name


def _central(name: bytes, data: bytes, packed: int, offset: int, size: int | None = None) -> bytes:
    sizes = struct.pack("<III", zlib.crc32(data), packed, len(data) if size is None else size)
    place = struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, offset)
    return b"PK\x01\x02" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 33) + sizes + place + name


def _directory(body: bytes, entries: list[bytes], count: int | None = None, offset: int | None = None) -> bytes:
    directory = b"".join(entries)
    number = len(entries) if count is None else count
    start = len(body) if offset is None else offset
    return body + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, number, number, len(directory), start, 0)


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def full_overlap() -> bytes:
    """Many names, one kernel of zeros."""
    data = bytes(50_000)
    packed = _deflated(data)
    entries = [_central(b"f%02d" % i, data, len(packed), 0) for i in range(40)]
    return _directory(_local(b"f00", data, packed) + packed, entries)


def quoted_overlap() -> bytes:
    """Each file quotes the header of the next as stored data of its own (Fifield's bomb)."""
    kernel = bytes(30_000)
    packed = _deflated(kernel)
    body, entries = _local(b"z", kernel, packed) + packed, []
    entries.append(_central(b"z", kernel, len(packed), 0))
    for name in (b"y", b"x"):
        quoted = body[: 30 + 1]
        head = struct.pack("<BHH", 0, len(quoted), 0xFFFF ^ len(quoted))
        data = quoted + kernel
        packed = head + quoted + packed
        body = _local(name, data, packed) + head + body
        shift = 31 + len(head)
        entries = [e[:42] + struct.pack("<I", struct.unpack("<I", e[42:46])[0] + shift) + e[46:] for e in entries]
        entries.append(_central(name, data, len(packed), 0))
    return _directory(body, entries)


def _one(**how: int) -> bytes:
    data = b"content" * 9
    packed = _deflated(data)
    entry = _central(b"a", data, len(packed), how.get("offset", 0), how.get("size"))
    return _directory(_local(b"a", data, packed) + packed, [entry], how.get("count"), how.get("start"))


def _tar(change: Callable[[bytearray], None]) -> bytes:
    header = bytearray(tarfile.TarInfo("data/x").tobuf())
    change(header)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + b"x" * 512 + bytes(1024)


def _put(place: int, data: bytes) -> Callable[[bytearray], None]:
    def change(header: bytearray) -> None:
        header[place : place + len(data)] = data

    return change


def _pax(record: bytes) -> bytes:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(record)
    body = record + bytes(-len(record) % 512)
    return header.tobuf() + body + tarfile.TarInfo("x").tobuf() + bytes(1024)


def _nested_bomb() -> bytes:
    """Gzip of a tar archive whose one member is a long run of zeros, again and again."""
    header = tarfile.TarInfo("zeros")
    header.size = 400 << 20
    whole = gzip.compress(header.tobuf() + bytes(30 << 20))
    return whole + gzip.compress(bytes(30 << 20)) * 12


BY_NUMBERS: dict[str, bytes] = {
    "entries that are one": full_overlap(),
    "entries that quote each other": quoted_overlap(),
    "a size that is not true": _one(size=1 << 20),
    "a size of 4 GiB": _one(size=0xFFFFFFFE),
    "an offset behind the end": _one(offset=1 << 30),
    "an offset into the directory": _one(offset=80),
    "a directory behind the end": _one(start=1 << 30),
    "64-bit sizes": _one(count=0xFFFF),
    "a directory alone": b"PK\x05\x06" + bytes(3),
    "a size of 8 EiB": _tar(_put(124, b"\x80" + b"\x00" * 3 + b"\x7f" + b"\xff" * 7)),
    "a size below zero": _tar(_put(124, b"\xff" * 12)),
    "a size that is no number": _tar(_put(124, b"abcdefghijk\0")),
    "a size with a sign": _tar(_put(124, b"-0000000001\0")),
    "a prefix that climbs": _tar(_put(345, b"../..")),
    "a name of zeros": _tar(_put(0, bytes(100))),
    "an extended size below zero": _pax(b"12 size=-99\n"),
    "an extended size without end": _pax(b"9" * 200 + b" size=1\n"),
    "an extended record of length 0": _pax(b"0 path=x\n"),
    "an extended name with a zero": _pax(b"14 path=a\0b/c\n"),
    "a bomb of many streams": _nested_bomb(),
}


@pytest.mark.parametrize("attack", BY_NUMBERS)
def test_attacks_by_size_and_number_are_rejected(attack: str, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(BY_NUMBERS[attack])
    with bounded(), pytest.raises(InputError) as error:
        contents(path)
    assert error.value.where == str(path)


def test_there_are_at_least_25_attacks() -> None:
    assert len(ATTACKS) + len(ZIP_ATTACKS) + len(BY_NUMBERS) >= 25


def test_harmless_archives_are_read(tmp_path: Path) -> None:
    """Two files with the same content are no overlap."""
    assert contents(zipped(tmp_path / "a.zip", {"a": b"same", "b": b"same"})) == {"a": b"same", "b": b"same"}
    assert contents(tarred(tmp_path / "a.tar.gz", [file("a"), file("b")])) == {"a": b"x", "b": b"x"}
    (tmp_path / "one.zip").write_bytes(_one())
    assert contents(tmp_path / "one.zip") == {"a": b"content" * 9}


# --- Pickles ------------------------------------------------------------------------------------------------------


class Evil:
    """What a pickle can carry: code that runs when it is read."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path("executed").touch, ())


def _raw() -> bytes:
    return pickle.dumps({"weight": Evil()})


def _torch(legacy: bool = False) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save({"weight": Evil()}, buffer, _use_new_zipfile_serialization=not legacy)
    return buffer.getvalue()


def _objects() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, json=np.array([Evil()], dtype=object), vector=np.array([Evil()], dtype=object))
    return buffer.getvalue()


def _renamed() -> bytes:
    """A pickle as the member of an archive of arrays."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("json.npy", _raw())
    return buffer.getvalue()


DISGUISES = {
    "pickle": _raw,
    "torch": _torch,
    "old torch": lambda: _torch(True),
    "objects": _objects,
    "renamed": _renamed,
}


def _weights(path: Path) -> None:
    from voiceveil.models.checkpoint import load_tensors

    load_tensors(path, "decoder")


def _encoder(path: Path) -> None:
    from voiceveil.models.speaker.trained import load_encoder

    load_encoder(path, "cpu")


def _system(path: Path) -> None:
    from voiceveil.tdsv.serialization import load_system

    load_system(path)


def _embeddings(path: Path) -> None:
    from voiceveil.risk.embeddings import read_table

    read_table(path)


LOADERS = {
    "model.safetensors": _weights,
    "encoder.safetensors": _encoder,
    "system.npz": _system,
    "embeddings.npz": _embeddings,
}


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", LOADERS)
def test_pickle_disguised_as_weights_is_rejected(
    name: str, disguise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(DISGUISES[disguise]())
    with pytest.raises(InputError, match=name):
        LOADERS[name](tmp_path / name)
    assert not (tmp_path / "executed").exists()


def test_unpickling_the_disguised_weights_would_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(_raw())
    assert (tmp_path / "executed").exists()
