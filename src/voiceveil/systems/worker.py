"""Convert one recording from file to file: the job of a worker process.

Recordings up to ten minutes are converted in memory. Longer ones go block by block when the system can: the first
pass writes raw samples to a temporary file and finds their peak, the second brings them to their final level. Memory
is then bounded by the block, not by the recording.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import (
    Encoding,
    MixedDownWarning,
    Samples,
    create_audio,
    encoded,
    info,
    load,
    open_audio,
    read_blocks,
    save,
)
from voiceveil.core.activity import report_fraction
from voiceveil.core.atomic_files import part_beside, scratch_path
from voiceveil.core.errors import InputError, is_memory_error, memory_error
from voiceveil.run.ledger import recording_hash, sha256_file
from voiceveil.systems.contract import Anonymizer, Stream, check_finite
from voiceveil.systems.feature_cache import feature_cache

__all__ = ["Done", "Job", "run_job"]

#: Seconds of audio from which on a recording is converted block by block.
LONG = 600.0
_BLOCK = 1 << 20  # samples


@dataclass(frozen=True)
class Job:
    """A file or a part of it (``start`` and ``duration`` in seconds), its target, and the generator of its draws.

    A worker writes ``part``, a temporary file; the main process records it and renames it to ``target``.

    ``length``: seconds of audio; ``gender``: "f" or "m"; both None if the metadata do not state them.
    """

    id: str
    source: Path
    start: float
    duration: float | None
    target: Path
    rng: np.random.Generator
    length: float | None = None
    gender: str | None = None

    @property
    def part(self) -> Path:
        """The temporary file beside the target that the worker writes."""
        return part_beside(self.target)


@dataclass(frozen=True)
class Done:
    """Result of a job: seconds of output audio, channels and hash of the input file, hash of the output file."""

    seconds: float
    channels: int
    source: str
    sha256: str


def run_job(
    job: Job,
    *,
    system: Anonymizer,
    rate: int | None = None,
    encoding: Encoding = "int16",
    features: Path | None = None,
) -> Done:
    """Convert one recording into ``job.part``.

    Parameters
    ----------
    job
        The recording.
    system
        The system that converts it.
    rate
        Sampling rate of the output in Hz (default: the system's).
    encoding
        Encoding of the output.
    features
        File that keeps features of recordings, see :mod:`voiceveil.systems.feature_cache`.
    """
    with feature_cache(features):
        return _convert(job, system, rate, encoding)


def _convert(job: Job, system: Anonymizer, rate: int | None, encoding: Encoding) -> Done:
    system = system.with_source_gender(job.gender)
    try:
        source = _content(job.source)
        header = info(job.source)
        length = header.duration - job.start if job.duration is None else job.duration
        stream = system.stream(job.rng) if length > LONG else None
        if stream is not None:
            seconds, sha256 = _convert_blocks(job, stream, length, (system.rate, rate or system.rate), encoding)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MixedDownWarning)  # counted and said once, in the summary
                wave = load(job.source, start=job.start, duration=job.duration)
            result = system.convert(wave, job.rng)
            result = result.resampled(rate or result.rate)
            seconds, sha256 = result.duration, save(job.part, result, encoding=encoding)
    except InputError as error:
        if error.where is None or error.where == str(job.part):
            where = job.source if error.where is None else job.target
            raise type(error)(error.what, where=where, fix=error.fix) from error
        raise
    except Exception as error:
        if is_memory_error(error):
            raise memory_error(job.source) from error
        raise
    return Done(seconds, header.channels, source, sha256)


def _content(path: Path) -> str:
    """Return the hash of a recording, or "" if it cannot be read: opening it as audio gives a better error."""
    try:
        return recording_hash(path)
    except (InputError, OSError):
        return ""


def _convert_blocks(
    job: Job, stream: Stream, length: float, rates: tuple[int, int], encoding: Encoding
) -> tuple[float, str]:
    """Convert ``length`` seconds block by block; return the seconds and the sha256 of the output.

    ``rates``: those of the stream and of the output in Hz.
    """
    peak, count = 0.0, 0
    work_rate, rate = rates
    with scratch_path(job.part) as scratch:
        with open_audio(job.source) as file, scratch.open("wb") as raw:
            blocks = _resampled(_checked(file, job), int(file.samplerate), work_rate)
            for samples in _pushed(stream, blocks, length * work_rate):
                peak = max(peak, float(np.abs(samples).max(initial=0.0)))
                raw.write(samples.tobytes())  # not tofile: it does not say that the disk is full
        with create_audio(job.part, rate, encoding=encoding) as out:
            final = (stream.finish(samples, peak) for samples in _raw_blocks(scratch))
            for samples in _resampled(final, work_rate, rate):
                out.write(encoded(samples, encoding))
                count += len(samples)
    return count / rate, sha256_file(job.part)


def _checked(file: Any, job: Job) -> Iterator[Samples]:
    position = job.start
    for samples in read_blocks(file, job.source, start=job.start, duration=job.duration, size=_BLOCK):
        check_finite(samples, file.samplerate, position)
        position += len(samples) / file.samplerate
        yield samples


def _pushed(stream: Stream, blocks: Iterator[Samples], total: float) -> Iterator[Samples]:
    """Yield what the stream makes of the blocks, ``total`` samples in all."""
    done = 0
    for samples in blocks:
        yield stream.push(samples)
        done += len(samples)
        report_fraction(done / total)
    yield stream.close()


def _raw_blocks(path: Path) -> Iterator[Samples]:
    with path.open("rb") as raw:
        while len(samples := np.fromfile(raw, dtype=np.float32, count=_BLOCK)):
            yield samples


def _resampled(blocks: Iterator[Samples], rate: int, new_rate: int) -> Iterator[Samples]:
    if rate == new_rate:
        yield from blocks
        return
    import soxr

    stream = soxr.ResampleStream(rate, new_rate, 1, dtype="float32", quality="VHQ")
    for samples in blocks:
        yield stream.resample_chunk(samples)
    yield stream.resample_chunk(np.zeros(0, dtype=np.float32), last=True)
