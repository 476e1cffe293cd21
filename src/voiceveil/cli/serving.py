"""Options and output that all verbs share which serve pages: `listen serve`, `board serve`, `live --serve`."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from voiceveil.core.terminal import print_lines

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

__all__ = ["add_serving_arguments", "bound_socket", "serve_app"]


def add_serving_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a server."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=int,
        default=8000,
        metavar="N",
        help="port to listen on, 0 for any free one (default: %(default)s)",
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="host name under which clients reach the server, e.g. that of a proxy; may be given several times "
        "(default: only the address that it listens on, and localhost where that is this machine)",
    )  # fmt: skip
    parser.add_argument(
        "--proxies", default="", metavar="ADDRESSES", help="reverse proxies whose X-Forwarded-* headers are trusted"
    )


def bound_socket(args: argparse.Namespace) -> AbstractContextManager[socket.socket]:
    """Return the socket of a server; its options are checked."""
    from voiceveil.apps.web.guarded_server import proxy_test
    from voiceveil.apps.web.hosts import Hosts
    from voiceveil.apps.web.server import listening_socket

    Hosts(args.host, args.allow_host)
    proxy_test(args.proxies)
    return listening_socket(args.host, args.port)


def serve_app(
    args: argparse.Namespace, app: ASGIApp, bound: socket.socket, announce: str, *, message_bytes: int | None = None
) -> None:
    """Print where the server listens, after ``announce``, and serve until Ctrl-C."""
    from voiceveil.apps.web.hosts import Hosts
    from voiceveil.apps.web.server import serve

    host, port = bound.getsockname()[:2]
    print_lines(f"{announce} http://{f'[{host}]' if ':' in host else host}:{port} (Ctrl-C ends)")
    serve(app, bound, Hosts(args.host, args.allow_host), proxies=args.proxies, message_bytes=message_bytes)
