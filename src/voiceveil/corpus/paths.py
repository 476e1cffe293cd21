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
        self._bases = list(bases)
        self._folders: dict[str, Path] = {}

    def __call__(self, path: str) -> Path:
        """The complete path; an absolute one stays as it is."""
        name = path.rpartition("/")[2]
        folder = path[: len(path) - len(name)]  # with its "/": that of "/a" is not that of "a"
        complete = self._folders.get(folder)
        if complete is None:
            found = [base for base in self._bases if os.path.exists(base / path)]  # noqa: PTH110 (it never raises)
            complete = (found or self._bases)[0] / folder
            if found:
                self._folders[folder] = complete
        return complete / name


def relative_below(path: Path, folder: Path) -> str:
    """The path as metadata in ``folder`` have it: relative if it is below the folder, or else absolute."""
    absolute, base = os.path.abspath(path), os.path.abspath(folder)  # noqa: PTH100
    return os.path.relpath(absolute, base) if absolute.startswith(base.rstrip(os.sep) + os.sep) else absolute
