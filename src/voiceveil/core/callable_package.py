"""Packages that share their name with a public function, such as ``voiceveil.systems`` and ``vv.systems()``.

Importing ``voiceveil.systems.contract`` makes Python bind the package as the attribute ``systems`` of ``voiceveil``,
where it would replace a function of that name. Instead the package itself is callable, with the signature and the
documentation of the function.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["CallablePackage", "make_callable"]


class CallablePackage(ModuleType):
    """A package that can be called as a function."""

    call: Callable[..., Any]

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function."""
        return self.call(*args, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.call)


def make_callable(package: str, function: Callable[..., Any]) -> None:
    """Make a package callable as ``function``; called while the package is imported.

    Parameters
    ----------
    package
        Full name of the package.
    function
        The function; ``help(package)`` shows its signature and docstring.
    """
    module = sys.modules[package]
    module.__class__ = CallablePackage
    module.__dict__["call"] = function
    summary, _, rest = (inspect.getdoc(function) or "").partition("\n")
    parameters = list(inspect.signature(function).parameters.values())
    lines = [str(parameter) for parameter in parameters]
    if any(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters):
        lines.insert(sum(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters), "*")
    module.__doc__ = "\n".join([summary, "", f"{package}(", *(f"    {line}," for line in lines), ")", rest])
