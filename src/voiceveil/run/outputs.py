"""Checks on outputs that need to know corpora, and the record that an output folder keeps of its own files.

The record of a folder is its :mod:`~voiceveil.run.ledger`; a single file has none, so that any file in its place is the
user's. The rules themselves are in :mod:`voiceveil.core.output_guard`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import RECORDS, guarded
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import folder_of, refuse_existing, refuse_no_folder, refuse_overlap, refuse_same_files
from voiceveil.corpus import CorpusLike, stream_corpus
from voiceveil.corpus.readers import find_reader
from voiceveil.run.ledger import open_ledger

__all__ = ["LISTS", "ledger_of", "recorded", "refuse_before_start", "refuse_corpora", "refuse_inputs"]

#: Kinds of corpora that are files: the folder that they lie in is not part of the data.
LISTS = frozenset({"file", "manifest", "lhotse"})


def ledger_of(folder: Path) -> Path:
    """Return the file in which an output folder keeps the record of what was written there."""
    return folder / RECORDS / "ledger.jsonl"


def refuse_corpora(output: Path, corpora: Iterable[CorpusLike], paths: Iterable[Path] = ()) -> None:
    """Raise ``InputError`` if the output overlaps with one of the corpora; see :func:`refuse_overlap`.

    ``paths`` are the opened files and folders, as a corpus does not know the manifest that lists it.
    """
    opened = list(corpora)
    roots = [corpus.root for corpus in opened if corpus.root is not None and corpus.kind not in LISTS]
    recordings = {folder_of(utterance.path) for corpus in opened for utterance in corpus}
    refuse_overlap(output, [*roots, *paths], recordings)
    if not output.is_dir():
        refuse_same_files([output], lambda: (utterance.path for corpus in opened for utterance in corpus))


def refuse_inputs(output: Path, specs: Iterable[str | Path]) -> None:
    """Raise ``InputError`` if the output overlaps with one of the corpora, given as for ``open_corpus``."""
    named = list(specs)
    refuse_corpora(output, [stream_corpus(spec) for spec in named], [find_reader(spec)[1] for spec in named])


def refuse_before_start(
    folder: Path, targets: Iterable[Path], is_ours: Callable[[Path], bool] = lambda path: False
) -> None:
    """Refuse existing files in a folder without a ledger, before a ledger is written.

    In a folder with a ledger, :func:`recorded` checks the files.
    """
    ledger = ledger_of(folder)
    if not folder.exists() or ledger.exists():
        return
    try:
        refuse_existing(targets, is_ours)
    except InputError:
        if not ledger.exists():  # else another run has just begun, and opening its ledger will say so
            raise


@contextmanager
def recorded(
    folder: Path,
    settings: Mapping[str, Any] | None,
    targets: Callable[[], Iterable[Path]],
    *,
    overwrite: bool = False,
    is_ours: Callable[[Path], bool] = lambda path: False,
) -> Iterator[None]:
    """Record all files that the block writes below ``folder``, and refuse to replace files of the user.

    Parameters
    ----------
    folder
        Has, or gets, a ledger of the files that the program wrote.
    settings
        Settings of the results, see :func:`~voiceveil.run.ledger.open_ledger`.
    targets
        Returns the files that may be written, as far as they are known; others are checked when they are written.
    overwrite
        Allow files of the user to be replaced.
    is_ours
        Returns True for files below the folder that another ledger lists.
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
