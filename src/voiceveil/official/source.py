"""Text files that are read line by line; errors name the line.

Conventions: UTF-8, lines count from 1. Whatever bytes a file holds, the only exception is an ``InputError``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.core.files import read_bytes

__all__ = ["Line", "read_source"]

_LARGEST, _MOST_LINES = 32 << 20, 200_000  # bytes of a file, and its lines
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Line:
    """One line of a file, without its end."""

    path: Path
    number: int
    text: str

    def error(self, what: str, fix: str = "") -> InputError:
        """Return an ``InputError`` with the place of this line."""
        return InputError(what, where=self.path, line=self.number, fix=fix)

    def value(self, text: str, what: str, *, least: float = -1e6, most: float = 1e6) -> float:
        """Return the number in ``text``, a part of the line, which must be from ``least`` to ``most``."""
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(value):
            raise self.error(f"{what} is {text[:40]!r}, which is no number")
        if not least <= value <= most:
            raise self.error(f"{what} is {text}", fix=f"it lies between {least:g} and {most:g}")
        return value

    def percent(self, text: str, what: str, *, most: float = 100.0) -> float:
        """Return the fraction of a percentage, from 0 to ``most`` percent."""
        return self.value(text, what, least=0.0, most=most) / 100


def read_source(path: Path) -> tuple[Line, ...]:
    """Return the lines of a file, with blank ones; raise an ``InputError`` if it cannot be read or is empty."""
    data = read_bytes(path, at_most=_LARGEST)
    if data.count(b"\n") > _MOST_LINES:
        raise InputError(f"more than {_MOST_LINES} lines", where=path, fix="give a result file of the challenge")
    lines = tuple(_lines(path, data.removesuffix(b"\n")))
    if not any(line.text.strip() for line in lines):
        raise InputError("an empty file", where=path, fix="give a results.json or a result file of the challenge")
    return lines


def _lines(path: Path, data: bytes) -> Iterator[Line]:
    for number, raw in enumerate(data.split(b"\n"), start=1):
        try:
            yield Line(path, number, raw.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError:
            raise InputError("not UTF-8", where=path, line=number, fix="is this a text file?") from None
