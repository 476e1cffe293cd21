"""Write WAV and FLAC files: complete or not at all, without tags, the same bytes for the same samples."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio.waveform import Samples, Waveform, check_waveform, round_to_pcm, to_int16
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError

__all__ = ["Encoding", "create_audio", "encoded", "save"]

Encoding = Literal["int16", "int24"]

# No floating-point files: libsndfile puts a time stamp into them (the PEAK chunk).
_SUBTYPES = {"int16": "PCM_16", "int24": "PCM_24"}
_FORMATS = {".wav": "WAV", ".flac": "FLAC"}


def save(path: str | os.PathLike[str], wave: Waveform, *, encoding: Encoding = "int16") -> str:
    """Write WAV or FLAC (by the suffix), atomically and without tags; returns the file's sha256.

    16-bit PCM unless told otherwise. Samples that are not finite are an ``InputError``, and so is a FLAC without any;
    those outside [-1, 1] are clipped.
    """
    import soundfile

    check_waveform(wave)
    if not np.isfinite(wave.samples).all():
        raise InputError("samples that are not finite cannot be written", where=path)
    if len(wave) == 0 and Path(path).suffix.lower() == ".flac":  # its header would say that the length is unknown
        raise InputError("FLAC cannot hold a recording of no samples", where=path, fix="write WAV")
    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", **_output_format(Path(path), wave.rate, encoding)) as file:
        file.write(encoded(wave.samples, encoding))
    with atomic_path(path) as part:
        part.write_bytes(buffer.getbuffer())
    return hashlib.sha256(buffer.getbuffer()).hexdigest()


@contextmanager
def create_audio(path: str | os.PathLike[str], rate: int, *, encoding: Encoding = "int16") -> Iterator[Any]:
    """Open a ``soundfile.SoundFile`` to write :func:`encoded` blocks into; it appears when the block ends well."""
    import soundfile

    layout = _output_format(Path(path), rate, encoding)
    with atomic_path(path) as part:
        try:
            with soundfile.SoundFile(os.fsencode(part), "w", **layout) as file:
                yield file
        except soundfile.LibsndfileError as error:  # libsndfile does not tell why a write failed
            full = os.statvfs(part.parent).f_bavail == 0
            raise OSError(errno.ENOSPC if full else errno.EIO, "no space left" if full else str(error)) from error


def encoded(samples: Samples, encoding: Encoding) -> NDArray[Any]:
    """Return samples as integers for libsndfile, whose own rounding differs between versions and scales by 2^n - 1."""
    return to_int16(samples) if encoding == "int16" else round_to_pcm(samples, 24).astype(np.int32) << 8


def _output_format(path: Path, rate: int, encoding: Encoding) -> dict[str, Any]:
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"cannot write {path.suffix or 'a file without suffix'}", where=path, fix="use .wav or .flac")
    return {"samplerate": rate, "channels": 1, "subtype": _SUBTYPES[encoding], "format": kind}
