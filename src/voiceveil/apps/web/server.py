"""Serve an application until it is stopped, also without a proxy in front of it.

Conventions: requests are not logged, to protect the addresses of evaluators. Messages that clients can cause are logged
once a minute at most. Port 0 stands for any free port.
"""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from typing import TYPE_CHECKING

from voiceveil.apps.web.hosts import HostCheck, Hosts
from voiceveil.core.errors import InputError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from voiceveil.apps.web.connections import ConnectionLimits

__all__ = ["build_server", "connection_limits", "listening_socket", "need_web", "serve"]

_QUEUE = 1024  # connections that the kernel holds until they are accepted
_BATCH = 64  # connections that are accepted at once, before one of them is counted
_OTHER_FILES = 128  # file handles for everything that is no connection: databases, recordings, uploads
_LARGEST_HEADERS = 16_384  # bytes


def need_web(*packages: str, extra: str = "web") -> None:
    """Raise an ``InputError`` that names the extra if some of the packages (default: all of ``web``) are missing."""
    wanted = packages or ("starlette", "uvicorn", "itsdangerous")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"{', '.join(missing)} not installed", fix=f"pip install 'voiceveil[{extra}]'")


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that clients can already connect to."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Named as TCP, without which asyncio lets small answers wait 40 ms for an acknowledgement (no TCP_NODELAY).
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_QUEUE)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"cannot listen on {host} port {port}: {error}", fix="choose another --host or --port"
        ) from error
    return bound


def connection_limits() -> ConnectionLimits:
    """Return the usual limits, with fewer connections where the process may open few files (``ulimit -n``)."""
    import resource

    from voiceveil.apps.web.connections import ConnectionLimits

    usual = ConnectionLimits()
    handles = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if handles == resource.RLIM_INFINITY:
        return usual
    total = max(16, min(usual.total, handles - _BATCH - _OTHER_FILES))
    return ConnectionLimits(total=total, per_address=min(usual.per_address, max(8, total // 2)))


def build_server(
    app: ASGIApp,
    hosts: Hosts,
    *,
    proxies: str = "",
    message_bytes: int | None = None,
    limits: ConnectionLimits | None = None,
) -> uvicorn.Server:
    """Return a server of an application.

    Parameters
    ----------
    app
        The application.
    hosts
        Host names that it answers to.
    proxies
        Addresses, separated by commas, of proxies whose headers about the client's address are trusted.
    message_bytes
        Largest message of a websocket; None for an application without websockets.
    limits
        Limits of connections.
    """
    import uvicorn

    from voiceveil.apps.web.connections import GuardedHttp
    from voiceveil.apps.web.guarded_server import GuardedServer

    chosen = limits or connection_limits()
    config = uvicorn.Config(
        HostCheck(app, hosts),
        http=GuardedHttp,
        ws="none" if message_bytes is None else _websocket_class(),
        ws_max_size=message_bytes or 0,
        ws_per_message_deflate=False,
        ws_ping_interval=None,  # applications end silent sessions; a pong may wait behind much audio
        log_level="warning",
        use_colors=False,  # what is printed is escaped, see voiceveil.core.terminal
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies or None,
        timeout_keep_alive=int(chosen.idle_seconds) + 1,  # GuardedHttp is first
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=_LARGEST_HEADERS,
        backlog=_BATCH,
        lifespan="off",
    )
    return GuardedServer(config, chosen, proxies, queue=_QUEUE)


def serve(
    app: ASGIApp, bound: socket.socket, hosts: Hosts, *, proxies: str = "", message_bytes: int | None = None
) -> None:
    """Serve until Ctrl-C or SIGTERM; see :func:`build_server`."""
    build_server(app, hosts, proxies=proxies, message_bytes=message_bytes).run(sockets=[bound])


def _websocket_class() -> type[asyncio.Protocol]:
    from voiceveil.apps.web.websockets import GuardedWebSocket

    return GuardedWebSocket
