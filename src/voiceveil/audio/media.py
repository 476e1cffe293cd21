"""Read the sound of what FFmpeg reads, through PyAV: M4A, MP4, MOV, WebM, Matroska, AAC, AMR, WMA and others.

Files come from strangers. They are handed over as open files, so that no name in them can make FFmpeg open another file
or an address; only containers that hold their own data are recognized (no playlists, no scripts), and only decoders of
audio run, unless a picture is to be copied. A file is read twice: first its packets, which tell how long it is and
whether it is complete; then its sound.

Conventions: samples are float32 of shape (frames, channels); times are in seconds on the clock of the container, on
which a recording need not begin at 0. Gaps in the timestamps are filled with silence, so that sound and picture stay in
sync.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio.compressed_headers import COPY_AGAIN
from voiceveil.core.errors import InputError
from voiceveil.core.files import file_stamp, open_file

__all__ = [
    "MediaFile", "MediaInfo", "encoder_rates", "media_info", "media_installed", "open_container", "require_media",
    "video_streams",
]  # fmt: skip

#: Containers that are recognized, by the names of their FFmpeg demuxers. None of them can refer to another file.
CONTAINERS = (
    "mov", "matroska", "webm", "asf", "avi", "mpegts", "mpeg", "flv", "ogg", "wav", "w64", "aiff", "caf", "au", "mp3",
    "aac", "loas", "amr", "flac", "ac3", "eac3", "dts", "ape", "wv", "tta", "tak", "mpc", "mpc8", "rm", "voc", "gsm",
)  # fmt: skip
#: Containers that do not state their length: FFmpeg guesses it from the bit rate.
_UNTIMED = {"aac", "loas", "amr", "mp3", "ac3", "eac3", "dts", "gsm", "mpegts", "mpeg", "flv"}
_MOST_STREAMS = 64
_LONGEST = 48 * 3600.0  # seconds
_JITTER = 0.04  # seconds that a timestamp may be away from the samples before it
_TOLERANCE = 0.5  # seconds by which the stated and the real length of a complete file may differ


def media_installed() -> bool:
    """Return whether PyAV is installed."""
    return find_spec("av") is not None


def require_media(path: Path) -> None:
    """Raise ``InputError`` if PyAV is not installed, which ``path`` needs."""
    if not media_installed():
        problem = "this format needs PyAV, which is not installed"
        raise InputError(problem, where=path, fix="pip install 'voiceveil[media]'")


@dataclass(frozen=True)
class MediaInfo:
    """Properties of a media file and of its first (or default) audio stream.

    ``container``: first name of FFmpeg's demuxer, or "webm"; ``codec``: of the audio; ``rate`` in Hz; ``layout``:
    "mono", "stereo", "5.1", ...; ``bit_rate`` in bits per second, 0 if unknown; ``start``: time of the first sample in
    seconds; ``frames``: samples per channel; ``audio_streams``, ``video_streams``: their numbers, without cover art.
    """

    container: str
    codec: str
    rate: int
    channels: int
    layout: str
    bit_rate: int
    start: float
    frames: int
    audio_streams: int
    video_streams: int


class MediaFile:
    """The sound of a media file, with what :mod:`voiceveil.audio.reading` uses of a ``soundfile.SoundFile``."""

    format = "MEDIA"
    subtype = ""

    def __init__(self, source: BinaryIO, path: Path) -> None:
        self.info = media_info(path)
        self._blocks = _decoded(source, path, self.info)
        self._rest = np.zeros((0, self.info.channels), dtype=np.float32)

    @property
    def samplerate(self) -> int:
        """Sampling rate in Hz."""
        return self.info.rate

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.info.channels

    @property
    def frames(self) -> int:
        """Samples per channel."""
        return self.info.frames

    def seek(self, frames: int) -> None:
        """Skip so many frames from the beginning, by decoding them."""
        while frames > 0 and len(skipped := self.read(min(frames, 1 << 16))):
            frames -= len(skipped)

    def read(self, frames: int, dtype: str = "float32", always_2d: bool = True) -> NDArray[np.float32]:
        """Return the next frames, (n, channels) float32: at most so many, none at the end."""
        while not len(self._rest):
            block = next(self._blocks, None)
            if block is None:
                return self._rest
            self._rest = block
        result, self._rest = self._rest[:frames], self._rest[frames:]
        return result


def media_info(path: Path) -> MediaInfo:
    """Return the properties of a media file; it is read to its end, once while it does not change.

    Raises
    ------
    InputError
        If it is no media file, has no sound, is truncated or damaged, or states what no recording of speech has.
    """
    with open_file(path, "an audio file") as file:
        return _scan(path, file_stamp(os.fstat(file.fileno())))


@lru_cache(maxsize=64)
def _scan(path: Path, stamp: str) -> MediaInfo:
    with open_file(path) as file:
        is_webm = b"webm" in file.read(64)
        with open_container(file, path) as container:
            media = _checked(_measured(container, path), path)
    return replace(media, container="webm") if is_webm and media.container == "matroska" else media


@contextmanager
def open_container(file: BinaryIO, path: Path, *, decode_video: bool = False) -> Iterator[Any]:
    """Open a media file with PyAV, restricted as the module's text says; its errors become ``InputError``.

    ``decode_video``: let decoders of video run as well, for what headers may not state: size, order of the pictures.
    """
    require_media(path)
    import av

    options = {
        "format_whitelist": ",".join(CONTAINERS),
        "protocol_whitelist": "none",
        "max_streams": str(_MOST_STREAMS + 1),
    }
    if not decode_video:
        options["codec_whitelist"] = _audio_decoders()
    _check_segment(file, path)
    file.seek(0)
    try:
        container = av.open(file, "r", options=options, metadata_errors="ignore")
    except (av.error.FFmpegError, OSError, ValueError) as error:
        problem = "not readable as audio: its format is not known, or it is damaged"
        raise InputError(problem, where=path) from error
    with container:
        if len(container.streams) > _MOST_STREAMS:
            problem = f"{len(container.streams)} streams; up to {_MOST_STREAMS} can be read"
            raise InputError(problem, where=path, fix="extract the speech")
        try:
            yield container
        except (av.error.FFmpegError, EOFError) as error:
            raise InputError(f"damaged or truncated: {_reason(error)}", where=path, fix=COPY_AGAIN) from error


def _check_segment(file: BinaryIO, path: Path) -> None:
    """Refuse a Matroska or WebM file that is shorter than the size of its segment (RFC 8794, sections 4 to 6)."""
    file.seek(0)
    head = file.read(64)
    at = head.find(b"\x18\x53\x80\x67")
    if not head.startswith(b"\x1a\x45\xdf\xa3") or not 0 < at < 55 or head[at + 4] == 0:
        return
    length = 9 - head[at + 4].bit_length()  # bytes of the size: as many as there are zero bits before the first one
    size = int.from_bytes(head[at + 4 : at + 4 + length]) & (1 << 7 * length) - 1
    missing = at + 4 + length + size - file.seek(0, os.SEEK_END)
    if missing > 0 and size != (1 << 7 * length) - 1:  # all ones: unknown
        raise InputError(f"truncated: {missing} of {size} bytes are missing", where=path, fix=COPY_AGAIN)


@lru_cache(maxsize=1)
def _audio_decoders() -> str:
    """Return the names of all decoders of audio, separated by commas: no others are opened."""
    import av

    names = []
    for name in sorted(av.codecs_available):
        try:
            if av.Codec(name, "r").type == "audio":
                names.append(name)
        except ValueError:  # an encoder only
            continue
    return ",".join(names)


@lru_cache(maxsize=64)
def encoder_rates(name: str) -> tuple[int, ...]:
    """Return the sampling rates in Hz that an encoder knows; none if it knows all, or if PyAV is not installed."""
    if not media_installed():
        return ()
    import av

    return tuple(av.Codec(name, "w").audio_rates or ())


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", "") or error)


def audio_stream(container: Any, path: Path) -> Any:
    """Return the audio stream to read: the one that players choose."""
    stream = container.streams.best("audio")
    if stream is None:
        raise InputError("there is no sound in this file", where=path)
    stream.codec_context.thread_count = 1
    return stream


def video_streams(container: Any) -> list[Any]:
    """Return the streams of moving pictures; cover art and thumbnails are not among them."""
    import av

    still = av.stream.Disposition.attached_pic | av.stream.Disposition.timed_thumbnails
    return [stream for stream in container.streams.video if not stream.disposition & still]


def _measured(container: Any, path: Path) -> MediaInfo:
    """Read all packets and decode the first: where the sound begins and ends, and whether the file is complete."""
    stream = audio_stream(container, path)
    first, sound_end, end = None, 0.0, 0.0
    for packet in container.demux():
        if packet.is_corrupt:
            raise InputError("truncated or damaged: a packet is not complete", where=path, fix=COPY_AGAIN)
        if packet.pts is not None:
            packet_end = float((packet.pts + (packet.duration or 0)) * packet.time_base)
            end = max(end, packet_end)
            sound_end = max(sound_end, packet_end) if packet.stream is stream else sound_end
        if packet.stream is stream and first is None:
            first = next(iter(stream.decode(packet)), None)
    if first is None:
        raise InputError("there is no sound in this file", where=path, fix=COPY_AGAIN)
    name = container.format.name.partition(",")[0]
    begin = 0.0 if container.start_time is None else container.start_time / 1e6
    stated = 0.0 if container.duration is None or name in _UNTIMED else begin + container.duration / 1e6
    if end < stated - _TOLERANCE:
        problem = f"truncated: it ends after {end:.1f} of {stated:.1f} s"
        raise InputError(problem, where=path, fix=COPY_AGAIN)
    start = float(first.time or 0.0)
    context = stream.codec_context
    return MediaInfo(
        container=name,
        codec=context.codec.canonical_name,
        rate=first.sample_rate,
        channels=len(first.layout.channels),
        layout=first.layout.name,
        bit_rate=context.bit_rate or 0,
        start=start,
        frames=round((sound_end - start) * first.sample_rate),
        audio_streams=len(container.streams.audio),
        video_streams=len(video_streams(container)),
    )


def _checked(info: MediaInfo, path: Path) -> MediaInfo:
    if info.frames > _LONGEST * info.rate:
        hours = info.frames / info.rate / 3600
        problem = f"its timestamps cover {hours:.0f} hours; up to {_LONGEST / 3600:.0f} can be read"
        raise InputError(problem, where=path, fix="cut it into parts, or copy it again if it is shorter")
    if info.frames <= 0:
        raise InputError("there is no sound in this file", where=path, fix=COPY_AGAIN)
    return info


def _decoded(file: BinaryIO, path: Path, info: MediaInfo) -> Iterator[NDArray[np.float32]]:
    """Yield the sound, (n, channels), on its timeline: ``info.frames`` in all, but for what the decoder holds back."""
    from av import AudioResampler

    done = 0
    with open_container(file, path) as container:
        stream = audio_stream(container, path)
        to_float = AudioResampler(format="fltp", layout=info.layout, rate=info.rate)
        for frame in container.decode(stream):
            if (frame.sample_rate, frame.layout.name) != (info.rate, info.layout):
                problem = "its sampling rate or its channels change in the middle"
                raise InputError(problem, where=path, fix="cut it into parts there")
            place = done if frame.time is None else round((frame.time - info.start) * info.rate)
            if abs(place - done) <= _JITTER * info.rate:
                place = done
            yield from _silence(min(place, info.frames) - done, info.channels)
            frame.pts = None
            samples = np.concatenate([part.to_ndarray() for part in to_float.resample(frame)], axis=1).T
            samples = samples[max(0, done - place) :]
            done = max(done, min(place, info.frames))
            samples = samples[: info.frames - done]
            done += len(samples)
            if len(samples):
                yield samples
    if done < info.frames - _TOLERANCE * info.rate:
        problem = f"damaged: only {done / info.rate:.1f} of {info.frames / info.rate:.1f} s can be decoded"
        raise InputError(problem, where=path, fix=COPY_AGAIN)


def _silence(frames: int, channels: int) -> Iterator[NDArray[np.float32]]:
    while frames > 0:
        yield np.zeros((min(frames, 1 << 16), channels), dtype=np.float32)
        frames -= 1 << 16
