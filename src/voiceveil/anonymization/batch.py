"""The batch runner: a corpus in, an anonymized corpus of the same shape out; resumable, in any number of processes."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

from voiceveil.anonymization.contract import Anonymizer
from voiceveil.anonymization.draws import Level
from voiceveil.anonymization.item import Done, Job, run_job
from voiceveil.anonymization.layout import Layout, plan_layout
from voiceveil.anonymization.settings import Draws, Format, Settings, make_settings
from voiceveil.audio import PART_PREFIX, Encoding
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.errors import InputError, OutputError
from voiceveil.run.ledger import CHANGED, RUN_AGAIN, Ledger, open_ledger, sha256_file
from voiceveil.run.local import run_items
from voiceveil.run.progress import Progress

__all__ = ["Failure", "Summary", "anonymize", "source_digest"]


@dataclass(frozen=True)
class Failure:
    """An utterance that could not be anonymized, and why."""

    id: str
    error: str


@dataclass(frozen=True)
class Summary:
    """What a run did: new items, items that were there already, failures, audio and wall-clock seconds.

    ``left_over``: ids in the output, from an earlier run, that the input does not have any more.
    """

    output: Path
    done: int
    already_done: int
    failures: tuple[Failure, ...]
    left_over: tuple[str, ...]
    mixed_down: int
    audio_seconds: float
    seconds: float


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
    format: Format = "wav",
    encoding: Encoding = "int16",
    suffix: str | None = None,
    overwrite: bool | Literal["changed"] = False,
    quiet: bool = True,
) -> Summary:
    """Anonymize a file, folder, Kaldi directory, manifest, ``"name:path"`` or Corpus into ``output``.

    ``level``: a pseudo-speaker for each utterance, or for each speaker (and role: enrollment, trial).
    ``seed`` or ``key_file`` make the run repeatable; without them a fresh key is drawn and forgotten.
    ``rate``: sampling rate of the output in Hz (default: the system's). ``suffix``: ending of the name of a Kaldi
    directory (default: ``_`` and the system). A run that was interrupted goes on where it stopped; one with other
    settings is refused unless ``overwrite``, which starts again (``"changed"``: only if it must). Bad recordings are
    in the summary's ``failures``; the rest is done.

    With ``jobs`` > 1, scripts need the usual ``if __name__ == "__main__":``.
    """
    start = time.monotonic()
    if not isinstance(jobs, int) or jobs < 1:
        raise InputError(f"{jobs} jobs: at least one job is needed")
    settings = make_settings(
        system, level=level, draws=draws, seed=seed, key_file=key_file, rate=rate, format=format, encoding=encoding
    )
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
        return _one_file(next(iter(jobs_of.values())), settings, overwrite=bool(overwrite))
    with open_ledger(layout.ledger, settings.record(), overwrite=overwrite) as ledger:
        _remove_parts(layout)
        sources = {job.id: _source(job) for job in jobs_of.values()}
        waiting = [job for job in jobs_of.values() if not ledger.has(job.id, sources[job.id].digest, job.target)]
        if waiting and ledger.entries and not settings.can_go_on:
            if overwrite != "changed":
                raise _not_resumable(layout)
            waiting = list(jobs_of.values())
        progress = Progress(len(waiting), sum(map(_work, waiting)), style="quiet" if quiet else "auto")
        batch = _Batch(ledger, sources, progress)
        batch.run(waiting, settings, jobs)
        finished = {id: layout.audio[id] for id in jobs_of if id in ledger.entries and id not in batch.failed}
        layout.write_metadata(corpus.filter(lambda u: u.id in finished), finished)
        left_over = ledger.others(set(jobs_of))
        ledger.finish({*finished, *left_over})
    return Summary(
        output=layout.folder,
        done=len(waiting) - len(batch.failed),
        already_done=len(jobs_of) - len(waiting),
        failures=tuple(Failure(id, error) for id, error in sorted(batch.failed.items())),
        left_over=tuple(left_over),
        mixed_down=batch.mixed_down,
        audio_seconds=batch.audio,
        seconds=time.monotonic() - start,
    )


def _one_file(job: Job, settings: Settings, *, overwrite: bool) -> Summary:
    """A single file needs no ledger; what is wrong with it is raised."""
    if job.target.exists() and not overwrite:
        raise InputError("the output exists", where=job.target, fix="give another name, or --overwrite")
    start = time.monotonic()
    done = run_job(job, system=settings.system, rate=settings.rate, encoding=settings.encoding)
    return Summary(job.target, 1, 0, (), (), int(done.channels > 1), done.seconds, time.monotonic() - start)


class _Batch:
    """Runs jobs and keeps the books."""

    def __init__(self, ledger: Ledger, sources: Mapping[str, _Source], progress: Progress) -> None:
        self.failed: dict[str, str] = {}
        self.mixed_down = 0
        self.audio = 0.0
        self._ledger = ledger
        self._sources = sources
        self._progress = progress

    def run(self, waiting: list[Job], settings: Settings, jobs: int) -> None:
        work = partial(run_job, system=settings.system, rate=settings.rate, encoding=settings.encoding)
        modules = ("voiceveil.anonymization.item", type(settings.system).__module__, *settings.system.preload)
        try:
            for job, result in run_items(work, waiting, jobs=min(jobs, max(len(waiting), 1)), preload=modules):
                self._book(job, result)
        finally:
            self._progress.close()

    def _book(self, job: Job, result: Done | Exception) -> None:
        source = self._sources[job.id]
        if _stamp(job.source) != source.stamp:  # what was converted may not be what the ledger would say
            result = InputError(CHANGED, where=job.source, fix=RUN_AGAIN)
        if isinstance(result, Done):
            self._ledger.add(job.id, source.digest, job.target, result.sha256, result.seconds)
            self.mixed_down += result.channels > 1
            self.audio += result.seconds
            self._progress.add(work=_work(job), audio=result.seconds)
        elif isinstance(result, OutputError):
            raise result  # the next item would fail in the same way
        elif isinstance(result, InputError):
            self.failed[job.id] = str(result)
            with suppress(OSError):
                job.target.unlink()  # of an earlier run, made from other input
            self._progress.note(f"failed: {result}")
            self._progress.add(work=_work(job), failed=True)
        else:
            raise result


def _jobs(corpus: Corpus, layout: Layout, settings: Settings) -> Iterator[Job]:
    for index, utterance in enumerate(corpus):
        rng = settings.rng(index, utterance)
        yield Job(utterance.id, utterance.path, utterance.start, utterance.duration, layout.audio[utterance.id], rng)


def _not_resumable(layout: Layout) -> InputError:
    return InputError(
        "a speaker-level run without a key cannot go on: its speakers would get second pseudo-speakers",
        where=layout.folder,
        fix="start again with --overwrite; with --key-file a run can always go on",
    )


def _remove_parts(layout: Layout) -> None:
    """Temporary files that a killed run left."""
    for folder in {layout.folder, layout.ledger.parent, *(target.parent for target in layout.audio.values())}:
        for part in folder.glob(f"{PART_PREFIX}*"):
            part.unlink(missing_ok=True)


def source_digest(content: str, start: float, duration: float | None, id: str) -> str:
    """What the ledger knows the input by; it changes when the content of the file does (``content`` is its sha256).

    A copy of a corpus, or one with new time stamps, is not anonymized again.
    """
    return hashlib.sha256(os.fsencode(f"{content} {start} {duration} {id}")).hexdigest()[:16]


class _Source(NamedTuple):
    """The input of an item as the run found it: its digest, and by what a later change is noticed."""

    digest: str
    stamp: tuple[int, int] | None


def _source(job: Job) -> _Source:
    stamp = _stamp(job.source)
    try:
        content = _content(job.source, stamp)
    except OSError:
        return _Source("missing", stamp)
    return _Source(source_digest(content, job.start, job.duration, job.id), stamp)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Size and time of change; None if the file is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=64)
def _content(path: Path, stamp: tuple[int, int] | None) -> str:
    """Read once for all the segments of a recording."""
    return sha256_file(path)


def _work(job: Job) -> int:
    try:
        return job.source.stat().st_size + 1
    except OSError:
        return 1
