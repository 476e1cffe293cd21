"""The batch runner: a corpus in, an anonymized corpus of the same shape out; resumable, on one machine or on many.

The corpus is gone through in passes, and what must be remembered of each utterance is on disk: the memory of this
process does not grow with a manifest.
"""

from __future__ import annotations

import errno
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from voiceveil.audio import Encoding, info
from voiceveil.core.atomic_files import guarded, remove_parts
from voiceveil.core.diskdict import DiskDict
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.files import file_stamp
from voiceveil.core.output_guard import refuse_existing, refuse_files
from voiceveil.corpus import Corpus, CorpusLike, Utterance, stream_corpus
from voiceveil.run.executor import Jobs, check_jobs, executor_of
from voiceveil.run.ledger import CHANGED, RUN_AGAIN, Ledger, open_ledger, recording_hash
from voiceveil.run.outputs import refuse_before_start
from voiceveil.run.progress import Progress
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.digests import digest_secret, source_digest
from voiceveil.systems.keys import Key, Level
from voiceveil.systems.layout import Layout, plan_layout
from voiceveil.systems.release import PlannedRelease, Release, plan_release, write_release
from voiceveil.systems.resolve import default_system
from voiceveil.systems.settings import Draws, Format, Settings, make_settings
from voiceveil.systems.summary import Failure, Summary
from voiceveil.systems.worker import Done, Job, run_job

__all__ = ["Failure", "Summary", "anonymize"]


def anonymize(
    source: str | Path | Corpus,
    output: str | Path,
    *,
    system: str | Anonymizer | None = None,
    level: Level = "utterance",
    jobs: Jobs = 1,
    seed: int | None = None,
    key_file: str | Path | None = None,
    key_namespace: str | None = None,
    key: Key | None = None,
    draws: Draws = "keyed",
    rate: int | None = None,
    format: Format | None = None,
    encoding: Encoding = "int16",
    suffix: str | None = None,
    overwrite: bool | Literal["changed"] = False,
    publish: str | Path | Release | None = None,
    feature_cache: str | Path | None = None,
    quiet: bool = True,
) -> Summary:
    """Anonymize a recording or a corpus into ``output``.

    A run that was interrupted goes on where it stopped. A file in the output that the program did not write, or that
    was changed since, stops the run before anything is written unless ``overwrite`` is True; an output that is, holds
    or lies in the input is always refused.

    Parameters
    ----------
    source
        Audio file, folder of audio, Kaldi directory, ``.csv`` or ``.jsonl`` manifest, ``"NAME:PATH"``, or a Corpus.
    output
        Folder; for a single recording also a name that ends in ``.wav`` or ``.flac``.
    system
        Name of a system or the system itself. Default: ``veil``, or ``b2`` with a warning where the packages that
        ``veil`` needs are not installed.
    level
        Draw a pseudo-speaker for each ``"utterance"``, or for each ``"speaker"`` (and role: enrollment, trial).
    jobs
        Number of processes, or an executor (:mod:`voiceveil.run.executor`) for a cluster. With more than one process,
        scripts need the usual ``if __name__ == "__main__":``.
    seed
        Makes the run repeatable by everybody: for experiments, not for protection.
    key_file
        Secret key file: only those who have it can repeat the run. Without ``seed`` and ``key_file`` a fresh key is
        drawn and forgotten.
    key_namespace
        Other names give other pseudo-speakers under the same key file (default: the name of the corpus, so that equal
        ids in two corpora get different pseudo-speakers).
    key
        Key that several runs share, instead of ``seed`` and ``key_file``.
    draws
        ``"official"``: the random sequences of the challenge's own scripts.
    rate
        Sampling rate of the output in Hz (default: that of the system).
    format
        ``"wav"`` or ``"flac"`` (default: by the suffix of ``output``, else ``"wav"``).
    encoding
        ``"int16"`` or ``"int24"``.
    suffix
        End of the name of an output Kaldi directory (default: ``_`` and the name of the system).
    overwrite
        True: start again where another run left its results, and replace files that are in the way. ``"changed"``:
        start again only if the settings have changed.
    publish
        New folder for a release of the result without names, order and times of the input, or a
        :class:`~voiceveil.systems.release.Release`.
    feature_cache
        SQLite file that keeps features of the recordings for other systems, which makes these several times as fast;
        it holds embeddings of the speakers: biometric data.
    quiet
        Show no progress.

    Returns
    -------
    Summary
        Counts, failures and times; prints them. Recordings that cannot be read are in its ``failures``, the others
        are anonymized.

    Raises
    ------
    InputError
        If an argument or the output cannot be used, or nothing could be read.

    Examples
    --------
    >>> import numpy as np, voiceveil as vv
    >>> noise = vv.Waveform(np.random.default_rng(0).normal(0, 0.1, 8000), 16000)
    >>> written = [vv.save(f"recordings/{name}.wav", noise) for name in ("a", "b")]
    >>> summary = vv.anonymize("recordings", "hidden", system="b2", seed=1)
    >>> summary.done, summary.failures
    (2, ())
    """
    start = time.monotonic()
    check_jobs(jobs)
    if system is None:
        system, warning = default_system()
        if warning:
            warnings.warn(warning, UserWarning, stacklevel=2)
    chosen_format = format or _format_of(Path(output))
    settings = make_settings(
        system,
        level=level,
        draws=draws,
        seed=seed,
        key_file=key_file,
        key_namespace=key_namespace,
        key=key,
        rate=rate,
        format=chosen_format,
        encoding=encoding,
    )
    corpus: CorpusLike = source if isinstance(source, Corpus) else stream_corpus(source)
    features = None if feature_cache is None else Path(feature_cache).absolute()
    settings = replace(settings.in_corpus(corpus.name), features=features)
    if len(corpus) == 0:
        raise InputError("no utterances to anonymize", where=corpus.root)
    layout = plan_layout(
        corpus,
        Path(output),
        suffix=f"_{settings.system.name}" if suffix is None else suffix,
        extension=f".{chosen_format}",
        manifest_name=None if isinstance(source, Corpus) else Path(source).name,
        key_file=None if key_file is None else Path(key_file),
    )
    release = None if publish is None else _planned_release(publish, corpus, layout, settings)
    # Drawn before anything is written: this finds utterances without a speaker, or systems without official draws.
    for job in _jobs(corpus, layout, settings):
        if corpus.kind == "file":
            with Progress("anonymizing", 1, quiet=quiet) as progress:
                summary = _one_file(job, corpus, layout, settings, release, overwrite=overwrite is True)
                progress.advance(audio=summary.audio_seconds)
            return summary
        if settings.level == "utterance":  # what holds for one holds for all
            break
    if overwrite is not True:
        refuse_before_start(layout.folder, layout.targets(corpus))
    with open_ledger(layout.ledger, settings.record(), overwrite=overwrite, renamed=settings.renamed) as ledger:
        secret = digest_secret(settings, layout.ledger)
        plan = _plan(corpus, layout, ledger, secret)
        if plan.waiting and ledger.entries and not settings.resumable:
            if overwrite != "changed":
                raise _not_resumable(layout)
            plan = _plan(corpus, layout, None, secret)
        if overwrite is not True:
            waiting = (layout.target(utterance.id) for utterance in corpus if plan.stamp(utterance.id))
            refuse_existing(chain(waiting, layout.metadata), ledger.owns)
        parts = {layout.folder, layout.ledger.parent, *layout.folders}
        remove_parts(parts)
        progress = Progress("anonymizing", plan.waiting, work=plan.work, quiet=quiet)
        batch = _Batch(ledger, plan, progress, secret)
        try:
            batch.run((job for job in _jobs(corpus, layout, settings) if plan.stamp(job.id)), settings, jobs)
        finally:  # workers may have finished items that were not booked, and a node that died leaves some
            remove_parts(parts)
        finished = corpus.filter(lambda u: batch.has(u.id))
        outputs = layout.outputs(finished, lambda id: ledger.entries[id].seconds)
        with guarded(layout.folder, ledger):
            layout.write_metadata(outputs)
        left_over = ledger.others(plan.stamps)
        others = set(left_over)
        ledger.finish(lambda id: batch.has(id) or id in others)
        published = write_release(release, outputs, lambda id: ledger.entries[id].sha256)
    return Summary(
        output=layout.folder,
        done=plan.waiting - len(batch.failed),
        already_done=len(corpus) - plan.waiting,
        failures=tuple(Failure(id, error) for id, error in sorted(batch.failed.items())),
        left_over=tuple(left_over),
        mixed_down=batch.mixed_down,
        audio_seconds=batch.audio,
        seconds=time.monotonic() - start,
        published=published,
    )


def _format_of(output: Path) -> Format:
    """Return the audio format that the name of the output asks for."""
    return "flac" if output.suffix.lower() == ".flac" else "wav"


def _worker(settings: Settings) -> Callable[[Job], Done]:
    """Return the function that converts one recording."""
    return partial(
        run_job,
        system=settings.system,
        rate=settings.rate,
        encoding=settings.encoding,
        features=settings.features,
    )


def _planned_release(
    publish: str | Path | Release, corpus: CorpusLike, layout: Layout, settings: Settings
) -> PlannedRelease:
    """Check what is to be published, before the work begins."""
    output = next(layout.target(u.id) for u in corpus) if corpus.kind == "file" else layout.folder
    return plan_release(publish, corpus, output, settings)


def _one_file(
    job: Job, corpus: CorpusLike, layout: Layout, settings: Settings, release: PlannedRelease | None, *, overwrite: bool
) -> Summary:
    """Convert a single file, which needs no ledger; what is wrong with it is raised."""
    refuse_files([job.target], overwrite=overwrite, audio=True)
    start = time.monotonic()
    try:
        done = _worker(settings)(job)
        refuse_files([job.target], overwrite=overwrite, audio=True)
        job.part.replace(job.target)
    finally:
        job.part.unlink(missing_ok=True)
    published = write_release(release, layout.outputs(corpus, lambda id: done.seconds), lambda id: done.sha256)
    return Summary(
        output=job.target,
        done=1,
        already_done=0,
        failures=(),
        left_over=(),
        mixed_down=int(done.channels > 1),
        audio_seconds=done.seconds,
        seconds=time.monotonic() - start,
        published=published,
    )


@dataclass
class _Plan:
    """What is to be done: for each utterance by what a change of its recording is noticed, "" if it is done already.

    ``waiting``: how many are not; ``work``: their bytes.
    """

    stamps: DiskDict
    waiting: int = 0
    work: int = 0

    def stamp(self, id: str) -> str:
        """The stamp of an item that is to be done, "" of one that is done."""
        return self.stamps[id]


def _plan(corpus: CorpusLike, layout: Layout, ledger: Ledger | None, secret: bytes) -> _Plan:
    """Look at every recording, and into those that the ledger has."""
    plan = _Plan(DiskDict())
    for utterance in corpus:
        stamp = _stamp(utterance.path)
        if ledger is not None and utterance.id in ledger.entries and _is_done(utterance, layout, ledger, secret):
            plan.stamps[utterance.id] = ""
            continue
        plan.stamps[utterance.id] = stamp
        plan.waiting += 1
        plan.work += _work(stamp)
    return plan


def _is_done(utterance: Utterance, layout: Layout, ledger: Ledger, secret: bytes) -> bool:
    try:
        content = recording_hash(utterance.path)
    except (InputError, OSError):
        return False
    source = source_digest(secret, content, utterance)
    return ledger.has(utterance.id, source, layout.target(utterance.id))


class _Batch:
    """Runs jobs and keeps the books."""

    def __init__(self, ledger: Ledger, plan: _Plan, progress: Progress, secret: bytes) -> None:
        self.failed: dict[str, str] = {}
        self.mixed_down = 0
        self.audio = 0.0
        self._ledger = ledger
        self._plan = plan
        self._progress = progress
        self._secret = secret

    def has(self, id: str) -> bool:
        """Whether an item of this run is finished, now or before."""
        return id in self._plan.stamps and id in self._ledger.entries and id not in self.failed

    def run(self, waiting: Iterator[Job], settings: Settings, jobs: Jobs) -> None:
        work = _worker(settings)
        modules = ("voiceveil.systems.worker", type(settings.system).__module__, *settings.system.preload)
        executor, folder = executor_of(jobs, at_most=self._plan.waiting), self._ledger.path.parent
        outcomes = executor.run(work, waiting, folder=folder, seconds=_seconds, preload=modules)
        with self._progress, closing(outcomes):
            for job, result in outcomes:
                self._book(job, result)

    def _book(self, job: Job, result: Done | Exception) -> None:
        stamp = self._plan.stamp(job.id)
        if _stamp(job.source) != stamp:  # what was converted may not be what the ledger would say
            result = InputError(CHANGED, where=job.source, fix=RUN_AGAIN)
        if isinstance(result, Done):
            result = self._placed(job, result)
        if isinstance(result, Done):
            self.mixed_down += result.channels > 1
            self.audio += result.seconds
            self._progress.advance(_work(stamp), audio=result.seconds)
        elif isinstance(result, OutputError):
            raise result  # the next item would fail in the same way
        elif isinstance(result, InputError):
            self.failed[job.id] = str(result)
            job.part.unlink(missing_ok=True)
            if self._ledger.owns(job.target):  # of an earlier run, made from other input
                job.target.unlink(missing_ok=True)
            self._progress.note(f"failed: {result}", always=True)
            self._progress.advance(_work(stamp), failed=True)
        else:
            raise result

    def _placed(self, job: Job, done: Done) -> Done | InputError:
        """Record the item and give its file its name; the error, if another's file has appeared there meanwhile."""
        source = source_digest(self._secret, done.source, job)
        try:
            self._ledger.place(job.part, job.id, source, job.target, done.sha256, done.seconds)
        except InputError as error:
            return error
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EILSEQ):
                what = f"cannot be the name of a file: {error.strerror}"
                return InputError(what, where=job.target, fix="rename it")
            raise
        return done


def _jobs(corpus: CorpusLike, layout: Layout, settings: Settings) -> Iterator[Job]:
    for index, u in enumerate(corpus):
        rng = settings.rng(index, u)
        yield Job(u.id, u.path, u.start, u.duration, layout.target(u.id), rng, u.length, u.gender)


def _seconds(job: Job) -> float:
    """Of audio; a recording that cannot be read takes no time."""
    try:
        return info(job.source).duration - job.start if job.length is None else job.length
    except InputError:
        return 0.0


def _not_resumable(layout: Layout) -> InputError:
    return InputError(
        "a speaker-level run without a key cannot be resumed: its speakers would get second pseudo-speakers",
        where=layout.folder,
        fix="start again with --overwrite; with --key-file a run can always go on",
    )


def _stamp(path: Path) -> str:
    """Return what changes when the file does, its size first; "missing" if the file is not there."""
    try:
        return file_stamp(path.stat())
    except OSError:
        return "missing"


def _work(stamp: str) -> int:
    """The share of the work: bytes of the recording."""
    size = stamp.partition(" ")[0]
    return int(size) + 1 if size.isdecimal() else 1
