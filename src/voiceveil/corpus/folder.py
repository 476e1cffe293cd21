"""A plain folder of audio, or one audio file.

The utterance id is the path below the folder without its suffix, with ``/``; the speaker is the first sub-folder,
None for files that lie directly in the folder. Hidden files and folders are passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from voiceveil.audio import AUDIO_SUFFIXES
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.readers import corpora

__all__ = ["read_folder", "walk_files"]


@corpora.register("folder")
def read_folder(path: Path, report: Report = strict) -> Corpus:
    """Read a folder of audio, or a single audio file (``kind`` is then "file")."""
    if path.is_file():
        return Corpus(path.stem, (Utterance(path.stem, path),), kind="file", root=path.parent)
    if _holds_kaldi(path, report):
        return Corpus(path.resolve().name, (), root=path)
    utterances: dict[str, Utterance] = {}
    for file in walk_files(path, AUDIO_SUFFIXES):
        relative = file.relative_to(path)
        key = relative.with_suffix("").as_posix()
        if not key.isprintable():
            what = f"a file name with unprintable characters: {key!r}"
            report(Fault(file, None, what, fix="rename it: not every format can hold it", note=True))
        if key in utterances:
            other = utterances[key].path.name
            report(Fault(file, None, f"{other} beside it has the same id {key}", fix="remove or rename one of them"))
        else:
            speaker = relative.parts[0] if len(relative.parts) > 1 else None
            utterances[key] = Utterance(key, file, speaker=speaker)
    if not utterances:
        known = " ".join(sorted(AUDIO_SUFFIXES))
        report(Fault(path, None, "no audio in this folder", fix=f"files with these suffixes are looked for: {known}"))
    return Corpus(path.resolve().name, tuple(utterances.values()), root=path)


def _holds_kaldi(path: Path, report: Report) -> bool:
    """Whether the sub-folders are Kaldi directories: then the user meant one of those."""
    inside = sorted(str(scp.parent) for scp in path.glob("*/wav.scp"))
    if inside:
        report(Fault(path, None, "this folder holds Kaldi directories", fix=f"give one of them: {', '.join(inside)}"))
    return bool(inside)


def walk_files(root: Path, suffixes: frozenset[str] | set[str]) -> Iterator[Path]:
    """The files below ``root`` with one of the (lower-case) suffixes, sorted within each folder; links are followed."""
    seen: set[str] = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # a link back into the tree
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in suffixes:  # noqa: PTH122
                yield Path(folder, name)
