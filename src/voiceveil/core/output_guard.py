"""Checks before an output is opened, so that no data of the user are overwritten.

1. An output that is the input data, holds some of it, or lies in it is refused, ``--overwrite`` or not.
2. A file that exists where one is to be written, and that the program has not recorded as its own, stops the run
   before anything is written, unless the user says ``--overwrite``.

Paths are compared through symbolic links, and files by device and inode, so that hard links count as the file itself.
:mod:`voiceveil.run.outputs` adds the checks that need corpora and the record (ledger) of an output folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from voiceveil.core.atomic_files import guarded, is_recorded
from voiceveil.core.diskdict import DiskDict
from voiceveil.core.errors import InputError
from voiceveil.core.files import AUDIO_SUFFIXES, resolved

__all__ = [
    "REPLACE", "folder_of", "refuse_existing", "refuse_files", "refuse_no_folder", "refuse_overlap",
    "refuse_same_files", "replacing",
]  # fmt: skip

#: The fix for a file that is in the way.
REPLACE = "give another output, or --overwrite (in Python overwrite=True) to replace what is there"
_NOT_OURS = "this file exists, and the run did not write it, or somebody has changed it since"
_RENAME = "give a name that ends as such a file does, e.g. in .html or .svg"
_ELSEWHERE = "give an output outside of the data"


def refuse_overlap(output: Path, inputs: Iterable[Path], recordings: Iterable[Path] = ()) -> None:
    """Raise ``InputError`` if the output overlaps with the input.

    Parameters
    ----------
    output
        File or folder to be written.
    inputs
        Files and folders that the output must not be, contain or lie in.
    recordings
        Folders of recordings that a list names: the output may lie beside or below them, but must not contain them.
    """
    out = resolved(output)
    for path in inputs:
        data = resolved(path)
        if data == out:
            raise InputError("the output is the input", where=output, fix=_ELSEWHERE)
        if data.is_relative_to(out):
            raise InputError(f"the output folder holds the input {path}", where=output, fix=_ELSEWHERE)
        if out.is_relative_to(data):
            raise InputError(f"the output lies inside the input {path}", where=output, fix=_ELSEWHERE)
    for path in recordings:
        if resolved(path).is_relative_to(out):
            raise InputError(f"the output folder holds the input {path}", where=output, fix=_ELSEWHERE)


def folder_of(recording: Path) -> Path:
    """Return the folder in which a recording really lies, which is another one if it is a link."""
    return (resolved(recording) if recording.is_symlink() else recording).parent


def refuse_same_files(targets: Iterable[Path], sources: Callable[[], Iterable[Path]]) -> None:
    """Raise ``InputError`` if a file to be written is a file of the input, also through links.

    Memory does not grow with the number of files. ``sources`` is called only if a target exists.
    """
    targets_by_inode = DiskDict()
    for target in targets:
        if (inode := _inode(target)) is not None:
            targets_by_inode[inode] = str(target)
    for source in sources() if targets_by_inode else ():
        if (inode := _inode(source)) is not None and inode in targets_by_inode:
            problem = "the output would replace the input" + (
                "" if targets_by_inode[inode] == str(source) else f" {source}"
            )
            raise InputError(problem, where=targets_by_inode[inode], fix="give another output")


def _inode(path: Path) -> str | None:
    """Return device and inode of the file that a path leads to; None if there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return f"{status.st_dev} {status.st_ino}"


def refuse_files(targets: Iterable[Path], *, overwrite: bool, audio: bool = False) -> None:
    """Raise ``InputError`` if a target exists; for outputs without a ledger.

    Parameters
    ----------
    targets
        Files to be written. Files of the program itself below a folder that is :func:`recorded` may be replaced.
    overwrite
        Allow other files to be replaced as well.
    audio
        The targets are audio files. Other targets with the suffix of an audio file are refused, even with
        ``overwrite``: they would replace a recording.
    """
    named = list(targets)
    for target in named if not audio else ():
        if target.suffix.lower() in AUDIO_SUFFIXES:
            raise InputError("the output is no audio, but has the name of a recording", where=target, fix=_RENAME)
    if not overwrite:
        refuse_existing(named, is_recorded, "this file exists")


def refuse_existing(targets: Iterable[Path], is_ours: Callable[[Path], bool], what: str = _NOT_OURS) -> None:
    """Raise ``InputError`` if targets exist for which ``is_ours`` is False; it names the first and their number."""
    first, count = None, 0
    for target in targets:
        if os.path.lexists(target) and not is_ours(target):
            first, count = first or target, count + 1
    if first is None:
        return
    others = "" if count == 1 else f"; {count} such files in all"
    raise InputError(f"{what}{others}", where=first, fix=REPLACE)


def refuse_no_folder(folder: Path) -> None:
    """Raise ``InputError`` if an output folder is a file, or is to lie below one."""
    first = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), None)
    if first is not None and not first.is_dir():
        raise InputError("the output is to be a folder, and this is none", where=first, fix="give another output")


class _Anything:
    """Allows every file to be replaced, as the user has asked for it."""

    def before_replace(self, part: Path, path: Path) -> None:
        """Allow the replacement."""

    def owns(self, path: Path) -> bool:
        """Return False: no file is recorded."""
        return False

    def may_replace(self, path: Path) -> bool:
        """Allow it."""
        return True


@contextmanager
def replacing(folder: Path, *, overwrite: bool) -> Iterator[None]:
    """Allow the block to replace and remove files below ``folder`` if ``overwrite`` is True."""
    with guarded(folder, _Anything()) if overwrite else nullcontext():
        yield
