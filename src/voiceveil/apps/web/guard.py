"""Protection of every page: security headers on all responses, and a mark in forms that other sites cannot know.

Conventions: pages load scripts, styles and audio from this server alone and nothing inline; nobody may frame them. A
form carries the digest of its session (synchronizer token); requests that a browser says come from another site
are refused.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from voiceveil.apps.web.tokens import Seal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "POLICY", "SecurityHeaders", "form_mark", "is_ours"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class SecurityHeaders:
    """Middleware: puts the headers on every answer; pages are not to be stored unless they say otherwise."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back with the headers."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in present]
                if b"cache-control" not in present:
                    extra.append((b"cache-control", b"no-store"))
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)


def form_mark(seal: Seal, session: str) -> str:
    """Return the mark that a form of this session must carry."""
    return seal.name("form", session, letters=32)


def is_ours(request: Request, seal: Seal, session: str, mark: object) -> bool:
    """Return whether a form was sent by a page of this server in this session."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    return isinstance(mark, str) and hmac.compare_digest(mark.encode(), form_mark(seal, session).encode())
