"""Streams with one fault each, and systems that leave some voices as they are."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tests.support.broken_systems import Gain, GainStream, Whole, breaks
from voiceveil.audio import Samples, Waveform
from voiceveil.dsp.formants import measure_voice
from voiceveil.systems import Stream, system
from voiceveil.testing.voices import whispered

#: Checks that voices change; controls are exempt.
CHANGES = {
    "ordinary-voice-changes",
    "voiceless-voice-changes",
    "whispered-voice-changes",
    "very-low-voice-changes",
    "very-high-voice-changes",
}


class Streaming(Gain):
    """Gain with a stream that is broken."""

    Broken: ClassVar[type[GainStream]] = GainStream

    def stream(self, rng: np.random.Generator) -> Stream | None:
        return self.Broken(float(rng.uniform(*self.gain)))


class Louder(GainStream):
    def push(self, samples: Samples) -> Samples:
        return np.float32(1.01) * super().push(samples)


class ByBlock(GainStream):
    def push(self, samples: Samples) -> Samples:
        return super().push(samples) * np.float32(1 - 1e-5 * np.abs(samples).max(initial=0.0))


class LosesTheEnd(GainStream):
    def push(self, samples: Samples) -> Samples:
        return super().push(samples)[: len(samples) // 100 * 100]


class InPlace(GainStream):
    def push(self, samples: Samples) -> Samples:
        samples *= self.gain
        return samples


class Shared(GainStream):
    last: ClassVar[list[np.float32]] = [np.float32(0)]

    def __init__(self, gain: float) -> None:
        self.last[0] = np.float32(gain)

    def push(self, samples: Samples) -> Samples:
        return self.last[0] * samples


class WantsBlocks(GainStream):
    count = 0

    def push(self, samples: Samples) -> Samples:
        self.count += 1
        return super().push(samples)

    def close(self) -> Samples:
        if self.count == 0:
            raise IndexError("no block")
        return super().close()


class Noisy(GainStream):
    def finish(self, samples: Samples, peak: float) -> Samples:
        return samples if peak else samples + np.float32(0.1)


@breaks("stream-equals-whole")
class LouderStream(Streaming):
    """A stream that differs from convert."""

    Broken: ClassVar[type[GainStream]] = Louder


@breaks("block-size-does-not-matter")
class StreamByBlock(Streaming):
    """Differs by less than a step of 16 bits, but with the size of the blocks."""

    Broken: ClassVar[type[GainStream]] = ByBlock


@breaks("stream-equals-whole", "block-size-does-not-matter")
class StreamLosesTheEnd(Streaming):
    """Drops the last frame if it is incomplete."""

    Broken: ClassVar[type[GainStream]] = LosesTheEnd


@breaks("stream-leaves-its-input-alone")
class StreamInPlace(Streaming):
    """Works in the caller's memory."""

    Broken: ClassVar[type[GainStream]] = InPlace


@breaks("two-streams-at-once")
class SharedStream(Streaming):
    """One state for all streams."""

    Broken: ClassVar[type[GainStream]] = Shared


@breaks("stream-of-few-samples")
class StreamWantsBlocks(Streaming):
    """Fails on an empty recording."""

    Broken: ClassVar[type[GainStream]] = WantsBlocks


@breaks("stream-of-silence")
class NoisyStream(Streaming):
    """Adds noise to silence."""

    Broken: ClassVar[type[GainStream]] = Noisy


@breaks("stream-equals-whole")
class StreamDrawsAgain(Gain):
    """Another pseudo-speaker block by block than at once."""

    def stream(self, rng: np.random.Generator) -> Stream | None:
        rng.uniform()
        return super().stream(rng)


class Claims(Gain):
    """A gain that claims to hide voices."""

    is_control: ClassVar[bool] = False


breaks(*sorted(CHANGES))(Claims)


@breaks("voiceless-voice-changes", "whispered-voice-changes")
class LeavesWhispersAlone(Whole):
    """As a system does that moves the formants of voiced frames only."""

    is_control: ClassVar[bool] = False

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        voice, _ = measure_voice(samples, self.rate)
        hides = voice is not None and voice.f0 > 0
        return system("b2").transform(samples, rng) if hides else samples.copy()


@breaks("voiceless-voice-changes", "whispered-voice-changes")
class OtherNoiseSameTract(Whole):
    """Another waveform of the same vocal tract: its correlation with the input is low."""

    is_control: ClassVar[bool] = False

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        return whispered(Waveform(samples, self.rate)).samples
