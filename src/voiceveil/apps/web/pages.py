"""Templates and static files of a web application.

Conventions: everything that a template shows is escaped; files are read once, and only those that were there at the
start are served, by their plain names: an address never becomes a path.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from voiceveil.report.html import environment

if TYPE_CHECKING:
    import jinja2
    from starlette.responses import Response

__all__ = ["Pages"]

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
        """A page."""
        from starlette.responses import HTMLResponse

        return HTMLResponse(self._environment.get_template(template).render(context), status)

    def static(self, name: str) -> Response | None:
        """A static file; None if there is no such."""
        from starlette.responses import Response

        if name not in self._static:
            return None
        kind = _TYPES.get(name[name.rfind(".") :], "application/octet-stream")
        return Response(self._static[name], headers={"content-type": kind, "cache-control": "public, max-age=31536000"})

    def _known(self, name: str) -> str:
        if name not in self._static:
            raise KeyError(name)
        return name
