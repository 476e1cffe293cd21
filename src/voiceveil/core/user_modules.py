"""Import modules that the user names as MODULE:CLASS from the working directory, and nothing else from there.

The working directory is never on ``sys.path``: files beside the recordings may be planted. A named module is loaded
from its own file. It can import installed packages, and, if it belongs to a package (a folder with ``__init__.py``),
the other modules of that package. Worker processes load the same files by :func:`with_named_modules`.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from voiceveil.core.errors import InputError

__all__ = ["import_named", "installed_modules", "with_named_modules"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Name of each top-level module that was loaded from a file -> the folder it was found in.
_folders: dict[str, str] = {}


def import_named(name: str) -> ModuleType:
    """Import ``name`` (dots allowed) from the working directory, or else from the installed packages.

    Raises
    ------
    InputError
        If it is found nowhere, fails while it is imported, or has the name of another module.
    """
    try:
        _load_from(str(Path.cwd()), name.partition(".")[0])
        return importlib.import_module(name)
    except InputError:
        raise
    except Exception as error:  # anything can happen while a module is imported
        fix = "give MODULE:CLASS, with MODULE in the working directory or installed"
        if isinstance(error, ModuleNotFoundError) and error.name not in name.split("."):
            fix = "only MODULE itself and its own package are found in the working directory: put both into one package"
        raise InputError(f"cannot import {name}: {type(error).__name__}: {error}", fix=fix) from error


def _load_from(folder: str, top: str) -> None:
    """Load the top-level module from its file in ``folder``, if there is one."""
    spec = PathFinder.find_spec(top, [folder])
    if spec is None or spec.loader is None or spec.origin is None:
        return
    imported = sys.modules.get(top)
    if imported is not None and getattr(imported, "__file__", None) == spec.origin:
        return
    if imported is not None or top in sys.stdlib_module_names:
        raise InputError(f"{top} is the name of another module", where=spec.origin, fix="rename your module")
    module = module_from_spec(spec)
    sys.modules[top] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[top]
        raise
    _folders[top] = folder


def installed_modules(names: Iterable[str]) -> list[str]:
    """Return the names that an ordinary import finds: those of no module that was loaded from a file."""
    return [name for name in names if name.partition(".")[0] not in _folders]


def with_named_modules(function: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """Return the function in a form that other processes can unpickle: they load the named modules first."""
    return _Carried(function) if _folders else function


@dataclass(frozen=True)
class _Carried(Generic[Item, Result]):
    function: Callable[[Item], Result]

    def __call__(self, item: Item) -> Result:
        return self.function(item)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (dict(_folders), pickle.dumps(self.function))


def _restore(folders: dict[str, str], pickled: bytes) -> object:
    for top, folder in folders.items():
        _load_from(folder, top)
    return _Carried(pickle.loads(pickled))  # noqa: S301 -- bytes of the process that started this one
