"""Convert one recording from file to file: the job of a worker process.

Recordings up to ten minutes are converted in memory. Longer ones go block by block when the system can: the first
pass writes raw samples to a temporary file and finds their peak, the second brings them to their final level. Memory
is then bounded by the block, not by the recording.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import (
    VIDEO_SUFFIXES,
    AudioFormat,
    AudioInfo,
    Encoding,
    MixedDownWarning,
    Samples,
    Waveform,
    create_audio,
    format_like,
    info,
    load,
    open_audio,
    read_blocks,
)
from voiceveil.core.activity import report_fraction
from voiceveil.core.atomic_files import part_beside, scratch_path
from voiceveil.core.errors import InputError, is_memory_error, memory_error
from voiceveil.core.files import resolved
from voiceveil.run.records import recording_hash, sha256_file
from voiceveil.systems.contract import Anonymizer, Stream, check_finite
from voiceveil.systems.conversation.options import ConversationOptions
from voiceveil.systems.conversation.recording import Recording
from voiceveil.systems.conversation.report import ConversationReport
from voiceveil.systems.feature_cache import feature_cache
from voiceveil.systems.redaction.options import RedactionOptions
from voiceveil.systems.redaction.report import RedactionReport
from voiceveil.systems.redaction.spans import replace_spans, silence_spans

if TYPE_CHECKING:
    from voiceveil.systems.conversation.mixing import RenderedConversation

__all__ = ["Done", "Job", "OutputOptions", "run_job"]

#: Longer recordings, in seconds, are converted block by block.
LONG = 600.0
_BLOCK = 1 << 20  # samples
Spans = tuple[tuple[float, float], ...]  # start and end in seconds


@dataclass(frozen=True)
class Job:
    """A recording to convert.

    A worker writes ``part``, a temporary file; the main process records it and renames it to ``target``.

    Parameters
    ----------
    id
        Utterance id.
    source, start, duration
        Audio file, and the part of it in seconds (duration None: to the end).
    target
        Output file.
    rng
        Generator of the pseudo-speaker.
    length, gender
        Seconds of audio, and "f" or "m", if the metadata state them.
    embedding
        Speaker embedding of the source, at speaker level the mean over all recordings of the speaker; None: not known.
    text
        What is said, for redaction; None: not known.
    """

    id: str
    source: Path
    start: float
    duration: float | None
    target: Path
    rng: np.random.Generator
    length: float | None = None
    gender: str | None = None
    embedding: NDArray[np.float32] | None = None
    text: str | None = None

    @property
    def part(self) -> Path:
        """Return the temporary file, beside the target, that the worker writes."""
        return part_beside(self.target)

    @property
    def turns(self) -> Path:
        """Return the file for the turns of a conversation, beside the target."""
        return self.target.with_suffix(".rttm")


@dataclass(frozen=True)
class OutputOptions:
    """Format and timing of the output.

    Parameters
    ----------
    rate
        Sampling rate in Hz (default: that of the input).
    encoding
        Depth of PCM (default: that of the input).
    like_input
        Write as many channels as the input has; else one.
    keep_timing
        Keep tempo and rhythm (default: where the output has a picture).
    conversation
        Who speaks when, and who is hidden, where several people speak.
    redaction
        Which words are removed.
    """

    rate: int | None = None
    encoding: Encoding | None = None
    like_input: bool = False
    keep_timing: bool | None = None
    conversation: ConversationOptions | None = None
    redaction: RedactionOptions | None = None

    def format(self, target: Path, source: AudioInfo) -> AudioFormat:
        """Return the format of a target that is made from a source."""
        source = replace(source, rate=self.rate or source.rate, channels=source.channels if self.like_input else 1)
        return format_like(target, source, encoding=self.encoding)


@dataclass(frozen=True)
class Done:
    """Result of a job.

    ``seconds``: of output audio; ``input_seconds``: of the recording; ``header``: of its file; ``narrowed``: whether
    the recording had more bandwidth than the system; ``is_video``: whether a picture was copied; ``source``,
    ``sha256``: hashes of the input and output files; ``conversation``: what was done, where several people speak;
    ``redaction``: what was removed, where words were to be.
    """

    seconds: float
    input_seconds: float
    header: AudioInfo
    narrowed: bool
    is_video: bool
    source: str
    sha256: str
    conversation: ConversationReport | None = None
    redaction: RedactionReport | None = None


def run_job(job: Job, *, system: Anonymizer, output: OutputOptions, features: Path | None = None) -> Done:
    """Convert one recording into ``job.part``.

    Parameters
    ----------
    job
        The recording.
    system
        The system that converts it.
    output
        Format and timing of the output.
    features
        Cache of features of recordings, see :mod:`voiceveil.systems.feature_cache`.
    """
    with feature_cache(features):
        return _convert(job, system, output)


def _convert(job: Job, system: Anonymizer, output: OutputOptions) -> Done:
    if output.conversation is None:  # a stated gender is that of one speaker
        system = system.with_source_gender(job.gender)
    if job.embedding is not None:
        system = system.with_source_embedding(job.embedding)
    try:
        source = _content(job.source)
        header = info(job.source)
        length = header.duration - job.start if job.duration is None else job.duration
        picture = job.source if _is_video(job, header) else None
        if picture is not None and output.keep_timing is None:
            system = system.with_timing_kept()
        conversion = _Conversion(job, system, output, header, length, picture)
        redacted = None
        if output.redaction is None:
            seconds, report = conversion.write()
        else:
            seconds, report, redacted = conversion.write_redacted(output.redaction)
    except InputError as error:
        if error.where is None or error.where == str(job.part):
            where = job.source if error.where is None else job.target
            raise type(error)(error.what, where=where, fix=error.fix) from error
        raise
    except Exception as error:
        if is_memory_error(error):
            raise memory_error(job.source) from error
        raise
    sha256, narrowed = sha256_file(job.part), header.rate > system.rate
    return Done(seconds, length, header, narrowed, picture is not None, source, sha256, report, redacted)


@dataclass(frozen=True)
class _Conversion:
    """The conversion of a recording of ``length`` seconds, which can be repeated; ``picture``: file that has one."""

    job: Job
    system: Anonymizer
    output: OutputOptions
    header: AudioInfo
    length: float
    picture: Path | None

    def write(self, silenced: Spans = ()) -> tuple[float, ConversationReport | None]:
        """Write the result to ``job.part``; return its seconds, and what was done where several people speak.

        ``silenced``: parts (start, end) in seconds of the recording that are not converted; they get what
        ``output.redaction`` says.
        """
        job, redaction = replace(self.job, rng=deepcopy(self.job.rng)), self.output.redaction
        format = self.output.format(job.target, self.header)
        start = 0.0 if self.picture is None else self.header.start
        count, report = 0, None
        with create_audio(job.part, format, picture=self.picture, start=start) as out, ExitStack() as stack:
            if self.output.conversation is not None:
                conversation = stack.enter_context(self._conversation(job, self.output.conversation, silenced))
                blocks, report = conversation.frames(format), conversation.report
            elif self.length > LONG and (stream := self.system.stream(job.rng)) is not None:
                scratch = stack.enter_context(scratch_path(job.part))
                rates = self.system.rate, format.rate
                blocks = _convert_blocks(job, stream, scratch, self.length, rates, silenced)
            else:
                blocks = iter([_convert_whole(job, self.system, format.rate, silenced)])
            for samples in blocks:
                if redaction is not None:
                    samples = replace_spans(samples, format.rate, count / format.rate, silenced, redaction.replacement)
                out.write(samples)
                count += len(samples)
        return count / format.rate, report

    def write_redacted(self, options: RedactionOptions) -> tuple[float, ConversationReport | None, RedactionReport]:
        """Write the result without the words that are to go; return what ``write`` does, and what was removed."""
        from voiceveil.systems.redaction.process import open_redaction

        job, conversation = self.job, self.output.conversation
        separate = conversation is not None and conversation.channels == "separate"
        recording = Recording(job.source, job.start, job.duration)
        with open_redaction(recording, options, job.part, text=job.text, separate=separate) as redaction:
            while True:
                seconds, report = self.write(redaction.spans)
                if redaction.check(Recording(job.part), job.part):
                    return seconds, report, redaction.report()

    def _conversation(
        self, job: Job, options: ConversationOptions, silenced: Spans
    ) -> AbstractContextManager[RenderedConversation]:
        """Return the conversion of a recording of several people."""
        from voiceveil.systems.conversation.conversion import open_conversation

        if isinstance(options.turns, Path) and resolved(options.turns) == resolved(job.turns):
            problem = "the turns of the output would replace those that are given"
            raise InputError(problem, where=options.turns, fix="give another output, or copy the turns elsewhere")
        recording = Recording(job.source, job.start, job.duration, silenced)
        return open_conversation(recording, self.system, options, job.rng, job.part)


def _is_video(job: Job, header: AudioInfo) -> bool:
    """Return whether the picture of the input goes into the output."""
    whole = job.start == 0 and job.duration is None
    return header.has_picture and whole and job.target.suffix.lower() in VIDEO_SUFFIXES


def _content(path: Path) -> str:
    """Return the hash of a recording, or "" if it cannot be read: opening it as audio gives a better error."""
    try:
        return recording_hash(path)
    except (InputError, OSError):
        return ""


def _convert_whole(job: Job, system: Anonymizer, rate: int, silenced: Spans) -> Samples:
    """Convert a recording in memory; return its samples at ``rate`` Hz."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixedDownWarning)  # counted and said once, in the summary
        wave = load(job.source, start=job.start, duration=job.duration)
    if silenced:
        wave = Waveform(silence_spans(wave.samples, wave.rate, 0.0, silenced), wave.rate)
    return system.convert(wave, job.rng).resampled(rate).samples


def _convert_blocks(
    job: Job, stream: Stream, scratch: Path, length: float, rates: tuple[int, int], silenced: Spans
) -> Iterator[Samples]:
    """Convert ``length`` seconds block by block; yield samples at the second of the ``rates`` (stream, output) in Hz.

    ``scratch``: a file for the result of the first pass; ``silenced``: parts that are read as silence.
    """
    peak = 0.0
    work_rate, rate = rates
    with open_audio(job.source) as file, scratch.open("wb") as raw:
        blocks = _resampled(_checked(file, job, silenced), int(file.samplerate), work_rate)
        for samples in _pushed(stream, blocks, length * work_rate):
            peak = max(peak, float(np.abs(samples).max(initial=0.0)))
            raw.write(samples.tobytes())  # not tofile: it does not say that the disk is full
    final = (stream.finish(samples, peak) for samples in _raw_blocks(scratch))
    yield from _resampled(final, work_rate, rate)


def _checked(file: Any, job: Job, silenced: Spans) -> Iterator[Samples]:
    rate, count = int(file.samplerate), 0
    for samples in read_blocks(file, job.source, start=job.start, duration=job.duration, size=_BLOCK):
        check_finite(samples, rate, job.start + count / rate)
        yield silence_spans(samples, rate, count / rate, silenced)
        count += len(samples)


def _pushed(stream: Stream, blocks: Iterator[Samples], total: float) -> Iterator[Samples]:
    """Yield the output of the stream for the blocks, ``total`` samples in all."""
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
