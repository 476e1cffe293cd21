"""Progress of long work: one line on a terminal, JSON lines elsewhere. Always on stderr.

When quiet there is no progress, but notes are still said, as plain text: a failure is not to be missed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal, TextIO

from voiceveil.core.terminal import print_lines, rewrite_line

__all__ = ["Progress"]

Style = Literal["auto", "quiet"]
_TERMINAL_PERIOD = 0.2  # seconds
_JSON_PERIOD = 10.0


class Progress:
    """Counts items, seconds of audio and a measure of work (bytes of input) of which the total is known."""

    def __init__(self, items: int, work: int, *, style: Style = "auto", stream: TextIO | None = None) -> None:
        self._stream: TextIO | None = sys.stderr if stream is None else stream
        self._terminal = self._stream is not None and self._stream.isatty()
        self._quiet = style == "quiet"
        self._items, self._work = items, work
        self._done, self._failed, self._work_done, self._audio = 0, 0, 0, 0.0
        self._start = time.monotonic()
        self._last = self._start
        self._width = 0
        if items and self._terminal and not self._quiet:
            self._write(f"0/{items} files  starting (the first run on a machine compiles for a while)")

    def add(self, *, work: int, audio: float = 0.0, failed: bool = False) -> None:
        """An item is finished: its share of the work, and the seconds of audio it held."""
        self._done += 1
        self._failed += failed
        self._work_done += work
        self._audio += audio
        now = time.monotonic()
        if now - self._last >= (_TERMINAL_PERIOD if self._terminal else _JSON_PERIOD):
            self._last = now
            self._show()

    def note(self, text: str) -> None:
        """Say something in between, without breaking the line."""
        if not self._quiet and not self._terminal:
            self._say(json.dumps({"note": text}))
        else:
            self._clear()
            self._show_on(lambda stream: print_lines(text, file=stream))

    def close(self) -> None:
        """Show the final state."""
        if self._done:
            self._show()
            if self._terminal and not self._quiet:
                self._say("")

    def _show(self) -> None:
        if self._quiet:
            return
        seconds = max(time.monotonic() - self._start, 1e-9)
        left = seconds * (self._work - self._work_done) / self._work_done if self._work_done else None
        if not self._terminal:
            row = {
                "done": self._done,
                "items": self._items,
                "failed": self._failed,
                "audio_hours": round(self._audio / 3600, 4),
                "times_real_time": round(self._audio / seconds, 1),
                "eta_seconds": None if left is None else round(left, 1),
            }
            self._say(json.dumps(row))
            return
        failed = f", {self._failed} failed" if self._failed else ""
        text = (
            f"{self._done}/{self._items} files{failed}  {self._audio / 3600:.2f} h of audio  "
            f"{self._audio / seconds:.0f}x real time  {'' if left is None else 'ETA ' + _clock(left)}"
        )
        self._write(text)

    def _write(self, text: str) -> None:
        self._show_on(partial(rewrite_line, text=text.ljust(self._width)))
        self._width = len(text)

    def _say(self, text: str) -> None:
        self._show_on(lambda stream: print(text, file=stream, flush=True))

    def _show_on(self, show: Callable[[TextIO], object]) -> None:
        """Write to the stream; no run ends because its progress cannot be told (a closed stream, a full disk)."""
        if self._stream is not None:
            with suppress(OSError):
                show(self._stream)

    def _clear(self) -> None:
        if self._terminal and self._width:
            for line in (" " * self._width, ""):
                self._show_on(partial(rewrite_line, text=line))
            self._width = 0


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
