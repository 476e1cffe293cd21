"""A release: a folder of anonymized recordings that can be given away, and a private map back to the originals.

The release holds the audio under neutral names, numbered in an order that is shuffled with the system's cryptographic
generator, and the metadata that the user wants to give away, translated to the new names. Times of files and folders
are fixed. No ledger, name, speaker id, path, order, length or time of the input goes in. The map file, outside of the
release and readable by its owner only, has a line for each recording: its new name and its old id.

Kaldi directories and named corpora become Kaldi directories, everything else a folder ``audio`` with a
``manifest.csv`` (of a plain folder, only where there is something to say).
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from voiceveil.core.atomic_files import PART_PREFIX
from voiceveil.core.diskdict import DiskDict
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.registry import did_you_mean
from voiceveil.corpus import Corpus, CorpusLike, Utterance, write_kaldi, write_manifest
from voiceveil.corpus.model import UtteranceSource
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.identity import Identity
from voiceveil.systems.keys import Level

__all__ = ["FIELDS", "FIXED_TIME", "PlannedRelease", "Published", "Release", "plan_release", "write_release"]

#: Metadata that a release can hold. Trials cannot: they say which recordings are of one speaker.
FIELDS = ("text", "speaker", "gender", "emotion", "role", "fold", "phrase", "subset")
#: Time of change of everything in a release, in seconds since 1970: 1 January 1980, the first that a ZIP archive knows.
FIXED_TIME = 315_532_800
_WITHOUT_TABLES = {"file", "files", "folder", "manifest", "lhotse"}
_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True)
class Release:
    """A release to write.

    Parameters
    ----------
    folder
        The release: a folder that does not exist yet, or an empty one.
    map_file
        The private map; by default ``<folder>.private-map.csv`` beside the release. It must not exist.
    fields
        Names of :data:`FIELDS` that go into the release. Default: the text, and for a run at speaker level the
        speaker, as a pseudonym.
    """

    folder: Path
    map_file: Path | None = None
    fields: tuple[str, ...] | None = None

    @property
    def map_path(self) -> Path:
        """Return the map file, given or by default."""
        if self.map_file is not None:
            return Path(self.map_file)
        folder = Path(self.folder)
        folder = folder if folder.name.strip(".") else folder.resolve()  # "." and ".." are no names
        return folder.with_name(f"{folder.name}.private-map.csv")


@dataclass(frozen=True)
class PlannedRelease:
    """A release that was checked; made by :func:`plan_release`."""

    folder: Path
    map_file: Path
    fields: tuple[str, ...]
    kind: str  # of the corpus

    @property
    def has_tables(self) -> bool:
        """Return whether the release is a Kaldi directory."""
        return self.kind not in _WITHOUT_TABLES


@dataclass(frozen=True)
class Published:
    """A release that was written: its folder, its private map, how many recordings and which fields it holds."""

    folder: Path
    map_file: Path
    recordings: int
    fields: tuple[str, ...]


def plan_release(
    release: str | Path | Release, corpus: CorpusLike, output: Path, system: Anonymizer, level: Level
) -> PlannedRelease:
    """Check a release before anything is written.

    Parameters
    ----------
    release
        The release, or its folder.
    corpus
        The input of the run.
    output
        File or folder that the run itself writes.
    system, level
        How the run anonymizes: only runs at speaker level publish pseudonyms of speakers by default.

    Raises
    ------
    InputError
        Where a file of the user's would be replaced, the release would mix with the input, the output or its map,
        a field is unknown, or the system does not protect anybody.
    """
    chosen = release if isinstance(release, Release) else Release(Path(release))
    folder, map_file = Path(chosen.folder), chosen.map_path
    if isinstance(system, Identity):
        raise InputError("identity changes nothing: the release would be the originals", fix="choose another --system")
    _check_folder(folder, corpus, output)
    _check_map(map_file, folder)
    fields: tuple[str, ...] = ("text", "speaker") if level == "speaker" else ("text",)
    if chosen.fields is not None:
        fields = tuple(chosen.fields)
    for name in fields:
        if name not in FIELDS:
            raise InputError(f"a release cannot hold {name!r}", fix=did_you_mean(name, list(FIELDS)))
    planned = PlannedRelease(folder, map_file, fields, corpus.kind)
    by_speaker = sorted({"gender", "fold"} & set(fields))
    if planned.has_tables and by_speaker and "speaker" not in fields:
        problem = f"a Kaldi directory has the {by_speaker[0]} of a speaker, not of an utterance"
        raise InputError(problem, where=folder, fix=f"publish the speaker as well, or no {by_speaker[0]}")
    return planned


def _check_folder(folder: Path, corpus: CorpusLike, output: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(
            "the release must be a folder, but this is a file or a link", where=folder, fix="give another name"
        )
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError("the release folder is not empty", where=folder, fix="give a new or an empty folder")
    if folder.resolve() == Path.cwd():
        raise InputError("the release cannot be the working directory", where=folder, fix="give a new folder")
    # A file or a manifest may lie in the folder that the release goes into; other corpora are folders of their own.
    sources = [] if corpus.root is None or corpus.kind in {"file", "manifest", "lhotse"} else [corpus.root]
    for name, other in [("output", output), *(("input", root) for root in sources)]:
        release, present = folder.resolve(), other.resolve()
        if release.is_relative_to(present) or present.is_relative_to(release):
            fix = "give a folder that neither holds it nor lies in it"
            raise InputError(f"the release would be mixed with the {name} {other}", where=folder, fix=fix)


def _check_map(path: Path, folder: Path) -> None:
    if path.resolve().is_relative_to(folder.resolve()):
        raise InputError("the private map would be published", where=path, fix="give a file outside of the release")
    if path.exists() or path.is_symlink():
        raise InputError("the private map exists, and is not replaced", where=path, fix="give another file")


def write_release(
    release: PlannedRelease | None, outputs: UtteranceSource, sha256: Callable[[str], str]
) -> Published | None:
    """Write the release and its map; return None if there is none to write, or nothing to write into it.

    ``outputs``: the anonymized utterances, with the paths of their files; ``sha256``: the hash of such a file by its
    id. A file that does not have it is an ``InputError``: only what the run wrote is published. The folder appears
    when it is complete.
    """
    if release is None:
        return None
    rows = _shuffled(outputs, release.fields)
    if not rows:
        return None
    try:
        with _part_beside(release.folder) as part:
            names = _Renamed(rows, part / ("wav" if release.has_tables else "audio"), release.fields)
            _copy_audio(names, sha256)
            held = tuple(name for name in FIELDS if any(getattr(u, name) for u in names))
            _write_tables(names, part, release, held)
            _fix_times(part)
            with _private(release.map_file) as private:
                csv.writer(private, lineterminator="\n").writerows(names.map_rows())
                private.flush()
                part.rename(release.folder)
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else release.folder
        raise OutputError(f"cannot write the release: {error.strerror or error}", where=where) from error
    return Published(release.folder, release.map_file, len(rows), held)


def _shuffled(outputs: UtteranceSource, fields: tuple[str, ...]) -> DiskDict:
    """Return new name -> metadata of the recording as JSON, on disk, since a manifest may be of any length."""
    numbers = list(range(1, sum(1 for _ in outputs) + 1))
    secrets.SystemRandom().shuffle(numbers)
    width = max(6, len(str(len(numbers))))
    rows = DiskDict()
    for number, utterance in zip(numbers, outputs, strict=True):
        kept = {name: getattr(utterance, name) for name in fields if name != "speaker"}
        row = {"id": utterance.id, "path": str(utterance.path), "who": [utterance.role, utterance.speaker], **kept}
        rows[f"{number:0{width}}"] = json.dumps(row)
    return rows


class _Renamed:
    """The utterances of a release, in the order of their new names."""

    trials = None

    def __init__(self, rows: DiskDict, audio: Path, fields: tuple[str, ...]) -> None:
        self._rows = rows
        self._audio = audio
        self._fields = fields
        self._pseudonyms = self._draw_pseudonyms()

    def sources(self) -> Iterator[tuple[str, Path, Path]]:
        """Yield the old id, the anonymized file and the file in the release."""
        for name, row in self._in_order():
            yield row["id"], Path(row["path"]), self._target(name, row)

    def __iter__(self) -> Iterator[Utterance]:
        for name, row in self._in_order():
            kept = {field: row[field] for field in self._fields if field != "speaker"}
            yield Utterance(name, self._target(name, row), speaker=self._pseudonym(row) or None, **kept)

    def map_rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield the lines of the private map, with a header."""
        yield "name", "original_id", "speaker", "original_speaker"
        for name, row in self._in_order():
            yield name, row["id"], self._pseudonym(row), row["who"][1] or ""

    def _in_order(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return ((name, json.loads(text)) for name, text in self._rows.in_order())

    def _target(self, name: str, row: dict[str, Any]) -> Path:
        return self._audio / f"{name}{Path(row['path']).suffix.lower()}"

    def _pseudonym(self, row: dict[str, Any]) -> str:
        return self._pseudonyms.get(tuple(row["who"]), "")

    def _draw_pseudonyms(self) -> dict[tuple[str, str], str]:
        """Name speakers in random order; like pseudo-speakers, enrollment and trials have different pseudonyms."""
        if "speaker" not in self._fields:
            return {}
        voices = list({(row["who"][0], row["who"][1]) for _, row in self._in_order() if row["who"][1] is not None})
        secrets.SystemRandom().shuffle(voices)
        width = max(4, len(str(len(voices))))
        return {voice: f"S{number:0{width}}" for number, voice in enumerate(voices, 1)}


def _copy_audio(names: _Renamed, sha256: Callable[[str], str]) -> None:
    for id, source, target in names.sources():
        target.parent.mkdir(exist_ok=True)
        digest = hashlib.sha256()
        with source.open("rb") as file, target.open("xb") as copy:
            while block := file.read(_BLOCK):
                digest.update(block)
                copy.write(block)
        if digest.hexdigest() != sha256(id):
            fix = "move it away, and run the same command again"
            raise InputError("the file is not the one that this run wrote, and is not published", where=source, fix=fix)


def _write_tables(names: _Renamed, folder: Path, release: PlannedRelease, fields: tuple[str, ...]) -> None:
    if release.has_tables:
        corpus = Corpus(release.folder.name, tuple(names))
        write_kaldi(corpus, folder, {u.id: u.path for u in corpus})
    elif release.kind not in {"file", "files", "folder"} or fields:
        write_manifest(names, folder / "manifest.csv")


@contextmanager
def _part_beside(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``folder``, with its permissions if it exists; removed when the block ends."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=PART_PREFIX, dir=folder.parent, ignore_cleanup_errors=True) as private:
        part = Path(private) / "release"
        part.mkdir()
        if folder.is_dir():
            part.chmod(stat.S_IMODE(folder.stat().st_mode))
        yield part


@contextmanager
def _private(path: Path) -> Iterator[TextIO]:
    """Yield a new text file that only its owner can read; removed if the block fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _fix_times(folder: Path) -> None:
    """Set all times of change to FIXED_TIME, those of folders last, since writing into them changes theirs."""
    for path in sorted(folder.rglob("*"), key=lambda path: path.is_dir()):
        os.utime(path, (FIXED_TIME, FIXED_TIME))
    os.utime(folder, (FIXED_TIME, FIXED_TIME))
