"""Jobs of a run: which utterances are left to convert, running them on an executor, recording the results.

The ledger of the output lists finished utterances with a digest of their input. A plain hash of a recording would let
anybody who has a candidate recording confirm that it is among the originals. The digests are therefore HMACs. With a
key file or a seed their secret is derived from that key and stored nowhere. Other runs (a fresh key, official draws)
keep a random salt in ``.voiceveil/salt``, readable by its owner only: without it an interrupted run could not tell
which inputs have changed.

Each recording also has a *stamp* (size, times, inode). If it changes during the run, the job is not recorded as done.
"""

from __future__ import annotations

import csv
import errno
import hmac
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from voiceveil.audio import info
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.diskdict import DiskDict
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.files import file_stamp, read_bytes
from voiceveil.core.output_guard import refuse_files
from voiceveil.corpus import CorpusLike, Utterance
from voiceveil.run.device import OnDevice, worker_device
from voiceveil.run.executor import Jobs, executor_of
from voiceveil.run.ledger import CHANGED, RUN_AGAIN, Ledger
from voiceveil.run.progress import Progress
from voiceveil.run.records import recording_hash
from voiceveil.systems.conversation.report import ConversationTotals
from voiceveil.systems.layout import Layout
from voiceveil.systems.redaction.options import RedactionOptions
from voiceveil.systems.redaction.report import RedactionReport, RedactionTotals
from voiceveil.systems.settings import Settings
from voiceveil.systems.speaker_embeddings import SpeakerEmbeddings
from voiceveil.systems.worker import Done, Job, OutputOptions, run_job

__all__ = [
    "JobRunner", "Totals", "WorkPlan", "converter", "digest_secret", "make_jobs", "plan_work", "source_digest",
    "write_beside", "write_listing",
]  # fmt: skip

_SALT_SIZE = 32  # bytes


def converter(settings: Settings) -> Callable[[Job], Done]:
    """Return the function that converts one recording."""
    output = OutputOptions(
        settings.rate,
        settings.encoding,
        settings.like_input,
        settings.keep_timing,
        settings.conversation,
        settings.redaction,
    )
    return partial(run_job, system=settings.system, output=output, features=settings.features)


def make_jobs(
    corpus: CorpusLike, layout: Layout, settings: Settings, embeddings: SpeakerEmbeddings | None = None
) -> Iterator[Job]:
    """Yield the job of each utterance, with the generator of its pseudo-speaker.

    ``embeddings``: speaker -> embedding, for systems whose pseudo-speakers depend on it, at speaker level.
    """
    known = embeddings or {}
    for index, u in enumerate(corpus):
        rng, embedding = settings.rng(index, u), known.get(u.speaker or "")
        text = None if settings.redaction is None else u.text
        yield Job(u.id, u.path, u.start, u.duration, layout.target(u), rng, u.length, u.gender, embedding, text)


def _seconds(job: Job) -> float:
    """Return the seconds of audio of a job; 0 for a recording that cannot be read."""
    try:
        return info(job.source).duration - job.start if job.length is None else job.length
    except InputError:
        return 0.0


@dataclass
class WorkPlan:
    """Utterances of a run.

    Parameters
    ----------
    stamps
        Utterance id -> stamp of its recording, "" if the utterance is done.
    waiting, work
        Number of utterances that are not done, and the bytes of their recordings.
    """

    stamps: DiskDict
    waiting: int = 0
    work: int = 0


def plan_work(
    corpus: CorpusLike, layout: Layout, ledger: Ledger | None, secret: bytes, *, with_text: bool = False
) -> WorkPlan:
    """Return which utterances are left; recordings that the ledger lists are hashed to see whether they changed.

    Parameters
    ----------
    corpus, layout
        Input and output of the run.
    ledger
        Record of an earlier run; None: convert everything.
    secret
        Secret of the digests in the ledger, see :func:`digest_secret`.
    with_text
        Convert again what has another text: for redaction.
    """
    plan = WorkPlan(DiskDict())
    for utterance in corpus:
        stamp = _stamp(utterance.path)
        known = ledger is not None and utterance.id in ledger.entries
        if ledger is not None and known and _is_done(utterance, layout, ledger, secret, with_text=with_text):
            plan.stamps[utterance.id] = ""
            continue
        plan.stamps[utterance.id] = stamp
        plan.waiting += 1
        plan.work += _size(stamp)
    return plan


def _is_done(utterance: Utterance, layout: Layout, ledger: Ledger, secret: bytes, *, with_text: bool) -> bool:
    try:
        content = recording_hash(utterance.path)
    except (InputError, OSError):
        return False
    source = source_digest(secret, content, utterance, with_text=with_text)
    return ledger.has(utterance.id, source, layout.target(utterance))


def _stamp(path: Path) -> str:
    """Return the stamp of a file, which starts with its size; "missing" if there is none."""
    try:
        return file_stamp(path.stat())
    except OSError:
        return "missing"


def _size(stamp: str) -> int:
    """Return the size in a stamp in bytes, at least 1."""
    size = stamp.partition(" ")[0]
    return int(size) + 1 if size.isdecimal() else 1


def digest_secret(settings: Settings, ledger: Path, *, make: bool = True) -> bytes:
    """Return the secret of the digests in a ledger.

    The words that are to be removed are part of it: with another list of words every recording is converted again, and
    the ledger tells nothing about them.

    Parameters
    ----------
    settings
        Settings of the run.
    ledger
        Path of the ledger, whose folder must exist.
    make
        Store a new salt if one is needed and there is none. Otherwise the result is then empty, and no digest matches.
    """
    if settings.draws == "keyed" and settings.key.repeatable:
        secret = settings.key.derived("source digest")
    else:
        path = ledger.with_name("salt")
        secret = _stored_salt(path) or (_new_salt(path) if make else b"")
    if settings.redaction is None:
        return secret
    return hmac.digest(secret, settings.redaction.secrets().encode("utf-8", "surrogateescape"), "sha256")


def source_digest(secret: bytes, content: str, item: Utterance | Job, *, with_text: bool = False) -> str:
    """Return the digest of an input, 16 hexadecimal digits.

    It depends on the content, the id, the part of the file that is used, and the stated gender, but not on the path or
    the time of the file: a copy of a corpus is not anonymized again.

    Parameters
    ----------
    secret
        See :func:`digest_secret`.
    content
        sha256 of the file.
    item
        The utterance or its job.
    with_text
        It also depends on the text.
    """
    text = f"{content} {item.start} {item.duration} {item.id} {item.gender}"
    if with_text:
        text = f"{text} {item.text}"
    return hmac.digest(secret, os.fsencode(text), "sha256").hex()[:16]


def _stored_salt(path: Path) -> bytes | None:
    """Return the salt in the file, or None if there is no such file."""
    if not os.path.lexists(path):
        return None
    salt = read_bytes(path, at_most=1 << 16)
    if len(salt) != _SALT_SIZE:
        fix = "remove it: every recording is then anonymized again"
        raise InputError(f"not a salt, which has {_SALT_SIZE} bytes", where=path, fix=fix)
    return salt


def _new_salt(path: Path) -> bytes:
    salt = secrets.token_bytes(_SALT_SIZE)
    with atomic_path(path) as part:
        part.chmod(0o600)
        part.write_bytes(salt)
    return salt


@dataclass(frozen=True)
class Totals:
    """Sums over converted recordings.

    ``input_seconds``, ``audio_seconds``: of the recordings and of the output; ``mixed_down``: recordings with several
    channels; ``narrowed``: recordings with more bandwidth than the system; ``tracks_left_out``: further audio tracks;
    ``videos``: recordings whose picture was copied; ``conversations``: those of several people; ``redaction``: words
    that were removed.
    """

    input_seconds: float = 0.0
    audio_seconds: float = 0.0
    mixed_down: int = 0
    narrowed: int = 0
    tracks_left_out: int = 0
    videos: int = 0
    conversations: ConversationTotals = field(default_factory=ConversationTotals)
    redaction: RedactionTotals = field(default_factory=RedactionTotals)

    def plus(self, done: Done) -> Totals:
        """Return the sums with one more recording."""
        return Totals(
            self.input_seconds + done.input_seconds,
            self.audio_seconds + done.seconds,
            self.mixed_down + (done.header.channels > 1 and done.conversation is None),
            self.narrowed + done.narrowed,
            self.tracks_left_out + done.header.tracks - 1,
            self.videos + done.is_video,
            self.conversations.plus(done.conversation),
            self.redaction.plus(done.redaction),
        )


def write_beside(job: Job, done: Done, redaction: RedactionOptions | None, *, overwrite: bool) -> None:
    """Write the turns of a conversation, and the transcript of what is left after redaction.

    A file of the same content stays, as a run that was killed may have left it. Any other is replaced only with
    ``overwrite``, else it is an ``InputError``.
    """
    if done.conversation is not None:
        with atomic_path(job.turns) as part:
            done.conversation.write(part, job.target.stem)
            _refuse_other(job.turns, part, overwrite=overwrite)
    if redaction is not None and done.redaction is not None and done.redaction.transcript is not None:
        target = redaction.transcript_of(job.target)
        redaction.refuse_given(target)
        with atomic_path(target) as part:
            part.write_text(done.redaction.transcript, encoding="utf-8")
            _refuse_other(target, part, overwrite=overwrite)


def _refuse_other(path: Path, part: Path, *, overwrite: bool) -> None:
    """Refuse to replace a file, unless it has the content of ``part``, or ``overwrite``."""
    if not (path.is_file() and path.read_bytes() == part.read_bytes()):
        refuse_files([path], overwrite=overwrite)


def write_listing(redaction: RedactionOptions | None, removed: Mapping[str, RedactionReport]) -> None:
    """Write the private list of what was removed (recording, start, end, kind, reason, words), if it is asked for.

    ``removed``: utterance id -> its report. Only its owner can read the file.
    """
    if redaction is None or redaction.listing is None:
        return
    with atomic_path(redaction.listing) as part:
        part.chmod(0o600)
        with part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(("recording", "start", "end", "kind", "reason", "words"))
            for id, report in sorted(removed.items()):
                for span in report.spans:
                    rows.writerow((id, f"{span.start:.3f}", f"{span.end:.3f}", span.kind, span.reason, span.text))


class JobRunner:
    """Runs the jobs of a plan, moves finished files into place and records them in the ledger.

    ``failed``: id -> error of the utterances that could not be converted; ``totals``: of those that could;
    ``removed``: id -> what was removed from them, if it is to be listed.
    """

    def __init__(
        self,
        ledger: Ledger,
        plan: WorkPlan,
        progress: Progress,
        secret: bytes,
        *,
        redaction: RedactionOptions | None = None,
        overwrite: bool = False,
    ) -> None:
        self.failed: dict[str, str] = {}
        self.totals = Totals()
        self.removed: dict[str, RedactionReport] = {}
        self._redaction = redaction
        self._ledger = ledger
        self._plan = plan
        self._progress = progress
        self._secret = secret
        self._overwrite = overwrite

    def has(self, id: str) -> bool:
        """Return whether an utterance of this run is finished, now or before."""
        return id in self._plan.stamps and id in self._ledger.entries and id not in self.failed

    def run(self, waiting: Iterator[Job], settings: Settings, jobs: Jobs) -> None:
        """Run the waiting jobs in ``jobs`` processes, or on an executor."""
        modules = ("voiceveil.systems.worker", type(settings.system).__module__, *settings.system.preload)
        executor, folder = executor_of(jobs, at_most=self._plan.waiting), self._ledger.path.parent
        function = OnDevice(converter(settings), worker_device(executor))
        outcomes = executor.run(function, waiting, folder=folder, seconds=_seconds, preload=modules)
        with self._progress, closing(outcomes):
            for job, result in outcomes:
                self._record(job, result)

    def _record(self, job: Job, result: Done | Exception) -> None:
        stamp = self._plan.stamps[job.id]
        if _stamp(job.source) != stamp:  # the recording that was converted may be another
            result = InputError(CHANGED, where=job.source, fix=RUN_AGAIN)
        if isinstance(result, Done):
            result = self._place(job, result)
        if isinstance(result, Done):
            self.totals = self.totals.plus(result)
            if result.redaction is not None and self._redaction is not None and self._redaction.listing is not None:
                self.removed[job.id] = result.redaction
            self._progress.advance(_size(stamp), audio=result.seconds)
        elif isinstance(result, OutputError):
            raise result  # the next job would fail in the same way
        elif isinstance(result, InputError):
            self.failed[job.id] = str(result)
            job.part.unlink(missing_ok=True)
            if self._ledger.owns(job.target):  # from an earlier run with other input
                job.target.unlink(missing_ok=True)
            self._progress.note(f"failed: {result}", always=True)
            self._progress.advance(_size(stamp), failed=True)
        else:
            raise result

    def _place(self, job: Job, done: Done) -> Done | InputError:
        """Record the job and rename its file; return the error if another file has appeared in its place."""
        source = source_digest(self._secret, done.source, job, with_text=self._redaction is not None)
        try:
            overwrite = self._overwrite or job.id in self._ledger.entries
            write_beside(job, done, self._redaction, overwrite=overwrite)
            self._ledger.place(job.part, job.id, source, job.target, done.sha256, done.seconds)
        except InputError as error:
            return error
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EILSEQ):
                problem = f"the operating system refuses this file name: {error.strerror}"
                return InputError(problem, where=job.target, fix="rename the utterance")
            raise
        return done
