"""Read audio files at any rate: by libsndfile (WAV, FLAC, Ogg, MP3, ...), or by PyAV what that cannot (M4A, MP4, ...).

Channels are averaged. A truncated or damaged file is an :class:`~voiceveil.core.errors.InputError`, never a shorter
recording.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio.compressed_headers import COPY_AGAIN, check_mp3, estimated_mp3_frame
from voiceveil.audio.headers import complete_file
from voiceveil.audio.media import MediaFile, media_installed
from voiceveil.audio.waveform import Samples, Waveform, mix_down
from voiceveil.core.errors import InputError
from voiceveil.core.files import MEDIA_SUFFIXES, open_file

__all__ = ["AudioInfo", "MixedDownWarning", "info", "load", "open_audio", "read_blocks"]

_LONGEST = 1 << 48  # frames; libsndfile gives 2^63 - 1 for a FLAC file that was written to a pipe
_MOST_IN_MEMORY = 1 << 30  # samples: 18 hours at 16 kHz
_UNRECOGNIZED = 1  # libsndfile's error for a format that it does not know
_RATES = (1000, 384_000)  # Hz
_MOST_CHANNELS = 64


class MixedDownWarning(UserWarning):
    """Several channels were averaged into one."""


@dataclass(frozen=True)
class AudioInfo:
    """Sampling rate in Hz, number of channels and length in frames, as the header of a file states them.

    ``container``, ``codec``: FFmpeg's names, or libsndfile's format and subtype; ``bit_rate`` in bits per second, 0 if
    unknown; ``start``: time of the first sample in seconds, on the clock of a video; ``has_picture``: whether it is a
    video; ``tracks``: number of audio tracks, of which one is read.
    """

    rate: int
    channels: int
    frames: int
    container: str = ""
    codec: str = ""
    bit_rate: int = 0
    start: float = 0.0
    has_picture: bool = False
    tracks: int = 1

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate


@contextmanager
def open_audio(path: str | os.PathLike[str], *, header_only: bool = False) -> Iterator[Any]:
    """Open a file for reading, as a ``soundfile.SoundFile`` or a :class:`~voiceveil.audio.media.MediaFile`.

    Parameters
    ----------
    path
        The file.
    header_only
        Skip the checks that read all of a FLAC file.

    Raises
    ------
    InputError
        If the file is missing, not audio, damaged, truncated, or has a second part that libsndfile would ignore.
    """
    import soundfile

    path = Path(path)
    with ExitStack() as stack:
        try:
            source = stack.enter_context(complete_file(path, header_only=header_only))
            file = stack.enter_context(soundfile.SoundFile(source, closefd=False))
        except (OSError, soundfile.LibsndfileError) as error:
            unrecognized = getattr(error, "code", None) == _UNRECOGNIZED
            if not unrecognized or not (media_installed() or path.suffix.lower() in MEDIA_SUFFIXES):
                raise InputError(f"not readable as audio: {_reason(error)}", where=path) from error
            file = MediaFile(stack.enter_context(open_file(path, "an audio file")), path)
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
        problem = f"a sampling rate of {file.samplerate} Hz; {_RATES[0]} to {_RATES[1]} Hz can be read"
        raise InputError(problem, where=path, fix="its header may be damaged: copy it again, or resample it")
    if file.channels > _MOST_CHANNELS:
        problem = f"{file.channels} channels; up to {_MOST_CHANNELS} can be read"
        raise InputError(problem, where=path, fix="its header may be damaged: copy it again, or extract the speech")
    if file.format == "MP3":
        with open_file(path) as raw:
            check_mp3(raw, path, int(file.frames))


def _reason(error: Exception) -> str:
    """Return the message of the system or of libsndfile, without the path."""
    text = str(getattr(error, "error_string", "") or getattr(error, "strerror", "") or error)
    return text.removeprefix("Error : ").rstrip(".")


def info(path: str | os.PathLike[str]) -> AudioInfo:
    """Return rate, channels, length and format of a file, from its header."""
    with open_audio(path, header_only=True) as file:
        shape = int(file.samplerate), int(file.channels), int(file.frames)
        if not isinstance(file, MediaFile):
            return AudioInfo(*shape, str(file.format), str(file.subtype))
        media = file.info
        return AudioInfo(
            *shape,
            media.container,
            media.codec,
            media.bit_rate,
            media.start,
            media.video_streams > 0,
            media.audio_streams,
        )


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
    file: Any,
    path: str | os.PathLike[str],
    *,
    start: float = 0.0,
    duration: float | None = None,
    size: int = 1 << 22,
    mix_channels: bool = True,
) -> Iterator[Samples]:
    """Yield the samples of an open file, channels averaged.

    Parameters
    ----------
    file
        Of :func:`open_audio`.
    path
        Its path, for errors.
    start, duration
        Part of the file in seconds; None: to its end.
    size
        Samples of a block at most.
    mix_channels
        Average the channels; else the blocks are (n, channels).
    """
    import soundfile

    if not (0 <= start < math.inf and (duration is None or 0 <= duration < math.inf)):
        raise InputError(f"no part of a recording: from {start:g} s, {duration} s long", where=path)
    rate = file.samplerate
    first = round(start * rate)
    wanted = file.frames - first if duration is None else round(duration * rate)
    if first > file.frames or first + wanted > file.frames + rate // 100:  # segments may overshoot by 10 ms
        problem = f"has {file.frames / rate:g} s, but {start:g} to {(first + wanted) / rate:g} s are asked for"
        raise InputError(problem, where=path)
    wanted = min(wanted, file.frames - first)
    if first:
        file.seek(first)
    while wanted > 0:
        try:
            data = file.read(min(wanted, max(size // file.channels, 1)), dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise InputError(f"damaged or truncated: {_reason(error)}", where=path, fix=COPY_AGAIN) from error
        if len(data) == 0:
            if file.format == MediaFile.format or (file.format == "MP3" and wanted <= _estimated_frame(path)):
                return
            raise InputError(f"truncated: {wanted} frames are missing", where=path, fix=COPY_AGAIN)
        wanted -= len(data)
        yield mix_down(data) if mix_channels else data


def _estimated_frame(path: str | os.PathLike[str]) -> int:
    """Return by how many samples the length of an MP3 file may be wrong."""
    with open_file(path) as raw:
        return estimated_mp3_frame(raw)
