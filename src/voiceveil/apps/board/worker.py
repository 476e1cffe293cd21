"""The verification of submissions in the background: one at a time, in a process of its own.

Conventions: the queue is in the database. The archive of a submission lies in ``CONTEST/waiting/<id>`` from its upload
to the end of its verification; unpacked files and the cache lie in ``CONTEST/verifying/<id>``. Both are deleted when
the verification ends. A process that is killed leaves its row "verifying": the next worker resumes it, and finds the
results so far in the cache.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from voiceveil.apps.board.audio import unpack_audio
from voiceveil.apps.board.contest import Contest
from voiceveil.apps.board.scoring import LIMITS, gather_files, submitted_figures
from voiceveil.apps.board.store import Store, Submission
from voiceveil.apps.board.verification import (
    AudioRejected,
    VerificationOutcome,
    check_models,
    compare,
    draw_sample,
    recompute,
    reject_degenerate,
)
from voiceveil.apps.web.database import Unavailable, open_database
from voiceveil.apps.web.tokens import Seal, read_key
from voiceveil.core.errors import InputError
from voiceveil.core.locking import exclusive_lock
from voiceveil.run.cache import Cache
from voiceveil.run.safe_path import safe_path

__all__ = ["Worker", "background_worker", "put_in_queue", "run_worker", "take_from_queue"]

_ATTEMPTS = 3  # of a verification whose process dies
_POLL = 2.0  # seconds between two queries of an empty queue
_REPORT = 0.5  # seconds between two reports of progress
_DAY = 86400.0
_RESTART = 10.0  # seconds until a worker that died is started again


def put_in_queue(folder: Path, name: str, archive: Path) -> Path:
    """Move an archive into the folder where the worker of a contest looks for it; return its new path."""
    (folder / "waiting").mkdir(mode=0o700, exist_ok=True)
    return archive.replace(folder / "waiting" / name)


def take_from_queue(folder: Path, name: str) -> None:
    """Delete the archive of a submission that need not be verified any more."""
    (folder / "waiting" / name).unlink(missing_ok=True)


class Worker:
    """Verifies the submissions of one contest; only one worker may run, see :func:`run_worker`."""

    def __init__(
        self, folder: Path, contest: Contest, store: Store, seal: Seal, goes_on: Callable[[], bool] = lambda: True
    ) -> None:
        self._folder, self._contest, self._store, self._seal, self._goes_on = folder, contest, store, seal, goes_on

    def recover(self) -> None:
        """Queue the submission of a killed worker again, and delete files of submissions that are not in the queue.

        An archive of the last day is kept: its row may not be in the database yet.
        """
        self._store.requeue_verifications(_ATTEMPTS)
        queued = {
            name
            for name, verification in self._store.verifications().items()
            if verification.state in ("waiting", "failed")
        }
        for place, age in (("waiting", _DAY), ("verifying", 0.0)):
            for path in (self._folder / place).glob("[!.]*"):
                if path.name not in queued and time.time() - path.stat().st_mtime >= age:
                    _delete(path)

    def step(self) -> bool:
        """Verify the oldest submission that waits, and return whether there was one."""
        submission = self._store.next_verification()
        if submission is None:
            return False
        try:
            outcome = self._verify(submission, self._folder / "verifying" / submission.id)
        except Unavailable:  # the database is away: another worker takes it up again
            raise
        except AudioRejected as error:
            outcome = VerificationOutcome("rejected", error.what)
        except Exception as error:
            print(f"voiceveil board: {submission.id} cannot be verified: {error!r}", file=sys.stderr, flush=True)
            problem = error.what if isinstance(error, InputError) else type(error).__name__
            outcome = VerificationOutcome("failed", f"{problem} (the organizer can try again)")
        return self._end(submission, outcome)

    def _end(self, submission: Submission, outcome: VerificationOutcome) -> bool:
        self._store.end_verification(submission.id, outcome.state, outcome.reason, outcome.figures)
        if outcome.state != "failed":  # which can be tried again
            _delete(self._folder / "verifying" / submission.id)
            take_from_queue(self._folder, submission.id)
        return True

    def _verify(self, submission: Submission, work: Path) -> VerificationOutcome:
        archive = self._folder / "waiting" / submission.id
        if not archive.is_file():
            raise InputError("its archive is gone")
        for name in ("audio", "files"):  # from a worker that was killed; its cache is kept
            shutil.rmtree(work / name, ignore_errors=True)
            (work / name).mkdir(parents=True)
        audio = unpack_audio(self._contest, archive, work / "audio", LIMITS)
        sample = draw_sample(self._contest, self._seal.digest, submission.id)
        cache = Cache(work / "cache.sqlite")
        try:
            reject_degenerate(self._contest, audio, self._seal.digest, submission.id, cache)
            recomputed = recompute(self._contest, audio, sample, cache, self._reporter(submission.id))
        finally:
            cache.close()
        files = gather_files(archive, work / "files", LIMITS)
        return compare(self._contest, submitted_figures(self._contest, files, sample), recomputed)

    def _reporter(self, name: str) -> Callable[[float], None]:
        last = 0.0

        def report(progress: float) -> None:
            nonlocal last
            if not self._goes_on():  # the next worker takes it up again
                raise SystemExit
            if time.monotonic() - last > _REPORT:
                self._store.note_progress(name, progress)
                last = time.monotonic()

        return report


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def run_worker(folder: Path, database: str | None = None, *, forever: bool = False, retry: bool = False) -> int:
    """Verify all waiting submissions and return their number.

    Parameters
    ----------
    folder
        The contest.
    database
        Address of the database (default: ``board.sqlite`` in the folder).
    forever
        Wait for more submissions until the parent process ends.
    retry
        Also verify submissions again whose verification has failed.
    """
    contest = Contest.load(folder)
    if not contest.is_verified:
        fix = 'set verify = "all"'
        raise InputError("this contest does not verify submissions", where=folder / "contest.toml", fix=fix)
    check_models(contest)
    store = Store(open_database(database or folder / "board.sqlite"))
    parent, count = os.getppid(), 0

    def goes_on() -> bool:
        return not forever or os.getppid() == parent  # a server that was killed leaves its worker to another parent

    with exclusive_lock(folder / "verifying", "another verification"):
        worker = Worker(folder, contest, store, Seal(read_key(folder / "key")), goes_on)
        worker.recover()
        if retry:
            store.retry_verifications()
        while goes_on():
            try:
                busy = worker.step()
            except Unavailable:
                busy = False
                if not forever:
                    raise
            count += busy
            if not busy:
                if not forever:
                    break
                time.sleep(_POLL)
    return count


@contextmanager
def background_worker(folder: Path, database: str | None = None) -> Iterator[None]:
    """Verify submissions in a separate process while the block runs; restart the process if it dies."""
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()

    def supervise() -> None:
        while not stopping.is_set():
            process = context.Process(target=_in_background, args=(folder, database), daemon=True)
            with safe_path():
                process.start()
            while process.is_alive() and not stopping.is_set():
                process.join(0.2)
            if stopping.is_set():
                process.terminate()
                process.join()
            stopping.wait(_RESTART)

    thread = threading.Thread(target=supervise, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _in_background(folder: Path, database: str | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends this process
    os.nice(10)
    try:
        run_worker(folder, database, forever=True)
    except InputError as error:
        print(f"voiceveil board: no verification: {error}", flush=True)
        time.sleep(_RESTART)
