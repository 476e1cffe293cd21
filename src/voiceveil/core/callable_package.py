"""Packages that share their name with a public function, such as ``voiceveil.attack`` and ``vv.attack(...)``.

Importing ``voiceveil.attack.engine`` makes Python bind the package as the attribute ``attack`` of ``voiceveil``: a
function of that name would not last there. Instead the package itself is callable and has the function's signature.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["CallablePackage", "make_callable"]


class CallablePackage(ModuleType):
    """A package whose call is that of the function of the same name in :mod:`voiceveil.api`."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function of the same name."""
        return self._function()(*args, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function())

    def _function(self) -> Any:
        return getattr(import_module("voiceveil.api"), self.__name__.rpartition(".")[2])


def make_callable(package: str) -> None:
    """Make the package of this name, which is being imported, callable."""
    sys.modules[package].__class__ = CallablePackage
