"""Limits of a web application: requests a second, bytes of a body, threads for work that blocks.

Conventions: rates are requests a second. Counts are kept in memory, by each process: with N processes a client may send
N times as many requests. The event loop serves all clients, hence nothing that waits for a disk or a database runs in
it. Each kind of work has its own :class:`Workers`, so that slow writes do not stop pages that only read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio
import anyio.to_thread

from voiceveil.apps.web.database import Unavailable

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["RateLimit", "Workers", "read_body"]

P = ParamSpec("P")
T = TypeVar("T")

_MOST_KEYS = 20_000
_MOST_WAITING = 500  # requests; each holds a connection open


class RateLimit:
    """A bucket for each key: ``burst`` requests at once, then ``rate`` a second.

    >>> limit = RateLimit(rate=1.0, burst=2)
    >>> [limit.wait("someone", now=0.0) for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._buckets: dict[str, tuple[float, float]] = {}  # key -> (requests left, time)
        self._lock = threading.Lock()

    def wait(self, key: str, *, now: float | None = None) -> float:
        """Count the request and return 0.0 if it may pass; else return the seconds until the next one may."""
        moment = time.monotonic() if now is None else now
        with self._lock:
            left, then = self._buckets.get(key, (self._burst, moment))
            left = min(self._burst, left + (moment - then) * self._rate)
            allowed = left >= 1.0
            self._buckets[key] = (left - 1.0 if allowed else left, moment)
            if len(self._buckets) > _MOST_KEYS:
                self._forget(moment)
        return 0.0 if allowed else (1.0 - left) / self._rate

    def _forget(self, moment: float) -> None:
        """Forget the keys whose buckets are full again; if there are none, the oldest half."""
        full = [k for k, (left, then) in self._buckets.items() if left + (moment - then) * self._rate >= self._burst]
        for key in full or list(self._buckets)[: _MOST_KEYS // 2]:
            del self._buckets[key]


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request; 413 as soon as it has more than ``most`` bytes, whatever its header says."""
    from starlette.exceptions import HTTPException

    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise HTTPException(413, "too large")
    return bytes(body)


class Workers:
    """At most ``threads`` threads at once; further work waits for its turn, in order."""

    def __init__(self, threads: int = 8) -> None:
        self._limiter = anyio.CapacityLimiter(threads)

    async def run(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Return ``function(*args, **options)``, computed in a thread; ``Unavailable`` if too many wait already."""
        if self._limiter.statistics().tasks_waiting >= _MOST_WAITING:
            raise Unavailable("too many requests wait for the database")
        return await anyio.to_thread.run_sync(lambda: function(*args, **options), limiter=self._limiter)
