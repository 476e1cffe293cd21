"""numba's ``njit``, with a cache of compiled code that strangers cannot name and that always has a place.

* numba reads ``.numba_config.yaml`` in the working directory. One that somebody planted there could name a folder of
  compiled code, which is stored as pickles and runs. It is not read.
* numba caches beside the source files, or else in the user's cache folder. Where neither can be written (a read-only
  installation without a home), a temporary folder serves until the process ends; its worker processes share it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from voiceveil.core.activity import report_status

__all__ = ["njit"]

F = TypeVar("F", bound=Callable[..., Any])


def _without_config_file() -> Any:
    """Import numba with nothing but the environment to configure it."""
    yaml = sys.modules.get("yaml")
    sys.modules["yaml"] = None  # type: ignore[assignment]  # numba cannot read its file while it is imported
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "A Numba config file is found but YAML parsing capabilities ..."
            import numba
    finally:
        if yaml is None:
            del sys.modules["yaml"]
        else:
            sys.modules["yaml"] = yaml
    config: Any = numba.core.config
    if config._config_fname:
        config._config_fname = ""  # it looks again whenever something is compiled
        config._env_reloader.reset()
    return numba


_numba = _without_config_file()


class _CompileListener(_numba.core.event.Listener):  # type: ignore[name-defined,misc]
    """Tells whoever waits that numba is compiling; code from its cache is not compiled."""

    def on_start(self, event: Any) -> None:
        report_status("compiling (only the first time on this computer)")

    def on_end(self, event: Any) -> None:
        """Do nothing."""


_numba.core.event.register("numba:compile", _CompileListener())


def njit(**options: Any) -> Callable[[F], F]:
    """Decorate a function that is compiled when it is first called; options as of ``numba.njit``."""

    def decorate(function: F) -> F:
        try:
            compiled: F = _numba.njit(**options)(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            compiled = _numba.njit(**{**options, "cache": _use_temporary_cache()})(function)
        return compiled

    return decorate


def _use_temporary_cache() -> bool:
    """Have numba cache in a new temporary folder; False if there is no place for one."""
    try:
        folder = tempfile.mkdtemp(prefix="voiceveil-")  # for this user alone: what lies there runs
    except OSError:
        return False
    os.environ["NUMBA_CACHE_DIR"] = folder  # read by numba whenever something is compiled, and by worker processes
    _numba.core.config.reload_config()
    atexit.register(_remove_cache, folder, os.getpid())
    return True


def _remove_cache(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # workers that were forked share it
        shutil.rmtree(folder, ignore_errors=True)
