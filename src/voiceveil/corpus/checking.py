"""Check a corpus: list every fault of its metadata and audio, each with its file and line.

The metadata are checked first, which takes no longer than reading them; then the header of each audio file is read.
Samples are read only where they could be something else than finite numbers: in floating-point files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import open_audio
from voiceveil.core.errors import InputError
from voiceveil.corpus.consistency import cross_check, trial_faults, unsafe_ids
from voiceveil.corpus.faults import Fault
from voiceveil.corpus.kaldi import assemble, read_tables
from voiceveil.corpus.manifest import read_rows
from voiceveil.corpus.model import Corpus, Utterance, paused_collector
from voiceveil.corpus.readers import corpora, find_reader, open_corpus

__all__ = ["Reading", "audio_faults", "check", "read_tolerantly"]


@dataclass(frozen=True)
class Reading:
    """A corpus as far as it could be read, the faults of its metadata, and the place of each utterance."""

    corpus: Corpus
    faults: list[Fault]
    file: Path | None = None
    lines: Mapping[str, int] | None = None

    def place(self, utterance: Utterance) -> tuple[Path, int | None]:
        """Return the file and line that name an utterance's audio; the audio file itself if no file names it."""
        if self.file is None or self.lines is None:
            return utterance.path, None
        return self.file, self.lines.get(utterance.id)


def check(
    corpus: Corpus | str | Path,
    *,
    rate: int | None = None,
    enroll: Corpus | str | Path | None = None,
    audio: bool = True,
) -> list[Fault]:
    """Return all faults and notes of a corpus.

    Parameters
    ----------
    corpus
        A corpus, or a path that ``open_corpus`` takes.
    rate
        Sampling rate in Hz that each file should have.
    enroll
        Corpus with the enrollment utterances, if they are not in ``corpus``; the trials are checked against it.
    audio
        Also open the audio files.
    """
    reading = read_tolerantly(corpus, enroll=enroll)
    return [*reading.faults, *(audio_faults(reading, rate) if audio else ())]


def read_tolerantly(corpus: Corpus | str | Path, *, enroll: Corpus | str | Path | None = None) -> Reading:
    """Read on past every fault and compare the metadata with each other; faults are in the order of the files."""
    enrollment = enroll if isinstance(enroll, Corpus) or enroll is None else open_corpus(enroll)
    if isinstance(corpus, Corpus):
        return Reading(corpus, list(trial_faults(corpus, enrollment, corpus.root, None)))
    name, path = find_reader(corpus)
    with paused_collector():
        reading = {"kaldi": _read_kaldi, "manifest": _read_manifest}.get(name, _read_other)(name, path, enrollment)
    reading.faults.sort(key=lambda fault: (str(fault.file), fault.line or 0))
    return reading


def _read_manifest(name: str, path: Path, enrollment: Corpus | None) -> Reading:
    faults: list[Fault] = []
    corpus, lines = read_rows(path, faults.append)
    faults.extend(trial_faults(corpus, enrollment, path.with_suffix(".trials.csv"), None))
    faults.extend(unsafe_ids(corpus, path))
    return Reading(corpus, faults, path, lines)


def _read_other(name: str, path: Path, enrollment: Corpus | None) -> Reading:
    faults: list[Fault] = []
    corpus = corpora[name](path, faults.append)
    faults.extend(trial_faults(corpus, enrollment, path, None))
    faults.extend(unsafe_ids(corpus, path))
    return Reading(corpus, faults)


def _read_kaldi(name: str, directory: Path, enrollment: Corpus | None) -> Reading:
    faults: list[Fault] = []
    tables = read_tables(directory, faults.append)
    corpus = assemble(tables, faults.append)
    faults.extend(cross_check(tables, corpus))
    faults.extend(trial_faults(corpus, enrollment, directory / "trials", tables.trial_lines))
    faults.extend(unsafe_ids(corpus, directory))
    table = tables.files.get("wav.scp" if tables.segments is None else "segments")
    return Reading(corpus, faults, table.path if table else None, table.lines if table else None)


def audio_faults(
    reading: Reading, rate: int | None = None, progress: Callable[[int], None] | None = None
) -> Iterator[Fault]:
    """Yield the faults of the audio files in the order of the utterances.

    Parameters
    ----------
    reading
        The corpus with the places of its utterances.
    rate
        Sampling rate in Hz that each file should have.
    progress
        Called with the number of finished utterances.
    """
    files: dict[Path, tuple[float, str, str]] = {}
    for number, utterance in enumerate(reading.corpus, start=1):
        new = utterance.path not in files
        if new:
            files[utterance.path] = _examine(utterance.path, rate)
        seconds, problem, fix = files[utterance.path]
        if problem and new:  # once for each file, however many utterances it holds
            yield Fault(*reading.place(utterance), f"{utterance.id}: {problem}", fix)
        elif not problem and utterance.start + (utterance.duration or 0.0) > seconds + 0.5 * _SAMPLE:
            end = utterance.start + (utterance.duration or 0.0)
            problem = f"{utterance.id}: ends at {end:g} s, but {utterance.path} has only {seconds:g} s"
            yield Fault(*reading.place(utterance), problem, "mend its start and end")
        if progress is not None:
            progress(number)


#: Seconds: half a sample at 16 kHz is how far rounding may take a segment beyond its file.
_SAMPLE = 1 / 16000


def _examine(path: Path, rate: int | None) -> tuple[float, str, str]:
    """Return the length of a file in seconds, its problem ("" if it has none), and how to fix it."""
    try:
        with open_audio(path) as file:
            seconds = file.frames / file.samplerate
            if file.frames == 0:
                return seconds, f"no samples in {path}", "record it again or remove the utterance"
            if rate is not None and file.samplerate != rate:
                return seconds, f"{file.samplerate} Hz instead of {rate} Hz in {path}", f"resample to {rate} Hz"
            if file.subtype in ("FLOAT", "DOUBLE") and not _is_finite(file):
                return seconds, f"samples that are not numbers in {path}", "write the file again"
    except InputError as error:
        fix = error.fix or ("" if path.exists() else "mend the path or remove the utterance")
        return 0.0, f"{error.what}: {path}", fix
    return seconds, "", ""


def _is_finite(file: Any) -> bool:
    return all(np.isfinite(block).all() for block in file.blocks(1 << 20, dtype="float64"))
