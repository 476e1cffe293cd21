"""Features of a training set in one memory-mapped file, so that training waits neither for decoding nor for memory.

A store is a folder with a subfolder for each kind of features, which holds ``features.f16`` (frames one after the other
in half precision: a relative error of a thousandth, which does not matter to a network) and ``index.jsonl`` (positions
of the utterances; its first line states the kind of the features). Utterances are appended as they are ready, first the
data, then the line, so that a killed run resumes where it stopped. An utterance is identified by path, size and
modification time of its file, and its part of the file.

Features of augmented copies have a subfolder for each kind of copy. An utterance and its copy differ in their ids, see
:func:`copy_of`; a :class:`JoinedStore` holds both.

The features are personal data, like the recordings.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import load
from voiceveil.core.documents import build, parse_json
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.files import LONGEST_LINE, file_stamp
from voiceveil.core.locking import exclusive_lock
from voiceveil.corpus import Utterance
from voiceveil.models.speaker.networks import RATE, FeatureName, SpeakerModel, features
from voiceveil.run.local import run_items
from voiceveil.run.progress import Progress
from voiceveil.training.augmentation import Augmenter, CopyKind

__all__ = ["CopyMaker", "FeatureStore", "JoinedStore", "Store", "StoredUtterance", "copy_of", "open_store"]

_VERSION = 2


@dataclass(frozen=True)
class StoredUtterance:
    """Position of an utterance (first frame, number of frames), and its seconds."""

    first: int
    frames: int
    seconds: float


class FeatureStore:
    """Features (frames, width) of utterances, float16, read from disk when they are used."""

    def __init__(self, path: Path, width: int, entries: dict[Utterance, StoredUtterance]) -> None:
        size = path.stat().st_size // (2 * width)
        self._frames: NDArray[np.float16] = (
            np.memmap(path, dtype=np.float16, mode="r", shape=(size, width))
            if size
            else np.zeros((0, width), dtype=np.float16)
        )
        self._entries = entries

    @property
    def utterances(self) -> Iterable[Utterance]:
        """The utterances in the store."""
        return self._entries

    def entry(self, utterance: Utterance) -> StoredUtterance:
        """Return position and length of an utterance."""
        return self._entries[utterance]

    def read(self, utterance: Utterance) -> NDArray[np.float16]:
        """Return all frames of an utterance (frames, width), a view of the file."""
        entry = self.entry(utterance)
        return self._frames[entry.first : entry.first + entry.frames]


class Store(Protocol):
    """Features of utterances, wherever they lie."""

    def entry(self, utterance: Utterance) -> StoredUtterance:
        """Return position and length of an utterance."""
        ...

    def read(self, utterance: Utterance) -> NDArray[np.float16]:
        """Return all frames of an utterance (frames, width)."""
        ...


class JoinedStore:
    """Several stores as one; each utterance is in one of them."""

    def __init__(self, stores: Sequence[FeatureStore]) -> None:
        self._store_of = {utterance: store for store in stores for utterance in store.utterances}

    def entry(self, utterance: Utterance) -> StoredUtterance:
        """Return position and length of an utterance in its store."""
        return self._store_of[utterance].entry(utterance)

    def read(self, utterance: Utterance) -> NDArray[np.float16]:
        """Return all frames of an utterance (frames, width), a view of its store's file."""
        return self._store_of[utterance].read(utterance)


@dataclass(frozen=True)
class CopyMaker:
    """Makes the augmented copies of one kind."""

    augmenter: Augmenter
    kind: CopyKind

    @property
    def name(self) -> str:
        """Name of the kind, with a hash of all that the copies depend on."""
        return f"{self.kind}-{self.augmenter.fingerprint(self.kind)}"


def copy_of(utterance: Utterance, kind: CopyKind) -> Utterance:
    """Return the utterance under the id of its augmented copy."""
    return replace(utterance, id=f"{utterance.id}~{kind}")


def open_store(
    folder: Path,
    utterances: Iterable[Utterance],
    model: SpeakerModel,
    *,
    copies: CopyMaker | None = None,
    jobs: int = 1,
    quiet: bool = True,
) -> FeatureStore:
    """Return the store with the features of all ``utterances``; missing ones are computed.

    Parameters
    ----------
    folder
        Folder of the store.
    utterances
        Utterances; the first that cannot be read is raised.
    model
        Model whose features are stored.
    copies
        The features are those of augmented copies of the recordings.
    jobs, quiet
        Processes, and whether to show no progress.

    Raises
    ------
    InputError
        If a recording cannot be read, or other files are in the place of the store.
    """
    heading = {"version": _VERSION, "feature": model.feature}
    home = folder / (model.feature if copies is None else f"{model.feature}-{copies.name}")
    data, index = home / "features.f16", home / "index.jsonl"
    with exclusive_lock(home, "another extraction of features"):
        _refuse_foreign(index, data, heading)
        try:
            entries = _read_index(index, data, heading, model.width)
            keys = {utterance: _key(utterance) for utterance in utterances}
            missing = {key: utterance for utterance, key in keys.items() if key not in entries}
            if missing:
                extracted = _extract(missing, _Extract(model.feature, copies), jobs, quiet)
                _append(data, index, entries, extracted, model.width)
        except OSError as error:
            raise OutputError(f"cannot write features: {error.strerror or error}", where=home) from error
    return FeatureStore(data, model.width, {utterance: entries[key] for utterance, key in keys.items()})


def _key(utterance: Utterance) -> str:
    try:
        status = utterance.path.stat()
    except OSError as error:
        raise InputError("no such audio file", where=utterance.path) from error
    parts = (utterance.path.resolve(), file_stamp(status), utterance.start, utterance.duration)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _refuse_foreign(index: Path, data: Path, heading: dict[str, Any]) -> None:
    """Raise ``InputError`` if files with the names of a store are not those of one: they would be replaced."""
    fix = "give another folder for --features, or move the file away"
    for path in (index, data):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError("not a regular file", where=path, fix=fix)
    first = b""
    if index.exists():
        with index.open("rb") as file:
            first = file.readline(LONGEST_LINE)
    row = _parsed(first)
    if (first and (row is None or row.keys() != heading.keys())) or (not first and data.exists()):
        raise InputError(
            "not a file of features that this program has written", where=index if first else data, fix=fix
        )


def _read_index(index: Path, data: Path, heading: dict[str, Any], width: int) -> dict[str, StoredUtterance]:
    """Return the entries whose data are complete, and cut both files after them; other kinds are removed."""
    entries: dict[str, StoredUtterance] = {}
    valid_bytes = 0
    lines = index.read_bytes().splitlines(keepends=True) if index.exists() and data.exists() else []
    size = data.stat().st_size if lines else 0
    for number, line in enumerate(lines):
        row = _parsed(line)
        if row is None or (number == 0 and row != heading):
            break
        if number:
            if row.keys() != {"key", *StoredUtterance.__dataclass_fields__}:
                break
            key = row.pop("key")
            try:
                entry = build(StoredUtterance, row)
            except InputError:
                break
            if min(entry.first, entry.frames) < 0 or (entry.first + entry.frames) * 2 * width > size:
                break
            entries[key] = entry
        valid_bytes += len(line)
    if not valid_bytes:
        index.write_text(json.dumps(heading) + "\n", encoding="utf-8")
        data.write_bytes(b"")
        return {}
    os.truncate(index, valid_bytes)
    os.truncate(data, 2 * width * max((e.first + e.frames for e in entries.values()), default=0))
    return entries


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        row = parse_json(line) if line.endswith(b"\n") else None
    except InputError:
        return None
    return row if isinstance(row, dict) else None


@dataclass(frozen=True)
class _Extract:
    """Work of a process: compute features and seconds of an utterance."""

    feature: FeatureName
    copies: CopyMaker | None = None

    def __call__(self, item: tuple[str, Utterance]) -> tuple[NDArray[np.float16], float]:
        utterance = item[1]
        wave = load(utterance.path, rate=RATE, start=utterance.start, duration=utterance.duration)
        copies = self.copies
        samples = wave.samples if copies is None else copies.augmenter(wave.samples, copies.kind)
        frames = features(samples, self.feature)
        if not len(frames):
            message = f"utterance {utterance.id} has {wave.duration:.3f} s: too short for one frame"
            raise InputError(message, where=utterance.path, fix="leave it out")
        return frames.astype(np.float16), wave.duration


def _extract(
    missing: dict[str, Utterance], work: _Extract, jobs: int, quiet: bool
) -> Iterator[tuple[str, tuple[NDArray[np.float16], float]]]:
    """Yield the key and the result of each utterance as it is ready; the first error is raised."""
    sizes = {key: utterance.path.stat().st_size for key, utterance in missing.items()}
    outcomes = run_items(work, missing.items(), jobs=jobs, preload=(__name__,))
    with Progress("extracting features", len(missing), work=sum(sizes.values()), quiet=quiet) as progress:
        for (key, _), outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
            yield key, outcome
            progress.advance(sizes[key], audio=outcome[1])


def _append(
    data: Path,
    index: Path,
    entries: dict[str, StoredUtterance],
    extracted: Iterable[tuple[str, tuple[NDArray[np.float16], float]]],
    width: int,
) -> None:
    """Append features to the file, and their positions to the index and to ``entries``."""
    first = data.stat().st_size // (2 * width)
    with data.open("ab") as frames_file, index.open("a", encoding="utf-8") as index_file:
        for key, (frames, seconds) in extracted:
            frames_file.write(np.ascontiguousarray(frames).tobytes())
            frames_file.flush()
            entry = StoredUtterance(first, len(frames), seconds)
            index_file.write(json.dumps({"key": key, **entry.__dict__}) + "\n")
            index_file.flush()
            entries[key] = entry
            first += len(frames)
