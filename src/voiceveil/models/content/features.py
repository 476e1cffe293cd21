"""Content features: vectors of the spoken words, every few milliseconds, as independent of the speaker as possible.

Conventions: samples are at 16 kHz; content features have shape (frames, dimension), vector ``i`` is centered at sample
``offset + hop * i``. :func:`content_on_frames` interpolates them at the frames of synthesis, 100 per second.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.dsp.excitation import FRAME
from voiceveil.models.asr import moonshine
from voiceveil.models.asr.recognition import check_audio

__all__ = [
    "FRAME",
    "LEVEL",
    "ContentEncoder",
    "MoonshineContent",
    "at_speed",
    "content_encoder",
    "content_encoders",
    "content_on_frames",
    "interpolate",
    "normalize_content",
    "prepared_content",
    "samples_at_speed",
]

#: Root mean square, relative to full scale, that recordings are scaled to before features are extracted.
LEVEL = 0.06
Features = NDArray[np.float32]


class ContentEncoder(Protocol):
    """An :class:`~voiceveil.run.extract.Evaluator` that returns content features."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    @property
    def hop(self) -> float:
        """Samples between two vectors."""
        ...

    @property
    def offset(self) -> float:
        """Sample at the center of the first vector."""
        ...

    @property
    def rate(self) -> int:
        """Sampling rate of the input in Hz."""
        ...

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds."""
        ...

    def fingerprint(self) -> str:
        """Return a text that changes whenever results would change."""
        ...

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the features of an utterance (frames, dimension)."""
        ...


#: Name -> function that returns the encoder for the part after the colon of ``name:MODEL``, or for "".
content_encoders: Registry[Callable[[str], ContentEncoder]] = Registry(
    "content encoder",
    group="voiceveil.contents",
    modules=(
        "voiceveil.models.content.self_supervised",
        "voiceveil.models.content.bottleneck",
        "voiceveil.models.content.ctc_attention",
        "voiceveil.models.content.phones",
    ),
)


def content_encoder(spec: str) -> ContentEncoder:
    """Return the content encoder of a name such as ``moonshine``, ``moonshine:6`` or ``ssl:FOLDER``."""
    name, _, model = spec.partition(":")
    return content_encoders[name](model)


def at_speed(content: ContentEncoder, speed: float) -> ContentEncoder:
    """Return the content encoder for recordings that are played ``speed`` times as fast."""
    if not (is_dataclass(content) and hasattr(content, "speed")):
        fix = "use --content moonshine or phones"
        raise InputError("only the content encoders moonshine and phones work at other speeds", fix=fix)
    faster: ContentEncoder = replace(content, speed=speed)
    return faster


def samples_at_speed(wave: Waveform, speed: float) -> Samples:
    """Return the samples of a recording that is played ``speed`` times as fast, at its sampling rate."""
    return wave.samples if speed == 1 else Waveform(wave.samples, round(wave.rate * speed)).resampled(wave.rate).samples


#: Samples between two vectors of Moonshine's encoder, and samples that enter one vector: its convolutions have kernels
#: of 127, 7 and 3 and strides of 64, 3 and 2.
_STRIDE = 64 * 3 * 2
_SPAN = 127 + 64 * (7 - 1) + 64 * 3 * (3 - 1)


@dataclass(frozen=True)
class MoonshineContent:
    """A layer of the encoder of Moonshine tiny (:mod:`voiceveil.models.asr.moonshine`).

    Parameters
    ----------
    layer
        1 to 6; inner layers represent sounds more than words.
    max_seconds
        Longer recordings are processed in overlapping pieces.
    speed
        The recording is played this many times as fast, as if by a speaker with a shorter vocal tract and higher voice.
    """

    layer: int = 4
    max_seconds: float = 16.0
    speed: float = 1.0

    name: ClassVar[str] = "Moonshine's encoder"
    rate: ClassVar[int] = 16000
    dimension: ClassVar[int] = 288

    def __post_init__(self) -> None:
        if not 1 <= self.layer <= 6:
            raise InputError(f"Moonshine tiny has no layer {self.layer}", fix="use a layer from 1 to 6")

    @property
    def hop(self) -> float:
        """Samples between two vectors: 384 at speed 1."""
        return _STRIDE * self.speed

    @property
    def offset(self) -> float:
        """Sample at the center of the first vector."""
        return (_SPAN - 1) / 2 * self.speed

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds: 0.056 at speed 1."""
        return (_SPAN + 1) * self.speed / self.rate

    def fingerprint(self) -> str:
        """Return the hash of the model, the layer, the longest piece, and the speed unless it is 1."""
        model = moonshine.FILES["encoder_model.ort"][:16]
        return f"content moonshine-tiny {model} 1 {self.layer} {self.max_seconds}" + f" {self.speed}" * (
            self.speed != 1
        )

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the output of the layer (frames, 288), not normalized."""
        check_audio(wave, self.rate, round(self.minimum * self.rate))
        samples = samples_at_speed(wave, self.speed)
        size, context = round(self.max_seconds * self.rate) // _STRIDE, 40  # in frames; 40 are about a second
        frames = (len(samples) - _SPAN) // _STRIDE + 1
        pieces = []
        for first in range(0, frames, size):
            begin, end = max(0, first - context), min(frames, first + size + context)
            output = self._layer_output(samples[begin * _STRIDE : (end - 1) * _STRIDE + _SPAN])
            pieces.append(output[first - begin : min(size, frames - first) + first - begin])
        return np.concatenate(pieces).astype(np.float16)

    def _layer_output(self, samples: Samples) -> Features:
        mask = np.ones((1, len(samples)), dtype=np.int64)
        (hidden,) = _encoder(self.layer).run(None, {"input_values": samples[None], "attention_mask": mask})
        return np.asarray(hidden[0], dtype=np.float32)


@content_encoders.register("moonshine")
def _moonshine(layer: str) -> ContentEncoder:
    if layer and not layer.isdecimal():
        raise InputError(f"{layer!r} is no layer of Moonshine tiny", fix="use moonshine:1 to moonshine:6")
    moonshine.model_file("encoder_model.ort")  # an error now is better than one in a worker later
    return MoonshineContent(int(layer or 4))


#: Position in the file of the encoder of the reference to the name of its output: a distance in bytes from there.
_OUTPUT_REFERENCE = 13281112


@lru_cache(maxsize=2)
def _encoder(layer: int) -> Any:
    """Return a session of onnxruntime whose output is that of ``layer``.

    The model is a FlatBuffer in which the output of the graph is a reference to a name. The name of the layer is
    appended to the file and the reference changed to point to it. The position is right because the hash of the file
    was checked.
    """
    import onnxruntime

    data = bytearray(moonshine.model_file("encoder_model.ort").read_bytes())
    if layer < 6:
        name = f"/layers.{layer - 1}/Add_1_output_0".encode()
        struct.pack_into("<I", data, _OUTPUT_REFERENCE, len(data) - _OUTPUT_REFERENCE)
        data += struct.pack("<I", len(name)) + name + b"\0" * (4 - len(name) % 4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(bytes(data), options, providers=["CPUExecutionProvider"])


def prepared_content(encoder: ContentEncoder, content: NDArray[np.floating[Any]]) -> Features:
    """Return the output of an encoder as synthesizers use it: normalized, unless it consists of probabilities."""
    return content.astype(np.float32) if getattr(encoder, "probabilities", False) else normalize_content(content)


def normalize_content(content: NDArray[np.floating[Any]]) -> Features:
    """Return content features (frames, dimension) with zero mean and unit variance over the utterance.

    What is constant over a recording belongs to the speaker and the channel, not to the words.
    """
    values = content.astype(np.float32)
    centered = values - values.mean(axis=0)
    return np.asarray(
        centered / np.maximum(values.std(axis=0), 1e-3 * max(1e-6, float(values.std()))), dtype=np.float32
    )


def content_on_frames(
    content: NDArray[np.floating[Any]], hop: float, offset: float, frames: int, first: int = 0
) -> Features:
    """Return content features interpolated at frames of synthesis (frames, dimension).

    Parameters
    ----------
    content
        Features (T, dimension).
    hop, offset
        Of the content encoder, in samples.
    frames
        Number of synthesis frames.
    first
        Number of the first one; frame ``j`` is centered at sample 160 j + 80. Frames before the first vector get the
        first vector, frames after the last the last.
    """
    positions = np.clip(((np.arange(first, first + frames) + 0.5) * FRAME - offset) / hop, 0, len(content) - 1)
    return interpolate(content, positions)


def interpolate(content: NDArray[np.floating[Any]], positions: NDArray[np.float64]) -> Features:
    """Return rows (n, D) of content features (T, D), linearly interpolated at positions (n,) from 0 to T - 1."""
    left = np.minimum(positions.astype(np.int64), max(0, len(content) - 2))
    weight = (positions - left)[:, None].astype(np.float32)
    right = np.minimum(left + 1, len(content) - 1)
    return np.asarray(content[left] * (1 - weight) + content[right] * weight, dtype=np.float32)
