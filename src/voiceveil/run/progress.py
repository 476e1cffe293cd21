"""Progress of long work on the standard error output: a bar on a terminal, sentences in a log, JSON lines on request.

    with Progress("anonymizing", len(files), quiet=quiet) as progress:
        for file in files:
            ...
            progress.advance(audio=seconds)

The style is chosen once for a whole command, by :func:`progress_style`. A quiet ``Progress`` shows only notes that must
not be missed, such as failures. Code that has no ``Progress`` at hand tells the innermost one what it is doing through
:mod:`voiceveil.core.activity`.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Literal, TextIO

from voiceveil.core.activity import Watcher, watch
from voiceveil.core.terminal import clock, escaped, print_lines, unguarded

__all__ = ["Progress", "StatusLines", "Style", "progress_style"]

#: "auto": a bar on a terminal, sentences elsewhere.
Style = Literal["auto", "json"]

#: Least seconds between two lines.
_BAR_PERIOD, _LOG_PERIOD = 0.2, 10.0
_SENTENCES = {
    "loss": "loss {:.3f}",
    "accuracy": "accuracy {:.1%}",
    "epoch": "epoch {:g}",
    "rate": "learning rate {:.3g}",
}

_style: ContextVar[Style] = ContextVar("style", default="auto")


@contextmanager
def progress_style(style: Style) -> Iterator[None]:
    """Choose how progress is shown while the block runs."""
    before = _style.set(style)
    try:
        yield
    finally:
        _style.reset(before)


class StatusLines:
    """Watcher of a whole command: prints on a terminal what is done before the first progress bar is shown."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet, self._last = quiet, ""

    def status(self, text: str) -> None:
        """Print a line, once."""
        if not self._quiet and text != self._last and sys.stderr is not None and sys.stderr.isatty():
            with suppress(OSError):
                print_lines(f"{text} ...", file=sys.stderr)
        self._last = text

    def within(self, fraction: float) -> None:
        """Do nothing: no item is counted."""


class Progress:
    """Progress of one step of a command, a context manager.

    Parameters
    ----------
    label
        What is done, e.g. "anonymizing".
    items
        Number of items.
    work
        Total amount of work in any unit, from which the time left is estimated; by default every item is 1.
    unit
        What the items are, in the plural.
    start
        Items that an earlier run has finished.
    quiet
        Show only notes that must not be missed.
    """

    def __init__(
        self,
        label: str,
        items: int,
        *,
        work: float | None = None,
        unit: str = "files",
        start: int = 0,
        quiet: bool = False,
    ) -> None:
        self._label, self._unit, self._quiet = label, unit, quiet
        self._items, self._done, self._failed = items, start, 0
        self._work = float(items - start if work is None else work)
        self._work_done, self._fraction, self._audio = 0.0, 0.0, 0.0
        self._figures: dict[str, float] = {}
        self._status = ""
        self._stream: TextIO | None = sys.stderr
        self._json = _style.get() == "json"
        self._terminal = not self._json and self._stream is not None and self._stream.isatty()
        self._bar: Any = None  # a tqdm
        self._start = self._last = time.monotonic()
        self._outer: Watcher | None = None

    def __enter__(self) -> Progress:
        self._outer = watch(self)
        if self._terminal and self._items and not self._quiet:
            self._open_bar()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        watch(self._outer)
        self._close(finished=kind is None)

    def advance(self, work: float = 1.0, *, audio: float = 0.0, failed: bool = False, **figures: float) -> None:
        """Count a finished item: its share of the work, its seconds of audio, and figures such as ``loss``."""
        self._done += 1
        self._failed += failed
        self._work_done += work
        self._audio += audio
        self._figures = figures
        self._status, self._fraction = "", 0.0
        self._show_if_due()

    def within(self, fraction: float) -> None:
        """Show how much of the current item is done, 0 to 1."""
        self._status, self._fraction = "", min(max(fraction, 0.0), 1.0)
        self._show_if_due()

    def status(self, text: str) -> None:
        """Show what is being done until the next item is finished."""
        if text == self._status or self._quiet:
            return
        self._status = text
        if self._bar is not None:
            self._draw()
        elif self._json:
            self._write_json(status=text)
        else:
            self._say(f"{self._label}: {text}")

    def note(self, text: str, *, always: bool = False) -> None:
        """Write a line that stays, without breaking the bar; ``always``: even if quiet."""
        if self._quiet and not always:
            return
        if self._json and not self._quiet:
            self._write_json(note=text)
            return
        self.clear()
        self._say(text)

    def clear(self) -> None:
        """Remove the bar until it is next shown, so that others can print to the terminal."""
        if self._bar is not None:
            self._write(self._bar.clear)

    def _close(self, *, finished: bool) -> None:
        if self._bar is not None:
            if finished:
                self._draw()
            self._write(self._bar.close)
            self._bar = None
        elif finished and not self._quiet and self._done and (self._json or self._times()[0] >= _LOG_PERIOD):
            self._show()

    def _show_if_due(self) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._last >= (_BAR_PERIOD if self._terminal else _LOG_PERIOD):
            self._last = now
            self._show()

    def _show(self) -> None:
        if self._bar is not None:
            self._draw()
        elif self._json:
            seconds, left = self._times()
            self._write_json(
                done=self._done,
                items=self._items,
                unit=self._unit,
                failed=self._failed,
                audio_seconds=round(self._audio, 1),
                times_real_time=round(self._audio / seconds, 1),
                seconds_left=None if left is None else round(left, 1),
                **{name: float(f"{value:.4g}") for name, value in self._figures.items()},
            )
        elif not self._terminal:
            self._say(f"{self._label}: {self._sentence(' of ')}")

    def _times(self) -> tuple[float, float | None]:
        """Return the seconds since the start, and an estimate of those that are left, if there can be one."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        done = self._amount()
        return seconds, (seconds * max(self._work - done, 0.0) / done if done else None)

    def _amount(self) -> float:
        """Work that is done; the current item counts as an average one."""
        return self._work_done + self._fraction * self._work / max(self._items, 1)

    def _sentence(self, of: str) -> str:
        """Return "9 of 20 files, 1 failed, 0:12:30 of audio, 35x real time, 0:01:20 left"."""
        seconds, left = self._times()
        parts = [f"{self._done}{of}{self._items} {self._unit}"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        parts += [_SENTENCES.get(name, name + " {:.4g}").format(value) for name, value in self._figures.items()]
        if self._audio:
            parts.append(f"{clock(self._audio)} of audio, {self._audio / seconds:.0f}x real time")
        if self._done < self._items and left is not None:
            parts.append(f"{clock(left)} left")
        elif self._done >= self._items:
            parts.append(f"took {clock(seconds)}")
        return ", ".join(parts)

    def _open_bar(self) -> None:
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # no thread of its own, and no lock in shared memory: workers are forked
        tqdm.set_lock(threading.RLock())
        stream = None if self._stream is None else unguarded(self._stream)
        self._bar = tqdm(total=self._work or 1.0, file=stream, delay=1e-9)
        self._draw()

    def _draw(self) -> None:
        if self._bar is not None:
            self._bar.n = min(self._amount(), self._work)
            self._bar.ncols = shutil.get_terminal_size().columns  # also known where the terminal does not tell it
            texts = (escaped(self._label), escaped(self._status or self._sentence("/")))
            label, text = (part.replace("{", "{{").replace("}", "}}") for part in texts)
            self._bar.bar_format = f"{label}: {{percentage:3.0f}}%|{{bar:20}}| {text}"
            self._write(self._bar.refresh)

    def _write_json(self, **row: object) -> None:
        line = json.dumps({"progress": self._label, **row})
        self._write(lambda: print(line, file=self._stream, flush=True))

    def _say(self, text: str) -> None:
        self._write(lambda: print_lines(text, file=self._stream))

    def _write(self, write: Callable[[], object]) -> None:
        """Write to the stream; no run ends because its progress cannot be told (a closed stream, a full disk)."""
        if self._stream is not None:
            with suppress(OSError):
                write()
