"""Live sessions: anonymize one person's speech block by block, and time each block.

Conventions: samples are float32, mono, at the system's rate (16 kHz), shape (n,), in [-1, 1]; blocks may have any size.
A pseudo-speaker is drawn once, when the session begins, from a fresh key that is never stored.

Latency: B2 processes frames of 20 ms: an output sample is ready when the 20 ms that begin with it have arrived. A
caller that pushes blocks also waits for a block to fill: the latency is 20 ms and one block.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from voiceveil.audio import Samples
from voiceveil.core.errors import InputError
from voiceveil.systems.contract import Anonymizer, Stream, check_finite, find_system
from voiceveil.systems.keys import Key

__all__ = ["Session", "Timings", "live_system"]

_KEPT = 20_000  # blocks
_EMPTY = np.zeros(0, dtype=np.float32)


def live_system(name: str = "b2", chosen: Sequence[str] = ()) -> Anonymizer:
    """Return a system that can run live.

    Parameters
    ----------
    name
        A system of the registry.
    chosen
        Its parameters as ``NAME=VALUE``.

    Raises
    ------
    InputError
        If the system needs whole recordings.
    """
    system: Any = find_system(name, chosen)
    if hasattr(system, "level") and not any(setting.startswith("level=") for setting in chosen):
        system = replace(system, level="follow")  # the level that needs no future
    _begin(system, Key.fresh())
    return cast(Anonymizer, system)


def _begin(system: Anonymizer, key: Key) -> tuple[Stream, float]:
    """Return a new stream of the system, and its latency in seconds."""
    latency = system.latency()
    stream = None if latency is None else system.stream(key.rng("live"))
    if latency is None or stream is None:
        message = f"{system.name} needs the whole recording and cannot run live"
        raise InputError(message, fix="use b2, b2-2022, b2-2020 or d1 with level=follow")
    return stream, latency


@dataclass
class Timings:
    """Processing times of blocks in seconds; a block is late when it took longer than it lasts.

    Only times of the latest blocks are kept, 20,000 at least (more than three minutes), to bound the memory.
    """

    late: int = 0
    blocks: int = 0
    seconds: array[float] = field(default_factory=lambda: array("d"))

    def add(self, taken: float, duration: float) -> None:
        """Note a block that lasts ``duration`` seconds and took ``taken`` seconds."""
        self.seconds.append(taken)
        self.blocks += 1
        self.late += taken > duration
        if len(self.seconds) >= 2 * _KEPT:
            del self.seconds[:_KEPT]

    def as_dict(self) -> dict[str, float]:
        """Return the numbers of blocks and of late ones; median, 99th percentile and worst time in milliseconds."""
        if not self.seconds:
            return {"blocks": 0, "late": 0, "p50": 0.0, "p99": 0.0, "worst": 0.0}
        p50, p99, worst = 1e3 * np.quantile(np.frombuffer(self.seconds), [0.5, 0.99, 1.0])
        return {"blocks": self.blocks, "late": self.late, "p50": float(p50), "p99": float(p99), "worst": float(worst)}

    def __str__(self) -> str:
        row = self.as_dict()
        return (
            f"processing a block: p50 {row['p50']:.2f} ms, p99 {row['p99']:.2f} ms, worst {row['worst']:.2f} ms; "
            f"late blocks: {row['late']} of {row['blocks']}"
        )


class Session:
    """A system at work for one person; ``latency`` in seconds.

    ``key``: for repetition; by default a fresh one is drawn and forgotten.
    """

    def __init__(self, system: Anonymizer, key: Key | None = None) -> None:
        self.rate = system.rate
        self.timings = Timings()
        self._stream, self.latency = _begin(system, key or Key.fresh())
        self._ready = np.zeros(round(self.latency * self.rate), dtype=np.float32)  # what `exchange` gives out first

    def push(self, samples: Samples) -> Samples:
        """Take a block; return what is finished: all but the last ``latency`` seconds, at most."""
        check_finite(samples, self.rate)
        if len(samples) == 0:
            return _EMPTY
        start = time.perf_counter()
        finished = self._stream.push(samples)
        self.timings.add(time.perf_counter() - start, len(samples) / self.rate)
        return finished

    def close(self) -> Samples:
        """End the session; return the rest, so that as many samples came out as went in."""
        return self._stream.close()

    def exchange(self, samples: Samples) -> Samples:
        """Take a block and return as many samples, ``latency`` old: for devices, which want both at once."""
        self._ready = np.concatenate([self._ready, self.push(samples)])
        given, self._ready = self._ready[: len(samples)], self._ready[len(samples) :]
        return given
