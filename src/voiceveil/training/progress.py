"""Progress of training: one line on a terminal, JSON lines elsewhere, always on stderr."""

from __future__ import annotations

import json
import sys
import time
from typing import TextIO

from voiceveil.core.terminal import rewrite_line

__all__ = ["TrainingProgress"]

_TERMINAL_PERIOD = 0.5  # seconds
_JSON_PERIOD = 10.0


class TrainingProgress:
    """Steps of a known total; the time that is left is estimated from the steps of this process."""

    def __init__(self, steps: int, done: int = 0, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._quiet = quiet
        self._steps, self._first, self._done = steps, done, done
        self._start = self._last = time.monotonic()
        self._audio = 0.0
        self._width = 0

    def step(
        self, *, loss: float, rate: float, audio: float, epoch: int | None = None, accuracy: float | None = None
    ) -> None:
        """A step is done: recent means, learning rate, seconds of audio in the step; what is None is not told."""
        self._done += 1
        self._audio += audio
        now = time.monotonic()
        if self._quiet or now - self._last < (_TERMINAL_PERIOD if self._terminal else _JSON_PERIOD):
            return
        self._last = now
        seconds = now - self._start
        left = seconds / (self._done - self._first) * (self._steps - self._done)
        row = {
            **({} if epoch is None else {"epoch": epoch}),
            "step": self._done,
            "steps": self._steps,
            "loss": round(loss, 4),
            **({} if accuracy is None else {"accuracy": round(accuracy, 4)}),
            "learning_rate": float(f"{rate:.3g}"),
            "times_real_time": round(self._audio / seconds, 1),
            "eta_seconds": round(left),
        }
        if not self._terminal:
            print(json.dumps(row), file=self._stream, flush=True)
            return
        text = (
            ("" if epoch is None else f"epoch {epoch}  ")
            + f"step {self._done}/{self._steps}  loss {loss:.3f}  "
            + ("" if accuracy is None else f"accuracy {accuracy:.1%}  ")
            + f"{self._audio / seconds:.0f}x real time  ETA {round(left) // 60}:{round(left) % 60:02d}"
        )
        rewrite_line(self._stream, text.ljust(self._width))
        self._width = len(text)

    def note(self, text: str) -> None:
        """Say something in between."""
        if self._quiet:
            return
        if self._terminal:
            rewrite_line(self._stream, text.ljust(self._width))
            print(file=self._stream, flush=True)
            self._width = 0
        else:
            print(json.dumps({"note": text}), file=self._stream, flush=True)
