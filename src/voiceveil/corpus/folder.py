"""A plain folder of audio, or one audio file.

The utterance id is the path below the folder without its suffix, with ``/``; with it where two files differ in their
suffixes only. The speaker is the first sub-folder, None for files that lie directly in the folder. Hidden files and
folders are passed over.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from voiceveil.audio import AUDIO_SUFFIXES
from voiceveil.core.errors import InputError
from voiceveil.core.files import resolved, shortened
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.readers import corpora

__all__ = ["read_files", "read_folder", "walk_files"]


@corpora.register("folder")
def read_folder(path: Path, report: Report = strict) -> Corpus:
    """Read a folder of audio, or a single audio file (``kind`` is then "file")."""
    if path.is_file():
        return Corpus(path.stem, (Utterance(path.stem, path),), kind="file", root=path.parent)
    if _holds_kaldi(path, report):
        return Corpus(path.resolve().name, (), root=path)
    files = [file.relative_to(path) for file in walk_files(path, AUDIO_SUFFIXES, report)]
    utterances = []
    for id, file in zip(_ids(files), files, strict=True):
        if not id.isprintable():
            problem = f"a file name with unprintable characters: {id!r}"
            report(Fault(path / file, None, problem, fix="rename it: not every format can hold it", note=True))
        speaker = file.parts[0] if len(file.parts) > 1 else None
        utterances.append(Utterance(id, path / file, speaker=speaker))
    if not utterances:
        known = " ".join(sorted(AUDIO_SUFFIXES))
        report(Fault(path, None, "no audio in this folder", fix=f"files with these suffixes are looked for: {known}"))
    return Corpus(path.resolve().name, tuple(utterances), root=path)


def read_files(paths: Sequence[Path]) -> Corpus:
    """Return a corpus of audio files (``kind`` is then "files"), named after their folder.

    Their ids are their names without the suffix.

    Raises
    ------
    InputError
        If two files have the same name.
    """
    names: dict[str, Path] = {}
    for path in dict.fromkeys(paths):
        other = names.setdefault(path.name, path)
        if other != path:
            problem = f"{other} has the same name: both would be written to one file"
            raise InputError(problem, where=path, fix="rename one of them, or anonymize them into two folders")
    ids = _ids([Path(name) for name in names])
    name = Path(os.path.commonpath([path.resolve().parent for path in paths])).name
    utterances = tuple(Utterance(id, path) for id, path in zip(ids, names.values(), strict=True))
    return Corpus(name, utterances, kind="files")


def _ids(files: Sequence[Path]) -> list[str]:
    """Return the paths without suffixes, but with them where these alone tell two files apart."""
    stems = Counter(file.with_suffix("") for file in files)
    taken = set(files)
    unique = (stems[stem] == 1 and stem not in taken for stem in (file.with_suffix("") for file in files))
    return [(file.with_suffix("") if plain else file).as_posix() for file, plain in zip(files, unique, strict=True)]


def _holds_kaldi(path: Path, report: Report) -> bool:
    """Return whether the sub-folders are Kaldi directories: the user probably meant one of those."""
    inside = sorted(str(scp.parent) for scp in path.glob("*/wav.scp"))
    if inside:
        report(Fault(path, None, "this folder holds Kaldi directories", fix=f"give one of them: {', '.join(inside)}"))
    return bool(inside)


def walk_files(root: Path, suffixes: frozenset[str] | set[str], report: Report = strict) -> Iterator[Path]:
    """Yield the files below ``root`` with one of the (lower-case) suffixes, sorted within each folder.

    Links are followed, each folder once. Reported are folders that cannot be read, and links to a folder that holds
    ``root`` (``/`` for example) or to the system's own: following them would read the whole machine.
    """
    top = str(resolved(root))
    seen: set[tuple[int, int]] = set()
    waiting = [str(root)]  # not recursive: trees can be deeper than Python's stack
    while waiting:
        folder = waiting.pop()
        try:
            status = os.stat(folder)  # noqa: PTH116
            if (status.st_dev, status.st_ino) in seen:  # a link back into the tree
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                visible = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda e: e.name)
        except OSError as error:
            problem = f"cannot read this folder: {error.strerror or error}"
            report(Fault(Path(shortened(folder)), None, problem, fix="make it readable, or move it away"))
            continue
        folders = []
        for entry in visible:
            path = os.path.join(folder, entry.name)  # noqa: PTH118
            if _is_folder(entry):
                if entry.is_symlink() and _leads_out(path, top):
                    problem = "a link to a folder of the system, or to one that holds this corpus"
                    report(Fault(Path(path), None, problem, fix="remove the link"))
                else:
                    folders.append(path)
            elif os.path.splitext(entry.name)[1].lower() in suffixes:  # noqa: PTH122
                yield Path(path)
        waiting.extend(reversed(folders))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads back to itself
        return False


def _leads_out(link: str, top: str) -> bool:
    """Return whether a link leads to a folder that holds ``top``, or into one that the kernel makes."""
    target = os.path.realpath(link)
    inside = f"{top}/".startswith(f"{target.rstrip('/')}/") and target != top
    return inside or f"{target}/".startswith(("/proc/", "/sys/", "/dev/"))
