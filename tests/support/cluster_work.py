"""Functions that workers of a cluster call; a module of their own, since each worker imports it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path


class Awkward(Exception):
    """An exception that cannot be rebuilt from its arguments, like many of libraries."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


def square(number: int) -> int:
    if number < 0:
        raise Awkward(number, "no way back")
    return number * number


@dataclass(frozen=True)
class Killing:
    """Append each call to a file, and kill the process at one item."""

    folder: str
    poison: int

    def __call__(self, number: int) -> int:
        with (Path(self.folder) / f"{number}").open("a") as file:
            file.write(f"{os.getpid()}\n")
        if number == self.poison:
            os.kill(os.getpid(), signal.SIGKILL)
        return number
