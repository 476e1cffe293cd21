"""Worker threads for work that blocks: databases, files.

Conventions: the event loop serves everybody, hence nothing that waits for a disk or a database runs in it. Each kind of
work has its own :class:`Workers`, so that slow writes do not stop pages that only read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

from voiceveil.apps.web.database import Unavailable

__all__ = ["Workers"]

P = ParamSpec("P")
T = TypeVar("T")

_MOST_WAITING = 500  # requests; each holds a connection open


class Workers:
    """At most ``threads`` threads at once; further work waits for its turn, in order."""

    def __init__(self, threads: int = 8) -> None:
        self._limiter = anyio.CapacityLimiter(threads)

    async def run(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Return ``function(*args, **options)``, computed in a thread; ``Unavailable`` if too many wait already."""
        if self._limiter.statistics().tasks_waiting >= _MOST_WAITING:
            raise Unavailable("too many requests wait for the database")
        return await anyio.to_thread.run_sync(lambda: function(*args, **options), limiter=self._limiter)
