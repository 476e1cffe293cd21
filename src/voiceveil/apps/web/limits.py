"""How often a client may ask, and how much it may send.

Conventions: rates are requests a second. The counts are in memory and of one process: with N workers a client may ask N
times as often.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["RateLimit", "read_body"]

_MOST_KEYS = 20_000


class RateLimit:
    """A bucket for each key: ``burst`` requests at once, then ``rate`` a second.

    >>> limit = RateLimit(rate=1.0, burst=2)
    >>> [limit.wait("someone", now=0.0) for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._buckets: dict[str, tuple[float, float]] = {}  # key -> (what is left, when)
        self._lock = threading.Lock()

    def wait(self, key: str, *, now: float | None = None) -> float:
        """0 if the request may pass, which counts it; else the seconds until the next may."""
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
        """Drop whoever has a full bucket again; if nobody has, the oldest half."""
        full = [k for k, (left, then) in self._buckets.items() if left + (moment - then) * self._rate >= self._burst]
        for key in full or list(self._buckets)[: _MOST_KEYS // 2]:
            del self._buckets[key]


async def read_body(request: Request, most: int) -> bytes:
    """The body of a request of at most so many bytes; 413 as soon as there are more, whatever its header says."""
    from starlette.exceptions import HTTPException

    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise HTTPException(413, "too large")
    return bytes(body)
