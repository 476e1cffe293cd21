"""A page to speak into, and the websocket behind it.

Conventions: ``/stream`` takes binary messages of float32 samples, little endian, mono at 16 kHz, at most a second each,
and answers with those that are finished. It says how it fares as JSON once a second, and once more after the text
message ``end``, which makes it send the rest and close. Every connection is a session with a pseudo-speaker of its own.
A session in which nothing is sent, or its result not read, for ``silence`` seconds is ended. A client that sends faster
than four times real time, or more than 200 messages a second, is slowed down. Nothing is stored, and nothing is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from urllib.parse import urlsplit

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from voiceveil.apps.live.session import Session, Timings
from voiceveil.apps.web.guard import HEADERS, SecurityHeaders
from voiceveil.apps.web.pages import Pages
from voiceveil.audio import Samples
from voiceveil.core.errors import InputError
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.keys import Key

__all__ = ["LiveApp", "largest_message"]

# This page may listen; no other page of ours may.
_PERMISSIONS = HEADERS["permissions-policy"].replace("microphone=()", "microphone=(self)")
_NORMAL, _BAD_DATA, _REFUSED, _FULL = 1000, 1007, 1008, 1013  # close codes of RFC 6455 and its registry
_SILENCE = 30.0  # seconds
_FASTEST = 4.0  # times real time
_MOST_MESSAGES = 200  # a second: twice what the page sends
_AHEAD = 2.0  # seconds that a client may be ahead of both before it is slowed down


def largest_message(system: Anonymizer) -> int:
    """Return the largest message of a client in bytes: one second of float32 samples."""
    return 4 * system.rate


class LiveApp:
    """Handlers of all addresses; ``most`` sessions at once. With a ``key`` all have the same pseudo-speaker."""

    def __init__(
        self, system: Anonymizer, *, key: Key | None = None, most: int = 20, silence: float = _SILENCE
    ) -> None:
        self._system, self._key, self._most, self._silence = system, key, most, silence
        self._sessions = 0
        self._pages = Pages("voiceveil.apps.live")
        first = Session(system)
        first.push(np.zeros(system.rate, dtype=np.float32))  # compiled before anybody speaks
        self._latency = round(1e3 * first.latency)

    def starlette(self) -> Starlette:
        """Return the application with its routes."""
        routes = [
            Route("/", self.page),
            Route("/static/{name}", self.static),
            WebSocketRoute("/stream", self.stream),
        ]
        return Starlette(routes=routes, middleware=[Middleware(SecurityHeaders)])

    async def page(self, request: Request) -> Response:
        """Return the page to speak into."""
        context = {"system": self._system.name, "rate": self._system.rate, "latency": self._latency}
        answer = self._pages.page("live.html", context)
        answer.headers["permissions-policy"] = _PERMISSIONS
        return answer

    async def static(self, request: Request) -> Response:
        """Return a style sheet or script."""
        response = self._pages.static(request.path_params["name"])
        if response is None:
            raise HTTPException(404)
        return response

    async def stream(self, socket: WebSocket) -> None:
        """Run one session, from the first block to ``end``."""
        await socket.accept()
        if not _is_ours(socket):
            await _close(socket, _REFUSED, "opened by a page of another site")
        elif self._sessions >= self._most:
            await _close(socket, _FULL, "too many sessions; try again later")
        else:
            self._sessions += 1
            try:
                code, reason = await self._outcome(socket)
            finally:
                self._sessions -= 1
            await _close(socket, code, reason)

    async def _outcome(self, socket: WebSocket) -> tuple[int, str]:
        """Run one session; return the code and the reason with which it is to be closed."""
        try:
            await self._converse(socket, Session(self._system, self._key))
        except WebSocketDisconnect:
            pass  # they have left
        except TimeoutError:
            return _REFUSED, f"nothing was sent or read for {self._silence:g} s"
        except InputError as error:
            return _BAD_DATA, error.what[:120]
        return _NORMAL, ""

    async def _converse(self, socket: WebSocket, session: Session) -> None:
        reported = began = time.monotonic()
        used = 0.0  # seconds of the client's allowance
        while True:
            async with asyncio.timeout(self._silence):
                message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes")
            if data is None:
                break
            samples = _samples(data, session.rate)
            used += max(len(samples) / session.rate / _FASTEST, 1 / _MOST_MESSAGES)
            await self._send(socket, session.push(samples))
            # A turn for the others; meanwhile nothing is read from a client that is too fast.
            now = time.monotonic()
            used = max(used, now - began)
            await asyncio.sleep(max(0.0, began + used - now - _AHEAD))
            if now - reported >= 1.0:
                reported = now
                await self._send(socket, session.timings)
        if message.get("text") != "end":
            raise InputError("the only text message allowed is `end`")
        await self._send(socket, session.close())
        await self._send(socket, session.timings)

    async def _send(self, socket: WebSocket, content: Samples | Timings) -> None:
        async with asyncio.timeout(self._silence):
            await _send(socket, content)


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # they have left
        await socket.close(code, reason)


async def _send(socket: WebSocket, content: Samples | Timings) -> None:
    try:
        if isinstance(content, Timings):
            await socket.send_text(json.dumps(content.as_dict()))
        elif len(content):
            await socket.send_bytes(content.astype("<f4").tobytes())
    except RuntimeError as error:  # they left while their last blocks were converted
        raise WebSocketDisconnect from error


def _samples(data: bytes, rate: int) -> Samples:
    if len(data) % 4 or len(data) > 4 * rate:
        raise InputError(f"a message of {len(data)} bytes: send float32 samples, at most one second of them")
    return np.frombuffer(data, "<f4").astype(np.float32)


def _is_ours(socket: WebSocket) -> bool:
    """Return whether our page or a program (which names no origin) opened the socket, not another site."""
    origin = socket.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == socket.headers.get("host", "")
