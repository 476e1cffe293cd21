"""A recording that is read block by block, or decoded to temporary files at 16 kHz.

Conventions: frames are float32 of shape (n, channels); times are in seconds from the beginning of the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import mix_down, open_audio, read_blocks
from voiceveil.core.errors import InputError
from voiceveil.systems.contract import check_finite
from voiceveil.systems.conversation.sample_file import RATE, SampleFile
from voiceveil.systems.redaction.spans import silence_spans

__all__ = ["Recording", "decode"]

Frames = NDArray[np.float32]
_BLOCK = 1 << 18  # samples


@dataclass(frozen=True)
class Recording:
    """A file, or ``duration`` seconds of it from ``start`` on; None: to its end.

    ``silenced``: parts (start, end) in seconds that are read as silence.
    """

    path: Path
    start: float = 0.0
    duration: float | None = None
    silenced: tuple[tuple[float, float], ...] = ()

    def blocks(self) -> Iterator[Frames]:
        """Yield its frames (n, channels)."""
        with open_audio(self.path) as file:
            rate, position = int(file.samplerate), 0
            for frames in read_blocks(
                file, self.path, start=self.start, duration=self.duration, size=_BLOCK, mix_channels=False
            ):
                yield silence_spans(frames, rate, position / rate, self.silenced)
                position += len(frames)


def decode(
    recording: Recording, scratch: Callable[[], SampleFile], *, separate: bool
) -> tuple[list[SampleFile], int, float]:
    """Write a recording at 16 kHz to files, one for each channel or for all; return them, its rate and its length.

    ``scratch`` returns a new file. A recording of one channel is an ``InputError`` if they are to be separate.
    """
    import soxr

    with open_audio(recording.path, header_only=True) as file:
        rate, channels = int(file.samplerate), int(file.channels)
    if separate and channels < 2:
        fix = "leave out --channels separate; --speakers auto finds out who speaks when"
        raise InputError("this recording has one channel only", where=recording.path, fix=fix)
    files = [scratch() for _ in range(channels if separate else 1)]
    streams = [soxr.ResampleStream(rate, RATE, 1, dtype="float32", quality="VHQ") for _ in files]
    frames = 0
    for block in recording.blocks():
        parts = list(block.T) if separate else [mix_down(block)]
        for target, stream, part in zip(files, streams, parts, strict=True):
            check_finite(part, rate, recording.start + frames / rate)
            target.append(part if rate == RATE else stream.resample_chunk(np.ascontiguousarray(part)))
        frames += len(block)
    for target, stream in zip(files, streams, strict=True):
        if rate != RATE:
            target.append(stream.resample_chunk(np.zeros(0, dtype=np.float32), last=True))
    return files, rate, frames / rate
