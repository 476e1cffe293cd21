"""Paths that are no plain files: pipes, devices, sockets, loops, names that no file can have; nothing may wait."""

from __future__ import annotations

import os
import signal
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.faults.test_hostile_data import READERS, bounded, written
from voiceveil.corpus.checking import check
from voiceveil.documents import read_json
from voiceveil.errors import InputError
from voiceveil.files import exists, open_file, read_bytes, read_text


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, suppress(OSError):
        server.bind(os.fsencode(os.path.relpath(path)))


SPECIAL: dict[str, Callable[[Path], None]] = {
    "pipe": _pipe,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "standard input": lambda path: path.symlink_to("/dev/stdin"),
    "process": lambda path: path.symlink_to("/proc/self/environ"),
    "kernel": lambda path: path.symlink_to("/sys/kernel/uevent_seqnum"),
    "loop": lambda path: path.symlink_to(path.name),
    "folder": lambda path: path.mkdir(),
}


@pytest.fixture(params=[f"{kind}{way}" for kind in SPECIAL for way in ("", " behind a link")])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path], None]:
    """Put something that is no regular file at a path, or a link to it; nobody ever writes to the pipe."""
    kind, _, link = request.param.partition(" behind")

    def put(path: Path) -> None:
        path.unlink(missing_ok=True)
        real = tmp_path / "special" if link else path
        SPECIAL[kind](real)
        if link:
            path.symlink_to(real)

    return put


def test_only_regular_files_are_opened(special: Callable[[Path], None], tmp_path: Path) -> None:
    special(tmp_path / "a")
    with pytest.raises(InputError):
        open_file(tmp_path / "a")


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 2500, "a\0b", "file/below", "", "\udc80\udcff"])
def test_impossible_names_are_input_errors(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    assert name == "" or not exists(tmp_path / name)
    with pytest.raises(InputError) as error:
        open_file(f"{tmp_path}/{name}")
    assert len(str(error.value)) < 2000


def test_what_is_read_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf{}" + b" " * 20)
    assert read_text(tmp_path / "a").strip() == "{}"
    assert read_json(tmp_path / "a") == {}
    with pytest.raises(InputError, match="larger than 10 bytes"):
        read_bytes(tmp_path / "a", at_most=10)
    (tmp_path / "a").write_bytes(b"[" * 100_000)
    with pytest.raises(InputError, match="not JSON"):
        read_json(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        read_text(tmp_path / "a")


def test_files_in_shared_memory_and_behind_links_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "link").symlink_to("a")
    assert read_text(tmp_path / "link") == "text"


class Waits(BaseException):
    """The reader waits for a pipe or reads a device without end."""


def _waits(*_: object) -> None:
    raise Waits


@contextmanager
def at_once() -> Iterator[None]:
    """Five seconds by the clock, and little memory, or the reader waits for ever."""
    before = signal.signal(signal.SIGALRM, _waits)
    signal.setitimer(signal.ITIMER_REAL, 5.0)
    try:
        with bounded():
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "loop", "process"])
def test_every_reader_refuses_what_is_no_regular_file(name: str, kind: str, loaded: None, tmp_path: Path) -> None:
    reader = READERS[name]
    path = written(tmp_path, reader, reader.sample)
    path.unlink()
    SPECIAL[kind](tmp_path / "special")
    path.symlink_to(tmp_path / "special")
    with at_once(), pytest.raises(InputError):
        reader.read(path)


LISTS = [
    name
    for name in READERS
    if name.startswith(("kaldi", "csv", "jsonl", "trials", "scores", "labelled", "tdsv m", "tdsv t", "tdsv k"))
]


@pytest.mark.parametrize("name", LISTS)
def test_a_line_without_end_is_refused_without_loading_it(name: str, loaded: None, tmp_path: Path) -> None:
    """400 MB, of which the file system stores nothing."""
    reader = READERS[name]
    path = written(tmp_path, reader, reader.sample + b"x")
    os.truncate(path, 400_000_000)
    tracemalloc.start()
    try:
        with at_once(), pytest.raises(InputError):
            reader.read(path)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["csv", "jsonl", "kaldi wav.scp"])
def test_checking_a_corpus_with_a_line_without_end_ends(name: str, loaded: None, tmp_path: Path) -> None:
    path = written(tmp_path, READERS[name], READERS[name].sample + b"x")
    os.truncate(path, 400_000_000)
    with at_once():
        faults = check(path if path.suffix in (".csv", ".jsonl") else path.parent, audio=False)
    assert any("more than 1 MiB" in fault.what for fault in faults)
