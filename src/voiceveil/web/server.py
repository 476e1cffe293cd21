"""Serves an application until it is stopped.

Conventions: no request is logged: addresses of evaluators are nobody's business. A port of 0 is a free one.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from voiceveil.errors import InputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["INSTALL", "listening_socket", "need_web", "serve"]

INSTALL = "pip install 'voiceveil[web]'"


def need_web() -> None:
    """An ``InputError`` if the packages of the extra are not installed."""
    missing = [name for name in ("starlette", "uvicorn", "itsdangerous") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"{', '.join(missing)} not installed", fix=INSTALL)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that clients can already connect to."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Named as TCP, without which asyncio lets small answers wait 40 ms for an acknowledgement (no TCP_NODELAY).
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(1024)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on {host} port {port}: {error}", fix="choose another --port") from error
    return bound


def serve(app: ASGIApp, bound: socket.socket, *, proxies: str = "", ready: Callable[[], None] | None = None) -> None:
    """Serve until Ctrl-C or SIGTERM; ``proxies``: whose word on the client's address is taken (addresses, commas)."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies or None,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        lifespan="off",
    )
    if ready is not None:
        ready()
    uvicorn.Server(config).run(sockets=[bound])
