"""Prepare the data of a VoicePrivacy Challenge: Kaldi directories from the corpora as they are distributed.

The audio stays where it is: ``<out>/corpora/LibriSpeech``, ``VCTK`` and ``IEMOCAP`` are symbolic links to the corpora,
and each ``wav.scp`` names the files below them. A corpus that moves needs its link changed, nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from voiceveil.core.atomic_files import PART_PREFIX
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.output_guard import REPLACE, refuse_overlap
from voiceveil.corpus.challenge_sets import Sources, build_challenge_sets
from voiceveil.corpus.model import Corpus
from voiceveil.corpus.trial_design import Design, write_design

__all__ = ["CountDifference", "PreparedData", "prepare_challenge"]

_LINKS = "corpora"


@dataclass(frozen=True)
class CountDifference:
    """A count that is not the one of a plan: the sets that it is of, and a sentence."""

    sets: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class PreparedData:
    """The outcome of a preparation.

    Parameters
    ----------
    sets
        The sets by name; they were written unless some are missing.
    missing, not_requested
        Set -> why it was not built: its corpus is incomplete, or was not given.
    written
        The directories, links and files; empty if sets are missing and the user did not ask for a part.
    """

    sets: Mapping[str, Corpus]
    missing: Mapping[str, str]
    not_requested: Mapping[str, str]
    written: tuple[Path, ...]


def prepare_challenge(
    edition: str,
    sources: Sources,
    out: Path,
    *,
    compare: Callable[[Mapping[str, Corpus]], Iterable[CountDifference]],
    partial: bool = False,
    overwrite: bool = False,
) -> PreparedData:
    """Build, check and write the sets of an edition.

    Parameters
    ----------
    edition
        ``vpc2020``, ``vpc2022``, ``vpc2024`` or ``vpc2026``.
    sources
        The corpora as they are distributed.
    out
        The folder for the sets.
    compare
        Returns the counts of sets that are not those of the plan; such sets are not written.
    partial
        Write the complete sets even if others are missing. Otherwise nothing is written then.
    overwrite
        Replace files that are there.

    Raises
    ------
    InputError
        If a corpus is not laid out as it is distributed, the output overlaps it, or a file is in the way.
    """
    built = build_challenge_sets(edition, sources)
    for difference in compare(built.sets):
        built.leave_out(difference.sets, difference.text)
    if (built.missing and not partial) or not built.sets:
        return PreparedData(built.sets, built.missing, built.not_requested, ())
    links = {Path(os.path.abspath(out)) / _LINKS / name: folder for name, folder in _folders(sources).items()}  # noqa: PTH100
    for name in (*built.sets, _LINKS):
        refuse_overlap(out / name, links.values())
    new_links = [link for link, target in links.items() if _is_new_link(link, target, overwrite)]
    sets = {name: _through_links(corpus, links) for name, corpus in built.sets.items()}
    record = {
        "format": "voiceveil challenge data 1",
        "edition": edition,
        "corpora": {link.name: str(target.resolve()) for link, target in links.items()},
        "sets": {name: len(corpus) for name, corpus in sets.items()},
        "missing": {**built.missing, **built.not_requested},
    }
    for link in new_links:
        _write_link(link, links[link])
    try:
        written = write_design(Design(sets, record), out, overwrite=overwrite)
    except BaseException:
        for link in new_links:
            link.unlink(missing_ok=True)
        with suppress(OSError):
            (out / _LINKS).rmdir()
            out.rmdir()
        raise
    return PreparedData(sets, built.missing, built.not_requested, (*links, *written))


def _folders(sources: Sources) -> dict[str, Path]:
    """Return name -> folder of each corpus that is at hand."""
    folders = {"LibriSpeech": sources.librispeech, "VCTK": sources.vctk, "IEMOCAP": sources.iemocap}
    return {name: folder for name, folder in folders.items() if folder is not None}


def _is_new_link(link: Path, target: Path, overwrite: bool) -> bool:
    """Return whether the link has to be written; an ``InputError`` if something else is in its place."""
    if not os.path.lexists(link):
        return True
    if not link.is_symlink():
        raise InputError("this is to be a link to a corpus", where=link, fix="move it, or give another --out")
    if link.resolve() == target.resolve():
        return False
    if not overwrite:
        raise InputError(f"this link leads to {link.resolve()}, not to {target}", where=link, fix=REPLACE)
    return True


def _through_links(corpus: Corpus, links: Mapping[Path, Path]) -> Corpus:
    """Return the corpus with paths below the links instead of the folders that they lead to."""
    for link, target in links.items():
        if corpus.root is not None and corpus.root.is_relative_to(target):
            utterances = tuple(replace(u, path=link / u.path.relative_to(target)) for u in corpus)
            return replace(corpus, utterances=utterances)
    raise AssertionError(f"{corpus.name} is of no known corpus")


def _write_link(link: Path, target: Path) -> None:
    """Write a symbolic link under a temporary name, then rename it."""
    part = link.with_name(f"{PART_PREFIX}{link.name}")
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        part.symlink_to(target.resolve(), target_is_directory=True)
        part.replace(link)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OutputError(f"cannot write a link: {error.strerror or error}", where=link) from error
