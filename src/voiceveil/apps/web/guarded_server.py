"""uvicorn's server, which looks after its connections, its file handles and its log."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Any

import uvicorn

from voiceveil.apps.web.connections import ConnectionLimits, Connections
from voiceveil.core.errors import InputError

__all__ = ["GuardedServer", "OncePerMinute", "proxy_test"]

_OUT_OF_HANDLES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LOGGERS = ("uvicorn.error", "asyncio")
_SWEEP = 5  # ticks of 0.1 s between two looks at the connections
_DROPPED = 50  # half-open connections that make room when file handles run out


class OncePerMinute(logging.Filter):
    """Lets the same message pass once a minute, and says how often it was suppressed."""

    def __init__(self, seconds: float = 60.0) -> None:
        super().__init__()
        self._seconds = seconds
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}  # message -> when it passed, suppressed since

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a message is to be written."""
        key = (record.pathname, record.lineno, _origin(record))
        passed, suppressed = self._seen.get(key, (-self._seconds, 0))
        now = time.monotonic()
        if now - passed < self._seconds:
            self._seen[key] = (passed, suppressed + 1)
            return False
        self._seen[key] = (now, 0)
        if suppressed:
            record.msg = f"{record.msg} ({suppressed} more since the last message)"
        return True


def _origin(record: logging.LogRecord) -> tuple[object, ...]:
    """Return the kind of the exception that a message is about, and where it was raised."""
    if not record.exc_info or record.exc_info[0] is None:
        return ()
    kind, _, trace = record.exc_info
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (kind, trace and trace.tb_frame.f_code.co_filename, trace and trace.tb_lineno)


def proxy_test(proxies: str) -> Callable[[str], bool]:
    """Return a function that tells whether an address is one of ``proxies``: addresses, networks, or ``*``; commas."""
    named = [name.strip() for name in proxies.split(",") if name.strip()]
    try:
        networks = [ip_network(name, strict=False) for name in named if name != "*"]
    except ValueError as error:
        fix = "give addresses or networks with commas between them, as 127.0.0.1,10.0.0.0/8"
        raise InputError(f"--proxies {proxies!r}: {error}", fix=fix) from error
    return lambda address: "*" in named or any(ip_address(address) in network for network in networks if address)


class GuardedServer(uvicorn.Server):
    """A server whose connections have limits; ``queue``: connections that the kernel holds until they are accepted."""

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits, proxies: str, *, queue: int) -> None:
        super().__init__(config)
        self._open = Connections(limits, proxy_test(proxies))
        self.server_state = self._open
        self._queue = queue

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until it is told to stop; what clients cause to be logged is logged once a minute."""
        quiet = OncePerMinute()
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(quiet)
        try:
            await super().serve(sockets)
        finally:
            for name in _LOGGERS:
                logging.getLogger(name).removeFilter(quiet)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        asyncio.get_running_loop().set_exception_handler(self._loop_error)
        await super().startup(sockets)
        for bound in sockets or []:
            bound.listen(self._queue)  # asyncio has made the queue as short as what it accepts at once

    async def on_tick(self, counter: int) -> bool:
        """Look after the connections, ten times a second at most; return whether to stop."""
        if counter % _SWEEP == 0:
            self._open.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def _loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _OUT_OF_HANDLES):
            loop.default_exception_handler(context)
            return
        self._open.drop_half_open(_DROPPED)
        logging.getLogger("uvicorn.error").warning(
            "cannot accept connections (%s): unfinished ones are closed to make room; raise `ulimit -n`", error.strerror
        )
