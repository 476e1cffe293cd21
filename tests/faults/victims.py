"""Processes to be killed: forks of one that has imported everything, so that a kill costs milliseconds, not seconds.

``python -m tests.faults.victims`` reads one order a line from stdin: ``{"start": arguments, "log": path}`` forks a
child that runs ``voiceveil ARGUMENTS``, and the answer is its process id; ``{"end": id}`` waits for it, and the answer
is its exit code, -9 for a kill. The child opens, locks and writes by itself: it is killed as any process would be.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.support.paths import ROOT

KILLED = -signal.SIGKILL


class Victims:
    """Runs commands, and kills them. ``said`` is what the last one to end has printed."""

    def __init__(self, orders: IO[str], answers: IO[str], folder: Path) -> None:
        self._orders, self._answers, self._folder = orders, answers, folder
        self._logs: dict[int, Path] = {}
        self._started = 0
        self.said = ""

    def start(self, arguments: list[str]) -> int:
        """Begin ``voiceveil ARGUMENTS``; its process id."""
        self._started += 1
        log = self._folder / f"{self._started}.log"
        log.touch()  # a victim may be killed before it comes to that
        process = self._ask({"start": arguments, "log": str(log)})
        self._logs[process] = log
        return process

    def end(self, process: int) -> int:
        """Wait for it; its exit code."""
        code = self._ask({"end": process})
        self.said = self._logs[process].read_text()
        return code

    def run(self, arguments: list[str], *, after: float | None = None) -> int:
        """The exit code of a command; -9 if it was at work for ``after`` seconds, and killed."""
        process = self.start(arguments)
        handle = os.pidfd_open(process)
        try:
            if not select.select([handle], [], [], after)[0]:
                os.kill(process, signal.SIGKILL)
        finally:
            os.close(handle)
        return self.end(process)

    def _ask(self, order: dict[str, object]) -> int:
        print(json.dumps(order), file=self._orders, flush=True)
        return int(self._answers.readline())


@contextmanager
def victims(folder: Path) -> Iterator[Victims]:
    """A process to fork from, for as long as the block lasts; what its children print goes into ``folder``."""
    command = [sys.executable, "-m", "tests.faults.victims"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Victims(process.stdin, process.stdout, folder)
        process.stdin.close()


def _serve() -> None:

    _count_results()
    for line in sys.stdin:
        order = json.loads(line)
        if "end" in order:
            print(os.waitstatus_to_exitcode(os.waitpid(order["end"], 0)[1]), flush=True)
            continue
        child = os.fork()
        if child == 0:
            _be_victim(order["start"], order["log"])
        print(child, flush=True)


def _count_results() -> None:
    """Write the key of every result that is put into a cache into a file beside it."""
    from voiceveil.run.cache import Cache

    write = Cache._write

    def counting(self: Cache, sql: str, values: tuple[Any, ...]) -> None:
        write(self, sql, values)
        if self.path is not None and "INTO results" in sql:
            with Path(f"{self.path}.written").open("ab", 0) as log:
                log.write(f"{values[0].hex()}\n".encode())

    Cache._write = counting  # type: ignore[method-assign]


def _be_victim(arguments: list[str], log: str) -> None:
    from voiceveil.cli.main import main

    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (0, 1, 2):
        os.dup2(handle, stream)
    code = 99
    try:
        code = main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
