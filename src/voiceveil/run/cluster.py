"""The Ray executor: the functions of a local run, on a cluster that is running already.

The scheduler is Ray's. Items go out in blocks of about a minute of audio, as tasks of one core; a few blocks a core are
out at a time, so that this process holds little. Ray repeats a block whose worker or node died. A block that fails
again and again is taken apart, and an item that fails alone is reported as its own failure.

All nodes need the same VoiceVeil, and see the same files under the same paths; both are checked by each worker.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from voiceveil.core.atomic_files import PART_PREFIX
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.user_modules import with_named_modules
from voiceveil.run.local import in_worker, outcome

__all__ = ["RayExecutor", "ray_executor"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Seconds of audio in a block: long beside the milliseconds that a task costs, short beside a lost node.
BLOCK = 60.0
#: How often a block or an item is tried again when its worker died.
RETRIES = 2
_LARGEST = 1000  # items of a block
_AHEAD = 2  # blocks out for each core: one at work, one at hand
_PERIOD = 5.0  # seconds between two looks at the size of the cluster
_PATIENCE = 10.0  # seconds that items at work have to end when a run is broken off
_MARKER = f"{PART_PREFIX}cluster-"  # a temporary file, and removed as such


@contextmanager
def ray_executor(address: str | None = None, *, block: float | None = None) -> Iterator[RayExecutor]:
    """Connect to a running Ray cluster: ``address`` is host:port of its head (default: the one of this machine).

    This process must be on a node of the cluster. Nothing is sent to anybody else: usage statistics stay off.
    A connection that the process has already is used, and left open. ``block``: seconds of audio in a block.
    """
    ray = _ray()
    if address is not None and "://" in address:
        fix = "run this on a node of the cluster, with --address HOST:PORT"
        raise InputError(f"--address {address}: not the address of a head node", fix=fix)
    size = BLOCK if block is None else block
    if ray.is_initialized():
        yield RayExecutor(ray, block=size)
        return
    # Read by the core of Ray in this process, which keeps count: else what outgrows the memory is tried for ever.
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))
    try:
        # Ray adds the working directory to the module search path of its workers, unless the job is "a client's".
        job = ray.job_config.JobConfig(_client_job=True)
        ray.init(address=address or "auto", job_config=job, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        problem = f"no Ray cluster to connect to: {str(error).strip().splitlines()[0]}"
        raise InputError(problem, fix="start one: ray start --head, see docs/how-to/cluster.md") from error
    try:
        if not ray.cluster_resources().get("CPU"):
            raise InputError("the Ray cluster has no cores", fix="let nodes join it: ray start --address HOST:PORT")
        yield RayExecutor(ray, block=size)
    finally:
        ray.shutdown()


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Or else importing it warns of a change to come, which concerns GPUs.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise InputError("Ray is not installed", fix="pip install 'voiceveil[cluster]'") from error
    return ray


class RayExecutor:
    """An :class:`~voiceveil.run.executor.Executor`, made by :func:`ray_executor`."""

    distant = True

    def __init__(self, ray: Any, *, block: float) -> None:
        self._ray = ray
        self._block = block
        self._looked = -_PERIOD
        self._cores = 1

    @property
    def workers(self) -> int:
        """Cores of the cluster; nodes may come and go."""
        if time.monotonic() - self._looked >= _PERIOD:
            self._looked = time.monotonic()
            self._cores = max(int(self._ray.cluster_resources().get("CPU", 0)), 1)
        return self._cores

    def run(
        self,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        *,
        folder: Path,
        seconds: Callable[[Item], float],
        preload: tuple[str, ...] = (),
    ) -> Generator[tuple[Item, Result | Exception], None, None]:
        """Yield ``(item, result or exception)`` for each item, once, as blocks are done."""
        with _marked(folder.absolute()) as place:
            task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(_run_block)
            shipped = self._ray.put(with_named_modules(function))
            submit = partial(task.remote, shipped, place=place)
            yield from self._rounds(submit, _blocks(items, seconds, self._block))

    def _rounds(
        self, submit: Callable[[list[Item]], Any], blocks: Iterator[list[Item]]
    ) -> Generator[tuple[Item, Result | Exception], None, None]:
        ray = self._ray
        out: dict[Any, list[Item]] = {}
        again: deque[list[Item]] = deque()
        try:
            while True:
                while len(out) < _AHEAD * self.workers:
                    block = again.popleft() if again else next(blocks, None)
                    if block is None:
                        break
                    out[submit(block)] = block
                if not out:
                    return
                for done in ray.wait(list(out), timeout=_PERIOD)[0]:
                    block = out.pop(done)
                    results = self._results(done)
                    if results is not None:
                        yield from zip(block, results, strict=True)
                    elif len(block) > 1:
                        again.extend([item] for item in block)
                    else:
                        yield block[0], self._poison(block[0])
        finally:
            self._break_off(list(out))

    def _results(self, done: Any) -> list[Any] | None:
        """Return the results of a block; None if its workers died every time."""
        try:
            return list(self._ray.get(done))
        except self._ray.exceptions.RayTaskError as error:
            fix = "install the same packages on all nodes"
            raise InputError(f"a node of the cluster cannot do the work: {error.cause!r}", fix=fix) from error
        except self._ray.exceptions.RayError:
            return None

    def _poison(self, item: object) -> InputError:
        where = getattr(item, "source", None) or getattr(item, "path", None)
        problem = f"its worker died {RETRIES + 1} times, perhaps for lack of memory"
        return InputError(problem, where=where, fix="try it alone, without --executor ray")

    def _break_off(self, out: list[Any]) -> None:
        """Interrupt the blocks at work, so that they remove their temporary files, and do not start the others."""
        with suppress(Exception):  # the cluster may be what is broken
            for future in out:
                self._ray.cancel(future)
            if out:
                self._ray.wait(out, num_returns=len(out), timeout=_PATIENCE)


def _blocks(items: Iterable[Item], seconds: Callable[[Item], float], most: float) -> Iterator[list[Item]]:
    """Yield lists of items, in order, of at most ``most`` seconds of audio; longer items are alone in a list."""
    block: list[Item] = []
    total = 0.0
    for item in items:
        length = seconds(item)
        if block and (total + length > most or len(block) == _LARGEST):
            yield block
            block, total = [], 0.0
        block.append(item)
        total += length
    if block:
        yield block


#: What a worker checks and goes to: marker, its content, version of VoiceVeil, working folder.
Place = tuple[str, str, str, str]


@contextmanager
def _marked(folder: Path) -> Iterator[Place]:
    """Write a file with random content, by which workers verify that they see the same storage."""
    token = secrets.token_hex(16)
    marker = folder / f"{_MARKER}{token[:8]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        marker.write_text(token)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", where=folder) from error
    try:
        yield str(marker), token, version("voiceveil"), str(Path.cwd())
    finally:
        with suppress(OSError):
            marker.unlink()


def _run_block(function: Callable[[Item], Result], block: list[Item], place: Place) -> list[Result | Exception]:
    """Run a block of items in a worker."""
    fault = _misplaced(place)
    if fault is not None:
        return [fault] * len(block)
    return [outcome(partial(in_worker, function, item)) for item in block]


@lru_cache(maxsize=8)
def _misplaced(place: Place) -> OutputError | None:
    """Return the error of a node that cannot work here, or None."""
    marker, token, wanted, folder = place
    name = os.uname().nodename
    try:
        seen = Path(marker).read_text()
    except OSError:
        seen = ""
    if seen != token:
        fix = "give an output on storage that all nodes share, under the same path"
        return OutputError(f"node {name} does not see this folder", where=Path(marker).parent, fix=fix)
    if version("voiceveil") != wanted:
        fix = "install the same version on all nodes"
        return OutputError(f"node {name} has VoiceVeil {version('voiceveil')}, not {wanted}", fix=fix)
    with suppress(OSError):  # where only absolute paths are used, it need not be there
        os.chdir(folder)
    return None
