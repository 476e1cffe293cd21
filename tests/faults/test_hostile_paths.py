"""Paths that are no plain files: pipes, devices, sockets, loops, names that no file can have; nothing may wait."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.faults.test_hostile_data import READERS, bounded, written
from voiceveil.cli.main import main
from voiceveil.core.documents import read_json
from voiceveil.core.errors import InputError
from voiceveil.core.files import exists, open_file, read_bytes, read_text
from voiceveil.corpus import open_corpus
from voiceveil.corpus.checking import check


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


def test_reading_is_bounded(tmp_path: Path) -> None:
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
def limited_wait(seconds: float = 60.0) -> Iterator[None]:
    """So much time by the clock, or the reader waits for ever."""
    before = signal.signal(signal.SIGALRM, _waits)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def at_once() -> Iterator[None]:
    """Fifteen seconds by the clock, and little processor time and memory."""
    with limited_wait(15.0), bounded():
        yield


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "loop", "process"])
def test_every_reader_rejects_special_files(name: str, kind: str, loaded: None, tmp_path: Path) -> None:
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
    if name.startswith(("kaldi", "csv", "jsonl", "trials", "scores", "labeled", "tdsv m", "tdsv t", "tdsv k"))
]


@pytest.mark.parametrize("name", LISTS)
def test_endless_line_is_rejected_without_loading_it(name: str, loaded: None, tmp_path: Path) -> None:
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
def test_corpus_check_of_an_endless_line_ends(name: str, loaded: None, tmp_path: Path) -> None:
    path = written(tmp_path, READERS[name], READERS[name].sample + b"x")
    os.truncate(path, 400_000_000)
    with at_once():
        faults = check(path if path.suffix in (".csv", ".jsonl") else path.parent, audio=False)
    assert any("more than 1 MiB" in fault.what for fault in faults)


def _tone(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        soundfile.write(file, 0.3 * np.sin(np.arange(8000) / 9), 16000, format="WAV")
    return path


def test_batch_reports_special_files_and_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As audio of a folder, and of a Kaldi directory that was made of it."""
    _tone(tmp_path / "in" / "s" / "good.wav")
    for kind in ("pipe", "device", "loop", "socket", "process"):
        SPECIAL[kind](tmp_path / "in" / "s" / f"{kind}.wav")
    (tmp_path / "in" / "s" / "broken.wav").symlink_to("nowhere")
    (tmp_path / "in" / "s" / "up").symlink_to("..")
    with at_once():
        assert main(["corpus", "check", str(tmp_path / "in")]) == 1
        assert "7 utterances, 6 faults" in capsys.readouterr().out
        assert main(["corpus", "convert", str(tmp_path / "in"), str(tmp_path / "kaldi"), "--to", "kaldi"]) == 0
    for corpus in ("in", "kaldi"):
        with limited_wait():
            assert main(["anonymize", str(tmp_path / corpus), str(tmp_path / "out" / corpus), "--system", "b2"]) == 1
        assert capsys.readouterr().out.count("failed: s/") == 6
    assert [path.name for path in (tmp_path / "out").rglob("*.wav")] == ["good.wav"] * 2


@pytest.mark.parametrize("target", ["/", "/proc", "/sys", "..", "../.."])
def test_links_to_the_root_folder_are_not_followed(target: str, tmp_path: Path) -> None:
    _tone(tmp_path / "in" / "a.wav")
    (tmp_path / "in" / "link").symlink_to(target)
    with at_once():
        (fault,) = check(tmp_path / "in")
    assert "a link to a folder of the system, or to one that holds this corpus" in fault.what


def test_cyclic_links_are_followed_once(tmp_path: Path) -> None:
    _tone(tmp_path / "in" / "a" / "x.wav")
    _tone(tmp_path / "in" / "b" / "y.wav")
    (tmp_path / "in" / "a" / "to_b").symlink_to("../b")
    (tmp_path / "in" / "b" / "to_a").symlink_to("../a")
    assert len(open_corpus(tmp_path / "in")) == 2


def test_tree_deeper_than_the_stack_is_read(tmp_path: Path) -> None:
    """1,500 folders within each other; what lies deeper than a path can name is reported."""
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for depth in range(2100):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
            if depth in (1500, 2099):
                os.close(os.open("x.wav", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    finally:
        os.close(here)
    with at_once():
        faults = check(tmp_path / "d", audio=False)
        assert any("cannot read this folder: File name too long" in fault.what for fault in faults)
        assert all(len(str(fault)) < 2000 for fault in faults)
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # Python cannot remove it


def test_files_with_names_that_are_not_utf8_are_anonymized(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9 \xff.wav")
    _tone(tmp_path / "in" / name)
    assert main(["anonymize", str(tmp_path / "in"), str(tmp_path / "out"), "--system", "b2", "--quiet"]) == 0
    assert (tmp_path / "out" / name).is_file()
    assert main(["corpus", "check", str(tmp_path / "in")]) == 0


@pytest.mark.parametrize("path", ["x/" * 2500, "y" * 300])
def test_every_command_names_impossible_paths(path: str, tmp_path: Path) -> None:
    _tone(tmp_path / "a.wav")
    here = str(tmp_path / "a.wav")
    for command in (
        ("corpus", "check", path),
        ("anonymize", path, str(tmp_path / "out")),
        ("anonymize", here, path, "--system", "b2"),
        ("corpus", "convert", here, path, "--to", "kaldi"),
        ("score", path),
        ("report", path),
        ("anonymize", here, str(tmp_path / "o"), "--key-file", path),
        ("evaluate", "--data", path, "--out", str(tmp_path / "o"), "--system", "b2"),
    ):
        assert main(command) == 1, command
