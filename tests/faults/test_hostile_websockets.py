"""Hostile websockets of `voiceveil live --serve`: silent, flooding, unread, and those of other sites."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator

import numpy as np
import pytest

from tests.faults.test_hostile_clients import connect
from tests.support.listen_world import running
from tests.support.sockets import PATIENCE, QUICK, deaf_socket, read, read_head, status


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


PING, TEXT, BINARY, CONTINUATION = 9, 1, 2, 0  # kinds of frames


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
