"""The host names that a server answers to, so that no other site can reach it under its own name (DNS rebinding).

A page of ``evil.example`` whose name server suddenly answers ``127.0.0.1`` is, for the browser, still the same site:
only the header ``Host`` tells that it has come to the wrong server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING

from voiceveil.core.errors import InputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["HostCheck", "Hosts"]

_HEADER = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::\d{1,5})?", re.ASCII)
_REFUSAL = b"This server is not served under this host name. Its operator can allow it: --allow-host NAME.\n"


class Hosts:
    """The names of a server that listens on ``host``, and those that its operator allows.

    A server on a loopback address is also ``localhost``. One that listens on all addresses answers to every numeric
    address, which no name server can redirect, but to no name that was not allowed.

    >>> hosts = Hosts("127.0.0.1", ["listen.example.org"])
    >>> [hosts.serves(name) for name in ("localhost:8000", "Listen.example.org", "evil.example:8000")]
    [True, True, False]
    """

    def __init__(self, host: str, allowed: Iterable[str] = ()) -> None:
        host = host.lower()
        address = ip_address(host) if _is_numeric(host) else None
        self._all_addresses = host == "" or (address is not None and address.is_unspecified)
        self._names = {host}
        if host == "localhost" or self._all_addresses or (address is not None and address.is_loopback):
            self._names |= {"localhost", "127.0.0.1", "::1"}
        for name in allowed:
            parsed = _parse(name)
            if parsed is None:
                raise InputError(f"--allow-host {name!r} is no host name", fix="give a name such as listen.example.org")
            self._names.add(parsed)

    def serves(self, header: str) -> bool:
        """Return whether a request with this header ``Host`` is meant for the server; its port does not matter."""
        name = _parse(header)
        return name is not None and (name in self._names or (self._all_addresses and _is_numeric(name)))


class HostCheck:
    """Middleware: requests and websockets for other hosts are refused."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it: 400, or 403 for a websocket."""
        named = [value.decode("latin-1") for name, value in scope.get("headers", []) if name == b"host"]
        if scope["type"] not in ("http", "websocket") or (len(named) == 1 and self._hosts.serves(named[0])):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]
            headers.append((b"content-length", str(len(_REFUSAL)).encode()))
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": _REFUSAL})


def _parse(header: str) -> str | None:
    """Return the name of a header ``Host`` in lower case, without its port; None if there is none."""
    match = _HEADER.fullmatch(header.lower())
    if match is None:
        return None
    return match["six"] or match["name"].rstrip(".") or None


def _is_numeric(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
