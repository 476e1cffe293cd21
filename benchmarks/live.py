"""How many people one core can serve at once: `python benchmarks/live.py [--streams 20] [--seconds 10] [--block 20]`.

Two measures, on one core. Without a clock: the time of a block among many sessions that take turns, and how many times
faster than speech that is; beside it the same audio in one piece, which is what a block costs without being a block.
With a clock: that many sessions get a block each at the moments when microphones would give them, and a block is late
when its result is not there before the next one comes.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from voiceveil.apps.live import Session, Timings, live_system
from voiceveil.testing import synthetic_voice


def without_clock(streams: int, blocks: list[np.ndarray]) -> Timings:
    """Processing time of each block (processor time: other work on this machine does not count)."""
    sessions = [Session(live_system("b2")) for _ in range(streams)]
    timings = Timings()
    for block in blocks:
        for session in sessions:
            start = time.process_time()
            session.push(block)
            timings.add(time.process_time() - start, len(block) / session.rate)
    return timings


def with_clock(streams: int, blocks: list[np.ndarray]) -> Timings:
    """From the moment that a block is there to that when its result is."""
    sessions = [Session(live_system("b2")) for _ in range(streams)]
    duration = len(blocks[0]) / sessions[0].rate
    timings = Timings()
    begin = time.perf_counter() + duration
    for number, block in enumerate(blocks):
        there = begin + number * duration
        while (rest := there - time.perf_counter()) > 0:
            time.sleep(rest)
        for session in sessions:
            session.push(block)
            timings.add(time.perf_counter() - there, duration)
    return timings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--block", type=float, default=20.0, help="milliseconds")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    size = round(16 * args.block)
    voice = synthetic_voice(1, seconds=args.seconds).samples
    blocks = [voice[at : at + size] for at in range(0, len(voice) - size + 1, size)]
    Session(live_system("b2")).push(voice)  # compiled

    start = time.process_time()
    Session(live_system("b2")).push(voice)
    whole = (time.process_time() - start) / len(blocks)
    free = without_clock(args.streams, blocks)
    mean = float(np.mean(free.seconds))
    duration = args.block / 1000
    print(f"one core, {args.streams} sessions, blocks of {args.block:g} ms, {args.seconds:g} s of speech each")
    print(
        f"a block: {1e3 * mean:.3f} ms of the processor ({mean / whole:.1f} times its share of the whole in one piece)"
    )
    print(
        f"sustained: {duration / mean:.0f} sessions a core ({duration / mean / args.streams:.1f} times {args.streams})"
    )
    print(f"with a clock: {with_clock(args.streams, blocks)}")


if __name__ == "__main__":
    main()
