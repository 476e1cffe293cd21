"""The rule for every output: nothing of the user's is replaced, removed or mixed with results.

1. An output that is the input data, holds some of it, or lies in it is refused, ``--overwrite`` or not.
2. A file that exists where one is to be written, and that the program has not recorded as its own, stops the run
   before anything is written, unless the user says ``--overwrite``. The record of a folder is its
   :mod:`~voiceveil.run.ledger`; a single file has none, so that any file in its place is the user's.

Paths are compared through symbolic links, and files by device and inode, so that hard links count as the file itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from voiceveil.audio import AUDIO_SUFFIXES
from voiceveil.core.atomic_files import RECORDS, guarded, is_recorded
from voiceveil.core.diskdict import DiskDict
from voiceveil.core.errors import InputError
from voiceveil.core.files import resolved
from voiceveil.corpus import Listing, open_listing
from voiceveil.corpus.readers import find_reader
from voiceveil.run.ledger import open_ledger

__all__ = [
    "LISTS", "REPLACE", "folder_of", "ledger_of", "recorded", "refuse_before_start", "refuse_corpora",
    "refuse_existing", "refuse_files", "refuse_inputs", "refuse_no_folder", "refuse_overlap", "refuse_same_files",
    "replacing",
]  # fmt: skip

#: Kinds of corpora that are files: the folder that they lie in is not part of the data.
LISTS = frozenset({"file", "manifest", "lhotse"})

#: The fix for a file that is in the way.
REPLACE = "give another output, or --overwrite to replace what is there"
_NOT_OURS = "this file exists, and the run did not write it, or somebody has changed it since"
_RENAME = "give a name that ends as such a file does, e.g. in .html or .svg"
_ELSEWHERE = "give an output outside of the data"


def ledger_of(folder: Path) -> Path:
    """Return the file in which an output folder keeps the record of what was written there."""
    return folder / RECORDS / "ledger.jsonl"


def refuse_overlap(output: Path, inputs: Iterable[Path], recordings: Iterable[Path] = ()) -> None:
    """Raise ``InputError`` if the output (a file or folder) is, holds or lies in one of the input files or folders.

    ``recordings``: folders of recordings that a list names. They may lie anywhere, and the output may lie beside or
    below them, but it must not hold them.
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


def refuse_corpora(output: Path, corpora: Iterable[Listing], paths: Iterable[Path] = ()) -> None:
    """Raise ``InputError`` if the output is, holds or lies in one of the corpora; see :func:`refuse_overlap`.

    ``paths``: what was opened: a manifest is not known from the corpus that it lists.
    """
    opened = list(corpora)
    roots = [corpus.root for corpus in opened if corpus.root is not None and corpus.kind not in LISTS]
    recordings = {folder_of(utterance.path) for corpus in opened for utterance in corpus}
    refuse_overlap(output, [*roots, *paths], recordings)
    if not output.is_dir():
        refuse_same_files([output], lambda: (utterance.path for corpus in opened for utterance in corpus))


def refuse_inputs(output: Path, specs: Iterable[str | Path]) -> None:
    """Raise ``InputError`` if the output is, holds or lies in one of the corpora, given as the user names them."""
    named = list(specs)
    refuse_corpora(output, [open_listing(spec) for spec in named], [find_reader(spec)[1] for spec in named])


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


def refuse_files(targets: Iterable[Path], *, overwrite: bool, audio: bool = False) -> None:
    """Raise ``InputError`` if a target exists, for outputs without a ledger, unless ``overwrite``.

    Below a folder that is :func:`recorded`, its own files may be replaced all the same. An output that is no audio
    (``audio=False``) is refused where it has the name of a recording, ``overwrite`` or not: it would replace one.
    """
    named = list(targets)
    for target in named if not audio else ():
        if target.suffix.lower() in AUDIO_SUFFIXES:
            raise InputError("the output is no audio, but has the name of a recording", where=target, fix=_RENAME)
    if not overwrite:
        refuse_existing(named, is_recorded, "this file exists")


def refuse_existing(targets: Iterable[Path], is_ours: Callable[[Path], bool], what: str = _NOT_OURS) -> None:
    """Raise ``InputError`` if a target exists and is not ours: it names the first one and says how many there are."""
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


def refuse_before_start(
    folder: Path, targets: Iterable[Path], is_ours: Callable[[Path], bool] = lambda path: False
) -> None:
    """Refuse files in the way where no run has begun: before even a ledger is written.

    Where there is a ledger, whoever opens it has to look (:func:`recorded`).
    """
    ledger = ledger_of(folder)
    if not folder.exists() or ledger.exists():
        return
    try:
        refuse_existing(targets, is_ours)
    except InputError:
        if not ledger.exists():  # else another run has just begun, and opening its ledger will say so
            raise


class _Anything:
    """Lets every file be replaced: the user has said so."""

    def before_replace(self, part: Path, path: Path) -> None:
        """Allow it."""

    def owns(self, path: Path) -> bool:
        """No file is recorded."""
        return False

    def may_replace(self, path: Path) -> bool:
        """Allow it."""
        return True


@contextmanager
def replacing(folder: Path, *, overwrite: bool) -> Iterator[None]:
    """Let the block replace and remove the files that it writes below ``folder``, if the user says ``--overwrite``."""
    with guarded(folder, _Anything()) if overwrite else nullcontext():
        yield


@contextmanager
def recorded(
    folder: Path,
    settings: Mapping[str, Any] | None,
    targets: Callable[[], Iterable[Path]],
    *,
    overwrite: bool = False,
    is_ours: Callable[[Path], bool] = lambda path: False,
) -> Iterator[None]:
    """Keep the rule for all that the block writes below ``folder``, with the folder's ledger as the record.

    ``settings``: what the results depend on, see :func:`~voiceveil.run.ledger.open_ledger`. ``targets``: the files that
    may be written, as far as they can be told beforehand; any other is checked when it is written. ``is_ours``: knows
    files below the folder that have another ledger.
    """
    refuse_no_folder(folder)
    if not overwrite:
        refuse_before_start(folder, targets(), is_ours)
    with open_ledger(ledger_of(folder), settings, overwrite=overwrite) as ledger:
        if not overwrite:
            refuse_existing(targets(), lambda path: is_ours(path) or ledger.owns(path))
        with guarded(folder, ledger):
            yield
        ledger.finish()
