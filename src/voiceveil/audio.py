"""Audio in and out.

Conventions: samples are float32, mono, nominally in [-1, 1], shape ``(n,)``; rates are in Hz. Anything that
soundfile reads comes in (WAV, FLAC, OGG/Opus, any rate, any number of channels); WAV or FLAC goes out, without
tags, under a temporary name that is renamed when it is complete.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.errors import InputError, OutputError

__all__ = [
    "AUDIO_SUFFIXES",
    "PART_PREFIX",
    "AudioInfo",
    "Encoding",
    "MixedDownWarning",
    "Samples",
    "Waveform",
    "atomic_path",
    "create_audio",
    "encoded",
    "info",
    "load",
    "open_audio",
    "read_blocks",
    "resample",
    "save",
    "scratch_path",
]

Samples = NDArray[np.float32]
Encoding = Literal["int16", "int24"]

#: What a folder of audio is searched for.
AUDIO_SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".opus", ".oga", ".mp3", ".aiff", ".aif"})
# No floating-point files: libsndfile puts a time stamp into them (the PEAK chunk).
_SUBTYPES = {"int16": "PCM_16", "int24": "PCM_24"}
#: Temporary files start with this; a killed run may leave some behind.
PART_PREFIX = ".part-"
_FORMATS = {".wav": "WAV", ".flac": "FLAC"}
_COPY_AGAIN = "copy the file again from its source"


class MixedDownWarning(UserWarning):
    """Several channels were averaged into one."""


@dataclass(frozen=True)
class Waveform:
    """Mono audio: ``samples`` float32 of shape (n,), nominally in [-1, 1], at ``rate`` Hz."""

    samples: Samples
    rate: int

    def __post_init__(self) -> None:
        samples = np.asarray(self.samples)
        if samples.ndim != 1:
            raise InputError(f"a waveform has one dimension, not shape {samples.shape}")
        if samples.dtype != np.float32:
            samples = samples.astype(np.float32)
        if int(self.rate) != self.rate or self.rate <= 0:
            raise InputError(f"a sampling rate is a positive whole number of Hz, not {self.rate}")
        object.__setattr__(self, "samples", samples)
        object.__setattr__(self, "rate", int(self.rate))

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.rate

    def resampled(self, rate: int) -> Waveform:
        """The same sound at ``rate`` Hz (soxr, very high quality); itself if it has that rate already."""
        return self if rate == self.rate else Waveform(resample(self.samples, self.rate, rate), rate)

    def int16(self) -> NDArray[np.int16]:
        """16-bit PCM: rounded to the nearest step of 1/32768; what is outside [-1, 1) is clipped."""
        return to_int16(self.samples)


@dataclass(frozen=True)
class AudioInfo:
    """What a file's header says."""

    rate: int
    channels: int
    frames: int

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate


def to_int16(samples: NDArray[Any]) -> NDArray[np.int16]:
    """16-bit PCM of float samples: rounded to the nearest step of 1/32768, clipped to the range."""
    return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16)


def resample(samples: ArrayLike, rate: int, new_rate: int) -> Samples:
    """Resample mono audio; the length becomes ``round(n * new_rate / rate)`` to within one sample."""
    import soxr

    array = np.asarray(samples, dtype=np.float32)
    if rate == new_rate or len(array) == 0:
        return array
    return np.asarray(soxr.resample(array, rate, new_rate, quality="VHQ"), dtype=np.float32)


@contextmanager
def open_audio(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A ``soundfile.SoundFile`` for reading; every way it can fail is an ``InputError`` with the path."""
    import soundfile

    path = Path(path)
    if not path.exists():
        raise InputError("no such audio file", where=path)
    if path.is_dir():
        raise InputError("a folder, not an audio file", where=path)
    if not os.access(path, os.R_OK):
        raise InputError("no permission to read this file", where=path)
    if path.stat().st_size == 0:
        raise InputError("the file is empty", where=path, fix=_COPY_AGAIN)
    _check_riff_size(path)
    try:
        with soundfile.SoundFile(path) as file:
            yield file
    except (soundfile.LibsndfileError, OSError) as error:
        raise InputError(f"not readable as audio: {error}", where=path) from error


def _check_riff_size(path: Path) -> None:
    """Refuse a WAV file that is shorter than its data chunk says: libsndfile would read what is there and say nothing.

    Sizes of 0 and near 4 GiB are what programs write that could not go back to the header: no statement at all.
    """
    with path.open("rb") as file:
        header = file.read(12)
        if header[:4] != b"RIFF" or header[8:] != b"WAVE":
            return
        end = path.stat().st_size
        while len(head := file.read(8)) == 8:
            size = int.from_bytes(head[4:], "little")
            if head[:4] == b"data":
                missing = size - (end - file.tell())
                if missing > 0 and size < 0xFFFFF000:
                    raise InputError(f"truncated: {missing} of {size} bytes are missing", where=path, fix=_COPY_AGAIN)
                return
            file.seek(size + size % 2, os.SEEK_CUR)


def info(path: str | os.PathLike[str]) -> AudioInfo:
    """Rate, channels and length of a file, from its header."""
    with open_audio(path) as file:
        return AudioInfo(int(file.samplerate), int(file.channels), int(file.frames))


def load(
    path: str | os.PathLike[str], *, rate: int | None = None, start: float = 0.0, duration: float | None = None
) -> Waveform:
    """Read a file (or ``duration`` seconds of it from ``start``) as mono float32, resampled to ``rate`` if given.

    Several channels are averaged, with a :class:`MixedDownWarning`.
    A file that ends before its header says so is an ``InputError``: half an utterance is not the utterance.
    """
    with open_audio(path) as file:
        blocks = list(read_blocks(file, path, start=start, duration=duration))
        if file.channels > 1:
            warnings.warn(f"{path}: {file.channels} channels mixed down to one", MixedDownWarning, stacklevel=2)
        samples = np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.float32)
        wave = Waveform(samples, int(file.samplerate))
    return wave if rate is None else wave.resampled(rate)


def read_blocks(
    file: Any, path: str | os.PathLike[str], *, start: float = 0.0, duration: float | None = None, size: int = 1 << 22
) -> Iterator[Samples]:
    """The samples of an open file, mixed down, in blocks of at most ``size``; see :func:`load`."""
    rate = file.samplerate
    first = round(start * rate)
    wanted = file.frames - first if duration is None else round(duration * rate)
    if first > file.frames or first + wanted > file.frames + rate // 100:  # segments may overshoot by 10 ms
        what = f"has {file.frames / rate:g} s, but {start:g} to {(first + wanted) / rate:g} s are asked for"
        raise InputError(what, where=path)
    wanted = min(wanted, file.frames - first)
    if first:
        file.seek(first)
    while wanted > 0:
        data = file.read(min(wanted, size), dtype="float32", always_2d=True)
        if len(data) == 0:
            raise InputError(f"truncated: {wanted} frames are missing", where=path, fix=_COPY_AGAIN)
        wanted -= len(data)
        yield mix_down(data)


def mix_down(frames: NDArray[np.float32]) -> Samples:
    """Average the channels: ``(n, channels)`` to ``(n,)``."""
    return frames[:, 0] if frames.shape[1] == 1 else frames.mean(axis=1, dtype=np.float32)


def save(path: str | os.PathLike[str], wave: Waveform, *, encoding: Encoding = "int16") -> str:
    """Write WAV or FLAC (by the suffix), atomically and without tags; returns the file's sha256.

    16-bit PCM unless told otherwise. Samples that are not finite are an ``InputError``; those outside [-1, 1] are
    clipped.
    """
    import soundfile

    if not np.isfinite(wave.samples).all():
        raise InputError("samples that are not finite cannot be written", where=path)
    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", **_output_format(Path(path), wave.rate, encoding)) as file:
        file.write(encoded(wave.samples, encoding))
    with atomic_path(path) as part:
        part.write_bytes(buffer.getbuffer())
    return hashlib.sha256(buffer.getbuffer()).hexdigest()


@contextmanager
def create_audio(path: str | os.PathLike[str], rate: int, *, encoding: Encoding = "int16") -> Iterator[Any]:
    """A ``soundfile.SoundFile`` to write :func:`encoded` blocks into; it appears under its name when all went well."""
    import soundfile

    layout = _output_format(Path(path), rate, encoding)
    with atomic_path(path) as part:
        try:
            with soundfile.SoundFile(part, "w", **layout) as file:
                yield file
        except soundfile.LibsndfileError as error:  # libsndfile does not tell why a write failed
            full = os.statvfs(part.parent).f_bavail == 0
            raise OSError(errno.ENOSPC if full else errno.EIO, "no space left" if full else str(error)) from error


def encoded(samples: Samples, encoding: Encoding) -> NDArray[Any]:
    """What libsndfile is given: our own rounding for 16 bits, since its own has changed between versions."""
    return to_int16(samples) if encoding == "int16" else np.clip(samples, -1.0, 1.0)


def _output_format(path: Path, rate: int, encoding: Encoding) -> dict[str, Any]:
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"cannot write {path.suffix or 'a file without suffix'}", where=path, fix="use .wav or .flac")
    return {"samplerate": rate, "channels": 1, "subtype": _SUBTYPES[encoding], "format": kind}


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well, and vanishes otherwise."""
    with scratch_path(path) as part:
        yield part
        part.replace(path)


@contextmanager
def scratch_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file in the folder of ``path``, which is made if need be; it is gone when the block ends.

    Failure to write (no space, no permission) is an :class:`OutputError`.
    """
    path = Path(path)
    part: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=PART_PREFIX, suffix=path.suffix, dir=path.parent)
        part = Path(name)
        os.fchmod(handle, 0o666 & ~_umask())
        os.close(handle)
        yield part
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", where=path) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
