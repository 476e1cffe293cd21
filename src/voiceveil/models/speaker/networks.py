"""The speaker encoders that can be trained, by name: network, features, loss.

Conventions: features are float32, shape (frames, dimensions), 100 frames a second, at 16 kHz.

============== ========================= ======================================= ============ ============
name           network                   features                                loss         scored with
============== ========================= ======================================= ============ ============
ecapa          ECAPA-TDNN, 512, 192-d    80 filterbank energies, mean normalized AAM, .2, 30  cosine
xvector        Kaldi's TDNN, 512-d       30 MFCC, moving mean, energy VAD        softmax      LDA and PLDA
resnet34       ResNet34, 32, 256-d       80 filterbank energies, mean normalized AAM, .2, 30  cosine
campplus-tuned CAM++, 192-d, last third  the same, of samples in [-1, 1]         AAM, .2, 30  cosine
============== ========================= ======================================= ============ ============

``campplus-tuned`` does not begin from nothing but from the ready-made CAM++
(:mod:`voiceveil.models.nets.campplus_tuning`). The filterbank energies are Kaldi's, natural logarithms. The toolkit of
the 2024 challenge has its own: a Hamming window, no preemphasis, decibels cut 80 dB below the loudest. Weights trained
there do not fit here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.dsp.kaldi import Framing, energy_vad, fbank, mfcc, sentence_cmn, sliding_cmn

if TYPE_CHECKING:
    from voiceveil.models.nets.speaker_heads import SpeakerHead

__all__ = [
    "FRAMES_A_SECOND",
    "MODELS",
    "MODEL_KIND",
    "RATE",
    "FeatureName",
    "SpeakerModel",
    "features",
    "repeated",
    "speaker_model",
    "subtract_mean",
]

RATE = 16000
#: The kind of checkpoint that a trained speaker encoder is.
MODEL_KIND = "speaker encoder"
FRAMES_A_SECOND = 100
FeatureName = Literal["fbank80", "mfcc30", "fbank80-unit"]
Features = NDArray[np.float32]

_WIDTHS: dict[FeatureName, int] = {"fbank80": 80, "mfcc30": 30, "fbank80-unit": 80}


@dataclass(frozen=True)
class SpeakerModel:
    """A kind of encoder. ``channels`` is the width that the challenges use; others make smaller or larger networks."""

    name: str
    feature: FeatureName
    channels: int
    channel_step: int  # the width is a multiple of this
    centered: bool  # whether the mean of a chunk is subtracted (the x-vector's features have a moving mean instead)
    cosine: bool  # whether embeddings are compared by their cosine as they are
    tuned: bool = False  # whether training begins from a network that knows speakers already

    @property
    def width(self) -> int:
        """The number of features of a frame."""
        return _WIDTHS[self.feature]

    def network(self, channels: int | None = None) -> Any:
        """The encoder, a torch module with ``dimension`` and ``minimum_frames``: (B, T, width) to (B, dimension)."""
        size = self.channels if channels is None else channels
        if size < 1 or size % self.channel_step:
            raise InputError(f"{self.name} with {size} channels", fix=f"use a multiple of {self.channel_step}")
        if self.tuned:
            from voiceveil.models.nets.campplus_tuning import TunableCamPlusPlus

            if size != self.channels:
                raise InputError(f"{self.name} with {size} channels", fix="it has but one width: leave --channels out")
            return TunableCamPlusPlus()
        if self.name == "ecapa":
            from voiceveil.models.nets.ecapa import EcapaTdnn

            return EcapaTdnn(self.width, channels=size, wide=3 * size)
        if self.name == "xvector":
            from voiceveil.models.nets.xvector import XVectorTdnn

            return XVectorTdnn(self.width, channels=size, wide=1500 * size // 512)
        from voiceveil.models.nets.resnet import ResNet34

        return ResNet34(self.width, channels=size)

    def begin(self) -> dict[str, Any]:
        """The weights that training begins from, by name; empty: random ones. An ``InputError`` if they are missing."""
        if not self.tuned:
            return {}
        from voiceveil.models.speaker.campplus import load_network

        return dict(load_network().state_dict())

    def head(self, network: Any, speakers: int) -> SpeakerHead:
        """Return the layer and the loss that training puts on top."""
        from voiceveil.models.nets.speaker_heads import AamSoftmax, Softmax

        if self.name == "xvector":
            from voiceveil.models.nets.xvector import segment_layers

            return Softmax(network.dimension, speakers, before=segment_layers(network.dimension))
        return AamSoftmax(network.dimension, speakers, margin=0.2, scale=30.0)


MODELS = {
    "ecapa": SpeakerModel("ecapa", "fbank80", channels=512, channel_step=8, centered=True, cosine=True),
    "xvector": SpeakerModel("xvector", "mfcc30", channels=512, channel_step=1, centered=False, cosine=False),
    "resnet34": SpeakerModel("resnet34", "fbank80", channels=32, channel_step=1, centered=True, cosine=True),
    "campplus-tuned": SpeakerModel("campplus-tuned", "fbank80-unit", 32, 32, centered=True, cosine=True, tuned=True),
}


def speaker_model(name: str) -> SpeakerModel:
    """Return the kind of encoder of that name."""
    if name not in MODELS:
        raise InputError(f"unknown speaker encoder {name!r}", fix=did_you_mean(name, list(MODELS)))
    return MODELS[name]


def features(samples: NDArray[np.float32], name: FeatureName) -> Features:
    """Features of an utterance at 16 kHz, shape (frames, 80 or 30), mean normalized.

    ``fbank80-unit`` are those of CAM++: of samples in [-1, 1], so that the floor of the logarithm lies higher.
    ``mfcc30`` are those of the challenges' Kaldi recipe: 25 ms, 20 to 7600 Hz, mean of 3 s around each frame
    subtracted, frames without speech left out; all frames stay if the VAD leaves none.
    """
    if name.startswith("fbank80"):
        return sentence_cmn(fbank(samples, Framing(scale=1.0) if name == "fbank80-unit" else Framing(), bins=80))
    cepstra = mfcc(samples, Framing(snip_edges=False), ceps=30, bins=30, low=20.0, high=7600.0)
    voiced = energy_vad(cepstra[:, 0], threshold=5.5, mean_scale=0.5, proportion=0.12, context=2)
    normalized = sliding_cmn(cepstra, window=300, center=True)
    return normalized[voiced] if voiced.any() else normalized


def repeated(frames: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the frames again and again, until there are ``count``: how an utterance that is too short is padded."""
    return frames if len(frames) >= count else frames[np.arange(count) % len(frames)]


def subtract_mean(frames: NDArray[np.floating], subtract: bool) -> NDArray[np.float32]:
    """Return features (frames, width) as float32, minus their mean over these frames if ``subtract``."""
    values = frames.astype(np.float32)
    return values - values.mean(axis=0) if subtract else values
