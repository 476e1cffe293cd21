"""Names of a package that are imported when they are first used, so that ``import voiceveil`` costs almost nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_exports"]


def lazy_exports(package: str, home: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` (PEP 562) of a package whose public names live in other modules.

    Parameters
    ----------
    package
        Name of the package, for the error message.
    home
        Public name -> module that defines it.

    Examples
    --------
    >>> get, names = lazy_exports("voiceveil", {"InputError": "voiceveil.core.errors"})
    >>> get("InputError").__name__, names()
    ('InputError', ['InputError'])
    """

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return get, lambda: sorted(home)
