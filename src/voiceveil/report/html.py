"""The templates of all pages of this package: they escape their content, and their policy (CSP) allows no script.

Conventions: data is never code. Everything that comes from data is escaped by the template, and its control characters
are replaced; only the package's own style sheets and drawings are inserted as they are.
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


def style_and_policy(*sheets: tuple[str, str], images: bool = False) -> tuple[Any, str]:
    """Return the style of a self-contained page, and the policy that allows this style and ``data:`` audio alone.

    Parameters
    ----------
    *sheets
        (package, file name) of style sheets that follow that of the report.
    images
        Allow ``data:`` images as well.
    """
    sheets = (("voiceveil.report", "report.css"), *sheets)
    style = "".join((files(package) / "templates" / name).read_text(encoding="utf-8") for package, name in sheets)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    pictures = "img-src data:; " if images else ""
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; media-src data:; {pictures}"
    policy += "base-uri 'none'; form-action 'none'"
    return markup(style), policy


def environment(package: str) -> jinja2.Environment:
    """Return the templates of a package and of the report.

    Self-contained pages extend ``alone.html``. The filter ``drawing`` inserts the package's own SVG unescaped.
    """
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package), jinja2.PackageLoader("voiceveil.report")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["drawing"] = markup
    templates.finalize = _printable
    return templates


def markup(text: str) -> Any:
    """Mark text as HTML that needs no escaping: style sheets and drawings, never data."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 -- data inside of drawings was escaped by report.svg.text


def _printable(value: Any) -> Any:
    """Replace control characters of data, which HTML forbids or which change the direction of text."""
    if isinstance(value, str) and not value.isprintable() and not hasattr(value, "__html__"):
        return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\ufffd" for c in value)
    return value
