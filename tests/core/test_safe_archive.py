"""Archives that nobody vouches for: what is in them comes out, and what could do harm does not."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import Limits, read_members

Entry = tuple[tarfile.TarInfo, bytes]


def file(name: str, content: bytes = b"x") -> Entry:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    return header, content


def special(name: str, kind: bytes, target: str = "") -> Entry:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header, b""


def tarred(path: Path, entries: list[Entry], mode: str = "w:gz", format: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, mode, format=format) as tar:  # type: ignore[call-overload]
        for header, content in entries:
            tar.addfile(header, io.BytesIO(content))
    return path


def zipped(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def contents(path: Path, limits: Limits | None = None) -> dict[str, bytes]:
    return {member.name: b"".join(member.blocks()) for member in read_members(path, limits)}


names = st.text("abcdefgh-_é0123456789", min_size=1, max_size=30)
trees = st.dictionaries(
    st.lists(names, min_size=1, max_size=5).map("/".join), st.binary(max_size=2000), max_size=8
).filter(lambda tree: not any(a != b and b.startswith(f"{a}/") for a in tree for b in tree))


@settings(max_examples=60)
@given(tree=trees, form=st.sampled_from(["ustar", "gnu", "pax", "gz", "zip"]), long=st.booleans())
def test_archives_of_the_standard_library_are_read(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes], form: str, long: bool
) -> None:
    """Long names take extended headers: GNU's and those of pax."""
    tree = {f"{'long/' * 25 if long and form != 'ustar' else ''}{name}": content for name, content in tree.items()}
    path = tmp_path_factory.mktemp("packed") / "archive"
    if form == "zip":
        zipped(path, tree)
    else:
        formats = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT}
        entries = [file(name, content) for name, content in tree.items()]
        tarred(path, entries, "w:gz" if form == "gz" else "w", formats.get(form, tarfile.PAX_FORMAT))
    assert contents(path, Limits(name=2000)) == tree


def test_unread_members_are_skipped(tmp_path: Path) -> None:
    path = tarred(tmp_path / "a.tar.gz", [file("a", bytes(70000)), file("b", b"second")])
    assert [member.name for member in read_members(path)] == ["a", "b"]
    found = []
    for member in read_members(path):
        found.append(member.read(3))
    assert found == [b"\0\0\0", b"sec"]


ATTACKS: dict[str, tuple[list[Entry], str]] = {
    "climbing": ([file("../../etc/cron.d/x")], "'../../etc/cron.d/x': a path that leads out of the archive"),
    "climbing inside": ([file("data/../../x")], "'data/../../x': a path that leads out of the archive"),
    "absolute": ([file("/etc/passwd")], "'/etc/passwd': an absolute path"),
    "drive": ([file("C:/windows/x")], "'C:/windows/x': an absolute path"),
    "backslash": ([file("data\\..\\x")], r"'data\\..\\x': not a plain name"),
    "control": ([file("data/\x1b[2Jx")], r"'data/\x1b[2Jx': not a plain name"),
    "double slash": ([file("data//x")], "'data//x': not a plain name"),
    "long name": ([file("a/" * 200 + "x")], "a name of 401 characters"),
    "symbolic link": ([special("data/x", tarfile.SYMTYPE, "/etc/passwd")], "data/x: a symbolic link"),
    "hard link": ([special("data/x", tarfile.LNKTYPE, "/etc/passwd")], "data/x: a hard link"),
    "character device": ([special("data/x", tarfile.CHRTYPE)], "data/x: a device"),
    "block device": ([special("data/x", tarfile.BLKTYPE)], "data/x: a device"),
    "pipe": ([special("data/x", tarfile.FIFOTYPE)], "data/x: a named pipe"),
    "sparse": ([special("data/x", tarfile.GNUTYPE_SPARSE)], "data/x: a sparse file"),
    "unknown type": ([special("data/x", b"Z")], "data/x: of the unknown type b'Z'"),
    "link into a folder": (
        [special("data", tarfile.SYMTYPE, "/tmp"), file("data/x")],
        "data: a symbolic link",
    ),
    "twice": ([file("data/x"), file("data/x", b"other")], "data/x: is there twice"),
    "dot": ([file("data/x"), file("./data/x", b"other")], "data/x: is there twice"),
    "other case": ([file("data/x.wav"), file("data/X.wav")], "data/X.wav: is the same as data/x.wav on some disks"),
    "other form": (
        [file("data/\u00e9"), file("data/e\u0301")],
        "data/e\u0301: is the same as data/\u00e9 on some disks",
    ),
    "file for a folder": ([file("data/x/y"), file("data/x")], "data/x: a file in the place of a folder"),
    "folder for a file": ([file("data/x"), file("data/x/y")], "data/x/y: a file in the place of a folder"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_tar_attacks_are_rejected_with_the_member_name(tmp_path: Path, attack: str) -> None:
    entries, message = ATTACKS[attack]
    path = tarred(tmp_path / "a.tar.gz", entries)
    with pytest.raises(InputError) as error:
        contents(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


ZIP_ATTACKS: dict[str, tuple[dict[str, bytes], str]] = {
    "climbing": ({"../x": b""}, "'../x': a path that leads out of the archive"),
    "absolute": ({"/etc/x": b""}, "'/etc/x': an absolute path"),
    "backslash": ({"a\\..\\..\\x": b""}, r"'a\\..\\..\\x': not a plain name"),
    "other case": ({"a/x": b"", "a/X": b""}, "a/X: is the same as a/x on some disks"),
}


@pytest.mark.parametrize("attack", ZIP_ATTACKS)
def test_zip_attacks_are_rejected(tmp_path: Path, attack: str) -> None:
    entries, message = ZIP_ATTACKS[attack]
    with pytest.raises(InputError) as error:
        contents(zipped(tmp_path / "a.zip", entries))
    assert message in str(error.value)


def test_zip_links_and_encrypted_members_are_rejected(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("a/link")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match="a/link: a link or a device"):
        contents(tmp_path / "link.zip")
    with zipfile.ZipFile(tmp_path / "lzma.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", "content")
    with pytest.raises(InputError, match="a: packed in a way that is not read here"):
        contents(tmp_path / "lzma.zip")
    data = bytearray(zipped(tmp_path / "plain.zip", {"a": b"content"}).read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1  # the flag of encryption
    (tmp_path / "secret.zip").write_bytes(data)
    with pytest.raises(InputError, match="a: encrypted"):
        contents(tmp_path / "secret.zip")


def test_zip_with_two_different_names_is_rejected(tmp_path: Path) -> None:
    data = zipped(tmp_path / "plain.zip", {"good": b"content"}).read_bytes()
    (tmp_path / "two.zip").write_bytes(data.replace(b"good", b"evil", 1))
    with pytest.raises(InputError, match="damaged: File name in directory 'good' and header b'evil' differ"):
        contents(tmp_path / "two.zip")


def bomb(path: Path, name: str, size: int) -> Path:
    with gzip.open(path, "wb") as stream:
        stream.write(tarfile.TarInfo("small").tobuf())
        header = tarfile.TarInfo(name)
        header.size = size
        stream.write(header.tobuf())
        for _ in range(min(size, 200 << 20) >> 20):
            stream.write(bytes(1 << 20))
    return path


@pytest.mark.slow
def test_archive_bombs_are_stopped_within_time_and_memory(tmp_path: Path) -> None:
    path = bomb(tmp_path / "bomb.tar.gz", "zeros", 100 << 20)
    tracemalloc.start()
    with pytest.raises(InputError, match=r"zeros: \d+ bytes out of \d+, more than 100 times as many"):
        sum(len(block) for member in read_members(path, Limits(free=1 << 20)) for block in member.blocks())
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    huge = bomb(tmp_path / "huge.tar.gz", "huge", 1 << 50)
    with pytest.raises(InputError, match="huge: of 1125899906842624 bytes, with which the archive has more than"):
        contents(huge)
    many = tarred(tmp_path / "many.tar.gz", [file(f"f{i}") for i in range(30)])
    with pytest.raises(InputError, match="f20: more than 20 files"):
        contents(many, Limits(members=20))
    packed = zipped(tmp_path / "bomb.zip", {"zeros": bytes(20 << 20)})
    with pytest.raises(InputError, match="zeros: 20971520 bytes out of"):
        contents(packed, Limits(free=1 << 20))


def test_long_headers_are_not_read_into_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 1 << 32
    with gzip.open(tmp_path / "a.tar.gz", "wb") as stream:
        stream.write(header.tobuf())
        stream.write(bytes(1 << 20))
    with pytest.raises(InputError, match="a header of 4294967296 bytes after the beginning"):
        contents(tmp_path / "a.tar.gz")


@pytest.mark.parametrize("key", ["linkpath", "GNU.sparse.size"])
def test_extended_headers_set_no_links_and_no_sparse_files(tmp_path: Path, key: str) -> None:
    header, content = file("data/x")
    header.pax_headers = {key: "/etc/passwd"}
    with pytest.raises(InputError, match="a header that sets"):
        contents(tarred(tmp_path / "a.tar", [(header, content)], "w"))


def test_names_in_extended_headers_are_checked(tmp_path: Path) -> None:
    header, content = file("data/x")
    header.pax_headers = {"path": "../../x"}
    with pytest.raises(InputError, match="a path that leads out of the archive"):
        contents(tarred(tmp_path / "a.tar", [(header, content)], "w"))


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flip(data: bytes) -> bytes:
    return data[:150] + bytes([data[150] ^ 1]) + data[151:]


@pytest.mark.parametrize(
    ("mode", "spoil", "message"),
    [
        ("w:gz", _cut, "damaged: Compressed file ended before the end-of-stream marker was reached"),
        ("w", _cut, "the archive ends in the middle of it"),
        ("w", _flip, "the checksum of a header is wrong"),
        ("w", lambda data: b"", "not a tar archive, or one that is cut off"),
        ("w", lambda data: b"no archive at all" * 100, "a header without a number where one should be"),
    ],
)
def test_damaged_archives_are_rejected(
    tmp_path: Path, mode: str, spoil: Callable[[bytes], bytes], message: str
) -> None:
    path = tarred(tmp_path / "a", [file("data/x", bytes(range(256)) * 100)], mode)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError) as error:
        contents(path)
    assert message in str(error.value)


@settings(max_examples=60)
@given(data=st.binary(max_size=3000), start=st.sampled_from([b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"PK\x05\x06"]))
def test_arbitrary_bytes_raise_only_input_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "archive"
    path.write_bytes(start + data)
    try:
        found = contents(path)
    except InputError:
        return
    assert all(not name.startswith("/") and ".." not in name.split("/") for name in found)


@settings(max_examples=60)
@given(place=st.integers(0, 4000), value=st.integers(0, 255), form=st.sampled_from(["tar", "gz", "zip"]))
def test_one_changed_byte_raises_only_input_error(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int, form: str
) -> None:
    """Whatever byte is changed, what comes out has safe names, or nothing comes out."""
    path = tmp_path_factory.mktemp("changed") / "archive"
    tree = {"data/a/x.wav": b"abc" * 300, "exp/scores": b"1 2 3\n" * 50}
    if form == "zip":
        zipped(path, tree)
    else:
        tarred(path, [file(*item) for item in tree.items()], "w:gz" if form == "gz" else "w")
    data = bytearray(path.read_bytes())
    data[place % len(data)] = value
    path.write_bytes(data)
    try:
        found = contents(path)
    except InputError:
        return
    assert all(not name.startswith("/") and ".." not in name.split("/") for name in found)
