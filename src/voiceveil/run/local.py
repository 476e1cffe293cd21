"""The local executor: one function on many items, in this process or in several, one thread each.

Results come as they are ready. An exception of an item is its result; the others go on.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import multiprocessing.forkserver
import os
import pickle
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from multiprocessing.context import BaseContext
from typing import TypeVar

from voiceveil.core.errors import InputError
from voiceveil.core.user_modules import installed_modules, with_named_modules
from voiceveil.run.safe_path import safe_path

__all__ = ["in_worker", "outcome", "run_items"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Items handed out beyond those at work: enough to keep workers busy, few enough to keep memory flat.
_AHEAD = 4


def run_items(
    function: Callable[[Item], Result], items: Iterable[Item], *, jobs: int = 1, preload: tuple[str, ...] = ()
) -> Generator[tuple[Item, Result | Exception], None, None]:
    """Yield ``(item, result or exception)`` for each item, in the order of completion.

    Parameters
    ----------
    function, items
        Must be picklable if ``jobs`` > 1.
    jobs
        Number of processes; 1 stands for this process.
    preload
        Modules that are imported once for all workers.
    """
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: at least one job is needed")
    if jobs == 1:
        for item in items:
            yield item, outcome(partial(function, item))
        return
    # A server that has imported the heavy modules forks the workers: quick to start, and, unlike a fork of this
    # process, safe whatever threads run here.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(installed_modules(preload))
    with safe_path():
        multiprocessing.forkserver.ensure_running()  # starts the resource tracker as well
        pool = _make_pool(jobs, context)
    try:
        yield from _in_pool(pool, with_named_modules(function), iter(items), jobs * (1 + _AHEAD))
    except BrokenProcessPool as error:
        fix = "run again with fewer --jobs: it goes on from here"
        raise InputError("a worker died, perhaps for lack of memory", fix=fix) from error
    finally:
        # Items at work are finished (their files are written whole); those waiting are not begun.
        pool.shutdown(wait=True, cancel_futures=True)


def _make_pool(jobs: int, context: BaseContext) -> ProcessPoolExecutor:
    """Return the workers, which talk to this process through semaphores in shared memory."""
    try:
        return ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker)
    except (OSError, ImportError, NotImplementedError) as error:  # read-only, full, not there; no semaphores at all
        reason = error.strerror if isinstance(error, OSError) else error
        problem = f"worker processes need shared memory, which cannot be used: {reason}"
        fix = "use --jobs 1, or mount /dev/shm so that you can write to it"
        raise InputError(problem, where="/dev/shm", fix=fix) from error  # noqa: S108 -- nothing is written there


def _in_pool(
    pool: ProcessPoolExecutor, function: Callable[[Item], Result], items: Iterator[Item], window: int
) -> Generator[tuple[Item, Result | Exception], None, None]:
    waiting: dict[Future[Result], Item] = {}
    while True:
        for item in islice(items, window - len(waiting)):
            waiting[pool.submit(in_worker, function, item)] = item
        if not waiting:
            return
        finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
        for future in finished:
            yield waiting.pop(future), outcome(future.result)


def outcome(call: Callable[[], Result]) -> Result | Exception:
    """Return the result of a call, or the exception it raised."""
    try:
        return call()
    except BrokenProcessPool:
        raise
    except Exception as error:
        return error


def in_worker(function: Callable[[Item], Result], item: Item) -> Result:
    """Call the function; replace exceptions that cannot be unpickled, which would break the pool."""
    try:
        return function(item)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
        except Exception:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise


def _start_worker() -> None:
    """Ignore Ctrl-C, which the main process handles; end the worker when the main process dies, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
