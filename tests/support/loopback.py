"""A guard that keeps the tests off the network: only loopback and unix sockets can be reached.

It replaces ``connect``, ``connect_ex``, ``sendto`` and ``sendmsg`` of ``socket.socket`` and the look-up of names in
``socket``; TLS sockets, asyncio, urllib, http.client and requests go through these. Workers of pytest-xdist are
covered: each runs the session's fixtures itself.

Not covered: subprocesses (a browser, ``voiceveil`` started as a program, PostgreSQL), C libraries that open sockets of
their own (libpq), and code that goes to the module ``_socket`` directly. Listening is not hindered either.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

import pytest

NAMES = frozenset({"", "localhost"})
LOOKUPS = ("getaddrinfo", "gethostbyname", "gethostbyname_ex")


class NetworkBlocked(RuntimeError):
    """A test tried to reach another machine; not an OSError, so that it is not taken for a failing network."""


def _text(host: object) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes | bytearray) else str(host)


def _check_address(family: int, address: Any) -> None:
    """Refuse an address that is not on this machine; a name that is not ``localhost`` would have to be looked up."""
    if family == socket.AF_UNIX:
        return
    host = _text(address[0]) if isinstance(address, tuple) and address else ""
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise NetworkBlocked(f"tests reach loopback and unix sockets only, not {address!r}")


def _check_name(host: object) -> None:
    """Refuse to ask a name server. A numeric address needs none, and ``None`` is this machine."""
    if host is None or _text(host) in NAMES:
        return
    try:
        ip_address(_text(host))
    except ValueError:
        raise NetworkBlocked(f"tests look up no names but localhost, not {host!r}") from None


def _guarded(method: Callable[..., Any], place: int | None) -> Callable[..., Any]:
    """``method`` of a socket, whose argument number ``place`` is the address (None: the last one of several)."""

    def call(self: socket.socket, *arguments: Any) -> Any:
        position = len(arguments) - 1 if place is None else place
        if position < len(arguments) and arguments[position] is not None:
            _check_address(self.family, arguments[position])
        return method(self, *arguments)

    return call


def _looked_up(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(host: Any, *arguments: Any, **options: Any) -> Any:
        _check_name(host)
        return function(host, *arguments, **options)

    return call


@contextmanager
def loopback_only() -> Iterator[None]:
    """Allow Python code of this process to connect and send to loopback and unix sockets only."""
    with pytest.MonkeyPatch.context() as patch:
        for name, place in (("connect", 0), ("connect_ex", 0), ("sendto", None), ("sendmsg", 3)):
            patch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name), place))
        for name in LOOKUPS:
            patch.setattr(socket, name, _looked_up(getattr(socket, name)))
        yield
