"""Raw PCM through a pipe, as ffmpeg, sox or arecord write and read it.

Conventions: mono at 16 kHz, little endian, without a header: ``s16le`` (16-bit whole numbers) or ``f32le`` (floats).
The output has as many samples as the input; a block is written as soon as it is finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from voiceveil.apps.live.session import Session
from voiceveil.audio import Samples, to_int16
from voiceveil.core.errors import InputError

__all__ = ["FORMATS", "run_pipe"]

_Decode = Callable[[bytes], Samples]
_Encode = Callable[[Samples], bytes]

#: Name -> (bytes per sample, decoder, encoder).
FORMATS: dict[str, tuple[int, _Decode, _Encode]] = {
    "s16le": (
        2,
        lambda data: np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768),
        lambda samples: to_int16(samples).astype("<i2").tobytes(),
    ),
    "f32le": (
        4,
        lambda data: np.frombuffer(data, "<f4").astype(np.float32),
        lambda samples: samples.astype("<f4").tobytes(),
    ),
}


def run_pipe(session: Session, source: BinaryIO, sink: BinaryIO, *, form: str = "s16le", block: int = 320) -> None:
    """Convert raw PCM until the input ends.

    Parameters
    ----------
    session
        The session that converts.
    source, sink
        Streams of bytes; both should be unbuffered.
    form
        Sample format, a key of ``FORMATS``.
    block
        Samples that are read at a time.
    """
    width, decode, encode = FORMATS[form]
    while data := _filled(source, block * width):
        whole = len(data) // width * width
        _write(sink, encode(session.push(decode(data[:whole]))))
        if whole < len(data):
            _write(sink, encode(session.close()))
            raise InputError("the input ends in the middle of a sample", fix=f"is it {form}? see --format")
    _write(sink, encode(session.close()))


def _filled(source: BinaryIO, size: int) -> bytes:
    """Return ``size`` bytes, fewer only at the end of the input; pipes hand out pieces of any size."""
    data = b""
    while len(data) < size and (piece := source.read(size - len(data))):
        data += piece
    return data


def _write(sink: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:  # a raw pipe may take a part
        view = view[sink.write(view) :]
    sink.flush()
