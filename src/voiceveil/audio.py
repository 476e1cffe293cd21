"""Audio in and out.

Conventions: samples are float32, mono, nominally in [-1, 1], shape ``(n,)``; rates are in Hz. Anything that
soundfile reads comes in (WAV, FLAC, OGG/Opus, any rate, any number of channels); WAV or FLAC goes out, without
tags, under a temporary name that is renamed when it is complete.
"""

from __future__ import annotations

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

from voiceveil.errors import InputError

__all__ = [
    "AUDIO_SUFFIXES",
    "AudioInfo",
    "MixedDownWarning",
    "Samples",
    "Waveform",
    "atomic_path",
    "info",
    "load",
    "resample",
    "save",
]

Samples = NDArray[np.float32]
Encoding = Literal["int16", "int24", "float"]

#: What a folder of audio is searched for.
AUDIO_SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".opus", ".oga", ".mp3", ".aiff", ".aif"})
_SUBTYPES = {"int16": "PCM_16", "int24": "PCM_24", "float": "FLOAT"}
_FORMATS = {".wav": "WAV", ".flac": "FLAC"}


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
    try:
        with soundfile.SoundFile(path) as file:
            yield file
    except PermissionError as error:
        raise InputError("no permission to read this file", where=path) from error
    except (soundfile.LibsndfileError, OSError) as error:
        if not os.access(path, os.R_OK):
            raise InputError("no permission to read this file", where=path) from error
        raise InputError(f"not readable as audio: {error}", where=path) from error


def info(path: str | os.PathLike[str]) -> AudioInfo:
    """Rate, channels and length of a file, from its header."""
    with open_audio(path) as file:
        return AudioInfo(int(file.samplerate), int(file.channels), int(file.frames))


def load(
    path: str | os.PathLike[str],
    *,
    rate: int | None = None,
    start: float = 0.0,
    duration: float | None = None,
) -> Waveform:
    """Read a file (or ``duration`` seconds of it from ``start``) as mono float32, resampled to ``rate`` if given.

    Several channels are averaged, with a :class:`MixedDownWarning`.
    A file that ends before its header says so is an ``InputError``: half an utterance is not the utterance.
    """
    with open_audio(path) as file:
        first = round(start * file.samplerate)
        if first > file.frames:
            raise InputError(f"starts at {start:g} s but has only {file.frames / file.samplerate:g} s", where=path)
        wanted = file.frames - first if duration is None else round(duration * file.samplerate)
        if first:
            file.seek(first)
        data = file.read(wanted, dtype="float32", always_2d=True)
        if len(data) < wanted:
            raise InputError(
                f"truncated: {len(data)} of {wanted} frames could be read",
                where=path,
                fix="copy the file again from its source",
            )
        if data.shape[1] > 1:
            warnings.warn(f"{path}: {data.shape[1]} channels mixed down to one", MixedDownWarning, stacklevel=2)
        wave = Waveform(mix_down(data), int(file.samplerate))
    return wave if rate is None else wave.resampled(rate)


def mix_down(frames: NDArray[np.float32]) -> Samples:
    """Average the channels: ``(n, channels)`` to ``(n,)``."""
    return frames[:, 0] if frames.shape[1] == 1 else frames.mean(axis=1, dtype=np.float32)


def save(path: str | os.PathLike[str], wave: Waveform, *, encoding: Encoding = "int16") -> None:
    """Write WAV or FLAC (by the suffix), atomically and without tags; 16-bit PCM unless told otherwise.

    Samples that are not finite are an ``InputError``; samples outside [-1, 1] are clipped.
    """
    if not np.isfinite(wave.samples).all():
        raise InputError("samples that are not finite cannot be written", where=path)
    with create_audio(path, wave.rate, encoding=encoding) as file:
        file.write(_encoded(wave.samples, encoding))


def _encoded(samples: Samples, encoding: Encoding) -> NDArray[Any]:
    """What libsndfile is given: our own rounding for 16 bits (its own depends on its version)."""
    return to_int16(samples) if encoding == "int16" else np.clip(samples, -1.0, 1.0)


@contextmanager
def create_audio(path: str | os.PathLike[str], rate: int, *, encoding: Encoding = "int16") -> Iterator[Any]:
    """A ``soundfile.SoundFile`` to write blocks into; the file appears under its name when all went well."""
    import soundfile

    path = Path(path)
    if path.suffix.lower() not in _FORMATS:
        raise InputError(f"cannot write {path.suffix or 'a file without suffix'}", where=path, fix="use .wav or .flac")
    if encoding == "float" and path.suffix.lower() == ".flac":
        raise InputError("FLAC holds no floating-point samples", where=path, fix="use .wav, or int16 or int24")
    with (
        atomic_path(path) as part,
        soundfile.SoundFile(
            part,
            "w",
            samplerate=rate,
            channels=1,
            subtype=_SUBTYPES[encoding],
            format=_FORMATS[path.suffix.lower()],
        ) as file,
    ):
        yield file


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well, and vanishes otherwise."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".part-", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write here: {error.strerror}", where=path) from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", where=path) from error
    finally:
        part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
