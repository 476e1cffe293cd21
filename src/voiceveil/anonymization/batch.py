"""The batch runner: a corpus in, an anonymized corpus of the same shape out; resumable, in any number of processes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from voiceveil.anonymization.contract import Anonymizer, system
from voiceveil.anonymization.draws import Key, Level, keyed_rng
from voiceveil.anonymization.item import Done, Job, run_job
from voiceveil.anonymization.layout import Layout, plan_layout
from voiceveil.audio import PART_PREFIX, Encoding
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.errors import InputError, OutputError
from voiceveil.run.ledger import Ledger, open_ledger
from voiceveil.run.local import run_items
from voiceveil.run.progress import Progress

__all__ = ["Failure", "Summary", "anonymize"]

Draws = Literal["keyed", "official"]


@dataclass(frozen=True)
class Failure:
    """An utterance that could not be anonymized, and why."""

    id: str
    error: str


@dataclass(frozen=True)
class Summary:
    """What a run did: new items, items that were there already, failures, audio and wall-clock seconds."""

    output: Path
    done: int
    already_done: int
    failures: tuple[Failure, ...]
    mixed_down: int
    audio_seconds: float
    seconds: float


@dataclass(frozen=True)
class _Settings:
    """All that the bytes of the result depend on, beside the input."""

    system: Anonymizer
    level: Level
    draws: Draws
    key: Key
    rate: int | None
    format: str
    encoding: Encoding

    def record(self) -> dict[str, Any]:
        return {
            "voiceveil": version("voiceveil"),
            "system": self.system.name,
            "parameters": self.system.parameters(),
            "level": self.level,
            "draws": self.draws,
            "key": self.key.fingerprint() if self.draws == "keyed" else "official",
            "rate": self.rate or self.system.rate,
            "format": self.format,
            "encoding": self.encoding,
        }

    def rng(self, index: int, utterance: Utterance) -> np.random.Generator:
        if self.draws == "official":
            return self.system.official_rng(index, utterance, self.level)
        return keyed_rng(self.key, self.level, utterance)


def anonymize(
    source: str | Path | Corpus,
    output: str | Path,
    *,
    system: str | Anonymizer = "b2",
    level: Level = "utterance",
    jobs: int = 1,
    seed: int | None = None,
    key_file: str | Path | None = None,
    draws: Draws = "keyed",
    rate: int | None = None,
    format: Literal["wav", "flac"] = "wav",
    encoding: Encoding = "int16",
    suffix: str | None = None,
    overwrite: bool = False,
    quiet: bool = True,
) -> Summary:
    """Anonymize a file, folder, Kaldi directory, manifest, ``"name:path"`` or Corpus into ``output``.

    ``level``: a pseudo-speaker for each utterance, or for each speaker (and role: enrollment, trial).
    ``seed`` or ``key_file`` make the run repeatable; without them a fresh key is drawn and forgotten.
    ``rate``: sampling rate of the output in Hz (default: the system's). ``suffix``: ending of the name of a Kaldi
    directory (default: ``_`` and the system). A run that was interrupted goes on where it stopped; one with other
    settings is refused unless ``overwrite``. Bad recordings are in the summary's ``failures``; the rest is done.

    With ``jobs`` > 1, scripts need the usual ``if __name__ == "__main__":``.
    """
    start = time.monotonic()
    if jobs < 1:
        raise InputError(f"{jobs} jobs: at least one job is needed")
    settings = _settings(system, level, draws, seed, key_file, rate, format, encoding)
    corpus = source if isinstance(source, Corpus) else open_corpus(source)
    if len(corpus) == 0:
        raise InputError("no utterances to anonymize", where=corpus.root)
    layout = plan_layout(
        corpus,
        Path(output),
        suffix=f"_{settings.system.name}" if suffix is None else suffix,
        extension=f".{format}",
        manifest_name=None if isinstance(source, Corpus) else Path(source).name,
    )
    # Drawn before anything is written: at speaker level this finds utterances without a speaker.
    jobs_of = {job.id: job for job in _jobs(corpus, layout, settings)}
    if corpus.kind == "file":
        return _one_file(next(iter(jobs_of.values())), settings, overwrite=overwrite)
    with open_ledger(layout.ledger, settings.record(), overwrite=overwrite) as ledger:
        _check_resumable(ledger, settings)
        _remove_parts(layout)
        waiting = [job for job in jobs_of.values() if not ledger.has(job.id, _digest(job), job.target)]
        batch = _Batch(ledger, Progress(len(waiting), sum(map(_work, waiting)), style="quiet" if quiet else "auto"))
        batch.run(waiting, settings, jobs)
        finished = {id: layout.audio[id] for id in jobs_of if id in ledger.entries and id not in batch.failed}
        layout.write_metadata(corpus, finished)
        ledger.finish(set(finished))
    return Summary(
        output=layout.folder,
        done=len(waiting) - len(batch.failed),
        already_done=len(jobs_of) - len(waiting),
        failures=tuple(Failure(id, error) for id, error in sorted(batch.failed.items())),
        mixed_down=batch.mixed_down,
        audio_seconds=batch.audio,
        seconds=time.monotonic() - start,
    )


def _one_file(job: Job, settings: _Settings, *, overwrite: bool) -> Summary:
    """A single file needs no ledger; what is wrong with it is raised."""
    if job.target.exists() and not overwrite:
        raise InputError("the output exists", where=job.target, fix="give another name, or --overwrite")
    start = time.monotonic()
    done = run_job(job, system=settings.system, rate=settings.rate, encoding=settings.encoding)
    return Summary(job.target, 1, 0, (), int(done.channels > 1), done.seconds, time.monotonic() - start)


class _Batch:
    """Runs jobs and keeps the books."""

    def __init__(self, ledger: Ledger, progress: Progress) -> None:
        self.failed: dict[str, str] = {}
        self.mixed_down = 0
        self.audio = 0.0
        self._ledger = ledger
        self._progress = progress

    def run(self, waiting: list[Job], settings: _Settings, jobs: int) -> None:
        work = partial(run_job, system=settings.system, rate=settings.rate, encoding=settings.encoding)
        modules = ("voiceveil.anonymization.item", type(settings.system).__module__)
        try:
            for job, result in run_items(work, waiting, jobs=min(jobs, max(len(waiting), 1)), preload=modules):
                self._book(job, result)
        finally:
            self._progress.close()

    def _book(self, job: Job, result: Done | Exception) -> None:
        if isinstance(result, Done):
            self._ledger.add(job.id, _digest(job), job.target, result.sha256, result.seconds)
            self.mixed_down += result.channels > 1
            self.audio += result.seconds
            self._progress.add(work=_work(job), audio=result.seconds)
        elif isinstance(result, OutputError):
            raise result  # the next item would fail in the same way
        elif isinstance(result, InputError):
            self.failed[job.id] = str(result)
            job.target.unlink(missing_ok=True)  # of an earlier run, made from other input
            self._progress.note(f"failed: {result}")
            self._progress.add(work=_work(job), failed=True)
        else:
            raise result


def _settings(
    system_: str | Anonymizer,
    level: Level,
    draws: Draws,
    seed: int | None,
    key_file: str | Path | None,
    rate: int | None,
    format: str,
    encoding: Encoding,
) -> _Settings:
    if seed is not None and key_file is not None:
        raise InputError("both a seed and a key file", fix="give one of them")
    if level not in ("utterance", "speaker"):
        raise InputError(f"unknown level {level!r}", fix="utterance or speaker")
    if rate is not None and not 1000 <= rate <= 384000:
        raise InputError(f"cannot write audio at {rate} Hz", fix="give a rate between 1000 and 384000")
    if key_file is not None:
        key = Key.from_file(Path(key_file))
    else:
        key = Key.fresh() if seed is None else Key.from_seed(seed)
    made = system(system_) if isinstance(system_, str) else system_
    return _Settings(made, level, draws, key, rate, format, encoding)


def _jobs(corpus: Corpus, layout: Layout, settings: _Settings) -> Iterator[Job]:
    for index, utterance in enumerate(corpus):
        rng = settings.rng(index, utterance)
        yield Job(utterance.id, utterance.path, utterance.start, utterance.duration, layout.audio[utterance.id], rng)


def _check_resumable(ledger: Ledger, settings: _Settings) -> None:
    fresh = settings.draws == "keyed" and not settings.key.repeatable
    if fresh and settings.level == "speaker" and ledger.entries:
        raise InputError(
            "a speaker-level run without a key cannot go on: its speakers would get second pseudo-speakers",
            where=ledger.path.parent.parent,
            fix="start again with --overwrite; with --key-file a run can always go on",
        )


def _remove_parts(layout: Layout) -> None:
    """Temporary files that a killed run left."""
    for folder in {target.parent for target in layout.audio.values()}:
        for part in folder.glob(f"{PART_PREFIX}*"):
            part.unlink(missing_ok=True)


def _digest(job: Job) -> str:
    """Changes when the input does. Size and time of change stand for the content: reading it all would take long."""
    try:
        status = job.source.stat()
    except OSError:
        return "missing"
    text = f"{status.st_size} {status.st_mtime_ns} {job.start} {job.duration} {job.id}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _work(job: Job) -> int:
    try:
        return job.source.stat().st_size + 1
    except OSError:
        return 1
