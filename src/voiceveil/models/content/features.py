"""What is said: content features, a vector every few milliseconds, as independent of the speaker as may be.

Conventions: samples are at 16 kHz; a content has shape (frames, dimension), frame ``i`` is centered at sample
``offset + hop * i``. :func:`on_frames` brings it to the frames of synthesis, 100 a second.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.models.asr import moonshine
from voiceveil.models.asr.recognition import check_audio

__all__ = [
    "FRAME",
    "LEVEL",
    "Content",
    "MoonshineContent",
    "at_speed",
    "content_features",
    "contents",
    "interpolated",
    "normalized",
    "on_frames",
]

#: Samples of a frame of synthesis: 10 ms.
FRAME = 160
#: Root mean square that recordings are brought to before anything is heard in them, of full scale.
LEVEL = 0.06
Features = NDArray[np.float32]


class Content(Protocol):
    """An :class:`voiceveil.run.extract.Evaluator` whose result is content."""

    @property
    def dimension(self) -> int:
        """Of a vector."""
        ...

    @property
    def hop(self) -> float:
        """Samples between two vectors."""
        ...

    @property
    def offset(self) -> float:
        """The sample at which the first vector is centered."""
        ...

    @property
    def rate(self) -> int:
        """Hz."""
        ...

    @property
    def minimum(self) -> float:
        """Seconds."""
        ...

    def fingerprint(self) -> str:
        """Changes whenever a result would."""
        ...

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the features of an utterance (frames, dimension)."""
        ...


#: Name -> maker of content features from the part after the colon of ``name:MODEL``.
contents: Registry[Callable[[str], Content]] = Registry(
    "content features",
    group="voiceveil.contents",
    modules=(
        "voiceveil.models.content.self_supervised",
        "voiceveil.models.content.bottleneck",
        "voiceveil.models.content.ctc_attention",
    ),
)


def content_features(spec: str) -> Content:
    """Content features by name: ``moonshine``, ``moonshine:6``."""
    name, _, model = spec.partition(":")
    return contents[name](model)


def at_speed(content: Content, speed: float) -> Content:
    """The same features of the recording played so much faster."""
    if not isinstance(content, MoonshineContent):
        raise InputError("only the content of Moonshine can be taken at other speeds", fix="use --content moonshine")
    return replace(content, speed=speed)


#: Samples between two vectors of Moonshine's encoder, and those that one hears: convolutions of 127, 7 and 3 taps with
#: strides of 64, 3 and 2.
_STRIDE = 64 * 3 * 2
_SPAN = 127 + 64 * (7 - 1) + 64 * 3 * (3 - 1)


@dataclass(frozen=True)
class MoonshineContent:
    """A layer of the encoder of Moonshine tiny, which comes inside a wheel (see :mod:`voiceveil.models.asr.moonshine`).

    ``layer`` counts from 1; the encoder has six. Inner layers say more about sounds and less about the words that the
    decoder is to write. Recordings longer than ``longest`` seconds are heard in overlapping pieces. ``speed``: the
    recording is played so much faster to the encoder, which hears a shorter vocal tract, a higher voice.
    """

    layer: int = 4
    longest: float = 16.0
    speed: float = 1.0

    rate: ClassVar[int] = 16000
    dimension: ClassVar[int] = 288

    def __post_init__(self) -> None:
        if not 1 <= self.layer <= 6:
            raise InputError(f"Moonshine tiny has no layer {self.layer}", fix="use 1 to 6")

    @property
    def hop(self) -> float:
        """384 samples at the usual speed."""
        return _STRIDE * self.speed

    @property
    def offset(self) -> float:
        """Half of what a vector hears."""
        return (_SPAN - 1) / 2 * self.speed

    @property
    def minimum(self) -> float:
        """56 ms at the usual speed."""
        return (_SPAN + 1) * self.speed / self.rate

    def fingerprint(self) -> str:
        """Return the model's hash, the layer, the speed."""
        model = moonshine.FILES["encoder_model.ort"][:16]
        return f"content moonshine-tiny {model} 1 {self.layer} {self.longest}" + f" {self.speed}" * (self.speed != 1)

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the layer's output (frames, 288), not normalized."""
        check_audio(wave, self.rate, round(self.minimum * self.rate))
        samples = wave.samples
        if self.speed != 1:
            samples = Waveform(samples, round(self.rate * self.speed)).resampled(self.rate).samples
        size, context = round(self.longest * self.rate) // _STRIDE, 40  # frames; 40 are about a second
        frames = (len(samples) - _SPAN) // _STRIDE + 1
        parts = []
        for first in range(0, frames, size):
            begin, end = max(0, first - context), min(frames, first + size + context)
            heard = self._layer(samples[begin * _STRIDE : (end - 1) * _STRIDE + _SPAN])
            parts.append(heard[first - begin : min(size, frames - first) + first - begin])
        return np.concatenate(parts).astype(np.float16)

    def _layer(self, samples: Samples) -> Features:
        heard = np.ones((1, len(samples)), dtype=np.int64)
        (hidden,) = _encoder(self.layer).run(None, {"input_values": samples[None], "attention_mask": heard})
        return np.asarray(hidden[0], dtype=np.float32)


@contents.register("moonshine")
def _moonshine(layer: str) -> Content:
    if layer and not layer.isdecimal():
        raise InputError(f"{layer!r} is no layer of Moonshine tiny", fix="use moonshine:1 to moonshine:6")
    moonshine.model_file("encoder_model.ort")  # now, and not in a worker
    return MoonshineContent(int(layer or 4))


#: Where the file of the encoder refers to the name of its output: a distance in bytes, from this place on.
_OUTPUT = 13281112


@lru_cache(maxsize=2)
def _encoder(layer: int) -> Any:
    """Return a session of onnxruntime that gives the output of an inner layer.

    The model is a flat buffer, in which the output of the graph is a reference to a name. Another name is put at the
    end, and the reference turned to it. The hash of the file was checked, so that the place is the right one.
    """
    import onnxruntime

    data = bytearray(moonshine.model_file("encoder_model.ort").read_bytes())
    if layer < 6:
        name = f"/layers.{layer - 1}/Add_1_output_0".encode()
        struct.pack_into("<I", data, _OUTPUT, len(data) - _OUTPUT)
        data += struct.pack("<I", len(name)) + name + b"\0" * (4 - len(name) % 4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(bytes(data), options, providers=["CPUExecutionProvider"])


def normalized(content: NDArray[np.floating[Any]]) -> Features:
    """Content without its mean and scale over the utterance: what is constant in a recording is not what is said."""
    values = content.astype(np.float32)
    centered = values - values.mean(axis=0)
    return np.asarray(
        centered / np.maximum(values.std(axis=0), 1e-3 * max(1e-6, float(values.std()))), dtype=np.float32
    )


def on_frames(content: NDArray[np.floating[Any]], hop: float, offset: float, frames: int, first: int = 0) -> Features:
    """Content at synthesis frames ``first``, ``first + 1`` ..., which are centered at samples 160 j + 80: interpolated.

    Before its first and behind its last vector a content stays as it is there.
    """
    at = np.clip(((np.arange(first, first + frames) + 0.5) * FRAME - offset) / hop, 0, len(content) - 1)
    return interpolated(content, at)


def interpolated(content: NDArray[np.floating[Any]], at: NDArray[np.float64]) -> Features:
    """Rows of content (T, D) at places from 0 to T - 1: means of the two that are next to each."""
    left = np.minimum(at.astype(np.int64), max(0, len(content) - 2))
    weight = (at - left)[:, None].astype(np.float32)
    right = np.minimum(left + 1, len(content) - 1)
    return np.asarray(content[left] * (1 - weight) + content[right] * weight, dtype=np.float32)
