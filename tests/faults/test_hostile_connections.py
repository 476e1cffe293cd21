"""Connections that are opened, held and flooded: real sockets of 127.0.0.1 against servers that really run."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.test_hostile_clients import bearer, connect, contest, evaluator, folder  # noqa: F401 -- fixtures
from tests.support.listen_client import Client, search
from tests.support.listen_world import running
from voiceveil.apps.board.app import open_board
from voiceveil.apps.listen.app import open_app
from voiceveil.apps.web.connections import ConnectionLimits

#: Short times, so that the tests are quick; a piece of 250 bytes must come or go in half a second.
QUICK = ConnectionLimits(total=40, per_address=30, header_seconds=0.5, idle_seconds=0.5, stall_seconds=0.5, slowest=500)
PATIENT = ConnectionLimits(total=20, per_address=20)
HOST = b"host: 127.0.0.1\r\n"
STYLE = b"GET /static/report.css HTTP/1.1\r\n" + HOST + b"\r\n"
PATIENCE = 20.0  # seconds until a test fails: machines can be busy


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


def deaf_socket(address: str) -> socket.socket:
    """Return a connection with room for little that its owner does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    with connect(address) as other:
        connection.connect(other.getpeername())
    return connection


def read(connection: socket.socket, size: int) -> bytes:
    """Return exactly so many bytes."""
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        assert piece, f"the server ends after {data!r}"
        data += piece
    return data


def read_head(connection: socket.socket) -> bytes:
    """Return the headers of a response."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += read(connection, 1)
    return data


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


# --- Slow clients -------------------------------------------------------------------------------------------------


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
        assert "5 more today" in client.page("/team")
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


# --- Many connections ---------------------------------------------------------------------------------------------


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


# --- The log, and file handles ------------------------------------------------------------------------------------


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


# --- Host names ---------------------------------------------------------------------------------------------------


def status(address: str, host: str, path: str = "/static/report.css", extra: str = "") -> int:
    """Return the status of a request for a host."""
    with connect(address) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n{extra}\r\n".encode())
        return int(connection.recv(12)[9:12])


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


# --- Websockets ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live() -> Iterator[str]:
    """`voiceveil live --serve`, with short times and room for three."""
    pytest.importorskip("websockets")
    from voiceveil.apps.live.app import LiveApp, largest_message
    from voiceveil.apps.live.session import live_system

    system = live_system("b2")
    app = LiveApp(system, most=3, silence=0.5).starlette()
    with running(app, limits=QUICK, message_bytes=largest_message(system)) as address:
        yield address


UPGRADE = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {}==\r\n"
KEY = UPGRADE.format("x" * 22)


def handshake(address: str, extra: str = "", connection: socket.socket | None = None) -> tuple[socket.socket, bytes]:
    """Open a websocket; return it and the answer of the server."""
    connection = connection or connect(address)
    request = f"GET /stream HTTP/1.1\r\nhost: 127.0.0.1\r\n{UPGRADE.format('AAAAAAAAAAAAAAAAAAAAAA')}{extra}\r\n"
    connection.sendall(request.encode())
    return connection, read_head(connection)


def frame(opcode: int, data: bytes = b"", *, final: bool = True, reserved: int = 0) -> bytes:
    """Return a frame of a client (RFC 6455), masked with zeros."""
    length = len(data)
    if length < 126:
        size = bytes([0x80 | length])
    elif length < 65536:
        size = struct.pack(">BH", 0x80 | 126, length)
    else:
        size = struct.pack(">BQ", 0x80 | 127, length)
    return bytes([(0x80 if final else 0) | reserved | opcode]) + size + bytes(4) + data


PING, TEXT, BINARY, CONTINUATION = 9, 1, 2, 0


def close_code(connection: socket.socket) -> int:
    """Return the code of the close frame that the server sends."""
    while True:
        opcode, length = read(connection, 2)
        data = read(connection, int.from_bytes(read(connection, 2), "big") if length == 126 else length)
        if opcode & 15 == 8:
            return int.from_bytes(data[:2], "big")


def is_served(address: str) -> bool:
    """Return whether somebody else can speak."""
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect as speak

    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:  # until the server has noticed that others have left
        with speak(f"ws://{address[7:]}/stream", proxy=None) as other, contextlib.suppress(ConnectionClosed):
            other.send(np.zeros(1600, "<f4").tobytes())
            return len(other.recv(timeout=PATIENCE)) > 0
        time.sleep(0.05)
    return False


def test_silent_websockets_are_closed(live: str) -> None:
    """Also those that only ping, and those that never finish a message; their places are free again."""
    for sent in (b"", frame(PING, b"x"), frame(BINARY, bytes(4), final=False), frame(BINARY, bytes(64))[:20]):
        connection, head = handshake(live)
        assert head.startswith(b"HTTP/1.1 101")
        with connection:
            connection.sendall(sent)
            assert close_code(connection) == 1008
    waiting = [handshake(live)[0] for _ in range(3)]
    assert is_served(live)
    for one in waiting:
        one.close()


def test_websocket_messages_are_limited_to_a_second_of_audio(live: str) -> None:
    whole, over = frame(BINARY, bytes(64_000)), frame(BINARY, bytes(64_004))
    pieces = frame(BINARY, bytes(40_000), final=False) + frame(CONTINUATION, bytes(40_000))
    claimed = bytes([0x82, 0xFF]) + struct.pack(">Q", 1 << 40) + bytes(4)  # only its header
    for sent, code in ((whole + frame(TEXT, b"end"), 1000), (over, 1009), (pieces, 1009), (claimed, 1009)):
        connection, _ = handshake(live)
        with connection:
            connection.sendall(sent)
            assert close_code(connection) == code


def test_compression_is_not_offered(live: str) -> None:
    """A megabyte of zeros would fit into a frame of a kilobyte."""
    connection, head = handshake(live, "sec-websocket-extensions: permessage-deflate\r\n")
    with connection:
        assert b"extensions" not in head.lower()
        connection.sendall(frame(BINARY, b"\x62\x60\x00\x00", reserved=0x40))
        assert close_code(connection) == 1002


@pytest.mark.parametrize(
    "flood",
    [frame(PING), frame(PING, b"x" * 125), frame(10), frame(CONTINUATION, final=False), frame(BINARY, bytes(4))],
    ids=["ping", "long ping", "pong", "empty piece", "one sample"],
)
def test_floods_of_frames_are_closed(live: str, flood: bytes) -> None:
    """Nobody reads the answers, which would pile up; others are served meanwhile."""
    connection, _ = handshake(live)
    began = time.monotonic()
    with connection:
        if flood[0] & 15 == CONTINUATION:
            connection.sendall(frame(BINARY, final=False))
        with contextlib.suppress(ConnectionError):
            while True:
                connection.sendall(1000 * flood)
                assert time.monotonic() - began < PATIENCE, "the server takes everything"
    assert is_served(live)


def test_unread_websockets_free_their_slots(live: str) -> None:
    """They speak, and the result fills all buffers on its way to them."""
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            deaf = stack.enter_context(handshake(live, connection=deaf_socket(live))[0])
            deaf.settimeout(0.5)
            with contextlib.suppress(OSError):
                for _ in range(50):
                    deaf.sendall(frame(BINARY, bytes(64_000)))
        assert is_served(live)


def test_client_faster_than_real_time_is_slowed(live: str) -> None:
    """Not ended: a program may send a recording; but others have their turn."""
    connection, _ = handshake(live)
    with connection:
        began = time.monotonic()
        for _ in range(16):
            connection.sendall(frame(BINARY, bytes(64_000)))
        connection.sendall(frame(TEXT, b"end"))
        assert close_code(connection) == 1000
        assert time.monotonic() - began > 1.5  # 16 s of audio at four times real time, of which 2 s are free


def test_websockets_of_other_hosts_and_sites_are_rejected(live: str) -> None:
    assert status(live, "localhost", "/stream", KEY) == 101
    assert status(live, "evil.example", "/stream", KEY) == 403
    assert status(live, "evil.example", "/") == 400
    connection, _ = handshake(live, "origin: http://evil.example\r\n")
    with connection:
        assert close_code(connection) == 1008


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
