"""Websockets with limits: frames a second, and unread data.

Conventions: a message has at most ``Config.ws_max_size`` bytes, in however many frames; compression is not offered.
Applications end sessions in which nothing is said: control frames alone keep no session alive.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, cast

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from voiceveil.apps.web.connections import Connections, Phase, TransferProgress
from voiceveil.apps.web.limits import RateLimit

if TYPE_CHECKING:
    from websockets.frames import Frame

__all__ = ["GuardedWebSocket"]

_SLICE = 4096  # bytes that are parsed at once
_FRAMES = (1000, 2000)  # a second, and at once: ten times what a microphone gives in blocks of 10 ms
_MOST_UNSENT = 1 << 20  # bytes that wait for a client which does not read, answers to its pings among them
_SEND_BUFFER = 1 << 17  # bytes that the system holds for a client: it notices soon who does not read
_CLOSING = 2.0  # seconds that a client has to take leave


class GuardedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's websocket, with limits."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.close_timeout = _CLOSING
        self._state = cast(Connections, server_state)
        self.address = ""
        self.phase: Phase = "working"  # it makes room for no other
        self._frames = RateLimit(*_FRAMES)
        self._flooded = False
        self._outgoing = TransferProgress(self._state.limits, self.loop.time())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the connection."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._state.note(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._state.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse a piece of what the client sends; end the connection if it is a flood."""
        for start in range(0, len(data), _SLICE):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + _SLICE])
            if self._flooded or self.transport.get_write_buffer_size() > _MOST_UNSENT:
                self.transport.abort()
                return

    def expire(self, now: float) -> None:
        """End the connection if the client does not read what it is sent."""
        if self._outgoing.is_unread(now, self.transport.get_write_buffer_size()):
            self.transport.abort()

    def handle_cont(self, event: Frame) -> None:
        """Count a frame."""
        self._count()
        super().handle_cont(event)

    def handle_text(self, event: Frame) -> None:
        """Count a frame."""
        self._count()
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        """Count a frame."""
        self._count()
        super().handle_bytes(event)

    def handle_ping(self) -> None:
        """Count a frame."""
        self._count()
        super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        """Count a frame."""
        self._count()
        super().handle_pong(event)

    def _count(self) -> None:
        self._flooded |= self._frames.wait("") > 0
