"""Features of a training set in one memory-mapped file, so that training waits neither for decoding nor for memory.

A folder, for each kind of features one inside it, with ``features.f16`` (frames one after the other, in half
precision: an error of a thousandth, far below what a network notices) and ``index.jsonl`` (what stands where; its first
line says of which kind the features are). Utterances are appended as they are ready, the line after the data, so that
a killed run goes on where it stopped. An utterance is known by its path, size, time of change and part of the file.

The file holds what was said and by whom: it is personal data, as the recordings are.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

__all__ = ["FeatureStore", "Stored", "open_store"]

_VERSION = 1
#: The challenge leaves out chunks whose mean absolute amplitude is below this.
_SILENT = 5e-4


@dataclass(frozen=True)
class Stored:
    """Where an utterance stands: first frame, number of frames; and how many whole chunks of it are not silent."""

    first: int
    frames: int
    loud_chunks: int
    seconds: float


class FeatureStore:
    """Utterance -> features (frames, width), float16, read from disk when they are used."""

    def __init__(self, path: Path, width: int, entries: dict[Utterance, Stored]) -> None:
        size = path.stat().st_size // (2 * width)
        self._frames: NDArray[np.float16] = (
            np.memmap(path, dtype=np.float16, mode="r", shape=(size, width))
            if size
            else np.zeros((0, width), dtype=np.float16)
        )
        self._entries = entries

    def entry(self, utterance: Utterance) -> Stored:
        """What is known about the utterance."""
        return self._entries[utterance]

    def read(self, utterance: Utterance) -> NDArray[np.float16]:
        """Return all frames of the utterance; a view of the file."""
        entry = self.entry(utterance)
        return self._frames[entry.first : entry.first + entry.frames]


def open_store(
    folder: Path,
    utterances: Iterable[Utterance],
    model: SpeakerModel,
    *,
    seconds: float,
    jobs: int = 1,
    quiet: bool = True,
) -> FeatureStore:
    """Return the store with the features of all ``utterances``; what is not there yet is computed.

    ``seconds`` is the length of the chunks of which the silent ones are counted. The first bad file is raised.
    """
    heading = {"version": _VERSION, "feature": model.feature, "chunk_seconds": seconds}
    home = folder / f"{model.feature}-{seconds:g}s"
    data, index = home / "features.f16", home / "index.jsonl"
    with exclusive_lock(home, "another extraction of features"):
        _refuse_foreign(index, data, heading)
        try:
            entries = _read_index(index, data, heading, model.width)
            keys = {utterance: _key(utterance) for utterance in utterances}
            missing = {key: utterance for utterance, key in keys.items() if key not in entries}
            if missing:
                _append(data, index, entries, missing, model, seconds, jobs, quiet)
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
    """Raise ``InputError`` if the files of a store are not those of one: they would be emptied and written anew."""
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


def _read_index(index: Path, data: Path, heading: dict[str, Any], width: int) -> dict[str, Stored]:
    """Return the entries whose data are whole; both files are cut behind them. Features of another kind: begin anew."""
    entries: dict[str, Stored] = {}
    good = 0
    lines = index.read_bytes().splitlines(keepends=True) if index.exists() and data.exists() else []
    size = data.stat().st_size if lines else 0
    for number, line in enumerate(lines):
        row = _parsed(line)
        if row is None or (number == 0 and row != heading):
            break
        if number:
            if row.keys() != {"key", *Stored.__dataclass_fields__}:
                break
            key = row.pop("key")
            try:
                entry = build(Stored, row)
            except InputError:
                break
            if min(entry.first, entry.frames) < 0 or (entry.first + entry.frames) * 2 * width > size:
                break
            entries[key] = entry
        good += len(line)
    if not good:
        index.write_text(json.dumps(heading) + "\n", encoding="utf-8")
        data.write_bytes(b"")
        return {}
    os.truncate(index, good)
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
    """The work of one process: an utterance to its features."""

    feature: FeatureName
    seconds: float

    def __call__(self, item: tuple[str, Utterance]) -> tuple[NDArray[np.float16], int, float]:
        utterance = item[1]
        wave = load(utterance.path, rate=RATE, start=utterance.start, duration=utterance.duration)
        found = features(wave.samples, self.feature)
        if not len(found):
            what = f"utterance {utterance.id} has {wave.duration:.3f} s: too short for one frame"
            raise InputError(what, where=utterance.path, fix="leave it out")
        size = round(self.seconds * RATE)
        whole = wave.samples[: len(wave) // size * size].reshape(-1, size)
        loud = int((np.abs(whole).mean(axis=1) >= _SILENT).sum()) if len(whole) else 0
        return found.astype(np.float16), loud, wave.duration


def _append(
    data: Path,
    index: Path,
    entries: dict[str, Stored],
    missing: dict[str, Utterance],
    model: SpeakerModel,
    seconds: float,
    jobs: int,
    quiet: bool,
) -> None:
    first = data.stat().st_size // (2 * model.width)
    work = {key: utterance.path.stat().st_size for key, utterance in missing.items()}
    outcomes = run_items(_Extract(model.feature, seconds), missing.items(), jobs=jobs, preload=(__name__,))
    with (
        Progress("extracting features", len(missing), work=sum(work.values()), quiet=quiet) as progress,
        data.open("ab") as frames_file,
        index.open("a", encoding="utf-8") as index_file,
    ):
        for (key, _), outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
            found, loud, length = outcome
            frames_file.write(np.ascontiguousarray(found).tobytes())
            frames_file.flush()
            entry = Stored(first, len(found), loud, length)
            index_file.write(json.dumps({"key": key, **entry.__dict__}) + "\n")
            index_file.flush()
            entries[key] = entry
            first += len(found)
            progress.advance(work[key], audio=length)
