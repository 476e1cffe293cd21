"""Plain sockets against a server: what a hostile client does with them."""

from __future__ import annotations

import socket

from tests.faults.test_hostile_clients import connect
from voiceveil.apps.web.connections import ConnectionLimits

#: Short times, so that the tests are quick; a piece of 250 bytes must come or go in half a second.
QUICK = ConnectionLimits(total=40, per_address=30, header_seconds=0.5, idle_seconds=0.5, stall_seconds=0.5, slowest=500)


PATIENCE = 20.0  # seconds until a test fails: machines can be busy


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


def status(address: str, host: str, path: str = "/static/report.css", extra: str = "") -> int:
    """Return the status of a request for a host."""
    with connect(address) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n{extra}\r\n".encode())
        return int(connection.recv(12)[9:12])
