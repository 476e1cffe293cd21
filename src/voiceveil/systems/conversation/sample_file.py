"""Samples in a temporary file: read and added to at any place, so that long recordings need no memory.

Conventions: mono float32; what was never written is silence.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np

from voiceveil.audio import Samples

__all__ = ["RATE", "SampleFile"]

#: Sampling rate in Hz of the speech that is worked on.
RATE = 16000

_BYTES = 4  # of a sample


class SampleFile:
    """A file of samples; use it in a ``with`` statement.

    Parameters
    ----------
    path
        The file; its content is dropped. Where the system allows it, its name is removed at once, so that no speech in
        clear stays behind if the process is killed.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        with suppress(OSError):
            path.unlink()
        self._length = 0
        self.peak = 0.0

    def __enter__(self) -> SampleFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._length

    def append(self, samples: Samples) -> None:
        """Write samples behind the last."""
        self._write(self._length, samples)

    def add(self, start: int, samples: Samples) -> None:
        """Add samples to those from ``start`` on."""
        self._write(start, self.read(start, start + len(samples)) + samples)

    def read(self, start: int, stop: int) -> Samples:
        """Return samples ``start`` to ``stop``; those behind the end are 0."""
        self._file.seek(start * _BYTES)
        data = np.frombuffer(self._file.read((stop - start) * _BYTES), dtype=np.float32)
        return np.pad(data, (0, stop - start - len(data)))

    def _write(self, start: int, samples: Samples) -> None:
        self._file.seek(start * _BYTES)
        self._file.write(np.ascontiguousarray(samples, dtype=np.float32).tobytes())
        self._length = max(self._length, start + len(samples))
        self.peak = max(self.peak, float(np.abs(samples).max(initial=0.0)))
