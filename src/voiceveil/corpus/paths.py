"""Relative paths in metadata: found when read, made when written.

The metadata of 100,000 files must read in an instant, so the places to look in are tried once for each folder that
occurs in the paths, not once for each file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PathFinder", "relative_below"]


class PathFinder:
    """Completes relative paths with the first of ``bases`` below which the file is (the first base if none is)."""

    def __init__(self, bases: Sequence[Path]) -> None:
        self._bases = [os.fspath(base) for base in bases]
        self._known: dict[str, str] = {}

    def __call__(self, path: str) -> Path:
        """The complete path; an absolute one stays as it is."""
        folder = path.rpartition("/")[0]
        base = self._known.get(folder)
        if base is None:
            found = [base for base in self._bases if os.path.exists(os.path.join(base, path))]  # noqa: PTH110, PTH118
            base = found[0] if found else self._bases[0]
            if found:
                self._known[folder] = base
        return Path(path if path.startswith("/") else f"{base}/{path}")


def relative_below(path: Path, folder: Path) -> str:
    """The path as metadata in ``folder`` have it: relative if it is below the folder, or else absolute."""
    absolute, base = os.path.abspath(path), os.path.abspath(folder)  # noqa: PTH100
    return os.path.relpath(absolute, base) if absolute.startswith(base.rstrip(os.sep) + os.sep) else absolute
