"""Write audio files: complete or not at all, without tags, the same bytes for the same samples.

WAV, FLAC, MP3, Ogg Vorbis, AIFF and other plain formats are written by libsndfile, the others by PyAV (see
:mod:`voiceveil.audio.media_writing`).
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio.compressed_headers import set_ogg_serial
from voiceveil.audio.formats import SNDFILE, AudioFormat, Encoding, format_of
from voiceveil.audio.media import require_media
from voiceveil.audio.waveform import Samples, Waveform, check_waveform, in_channels, round_to_pcm, to_int16
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError

__all__ = ["AudioWriter", "create_audio", "save"]

_BLOCK = 1 << 14  # samples: libsndfile's Vorbis encoder takes memory from the stack for all that it is given


class AudioWriter(Protocol):
    """A file that is being written."""

    def write(self, samples: Samples) -> None:
        """Write the next samples, (n,) for all channels or (n, channels) float32; those outside [-1, 1] are clipped."""
        ...


def save(path: str | os.PathLike[str], wave: Waveform, *, encoding: Encoding = "int16") -> str:
    """Write a file in the format of its suffix, atomically and without tags, and return its sha256.

    Parameters
    ----------
    path
        The suffix decides the format: ``.wav``, ``.flac``, ``.mp3``, ``.m4a``, ...
    wave
        Samples outside of [-1, 1] are clipped. A rate that the format does not have is raised to the next one.
    encoding
        Depth of PCM.

    Raises
    ------
    InputError
        If samples are not finite, or a FLAC would have none.
    """
    check_waveform(wave)
    if not np.isfinite(wave.samples).all():
        raise InputError("samples that are not finite cannot be written", where=path)
    format = format_of(Path(path), wave.rate, encoding=encoding)
    with atomic_path(path) as part:
        with _open(part, format, None, 0.0) as file:
            file.write(wave.resampled(format.rate).samples)
        with part.open("rb") as written:
            return hashlib.file_digest(written, "sha256").hexdigest()


@contextmanager
def create_audio(
    path: str | os.PathLike[str], format: AudioFormat, *, picture: Path | None = None, start: float = 0.0
) -> Iterator[AudioWriter]:
    """Open a file to write mono samples into; it appears when the block ends well.

    Parameters
    ----------
    path
        The file.
    format
        Its format, from :mod:`voiceveil.audio.formats`.
    picture
        Media file whose video streams are copied bit for bit.
    start
        Time of the first sample in seconds, on the clock of ``picture``.
    """
    with atomic_path(path) as part, _open(part, format, picture, start) as file:
        yield file


@contextmanager
def _open(path: Path, format: AudioFormat, picture: Path | None, start: float) -> Iterator[AudioWriter]:
    import soundfile

    if format.is_media:
        require_media(path)
        from voiceveil.audio.media_writing import create_media

        with create_media(path, format, picture=picture, start=start) as media:
            yield media
        return
    layout = {"channels": format.channels, "subtype": format.codec, "format": SNDFILE[format.suffix][0]}
    try:
        with soundfile.SoundFile(os.fsencode(path), "w", format.rate, **layout) as file:
            yield _SoundFileWriter(file)
            if file.format == "FLAC" and file.frames == 0:  # its header would say that the length is unknown
                raise InputError("FLAC cannot hold a recording of no samples", where=path, fix="write WAV")
        if layout["format"] == "OGG":
            set_ogg_serial(path)
    except soundfile.LibsndfileError as error:  # libsndfile does not tell why a write failed
        full = os.statvfs(path.parent).f_bavail == 0
        code = errno.ENOSPC if full else errno.EIO
        raise OSError(code, os.strerror(code) if full else str(error)) from error


class _SoundFileWriter:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, samples: Samples) -> None:
        for start in range(0, len(samples), _BLOCK):
            block = _encoded(in_channels(samples[start : start + _BLOCK], self._file.channels), self._file.subtype)
            self._file.write(block)


def _encoded(samples: Samples, subtype: str) -> NDArray[Any]:
    """Return samples as libsndfile takes them: its own rounding differs between versions and scales by 2^n - 1."""
    if subtype == "PCM_24":
        return round_to_pcm(samples, 24).astype(np.int32) << 8
    return np.clip(samples, -1, 1) if subtype in {"VORBIS", "MPEG_LAYER_III"} else to_int16(samples)
