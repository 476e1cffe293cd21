"""The rule for every output: nothing of the user's is replaced, removed or mixed with results.

1. An output that is the input data, holds some of it, or lies in it is refused, ``--overwrite`` or not.
2. A file that exists where one is to be written, and that the program has not recorded as its own, stops the run
   before anything is written, unless the user says ``--overwrite``. The record of a folder is its
   :mod:`~voiceveil.run.ledger`; a single file has none, so that any file in its place is the user's.

Paths are compared through symbolic links, and files by device and inode, so that hard links count as the file itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from voiceveil.atomic import RECORDS
from voiceveil.errors import InputError
from voiceveil.ondisk import DiskDict

__all__ = ["REPLACE", "ledger_of", "refuse_existing", "refuse_overlap", "refuse_same_files"]

#: The fix for a file that is in the way.
REPLACE = "give another output, or --overwrite to replace what is there"
_ELSEWHERE = "give an output outside of the data"


def ledger_of(folder: Path) -> Path:
    """Return the file in which an output folder keeps the record of what was written there."""
    return folder / RECORDS / "ledger.jsonl"


def refuse_overlap(output: Path, inputs: Iterable[Path]) -> None:
    """Raise ``InputError`` if the output (a file or folder) is, holds or lies in one of the input files or folders."""
    out = output.resolve()
    for path in inputs:
        data = path.resolve()
        if data == out:
            raise InputError("the output is the input", where=output, fix=_ELSEWHERE)
        if data.is_relative_to(out):
            raise InputError(f"the output folder holds the input {path}", where=output, fix=_ELSEWHERE)
        if out.is_relative_to(data):
            raise InputError(f"the output lies inside the input {path}", where=output, fix=_ELSEWHERE)


def refuse_same_files(targets: Iterable[Path], sources: Callable[[], Iterable[Path]]) -> None:
    """Raise ``InputError`` if a file to be written is a file of the input, be it by a link; memory stays flat.

    ``sources`` is called, and its files are looked at, only if a target exists.
    """
    there = DiskDict()
    for target in targets:
        if (inode := _inode(target)) is not None:
            there[inode] = str(target)
    for source in sources() if there else ():
        if (inode := _inode(source)) is not None and inode in there:
            what = "the output would replace the input" + ("" if there[inode] == str(source) else f" {source}")
            raise InputError(what, where=there[inode], fix="give another output")


def _inode(path: Path) -> str | None:
    """Device and inode of the file, behind links; None if there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return f"{status.st_dev} {status.st_ino}"


def refuse_existing(targets: Iterable[Path], is_ours: Callable[[Path], Any] = lambda path: False) -> None:
    """Raise ``InputError`` if a target exists and is not ours: it names the first one and says how many there are."""
    first, count = None, 0
    for target in targets:
        if os.path.lexists(target) and not is_ours(target):
            first, count = first or target, count + 1
    if first is None:
        return
    others = "" if count == 1 else f" ({count} such files in all)"
    raise InputError(
        f"this file exists, and the run did not write it, or somebody has changed it since{others}",
        where=first,
        fix=REPLACE,
    )
