"""Templates, static files and ranges of files for web applications.

Conventions: everything that a template shows is escaped; files are read once, and only those that were there at the
start are served, by their plain names: an address never becomes a path.
"""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from voiceveil.report.html import environment

if TYPE_CHECKING:
    import jinja2
    from starlette.responses import Response

__all__ = ["Pages", "ranged"]

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Pages:
    """The templates and static files of a package (in its ``templates`` and ``static``), and the shared style."""

    def __init__(self, package: str) -> None:
        self._environment: jinja2.Environment = environment(package)
        self._static = {"report.css": (files("voiceveil.report") / "templates" / "report.css").read_bytes()}
        for owner in ("voiceveil.apps.web", package):
            for file in (files(owner) / "static").iterdir():
                self._static[file.name] = file.read_bytes()
        version = hashlib.sha256(b"".join(self._static[name] for name in sorted(self._static))).hexdigest()[:12]
        self._environment.globals["static"] = lambda name: f"/static/{self._known(name)}?{version}"

    def page(self, template: str, context: dict[str, Any], *, status: int = 200) -> Response:
        """Return a page: the template, rendered with ``context``."""
        from starlette.responses import HTMLResponse

        return HTMLResponse(self._environment.get_template(template).render(context), status)

    def static(self, name: str) -> Response | None:
        """Return a static file, or None if there is none of this name."""
        from starlette.responses import Response

        if name not in self._static:
            return None
        kind = _TYPES.get(name[name.rfind(".") :], "application/octet-stream")
        return Response(self._static[name], headers={"content-type": kind, "cache-control": "public, max-age=31536000"})

    def _known(self, name: str) -> str:
        if name not in self._static:
            raise KeyError(name)
        return name


def ranged(data: bytes, asked: str | None, media_type: str, cache: str) -> Response:
    """Return a response with all of ``data``, or with the one range that was asked for (RFC 9110, section 14).

    Parameters
    ----------
    data
        The whole file.
    asked
        The header ``Range`` of the request; anything but a single valid range of bytes is ignored.
    media_type, cache
        The headers ``Content-Type`` and ``Cache-Control`` of the response.
    """
    from starlette.responses import Response

    headers = {"accept-ranges": "bytes", "cache-control": cache}
    match = _RANGE.fullmatch(asked or "")
    if match is None or match[0] == "bytes=-":
        return Response(data, 200, headers, media_type)
    size = len(data)
    if match[1]:
        first, last = int(match[1]), min(int(match[2] or size - 1), size - 1)
    else:  # a suffix: the last bytes
        first, last = max(0, size - int(match[2])), size - 1
    if match[1] and match[2] and int(match[2]) < int(match[1]):  # invalid: ignored
        return Response(data, 200, headers, media_type)
    if first > last:
        return Response(b"", 416, {**headers, "content-range": f"bytes */{size}"}, media_type)
    headers["content-range"] = f"bytes {first}-{last}/{size}"
    return Response(data[first : last + 1], 206, headers, media_type)
