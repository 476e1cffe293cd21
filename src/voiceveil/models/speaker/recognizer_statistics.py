"""A speech recognizer as a speaker encoder: statistics over time of the layers of Moonshine, and of their codes.

An anonymizer must keep what a recognizer needs, and with it may keep traits of the speaker (tempo, pauses, accent,
pronunciation), however well the voice is hidden; the features of a recognizer contain them. They were not trained to
tell speakers apart: alone they identify speakers poorly, with a trained back-end possibly better than an encoder of
voices.

Conventions: 16 kHz; D features in each vector, 288 for Moonshine tiny and 416 for base. Recordings are scaled to one
level first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr import moonshine
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.content.features import LEVEL, normalize_content
from voiceveil.models.pretrained import digest_files
from voiceveil.models.speaker.encoders import Embedding, SpeakerEncoder, TrainingRecord
from voiceveil.models.speaker.recognizer_layers import SPAN, STRIDE, check_model, count_layers, layer_outputs

__all__ = ["CodeHistogram", "FrameSample", "LayerStatistics", "RecognizerEncoder", "learn_codebook"]

_RATE = 16000
_SHORTEST = (SPAN + STRIDE) / _RATE  # two vectors


def _model_hash(file: str) -> str:
    """Return the hash of a model, of Moonshine tiny for ""."""
    return (digest_files([Path(file)]) if file else moonshine.FILES["encoder_model.ort"])[:16]


def _scaled(wave: Waveform) -> Samples:
    """Return the samples, scaled to the level of recordings that features are extracted from."""
    check_audio(wave, _RATE, SPAN + STRIDE)
    level = max(1e-9, float(np.sqrt(np.mean(np.square(wave.samples, dtype=np.float64)))))
    return np.asarray(wave.samples * np.float32(LEVEL / level), dtype=np.float32)


@dataclass(frozen=True)
class LayerStatistics:
    """Means and standard deviations over time of all layers, shape (layers, 2 D); an evaluator.

    Parameters
    ----------
    file : str
        ONNX file of an encoder of Moonshine; "" for tiny.
    """

    file: str = ""

    rate: ClassVar[int] = _RATE
    minimum: ClassVar[float] = _SHORTEST
    name: ClassVar[str] = "recognizer statistics"

    def fingerprint(self) -> str:
        """Return the version and the hash of the model."""
        return f"layer statistics 1 {_model_hash(self.file)}"

    def __call__(self, wave: Waveform) -> NDArray[np.float32]:
        """Return the statistics of one utterance."""
        layers = layer_outputs(_scaled(wave), self.file)
        return np.array([np.concatenate([layer.mean(axis=0), layer.std(axis=0)]) for layer in layers])


@dataclass(frozen=True)
class RecognizerEncoder(SpeakerEncoder):
    """Statistics of one layer, shape (2 D,).

    Parameters
    ----------
    layer : int
        1 to 6 for Moonshine tiny, 1 to 8 for base.
    file : str
        ONNX file of an encoder of Moonshine; "" for tiny.
    """

    layer: int = 3
    file: str = ""

    rate: ClassVar[int] = _RATE
    minimum: ClassVar[float] = _SHORTEST
    family: ClassVar[str] = "moonshine"

    @classmethod
    def parse(cls, argument: str | None) -> RecognizerEncoder:
        """Return the encoder of ``moonshine:LAYER``, ``moonshine:FILE`` or ``moonshine:FILE@LAYER``."""
        text = argument or ""
        if not text or text.isdecimal():
            return cls(int(text or cls.layer))
        file, at, layer = text.rpartition("@")
        if at and layer.isdecimal():
            return cls(int(layer), file)
        if "." not in text and "/" not in text:
            raise InputError(f"{text!r} is no layer of Moonshine tiny", fix="use moonshine:1 to moonshine:6")
        return cls(file=text)

    @property
    def name(self) -> str:
        """``moonshine``, with the layer unless it is the third, and with the file unless it is tiny."""
        if self.file:
            return f"{self.family}:{self.file}@{self.layer}"
        return self.family if self.layer == RecognizerEncoder.layer else f"{self.family}:{self.layer}"

    @property
    def dimension(self) -> int:
        """Length of an embedding: 576 for tiny."""
        return 2 * layer_outputs(np.zeros(SPAN + STRIDE, np.float32), self.file)[0].shape[1] if self.file else 576

    def fingerprint(self) -> str:
        """Return the fingerprint of the statistics and the layer."""
        return f"{self.source().fingerprint()} {self.layer}"

    def training(self) -> TrainingRecord:
        """Return that it was trained on original speech, although for recognition."""
        return TrainingRecord("original")

    def check(self) -> None:
        """Raise an ``InputError`` if the model is missing or has no such layer; called before the work begins."""
        check_model(self.file, self.layer)

    def source(self) -> LayerStatistics:
        """Return the evaluator of all layers, whose results are cached."""
        return LayerStatistics(self.file)

    def derive(self, result: NDArray[np.float32]) -> Embedding:
        """Return the row of the layer."""
        row: Embedding = result[self.layer - 1]
        return row

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the statistics of one utterance."""
        return self.derive(self.source()(wave))

    def all_layers(self) -> list[RecognizerEncoder]:
        """Return the encoders of all layers of the same model."""
        return [RecognizerEncoder(layer + 1, self.file) for layer in range(count_layers(self.file))]


@dataclass(frozen=True)
class FrameSample:
    """At most ``frames`` vectors of a layer of Moonshine tiny, evenly spread over an utterance, shape (n, D) float16.

    Vectors are normalized over the utterance, so that a code depends on the sound and not on the channel.
    """

    layer: int = 4
    frames: int = 60

    rate: ClassVar[int] = _RATE
    minimum: ClassVar[float] = _SHORTEST
    name: ClassVar[str] = "recognizer features"

    def fingerprint(self) -> str:
        """Return version, model and settings."""
        return f"frame sample 1 {_model_hash('')} {self.layer} {self.frames}"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the vectors of one utterance."""
        vectors = normalize_content(layer_outputs(_scaled(wave))[self.layer - 1])
        rows = np.unique(np.linspace(0, len(vectors) - 1, self.frames).round().astype(np.int64))
        return vectors[rows].astype(np.float16)


def learn_codebook(samples: Iterable[NDArray[np.float16]], size: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Return the centers (size, D) of k-means over vectors of several utterances.

    Parameters
    ----------
    samples
        Vectors (n, D) of each utterance; ``size`` is at most a quarter of their number.
    size
        Number of codes.
    seed
        Of the initial centers.
    """
    from scipy.cluster.vq import kmeans2

    vectors = np.concatenate(list(samples)).astype(np.float32)
    count = max(1, min(size, len(vectors) // 4))
    start = vectors[np.random.default_rng(seed).choice(len(vectors), count, replace=False)]
    centers, _ = kmeans2(vectors, start, iter=12, minit="matrix")
    return np.asarray(centers, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class CodeHistogram(SpeakerEncoder):
    """How often each code of a codebook occurs: square roots of the relative frequencies, shape (codes,).

    The code of a vector is the nearest center (:func:`learn_codebook`).
    """

    codebook: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 288), np.float32), repr=False)
    layer: int = FrameSample.layer

    rate: ClassVar[int] = _RATE
    minimum: ClassVar[float] = _SHORTEST
    family: ClassVar[str] = "codes"
    name: ClassVar[str] = "codes"

    @property
    def dimension(self) -> int:
        """Number of codes."""
        return len(self.codebook)

    def fingerprint(self) -> str:
        """Return version, model, layer and codebook."""
        return f"codes 1 {_model_hash('')} {self.layer} {hashlib.sha256(self.codebook.tobytes()).hexdigest()[:16]}"

    def check(self) -> None:
        """Raise an ``InputError`` if the model is missing; called before the work begins."""
        check_model("", self.layer)

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the histogram of one utterance."""
        vectors = normalize_content(layer_outputs(_scaled(wave))[self.layer - 1])
        distance = np.square(self.codebook).sum(axis=1) - 2 * vectors @ self.codebook.T
        counts = np.bincount(distance.argmin(axis=1), minlength=len(self.codebook))
        return np.asarray(np.sqrt(counts / counts.sum()), dtype=np.float32)
