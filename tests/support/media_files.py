"""Short media files of real codecs, made with PyAV: speech-like bursts of tone, and a picture that changes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

av: Any = pytest.importorskip("av")

#: Suffix -> container, codec, rate in Hz and layout of the sound, and codec of the picture.
FORMATS: dict[str, tuple[str, str, int, str, str | None]] = {
    ".m4a": ("ipod", "aac", 44100, "stereo", None),
    ".aac": ("adts", "aac", 44100, "mono", None),
    ".amr": ("amr", "libopencore_amrnb", 8000, "mono", None),
    ".wma": ("asf", "wmav2", 44100, "stereo", None),
    ".mka": ("matroska", "flac", 44100, "mono", None),
    ".3gp": ("3gp", "aac", 16000, "mono", None),
    ".mp4": ("mp4", "aac", 48000, "stereo", "libx264"),
    ".mov": ("mov", "pcm_s16le", 48000, "stereo", "mpeg4"),
    ".mkv": ("matroska", "aac", 44100, "mono", "libx264"),
    ".webm": ("webm", "libopus", 48000, "stereo", "libvpx"),
    ".avi": ("avi", "libmp3lame", 44100, "stereo", "mpeg4"),
    ".mts": ("mpegts", "aac", 48000, "stereo", "libx264"),
}
FRAME_RATE = 25


def bursts(rate: int, seconds: float) -> NDArray[np.float32]:
    """Return a tone of 300 Hz that is on in every second quarter of a second."""
    time = np.arange(round(seconds * rate)) / rate
    return (0.3 * np.sin(2 * np.pi * 300 * time) * (time % 0.5 >= 0.25)).astype(np.float32)


def make_media(
    path: Path,
    *,
    seconds: float = 2.0,
    samples: NDArray[np.float32] | None = None,
    delay: float = 0.0,
    tags: bool = False,
    suffix: str = "",
) -> Path:
    """Write a media file of the format of its suffix.

    Parameters
    ----------
    path
        The file.
    seconds
        Its length.
    samples
        Sound, (n,) at the rate of the format (default: :func:`bursts`).
    delay
        Seconds by which the sound begins after the picture.
    tags
        Write a title, a place, and the name of the track.
    suffix
        Suffix whose format is written (default: that of the path).
    """
    container, codec, rate, layout, picture = FORMATS[suffix or path.suffix]
    samples = bursts(rate, seconds) if samples is None else samples
    with av.open(str(path), "w", format=container) as output:
        if tags:
            output.metadata.update({"title": "Interview with Jane Doe", "location": "+48.8577+002.295/"})
        video = output.add_stream(picture, rate=FRAME_RATE) if picture else None
        sound = output.add_stream(codec, rate=rate, layout=layout)
        if codec == "wmav2":
            sound.codec_context.bit_rate = 64000
        if tags:
            sound.metadata["title"] = "Jane's microphone"
        if video is not None:
            video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
            _write_picture(output, video, seconds)
        _write_sound(output, sound, samples, round(delay * rate))
    return path


def _write_picture(output: Any, video: Any, seconds: float) -> None:
    for number in range(round(seconds * FRAME_RATE)):
        frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), number * 7 % 256, np.uint8), format="rgb24")
        frame.pts, frame.time_base = number, Fraction(1, FRAME_RATE)
        output.mux(video.encode(frame))
    output.mux(video.encode(None))


def _write_sound(output: Any, sound: Any, samples: NDArray[np.float32], start: int) -> None:
    context = sound.codec_context
    rate, layout = context.sample_rate, context.layout.name
    fifo = av.AudioFifo()
    frame = av.AudioFrame.from_ndarray(np.tile(samples, (len(context.layout.channels), 1)), "fltp", layout)
    frame.sample_rate = rate
    for part in av.AudioResampler(format=context.format.name, layout=layout, rate=rate).resample(frame):
        part.pts = None
        fifo.write(part)
    if not context.is_open:
        context.open()
    while (block := fifo.read(context.frame_size or 1024, partial=True)) is not None:
        block.pts, block.time_base = start, Fraction(1, rate)
        start += block.samples
        output.mux(sound.encode(block))
    output.mux(sound.encode(None))


def packets(path: Path, kind: str = "video") -> list[tuple[bytes, float]]:
    """Return the bytes and the time in seconds of every packet of the first stream of a kind."""
    with av.open(str(path)) as container:
        stream = getattr(container.streams, kind)[0]
        return [(bytes(p), float(p.pts * p.time_base)) for p in container.demux(stream) if p.size]
