"""Uploads of the size of a real submission: 45 GB are streamed to the disk, never held in memory."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import tarfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.apps.board.test_board import Place
from tests.support.board_world import make_lists
from tests.support.listen_world import running
from voiceveil.apps.board.app import open_board
from voiceveil.apps.board.contest import Contest, create_contest, limits_of
from voiceveil.apps.board.scoring import LIMITS, score_submission
from voiceveil.core.errors import InputError

REAL = 45_000_000_000  # bytes of a submission of 2024 with train-clean-360
MEGABYTE = bytes(1 << 20)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "contest"
    largest = limits_of("vpc2024").largest
    create_contest(folder, Contest("vpc2024", make_lists(tmp_path / "lists"), "test", "t", largest=largest))
    with running(open_board(folder)) as address:
        yield Place(folder, address)


def begin(place: Place, size: int) -> socket.socket:
    """Begin an upload of a stated size, and send its first megabyte."""
    connection = socket.create_connection(("127.0.0.1", urlsplit(place.address).port or 0), timeout=20)
    head = f"POST /submit?system=s HTTP/1.1\r\nhost: {urlsplit(place.address).netloc}\r\ncontent-length: {size}\r\n"
    connection.sendall(f"{head}authorization: Bearer {place.token('A')}\r\n\r\n".encode())
    connection.sendall(MEGABYTE)
    return connection


def answer(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, json.loads(response.read())


def until(condition: Callable[[], bool]) -> bool:
    limit = time.monotonic() + 10
    while not condition() and time.monotonic() < limit:
        time.sleep(0.02)
    return condition()


def with_disk(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 0, free))


def test_upload_of_45_gb_is_taken(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to the disk as it arrives; broken off, it leaves nothing."""
    with_disk(monkeypatch, 2 * REAL)
    incoming = place.folder / "incoming"
    with begin(place, REAL):
        assert until(lambda: sum(path.stat().st_size for path in incoming.iterdir()) > (1 << 19))
    assert until(lambda: not list(incoming.iterdir()))
    assert until(lambda: [s.reason for s in place.store.of_team("A")] == ["the upload was broken off"])


def test_upload_that_is_too_large_is_refused_before_it_is_sent(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with_disk(monkeypatch, 2 * REAL)
    with begin(place, 2 * REAL) as connection:
        assert answer(connection) == (413, {"accepted": False, "reason": f"more than {64 << 30} bytes"})
    with_disk(monkeypatch, REAL)  # no room for it and the spare gigabyte
    with begin(place, REAL) as connection:
        status, said = answer(connection)
        assert (status, said["accepted"]) == (507, False)
    assert list((place.folder / "incoming").iterdir()) == []


def test_upload_is_never_in_memory(place: Place) -> None:
    """Of 200 MB less than 12 MB are held at any time, through receiving and scoring."""
    connection = http.client.HTTPConnection(urlsplit(place.address).netloc, timeout=60)
    headers = {"authorization": f"Bearer {place.token('A')}", "content-length": str(200 << 20)}
    tracemalloc.start()
    try:
        connection.request("POST", "/submit?system=s", (MEGABYTE for _ in range(200)), headers)
        response = connection.getresponse()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert response.status == 422  # an empty tar archive
    assert peak < 12 << 20


def test_large_archive_is_read_as_a_stream(place: Place, tmp_path: Path) -> None:
    """A sparse archive: audio that the contest does not need, and no scores at its end."""
    assert LIMITS.total > 2 * REAL
    path = tmp_path / "sparse.tar"
    with path.open("wb") as file:
        for number in range(2):
            header = tarfile.TarInfo(f"data/train-clean-360_x/wav/{number}.wav")
            header.size = 300 << 20
            file.write(header.tobuf(tarfile.USTAR_FORMAT))
            file.seek(header.size, os.SEEK_CUR)
        file.write(bytes(1024))
    if path.stat().st_blocks * 512 > 1 << 20:
        shutil.rmtree(tmp_path)
        pytest.skip("the file system has no sparse files")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="no scores of libri_test_enrolls"):
            score_submission(Contest.load(place.folder), path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20
