"""Connections that are opened, held and flooded: real sockets of 127.0.0.1 against servers that really run."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_hostile_clients import bearer, connect, contest, evaluator, folder  # noqa: F401 -- fixtures
from tests.support.listen_client import Client, search
from tests.support.listen_world import running
from tests.support.sockets import PATIENCE, QUICK, deaf_socket, read, read_head, status
from voiceveil.apps.board.app import open_board
from voiceveil.apps.listen.app import open_app
from voiceveil.apps.web.connections import ConnectionLimits

PATIENT = ConnectionLimits(total=20, per_address=20)


HOST = b"host: 127.0.0.1\r\n"


STYLE = b"GET /static/report.css HTTP/1.1\r\n" + HOST + b"\r\n"


def answer(connection: socket.socket) -> bytes:
    """Return all that a server sends until it ends the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            data += piece
    return data


def is_open(connection: socket.socket, *, silent: bool = False) -> bool:
    """Return whether the server has not ended a connection; ``silent``: nor said anything."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b"" and not silent
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    finally:
        connection.settimeout(PATIENCE)


def exchange(connection: socket.socket, request: bytes) -> bytes:
    """Send a request and return the whole response, which states its length."""
    connection.sendall(request)
    head = read_head(connection)
    return head + read(connection, int(search(r"content-length: (\d+)", head.decode())))


def dribble(connection: socket.socket, data: bytes) -> bytes:
    """Send a byte every 50 ms until the server ends the connection; return what it says."""
    began = time.monotonic()
    with contextlib.suppress(ConnectionError):
        for number in range(len(data)):
            connection.sendall(data[number : number + 1])
            time.sleep(0.05)
            assert time.monotonic() - began < PATIENCE, "the server waits for ever"
            if not is_open(connection, silent=True):
                break
    return answer(connection)


@pytest.fixture(scope="module")
def quick(folder: Path) -> Iterator[str]:  # noqa: F811
    """A listening test with short times."""
    with running(open_app(folder), limits=QUICK) as address:
        yield address


def test_connections_without_a_request_are_closed(quick: str) -> None:
    """Silent ones, and those that begin a request and do not finish its headers."""
    for begin in (b"", b"G", b"GET / HTTP/1.1\r\n" + HOST):
        with connect(quick) as held:
            held.sendall(begin)
            assert answer(held).startswith(b"HTTP/1.1 408 ")


def test_slow_headers_are_closed(quick: str) -> None:
    with connect(quick) as held:
        began = time.monotonic()
        dribble(held, b"GET / HTTP/1.1\r\n" + HOST + b"x: " + b"y" * 1000)
        assert time.monotonic() - began < 10.0
    with connect(quick) as held:  # the second request of a connection
        assert exchange(held, STYLE).startswith(b"HTTP/1.1 200")
        dribble(held, b"GET / HTTP/1.1\r\n" + HOST + b"x: " + b"y" * 1000)


def test_slow_bodies_are_closed(folder: Path, quick: str) -> None:  # noqa: F811
    """Of an evaluator, whose form is read; and of strangers, who have their answer already."""
    cookie = f"cookie: {evaluator(folder, quick, 'e007').cookie}\r\n".encode()
    head = b"POST /answer HTTP/1.1\r\n" + HOST + b"content-length: 9999\r\n"
    with connect(quick) as held:
        held.sendall(head + cookie + b"\r\n")
        assert dribble(held, b"x" * 9999).startswith(b"HTTP/1.1 408 ")
    with connect(quick) as held:
        assert exchange(held, head + b"\r\n").startswith(b"HTTP/1.1 403")
        dribble(held, b"x" * 9999)


def test_aborted_slow_upload_frees_its_slot(contest: Path) -> None:  # noqa: F811
    with running(open_board(contest), limits=QUICK) as address, connect(address) as held:
        token = bearer(contest)["authorization"].encode()
        head = b"POST /submit?system=x HTTP/1.1\r\n" + HOST + b"content-length: 9999\r\nauthorization: "
        held.sendall(head + token + b"\r\n\r\n")
        assert dribble(held, b"x" * 9999).startswith(b"HTTP/1.1 408 ")
        client = Client(address)
        client.get(f"/team/{token.decode().partition(' ')[2]}")
        for _ in range(100):
            if "<td>refused</td>" in client.page("/team"):
                break
            time.sleep(0.05)
        assert "Submissions left: 5 today" in client.page("/team")
    assert list((contest / "incoming").iterdir()) == []


SIZE = 12_000_000  # more than the buffers of the system hold


async def large_file(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request with a large file."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(SIZE).encode())]})
    await send({"type": "http.response.body", "body": bytes(SIZE)})


def test_client_that_does_not_read_is_closed() -> None:
    """Give up the data that the server holds for it."""
    with running(large_file, limits=QUICK) as address, deaf_socket(address) as deaf:
        deaf.sendall(STYLE)
        time.sleep(2.0)
        assert 0 < len(answer(deaf)) < SIZE


def test_slow_steady_reader_gets_everything() -> None:
    """It takes longer than a connection may idle."""
    with running(large_file, limits=QUICK) as address, deaf_socket(address) as slow:
        slow.sendall(STYLE)
        began, received = time.monotonic(), 0
        while received < SIZE:
            piece = slow.recv(65536)
            assert piece, f"ended after {received} bytes"
            received += len(piece)
            time.sleep(2.0 * len(piece) / SIZE)
        assert time.monotonic() - began > 2 * QUICK.idle_seconds


def test_excessive_pipelining_is_rejected(quick: str) -> None:
    """A few are served in order; many in one piece would be parsed at once, and hold up everybody."""
    with connect(quick) as connection:
        connection.sendall(10 * STYLE)
        for _ in range(10):
            assert exchange(connection, b"").startswith(b"HTTP/1.1 200")
    chunked = b"POST /answer HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n" + 40_000 * b"1\r\nx\r\n"
    with connect(quick) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(STYLE + chunked)
        assert b"HTTP/1.1 4" not in answer(connection)


def test_idle_connections_are_closed_and_busy_ones_are_not(quick: str) -> None:
    with connect(quick) as idle, connect(quick) as busy:
        exchange(idle, STYLE)
        for _ in range(10):
            assert exchange(busy, STYLE).startswith(b"HTTP/1.1 200")
            time.sleep(0.2)
        assert not is_open(idle)


def test_bodies_without_length_are_rejected(quick: str) -> None:
    """A piece of one byte takes six bytes to send and a hundred times as long to parse."""
    head = b"POST /answer HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n"
    for body in (b"", b"1\r\nx\r\n" * 40_000, b"1\r\nx\r\n0\r\n\r\n"):
        with connect(quick) as held:
            with contextlib.suppress(ConnectionError):
                held.sendall(head + body)
            assert answer(held).startswith(b"HTTP/1.1 411 ")


def test_half_open_connections_are_evicted_first(folder: Path) -> None:  # noqa: F811
    """The oldest half-open one first; whoever has asked for a page keeps their connection."""
    with running(open_app(folder), limits=PATIENT) as address, contextlib.ExitStack() as stack:
        person = stack.enter_context(connect(address))
        assert exchange(person, STYLE).startswith(b"HTTP/1.1 200")
        held = []
        for number in range(100):
            held.append(stack.enter_context(connect(address)))
            held[-1].sendall(b"GET / HTTP/1.1\r\n" if number % 2 else b"")
        assert Client(address).get("/static/report.css")[0] == 200
        still = [is_open(one) for one in held]
        assert 0 < sum(still) <= PATIENT.total
        assert not any(still[:50])
        assert still[-1]
        assert exchange(person, STYLE).startswith(b"HTTP/1.1 200")


def test_idle_connections_are_evicted_before_working_ones(folder: Path) -> None:  # noqa: F811
    with running(open_app(folder), limits=PATIENT) as address, contextlib.ExitStack() as stack:
        cookie = f"cookie: {evaluator(folder, address, 'e009').cookie}\r\n".encode()

        def opened(data: bytes) -> socket.socket:
            connection = stack.enter_context(connect(address))
            connection.sendall(data)
            time.sleep(0.02)  # until the server has read it
            return connection

        for _ in range(3 * PATIENT.total):
            exchange(opened(b""), STYLE)
        head = b"POST /answer HTTP/1.1\r\n" + HOST + cookie + b"content-length: 99\r\n\r\n"
        working = [opened(head + b"x") for _ in range(PATIENT.total)]
        time.sleep(0.2)
        assert all(is_open(one) for one in working)
        assert answer(opened(b"")) == b""  # no room
        working[0].sendall(b"x" * 98)
        assert working[0].recv(12) == b"HTTP/1.1 403"
        working[0].close()
        time.sleep(0.1)
        assert Client(address).get("/static/report.css")[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_connections_are_limited_per_address_except_for_proxies(folder: Path) -> None:  # noqa: F811
    limits = ConnectionLimits(total=100, per_address=10)

    def held(address: str, source: str) -> int:
        with connect(address) as other:
            place = other.getpeername()
        with contextlib.ExitStack() as stack:
            made = [
                stack.enter_context(socket.create_connection(place, timeout=20, source_address=(source, 0)))
                for _ in range(30)
            ]
            time.sleep(0.2)
            return sum(is_open(one) for one in made)

    with running(open_app(folder), limits=limits, proxies="127.0.0.9") as address:
        assert held(address, "127.0.0.2") == 10
        assert held(address, "127.0.0.9") == 30


@contextlib.contextmanager
def started(study: Path, handles: int, log: Path) -> Iterator[str]:
    """Start `voiceveil listen serve` as a user does, with few file handles; its address."""
    limited = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(handles)]
    command = [sys.executable, "-m", "voiceveil.cli.main", "listen", "serve", str(study), "--port", "0"]
    with log.open("wb") as stream:
        process = subprocess.Popen([*limited, *command], stdout=subprocess.PIPE, stderr=stream)
        try:
            assert process.stdout is not None
            yield search(r"(http://\S+)", process.stdout.readline().decode())
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def test_exhausted_file_handles_are_logged_once(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    """Fewer handles than connections are accepted at once; people are served all the same."""
    log = tmp_path / "log"
    with started(folder, 48, log) as address, contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connect(address))
        began = time.monotonic()
        assert Client(address).get("/static/report.css")[0] == 200
        assert time.monotonic() - began < PATIENCE
    lines = log.read_text().splitlines()
    assert len(lines) == 1, lines
    assert "cannot accept connections (Too many open files)" in lines[0]


def test_connections_stay_below_the_limit_of_file_handles(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    log = tmp_path / "log"
    with started(folder, 256, log) as address, contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connect(address))
        assert Client(address).get("/static/report.css")[0] == 200
    assert log.read_text() == ""


def test_client_errors_are_logged_once(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    log = tmp_path / "log"
    with started(folder, 256, log) as address:
        for number in range(60):
            with connect(address) as held:
                upgrade = b"GET / HTTP/1.1\r\n" + HOST + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n"
                held.sendall((b"\0\1\2 rubbish\r\n\r\n", upgrade, b"POST / HTTP/1.1\r\n" + HOST + b"\r\n")[number % 3])
                held.recv(100)
    assert len(log.read_text().splitlines()) <= 4


def test_other_host_names_are_rejected(folder: Path, contest: Path) -> None:  # noqa: F811
    """DNS rebinding: a page of another site whose name suddenly points to this machine."""
    for app in (open_app(folder), open_board(contest)):
        with running(app) as address:
            port = address.rpartition(":")[2]
            for host in ("127.0.0.1", "localhost", f"127.0.0.1:{port}", f"LOCALHOST:{port}", "[::1]", "localhost."):
                assert status(address, host) == 200, host
            for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example",
                         "10.0.0.1", "", "127.0.0.1:x", "127.0.0.1@evil.example", "[::1", "evil.example:80#127.0.0.1",
                         "[::ffff:10.0.0.1]", "2130706433"):  # fmt: skip
                assert status(address, host) == 400, host


def test_command_allows_named_hosts(tmp_path: Path) -> None:
    """`--allow-host` names what a proxy is called; what is no name is refused before anything is served."""
    command = [sys.executable, "-m", "voiceveil.cli.main", "live", "--serve", "--port", "0", "--allow-host"]
    failed = subprocess.run([*command, "https://x.org"], capture_output=True, text=True, env=os.environ, check=False)
    assert failed.returncode == 1
    assert "--allow-host 'https://x.org' is no host name" in failed.stderr
    with subprocess.Popen([*command, "live.example.org"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = search(r"(http://\S+)", process.stdout.readline())
        assert [status(address, host) for host in ("live.example.org", "127.0.0.1", "evil.example")] == [200, 200, 400]
        process.terminate()
