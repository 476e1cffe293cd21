"""Audio in and out.

Conventions: samples are float32, mono, nominally in [-1, 1], shape ``(n,)``; rates are in Hz. Anything that
soundfile reads comes in (WAV, FLAC, OGG/Opus, any rate, any number of channels); WAV or FLAC goes out, without
tags, under a temporary name that is renamed when it is complete.
"""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.audio.compressed_headers import COPY_AGAIN, check_mp3, estimated_mp3_frame
from voiceveil.audio.headers import complete_file
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.files import AUDIO_SUFFIXES, FOREIGN_SUFFIXES, open_file

__all__ = [
    "AUDIO_SUFFIXES",
    "AudioInfo",
    "Encoding",
    "MixedDownWarning",
    "Samples",
    "Waveform",
    "check_waveform",
    "create_audio",
    "encoded",
    "info",
    "load",
    "open_audio",
    "read_blocks",
    "resample",
    "save",
]

Samples = NDArray[np.float32]
Encoding = Literal["int16", "int24"]

# No floating-point files: libsndfile puts a time stamp into them (the PEAK chunk).
_SUBTYPES = {"int16": "PCM_16", "int24": "PCM_24"}
_FORMATS = {".wav": "WAV", ".flac": "FLAC"}
_LONGEST = 1 << 48  # frames; libsndfile gives 2^63 - 1 for a FLAC file that was written to a pipe
_MOST_IN_MEMORY = 1 << 30  # samples: 18 hours at 16 kHz
_RATES = (1000, 384_000)  # Hz
_MOST_CHANNELS = 64


class MixedDownWarning(UserWarning):
    """Several channels were averaged into one."""


@dataclass(frozen=True, repr=False)
class Waveform:
    """Mono audio; in a notebook it shows a player.

    Parameters
    ----------
    samples
        Floating-point samples of shape (n,), nominally in [-1, 1]; kept as float32.
    rate
        Sampling rate in Hz.

    Examples
    --------
    >>> Waveform(np.zeros(8000), 16000).duration
    0.5
    """

    samples: Samples
    rate: int

    def __post_init__(self) -> None:
        samples = np.asarray(self.samples)
        if samples.ndim != 1:
            raise InputError(f"a waveform has one dimension, not shape {samples.shape}")
        if not np.issubdtype(samples.dtype, np.floating):
            raise InputError(f"samples are floats in [-1, 1], not {samples.dtype}", fix="divide int16 by 32768")
        if samples.dtype != np.float32:
            samples = samples.astype(np.float32)
        if not (self.rate > 0 and self.rate % 1 == 0):
            raise InputError(f"a sampling rate is a positive whole number of Hz, not {self.rate}")
        object.__setattr__(self, "samples", samples)
        object.__setattr__(self, "rate", int(self.rate))

    def __len__(self) -> int:
        return len(self.samples)

    def __repr__(self) -> str:
        return f"Waveform({self.duration:.3f} s, {self.rate} Hz)"

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.rate

    def resampled(self, rate: int) -> Waveform:
        """The same sound at ``rate`` Hz (soxr, very high quality); itself if it has that rate already."""
        return self if rate == self.rate else Waveform(resample(self.samples, self.rate, rate), rate)

    def _repr_html_(self) -> str:
        """Return an audio player that holds the recording as 16-bit WAV."""
        import base64

        text = f"{self.duration:.2f} s, {self.rate} Hz"
        if not len(self) or not np.isfinite(self.samples).all():
            return f"<p>{text}: nothing to play</p>"
        data = base64.b64encode(_wav_bytes(self)).decode()
        return f'<audio controls src="data:audio/wav;base64,{data}"></audio><p>{text}</p>'

    def int16(self) -> NDArray[np.int16]:
        """16-bit PCM: rounded to the nearest step of 1/32768; what is outside [-1, 1) is clipped."""
        return to_int16(self.samples)


def check_waveform(wave: object) -> None:
    """Raise ``InputError`` unless ``wave`` is a :class:`Waveform`; say what to do with a numpy array."""
    if isinstance(wave, Waveform):
        return
    if isinstance(wave, np.ndarray):
        raise InputError(
            f"a numpy array of shape {wave.shape} was given, which has no sampling rate",
            fix="give voiceveil.Waveform(samples, rate)",
        )
    raise InputError(f"a Waveform is needed, not {type(wave).__name__}", fix="read one with voiceveil.load(path)")


def _wav_bytes(wave: Waveform) -> bytes:
    """Return the recording as a WAV file, 16-bit PCM."""
    import soundfile

    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", **_output_format(Path("player.wav"), wave.rate, "int16")) as file:
        file.write(wave.int16())
    return buffer.getvalue()


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
    return _rounded(samples, 16).astype(np.int16)


def _rounded(samples: NDArray[Any], bits: int) -> NDArray[Any]:
    """Whole numbers of steps of PCM: nearest (ties to even), clipped to the range."""
    full = 2.0 ** (bits - 1)
    return np.clip(np.rint(samples * full), -full, full - 1)


def resample(samples: ArrayLike, rate: int, new_rate: int) -> Samples:
    """Resample mono audio; the length becomes ``round(n * new_rate / rate)`` to within one sample."""
    import soxr

    if not (rate > 0 and new_rate > 0):
        raise InputError(f"cannot resample from {rate} to {new_rate} Hz")
    array = np.asarray(samples, dtype=np.float32)
    if rate == new_rate or len(array) == 0:
        return array
    return np.asarray(soxr.resample(array, rate, new_rate, quality="VHQ"), dtype=np.float32)


@contextmanager
def open_audio(path: str | os.PathLike[str], *, header_only: bool = False) -> Iterator[Any]:
    """Open a file as ``soundfile.SoundFile`` for reading; every failure is an ``InputError`` with the path.

    A file that is truncated, or that has a second part which libsndfile would leave out, is refused; ``header_only``
    leaves out the checks that read all of a FLAC file.
    """
    import soundfile

    path = Path(path)
    with ExitStack() as stack:
        try:
            source = stack.enter_context(complete_file(path, header_only=header_only))
            file = stack.enter_context(soundfile.SoundFile(source, closefd=False))
        except (OSError, soundfile.LibsndfileError) as error:
            foreign = path.suffix.lower() in FOREIGN_SUFFIXES
            fix = f"convert it first: ffmpeg -i {path.name} {path.stem}.wav" if foreign else ""
            raise InputError(f"not readable as audio: {_reason(error)}", where=path, fix=fix) from error
        _check_header(file, path)
        try:
            yield file
        except soundfile.LibsndfileError as error:  # an OSError of the block is about something else
            raise InputError(f"damaged or truncated: {_reason(error)}", where=path, fix=COPY_AGAIN) from error


def _check_header(file: Any, path: Path) -> None:
    """Refuse what no recording of speech has, and what would take memory without bound."""
    if file.frames > _LONGEST:
        fix = "write it again to a file, not to a pipe: ffmpeg -i OLD.flac NEW.flac"
        raise InputError("its header does not say how long it is", where=path, fix=fix)
    if not _RATES[0] <= file.samplerate <= _RATES[1]:
        what = f"a sampling rate of {file.samplerate} Hz; {_RATES[0]} to {_RATES[1]} Hz can be read"
        raise InputError(what, where=path, fix="its header may be damaged: copy it again, or resample it")
    if file.channels > _MOST_CHANNELS:
        what = f"{file.channels} channels; up to {_MOST_CHANNELS} can be read"
        raise InputError(what, where=path, fix="its header may be damaged: copy it again, or extract the speech")
    if file.format == "MP3":
        with open_file(path) as raw:
            check_mp3(raw, path, int(file.frames))


def _reason(error: Exception) -> str:
    """The words of the system or of libsndfile, without its repetition of the path."""
    text = str(getattr(error, "error_string", "") or getattr(error, "strerror", "") or error)
    return text.removeprefix("Error : ").rstrip(".")


def info(path: str | os.PathLike[str]) -> AudioInfo:
    """Return rate, channels and length of a file, from its header."""
    with open_audio(path, header_only=True) as file:
        return AudioInfo(int(file.samplerate), int(file.channels), int(file.frames))


def load(
    path: str | os.PathLike[str], *, rate: int | None = None, start: float = 0.0, duration: float | None = None
) -> Waveform:
    """Read a recording, or a part of it; several channels are averaged, with a :class:`MixedDownWarning`.

    Parameters
    ----------
    path
        Audio file.
    rate
        Sampling rate in Hz to resample to (default: that of the file).
    start, duration
        Part of the file, in seconds (default: all of it).

    Returns
    -------
    Waveform
        Mono, float32.

    Raises
    ------
    InputError
        If the file cannot be read, or ends before its header says so.

    Examples
    --------
    >>> import numpy as np, voiceveil as vv
    >>> sha256 = vv.save("hello.wav", vv.Waveform(np.zeros(8000), 16000))
    >>> vv.load("hello.wav", rate=8000)
    Waveform(0.500 s, 8000 Hz)
    """
    with open_audio(path) as file:
        length = file.frames if duration is None else duration * file.samplerate
        hours = f"{length / file.samplerate / 3600:.1f} hours"
        too_long = InputError(
            f"{hours} of audio are too long to be held in memory", where=path, fix="cut it into parts"
        )
        if length > _MOST_IN_MEMORY:
            raise too_long
        try:
            blocks = list(read_blocks(file, path, start=start, duration=duration))
            samples = np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.float32)
        except MemoryError:
            raise too_long from None
        if file.channels > 1:
            warnings.warn(f"{path}: {file.channels} channels mixed down to one", MixedDownWarning, stacklevel=2)
        wave = Waveform(samples, int(file.samplerate))
    return wave if rate is None else wave.resampled(rate)


def read_blocks(
    file: Any, path: str | os.PathLike[str], *, start: float = 0.0, duration: float | None = None, size: int = 1 << 22
) -> Iterator[Samples]:
    """The samples of an open file, mixed down, in blocks of at most ``size``; see :func:`load`."""
    import soundfile

    if not (0 <= start < math.inf and (duration is None or 0 <= duration < math.inf)):
        raise InputError(f"no part of a recording: from {start:g} s, {duration} s long", where=path)
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
        try:
            data = file.read(min(wanted, max(size // file.channels, 1)), dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise InputError(f"damaged or truncated: {_reason(error)}", where=path, fix=COPY_AGAIN) from error
        if len(data) == 0:
            if file.format == "MP3" and wanted <= _estimated_frame(path):
                return
            raise InputError(f"truncated: {wanted} frames are missing", where=path, fix=COPY_AGAIN)
        wanted -= len(data)
        yield mix_down(data)


def _estimated_frame(path: str | os.PathLike[str]) -> int:
    """Return by how many samples the length of an MP3 file may be wrong."""
    with open_file(path) as raw:
        return estimated_mp3_frame(raw)


def mix_down(frames: NDArray[np.float32]) -> Samples:
    """Average the channels: ``(n, channels)`` to ``(n,)``."""
    return frames[:, 0] if frames.shape[1] == 1 else frames.mean(axis=1, dtype=np.float32)


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
    """A ``soundfile.SoundFile`` to write :func:`encoded` blocks into; it appears under its name when all went well."""
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
    """What libsndfile is given: whole steps, since its own rounding differs between versions and scales by 2^n - 1."""
    return to_int16(samples) if encoding == "int16" else _rounded(samples, 24).astype(np.int32) << 8


def _output_format(path: Path, rate: int, encoding: Encoding) -> dict[str, Any]:
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"cannot write {path.suffix or 'a file without suffix'}", where=path, fix="use .wav or .flac")
    return {"samplerate": rate, "channels": 1, "subtype": _SUBTYPES[encoding], "format": kind}
