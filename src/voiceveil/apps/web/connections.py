"""Connections to a server without a proxy: how many, and how long each may take.

Conventions: times are seconds, sizes bytes, both per connection. A connection is in one of five phases:

==========  ==================================================================  ========================================
phase       meaning                                                             limit
==========  ==================================================================  ========================================
headers     nothing, or a part of a request's headers, has come (*half-open*)   ``header_seconds`` in all
body        the headers are there, the body is coming                           ``slowest`` bytes a second
working     the request is complete, the application works or answers           none for the application
idle        the last response is complete, no new request has begun             ``idle_seconds``
discarding  the response is complete, but the client goes on sending its body   ``header_seconds`` in all
==========  ==================================================================  ========================================

In every phase a client must take what is sent to it at ``slowest`` bytes a second at least. Rates are averaged over
``stall_seconds``. If there are too many connections, the one that has waited longest makes room: first of those that
are half-open or discarded, then of those that are idle; if all others are at work, the new one is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Any, Literal, Protocol, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

__all__ = ["ConnectionLimits", "Connections", "GuardedHttp", "TransferProgress", "source_of"]

Phase = Literal["headers", "body", "working", "idle", "discarding"]
_RANKS: dict[Phase, int] = {"headers": 0, "discarding": 0, "idle": 1, "body": 2, "working": 2}  # 0 makes room first

_SLICE = 4096  # bytes that are parsed at once: a large block of tiny pieces must not hold up the others
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_NO_LENGTH = b"HTTP/1.1 411 Length Required\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits of one server process."""

    total: int = 1000
    per_address: int = 300
    header_seconds: float = 10.0
    idle_seconds: float = 30.0
    stall_seconds: float = 20.0
    slowest: int = 500  # bytes a second


def source_of(address: str) -> str:
    """Return what the limit of an address counts: an IPv4 address, or the network of an IPv6 one (one customer's).

    >>> source_of("192.0.2.1"), source_of("2001:db8::1:2:3"), source_of("::ffff:192.0.2.1")
    ('192.0.2.1', '2001:db8::/64', '192.0.2.1')
    """
    if ":" not in address:
        return address
    numeric = IPv6Address(address)
    return str(numeric.ipv4_mapped or IPv6Network((numeric, 64), strict=False))


class TransferProgress:
    """Tell whether an amount of bytes grows too slowly, averaged over ``stall_seconds``."""

    def __init__(self, limits: ConnectionLimits, now: float) -> None:
        self._limits = limits
        self.restart(now, 0)

    def restart(self, now: float, amount: int) -> None:
        """Begin to measure."""
        self._since, self._amount = now, amount

    def is_too_slow(self, now: float, amount: int) -> bool:
        """Return whether less came than must come, once ``stall_seconds`` are over."""
        if now - self._since < self._limits.stall_seconds:
            return False
        gained = amount - self._amount
        self.restart(now, amount)
        return gained < self._limits.slowest * self._limits.stall_seconds

    def is_unread(self, now: float, unsent: int) -> bool:
        """Return whether a client takes its data too slowly: ``unsent`` bytes wait for it."""
        if unsent == 0 or -unsent < self._amount:  # all is sent, or the application has added something
            self.restart(now, -unsent)
            return False
        return self.is_too_slow(now, -unsent)


class Watched(Protocol):
    """A connection as :class:`Connections` sees it."""

    address: str
    transport: asyncio.Transport
    phase: Phase

    def expire(self, now: float) -> None:
        """End the connection if it has exceeded a limit."""


class _Ranked:
    """Connections by rank; within a rank, the one that has been there longest comes first."""

    def __init__(self) -> None:
        self.ranks: tuple[dict[Watched, None], ...] = ({}, {}, {})

    def __len__(self) -> int:
        return sum(len(rank) for rank in self.ranks)

    def least_needed(self, newest: Watched) -> Watched:
        """Return the connection that is to make room."""
        waiting = (connection for rank in self.ranks[:2] for connection in rank if connection is not newest)
        return next(waiting, newest)


class Connections(ServerState):
    """The open connections of a server; ``is_proxy``: addresses without a limit of their own."""

    def __init__(self, limits: ConnectionLimits, is_proxy: Callable[[str], bool] = lambda address: False) -> None:
        super().__init__()
        self.limits = limits
        self._is_proxy = is_proxy
        self._rank: dict[Watched, int] = {}
        self._all = _Ranked()
        self._by_source: dict[str, _Ranked] = {}

    def note(self, connection: Watched) -> None:
        """Note a connection, or that its phase has changed."""
        rank = _RANKS[connection.phase]
        if self._rank.get(connection) != rank:
            self.forget(connection)
            self._rank[connection] = rank
            for group in (self._all, self._by_source.setdefault(source_of(connection.address), _Ranked())):
                group.ranks[rank][connection] = None

    def forget(self, connection: Watched) -> None:
        """Forget a connection; nothing happens if it is not known any more."""
        rank = self._rank.pop(connection, None)
        if rank is not None:
            source = source_of(connection.address)
            for group in (self._all, self._by_source[source]):
                del group.ranks[rank][connection]
            if not self._by_source[source]:
                del self._by_source[source]

    def admit(self, connection: Watched) -> None:
        """Note a new connection; if there are too many now, end the one that is needed least."""
        self.note(connection)
        same = self._by_source[source_of(connection.address)]
        if len(same) > self.limits.per_address and not self._is_proxy(connection.address):
            self._drop(same.least_needed(connection))
        if len(self._all) > self.limits.total:
            self._drop(self._all.least_needed(connection))

    def drop_half_open(self, count: int) -> None:
        """End the half-open connections that have waited longest, at most ``count``."""
        for connection in list(self._all.ranks[0])[:count]:
            self._drop(connection)

    def sweep(self, now: float) -> None:
        """End all connections that have exceeded a limit."""
        for connection in list(self._rank):
            connection.expire(now)

    def _drop(self, connection: Watched) -> None:
        self.forget(connection)
        connection.transport.abort()


class GuardedHttp(H11Protocol):
    """uvicorn's HTTP/1.1, with the limits above; bodies need a ``Content-Length``."""

    server_state: Connections

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.address = ""
        self._limits = self.server_state.limits
        now = self.loop.time()
        self.phase: Phase = "headers"
        self._since = now  # when the phase began
        self._received = 0
        self._refused = False  # what else comes is not even parsed
        self._incoming, self._outgoing = TransferProgress(self._limits, now), TransferProgress(self._limits, now)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection."""
        super().connection_made(cast(asyncio.Transport, transport))
        self.address = self.client[0] if self.client else ""
        self.server_state.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.server_state.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse a piece of what the client sends."""
        for start in range(0, len(data), _SLICE):
            if self._refused:
                return
            self._received += min(_SLICE, len(data) - start)
            super().data_received(data[start : start + _SLICE])
            if self.transport.is_closing() or self.transport.get_protocol() is not self:  # it is a websocket now
                return
            self._note()
            if self.phase == "working" and self.flow.read_paused and start + _SLICE < len(data):
                self.transport.abort()  # requests ahead of their turn, which would be parsed all at once
                return

    def on_response_complete(self) -> None:
        """Begin the next request, or wait for it."""
        super().on_response_complete()
        self._note()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to the protocol of websockets, which counts it itself."""
        self.server_state.forget(self)
        super().handle_websocket_upgrade(event)

    def _current_phase(self) -> Phase:
        if self._refused:
            return "discarding"
        client_state = self.conn.their_state
        if client_state is h11.IDLE:
            begun = self.cycle is None or bool(self.conn.trailing_data[0])
            return "headers" if begun else "idle"
        if client_state is h11.SEND_BODY:
            return "discarding" if self.cycle.response_complete else "body"
        return "working"

    def expire(self, now: float) -> None:
        """End the connection if it has exceeded a limit."""
        unsent = self.transport.get_write_buffer_size()
        if self._outgoing.is_unread(now, unsent):
            self.transport.abort()
        elif self.transport.is_closing():
            return  # when all is sent
        elif unsent and self.phase == "idle":
            self._since = now
        elif self._is_overdue(now):
            if self.phase == "discarding":
                self.transport.abort()
                return
            if self.phase == "headers" or (self.phase == "body" and not self.cycle.response_started):
                self.transport.write(_TIMEOUT)
            self.transport.close()

    def _is_overdue(self, now: float) -> bool:
        if self.phase == "working":
            return False
        if self.phase == "body":
            if self.flow.read_paused:  # the application does not keep up: not the client's fault
                self._incoming.restart(now, self._received)
            return self._incoming.is_too_slow(now, self._received)
        return now - self._since >= (self._limits.idle_seconds if self.phase == "idle" else self._limits.header_seconds)

    def _note(self) -> None:
        """Notice that a phase begins."""
        phase = self._current_phase()
        if phase != self.phase and not self.transport.is_closing():
            self.phase, self._since = phase, self.loop.time()
            self.server_state.note(self)
            self._incoming.restart(self._since, self._received)
            if phase in ("body", "working") and any(name == b"transfer-encoding" for name, _ in self.headers):
                self._refuse()

    def _refuse(self) -> None:
        """Refuse a body in pieces: those of one byte each cost far more to parse than to send. No form needs them."""
        self._refused, self.phase = True, "discarding"
        self.server_state.note(self)
        self.cycle.disconnected = True  # for the application
        self.cycle.message_event.set()
        self.transport.write(_NO_LENGTH)
        self.transport.write_eof()
