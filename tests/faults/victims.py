"""Processes to be killed: forks of one that has imported everything, so that a kill costs milliseconds, not seconds.

``python -m tests.faults.victims`` reads one order a line from stdin, ``{"arguments": [...], "after": seconds or null,
"log": path}``, forks a child that runs ``voiceveil ARGUMENTS``, sends it SIGKILL after so many seconds unless it has
ended before, and answers with its exit code, -9 for a kill. The child opens, locks and writes all by itself: it is
killed as any process would be.
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
from typing import IO

KILLED = -signal.SIGKILL


class Victims:
    """Runs commands, and kills them."""

    def __init__(self, orders: IO[str], answers: IO[str], log: Path) -> None:
        self._orders, self._answers = orders, answers
        self.log = log

    def run(self, arguments: list[str], *, after: float | None = None) -> int:
        """The exit code of ``voiceveil ARGUMENTS``, -9 if it was killed ``after`` seconds."""
        print(json.dumps({"arguments": arguments, "after": after, "log": str(self.log)}), file=self._orders, flush=True)
        return int(self._answers.readline())


@contextmanager
def victims(log: Path) -> Iterator[Victims]:
    """A process to fork from, for as long as the block lasts."""
    command = [sys.executable, "-m", "tests.faults.victims"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Victims(process.stdin, process.stdout, log)
        process.stdin.close()


def _serve() -> None:
    import voiceveil.anonymization.item
    import voiceveil.anonymization.signal.ready
    import voiceveil.cli.anonymize
    import voiceveil.cli.evaluate
    import voiceveil.report.page  # noqa: F401 -- all that the commands import

    signal.signal(signal.SIGCHLD, lambda *_: None)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _be_victim(order["arguments"], order["log"])
        print(_outcome(child, order["after"]), flush=True)


def _outcome(child: int, after: float | None) -> int:
    """Wait for the child, for at most so long."""
    end = os.pidfd_open(child)
    try:
        if after is not None and not select.select([end], [], [], after)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(end)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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
