"""A page to speak into, and the websocket behind it.

Conventions: ``/stream`` takes binary messages of float32 samples, little endian, mono at 16 kHz, at most a second each,
and answers with those that are finished. It says how it fares as JSON once a second, and once more after the text
message ``end``, which makes it send the rest and close. Every connection is a session with a pseudo-speaker of its own.
Nothing is stored, and nothing is logged.
"""

from __future__ import annotations

import asyncio
import importlib.util
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

from voiceveil.anonymization.contract import Anonymizer
from voiceveil.anonymization.draws import Key
from voiceveil.audio import Samples
from voiceveil.errors import InputError
from voiceveil.live.session import Session, Timings
from voiceveil.web.guard import HEADERS, Guard
from voiceveil.web.pages import Pages

__all__ = ["LiveApp", "need_live"]

# This page may listen; no other page of ours may.
_PERMISSIONS = HEADERS["permissions-policy"].replace("microphone=()", "microphone=(self)")
_BAD_DATA, _REFUSED, _FULL = 1007, 1008, 1013  # close codes of RFC 6455 and its registry


def need_live() -> None:
    """An ``InputError`` if the packages of the extra are not installed."""
    if importlib.util.find_spec("websockets") is None:
        raise InputError("websockets not installed", fix="pip install 'voiceveil[live]'")


class LiveApp:
    """Handlers of all addresses; ``most`` sessions at once. With a ``key`` all have the same pseudo-speaker."""

    def __init__(self, system: Anonymizer, *, key: Key | None = None, most: int = 20) -> None:
        self._system, self._key, self._most = system, key, most
        self._sessions = 0
        self._pages = Pages("voiceveil.live")
        first = Session(system)
        first.push(np.zeros(system.rate, dtype=np.float32))  # compiled before anybody speaks
        self._latency = round(1e3 * first.latency)

    def starlette(self) -> Starlette:
        """The application with its routes."""
        routes = [
            Route("/", self.page),
            Route("/static/{name}", self.static),
            WebSocketRoute("/stream", self.stream),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Guard)])

    async def page(self, request: Request) -> Response:
        """The page to speak into."""
        context = {"system": self._system.name, "rate": self._system.rate, "latency": self._latency}
        answer = self._pages.page("live.html", context)
        answer.headers["permissions-policy"] = _PERMISSIONS
        return answer

    async def static(self, request: Request) -> Response:
        """Styles and scripts."""
        found = self._pages.static(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return found

    async def stream(self, socket: WebSocket) -> None:
        """One session, from the first block to ``end``."""
        await socket.accept()
        if not _is_ours(socket):
            await socket.close(_REFUSED, "a page of another site")
        elif self._sessions >= self._most:
            await socket.close(_FULL, "too many sessions; try again later")
        else:
            self._sessions += 1
            try:
                await self._converse(socket, Session(self._system, self._key))
            except WebSocketDisconnect:
                pass  # they have left
            except InputError as error:
                await socket.close(_BAD_DATA, error.what[:120])
            finally:
                self._sessions -= 1

    async def _converse(self, socket: WebSocket, session: Session) -> None:
        told = time.monotonic()
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes")
            if data is None:
                break
            finished = session.push(_samples(data, session.rate))
            await _send(socket, finished)
            await asyncio.sleep(0)  # a turn for the others
            if time.monotonic() - told >= 1.0:
                told = time.monotonic()
                await _send(socket, session.timings)
        if message.get("text") != "end":
            raise InputError("a text that is not `end`")
        await _send(socket, session.close())
        await _send(socket, session.timings)
        await socket.close()


async def _send(socket: WebSocket, what: Samples | Timings) -> None:
    try:
        if isinstance(what, Timings):
            await socket.send_text(json.dumps(what.as_dict()))
        elif len(what):
            await socket.send_bytes(what.astype("<f4").tobytes())
    except RuntimeError as error:  # they left while their last blocks were converted
        raise WebSocketDisconnect from error


def _samples(data: bytes, rate: int) -> Samples:
    if len(data) % 4 or len(data) > 4 * rate:
        raise InputError(f"a message of {len(data)} bytes: float32, at most a second, is expected")
    return np.frombuffer(data, "<f4").astype(np.float32)


def _is_ours(socket: WebSocket) -> bool:
    """Programs name no origin; browsers do, and a page of another site shall not listen through this server."""
    origin = socket.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == socket.headers.get("host", "")
