"""Packages that share their name with a public function, such as ``voiceveil.systems`` and ``vv.systems()``.

Importing ``voiceveil.systems.contract`` makes Python bind the package as the attribute ``systems`` of ``voiceveil``: a
function of that name would not last there. Instead the package itself is callable and has the function's signature.
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
    """Make the package of this name, which is being imported, callable as ``function``."""
    module = sys.modules[package]
    module.__class__ = CallablePackage
    module.__dict__["call"] = function
