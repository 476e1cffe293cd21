"""Write media files through PyAV: new sound, and the picture of another file copied packet by packet.

Tags, chapters, cover art, subtitles, data such as positions, and other audio tracks of the input are not copied. The
same samples give the same bytes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio.formats import ENCODERS, AudioFormat
from voiceveil.audio.media import open_container, video_streams
from voiceveil.audio.waveform import Samples, in_channels
from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file

__all__ = ["MediaWriter", "create_media"]

#: Sample formats, the best first, that encoders are given.
_SAMPLE_FORMATS = ("fltp", "flt", "s16p", "s16", "s32p", "s32")
_LAYOUTS = {1: "mono", 2: "stereo", 3: "2.1", 4: "quad", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}
_FRAME = 1024  # samples that are encoded at once where the codec does not say
_MOST_UNDATED = 64  # packets without a time of decoding: the order of pictures changes over fewer
_WITHOUT_TIMES = {"avi", "adts"}  # muxers
_BITEXACT = {"fflags": "+bitexact"}


class MediaWriter:
    """Encodes mono samples into an open container; packets of the picture go between, in the order of their times.

    Parameters
    ----------
    container
        Output, opened by PyAV.
    format
        Codec, rate and channels of the sound.
    start
        Time of the first sample in seconds.
    picture
        Input, opened by PyAV, whose video streams are copied.
    """

    def __init__(self, container: Any, format: AudioFormat, start: float, picture: Any = None) -> None:
        import av

        layout = _LAYOUTS.get(format.channels)
        if layout is None:
            raise InputError(f"{format.channels} channels cannot be written as {format.suffix}", fix="--format wav")
        self._container, self._format = container, format
        self._packets = iter(()) if picture is None else _copied(picture, container)
        self._waiting = next(self._packets, None)
        self._stream = container.add_stream(ENCODERS.get(format.codec, format.codec), rate=format.rate, layout=layout)
        context = self._stream.codec_context
        known = [known.name for known in context.codec.audio_formats or ()]
        context.format = next((name for name in _SAMPLE_FORMATS if name in known), known[0] if known else "s16")
        context.flags |= av.codec.context.Flags.bitexact
        context.thread_count = 1
        if format.bit_rate:
            context.bit_rate = format.bit_rate
        self._resampler = av.AudioResampler(format=context.format.name, layout=layout, rate=format.rate)
        self._fifo = av.AudioFifo()
        self._layout = layout
        self._start = self._next = round(start * format.rate)

    def write(self, samples: Samples) -> None:
        """Encode the next samples, (n,) for all channels or (n, channels), float32 at the rate of the format."""
        import av

        if not len(samples):
            return
        frames = in_channels(np.clip(samples, -1, 1), self._format.channels).T
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(frames), "fltp", self._layout)
        frame.sample_rate = self._format.rate
        for part in self._resampler.resample(frame):
            part.pts = None
            self._fifo.write(part)
        self._encode(partial=False)

    def close(self) -> None:
        """Encode what is left, and copy the rest of the picture."""
        self._encode(partial=True)
        self._mux(self._stream.encode(None))
        self._copy_until(float("inf"))

    def _encode(self, *, partial: bool) -> None:
        context = self._stream.codec_context
        if not context.is_open:
            context.open()
        size = context.frame_size or _FRAME
        while (frame := self._fifo.read(size)) or (partial and (frame := self._fifo.read(size, partial=True))):
            frame.pts, frame.time_base = self._next, Fraction(1, self._format.rate)
            self._copy_until(self._next / self._format.rate)
            self._next += frame.samples
            self._mux(self._stream.encode(frame))

    def _mux(self, packets: list[Any]) -> None:
        """Write packets of sound, but for the silence that encoders begin with where a container has no times."""
        for packet in packets:
            end = (packet.pts + (packet.duration or 0)) * packet.time_base * self._format.rate
            if self._format.muxer not in _WITHOUT_TIMES or end > self._start + _FRAME // 2:
                self._container.mux(packet)

    def _copy_until(self, time: float) -> None:
        """Copy the packets of the picture that come before a time in seconds."""
        while self._waiting is not None and float(self._waiting.dts * self._waiting.time_base) <= time:
            self._container.mux(self._waiting)
            self._waiting = next(self._packets, None)


def _copied(source: Any, container: Any) -> Iterator[Any]:
    """Return the packets of the video streams of a source, for copies of these streams in a container."""
    copies = {stream.index: container.add_stream_from_template(stream) for stream in video_streams(source)}
    for stream in copies.values():
        stream.metadata.clear()
    return _readdressed(source, copies)


def _readdressed(source: Any, copies: dict[int, Any]) -> Iterator[Any]:
    """Yield the packets of some streams for their copies, each with a time of decoding."""
    waiting: dict[int, list[Any]] = {index: [] for index in copies}
    for packet in source.demux([source.streams[index] for index in copies]):
        index = packet.stream.index
        if packet.size:  # the last one of a stream is empty
            packet.stream = copies[index]
            waiting[index].append(packet)
            if packet.dts is not None:
                yield from _dated(waiting[index], packet.dts)
                waiting[index] = []
            elif len(waiting[index]) > _MOST_UNDATED:
                raise InputError(
                    "its pictures have no times of decoding", fix="choose an audio format, e.g. --format wav"
                )
    for undated in waiting.values():
        yield from _dated(undated, undated[-1].pts if undated else 0)


def _dated(packets: list[Any], last: int) -> list[Any]:
    """Give packets times of decoding up to that of the last one: Matroska does not state the first few."""
    for number, packet in enumerate(reversed(packets)):
        packet.dts = last - number * (packet.duration or 1)
    return packets


@contextmanager
def create_media(
    path: Path, format: AudioFormat, *, picture: Path | None = None, start: float = 0.0
) -> Iterator[MediaWriter]:
    """Open a media file to write mono samples into.

    Parameters
    ----------
    path
        The file, which is not complete before the block has ended.
    format
        Container, codec, rate and channels.
    picture
        File whose video streams are copied.
    start
        Time of the first sample in seconds, on the clock of ``picture``.

    Raises
    ------
    InputError
        If the container cannot hold the picture, or the encoder refuses the rate or the channels.
    """
    import av

    with ExitStack() as stack:
        source = None
        if picture is not None:
            file = stack.enter_context(open_file(picture))
            source = stack.enter_context(open_container(file, picture, decode_video=True))
        try:
            output = stack.enter_context(av.open(str(path), "w", format=format.muxer, options=_BITEXACT))
            writer = MediaWriter(output, format, start, source)
            yield writer
            writer.close()
        except av.error.FFmpegError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}:  # not the format's fault
                raise OSError(error.errno, error.strerror) from error
            problem = f"cannot be written as {format.suffix} with {format.codec}: {error.strerror}"
            raise InputError(problem, fix="choose another --format") from error
