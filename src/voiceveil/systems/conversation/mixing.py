"""Mix a converted conversation: the original where it is copied, new voices elsewhere, crossfades between.

Conventions: frames are float32 of shape (n, channels); times are in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import AudioFormat, Samples, mix_down
from voiceveil.core.errors import InputError
from voiceveil.systems.conversation.recording import Recording
from voiceveil.systems.conversation.report import ConversationReport
from voiceveil.systems.conversation.sample_file import RATE, SampleFile
from voiceveil.systems.conversation.spans import FADE, Span

__all__ = ["RenderedConversation", "Track"]

Frames = NDArray[np.float32]
_BLOCK = 1 << 18  # samples
_FULL_SCALE = 0.999


@dataclass(frozen=True)
class Track:
    """One channel, or all: its new voices, its plan, and its length in seconds."""

    voices: SampleFile
    spans: Sequence[Span]
    length: float


@dataclass(frozen=True)
class RenderedConversation:
    """A converted conversation, of which only the mixing is left."""

    recording: Recording
    rate: int
    tracks: Sequence[Track]
    report: ConversationReport

    def frames(self, format: AudioFormat) -> Iterator[Frames]:
        """Yield the result, (n, channels) or (n, 1), at the rate of the format."""
        voices = [_VoiceReader(track.voices, format.rate) for track in self.tracks]
        position = 0
        for original in _resampled(self.recording.blocks(), self.rate, format.rate):
            place = (position + np.arange(len(original)) + 0.5) / format.rate
            position += len(original)
            clear = original if original.shape[1] == format.channels else mix_down(original)[:, np.newaxis]
            if len(self.tracks) > 1 and clear.shape[1] != len(self.tracks):
                fix = "choose another --format"
                raise InputError(f"{len(self.tracks)} channels cannot be written as {format.suffix}", fix=fix)
            result = np.empty_like(clear)
            columns = [slice(None)] if len(self.tracks) == 1 else [slice(c, c + 1) for c in range(len(self.tracks))]
            for column, track, reader in zip(columns, self.tracks, voices, strict=True):
                weight = _copied_weight(track, place)[:, np.newaxis]
                new = reader.read(len(original))[:, np.newaxis]
                result[:, column] = clear[:, column] * weight + new * (1 - weight)
            yield result


def _copied_weight(track: Track, place: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return how much of the original is heard at each time in seconds: 1 in spans that are copied, but for fades."""
    weight = np.zeros(len(place), dtype=np.float32)
    for voice, start, end in track.spans:
        if voice is not None or not len(place) or end <= place[0] or start >= place[-1]:
            continue
        rise = np.inf if start == 0 else (place - start) / FADE
        fall = np.inf if end == track.length else (end - place) / FADE
        weight = np.maximum(weight, np.clip(np.minimum(rise, fall), 0, 1).astype(np.float32))
    return weight


class _VoiceReader:
    """Reads the new voices of a track, at another rate and within full scale."""

    def __init__(self, file: SampleFile, rate: int) -> None:
        scale = np.float32(_FULL_SCALE / file.peak if file.peak > _FULL_SCALE else 1.0)
        blocks = (file.read(a, min(a + _BLOCK, len(file)))[:, np.newaxis] * scale for a in range(0, len(file), _BLOCK))
        self._blocks = _resampled(blocks, RATE, rate)
        self._rest = np.zeros(0, dtype=np.float32)

    def read(self, count: int) -> Samples:
        """Return the next samples; 0 behind the end."""
        while len(self._rest) < count and (block := next(self._blocks, None)) is not None:
            self._rest = np.concatenate([self._rest, block[:, 0]])
        result, self._rest = self._rest[:count], self._rest[count:]
        return np.pad(result, (0, count - len(result)))


def _resampled(blocks: Iterator[Frames], rate: int, new_rate: int) -> Iterator[Frames]:
    """Yield frames (n, channels) at another rate; unchanged if it is the same."""
    if rate == new_rate:
        yield from blocks
        return
    import soxr

    stream = None
    channels = 1
    for frames in blocks:
        if stream is None:
            channels = frames.shape[1]
            stream = soxr.ResampleStream(rate, new_rate, channels, dtype="float32", quality="VHQ")
        yield stream.resample_chunk(np.ascontiguousarray(frames)).reshape(-1, channels)
    if stream is not None:
        rest = stream.resample_chunk(np.zeros((0, channels), dtype=np.float32), last=True)
        yield rest.reshape(-1, channels)
