"""The shell of every page that we write: templates that escape what they show, and a policy that allows no script.

Conventions: data is never code. Everything that comes from data is escaped by the template and freed of control
characters; only style sheets and drawings of our own stand in a page as they are.
"""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

__all__ = ["environment", "markup", "style_and_policy"]


def style_and_policy(*sheets: tuple[str, str]) -> tuple[Any, str]:
    """The style of a page that stands alone, and the policy that allows this style, ``data:`` audio and nothing else.

    ``sheets``: (package, file) of style sheets after that of the report.
    """
    every = (("voiceveil.report", "report.css"), *sheets)
    style = "".join((files(package) / "templates" / name).read_text(encoding="utf-8") for package, name in every)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; media-src data:; base-uri 'none'; form-action 'none'"
    return markup(style), policy


def environment(package: str) -> jinja2.Environment:
    """The templates of a package, and ``alone.html``, which pages that stand alone extend.

    ``drawing`` is the filter for drawings of our own.
    """
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package), jinja2.PackageLoader("voiceveil.report")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["drawing"] = markup
    found.finalize = _printable
    return found


def markup(text: str) -> Any:
    """Text that is HTML already: the style sheet and the drawings, never data."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 -- its own parts are escaped where they are made


def _printable(value: Any) -> Any:
    """Control characters of data become the replacement sign: HTML may not hold them, or they turn text around."""
    if isinstance(value, str) and not value.isprintable() and not hasattr(value, "__html__"):
        return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\ufffd" for c in value)
    return value
