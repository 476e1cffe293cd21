"""Start Python processes that do not import modules from the working directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from voiceveil.core.errors import InputError

__all__ = ["safe_path"]


@contextmanager
def safe_path() -> Iterator[None]:
    """Start Python processes in this block without the working directory on their module search path.

    ``python -c``, which multiprocessing uses, puts it first: a ``selectors.py`` beside the recordings would run.
    """
    if sys.flags.ignore_environment and not sys.flags.safe_path:  # -E: children get it too, and ignore the variable
        problem = "Python was started with -E: its worker processes would import modules from the working directory"
        raise InputError(problem, fix="start it with -I or with -E -P, or use --jobs 1")
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before
