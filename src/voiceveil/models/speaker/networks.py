"""Trainable speaker encoders by name: network, features, loss, embedding and validation.

Conventions: features are float32, shape (frames, dimensions), 100 frames per second, of audio at 16 kHz.

============== ========================= ======================================= ============ ============
name           network                   features                                loss         scored with
============== ========================= ======================================= ============ ============
ecapa          ECAPA-TDNN, 512, 192-d    80 filterbank energies, mean normalized AAM, .2, 30  cosine
xvector        Kaldi's TDNN, 512-d       30 MFCC, moving mean, energy VAD        softmax      LDA and PLDA
resnet34       ResNet34, 32, 256-d       80 filterbank energies, mean normalized AAM, .2, 30  cosine
campplus-tuned CAM++, 192-d, last third  as ecapa, of samples in [-1, 1]         AAM, .2, 30  cosine
============== ========================= ======================================= ============ ============

``campplus-tuned`` starts from the pretrained CAM++ (:class:`voiceveil.models.nets.campplus.TunableCamPlusPlus`). AAM is
additive angular margin softmax, with its margin and scale. The filterbank energies are Kaldi's, natural logarithms. The
toolkit of the 2024 challenge computes them differently (Hamming window, no preemphasis, decibels, limited to 80 dB
below the loudest): its models are in :mod:`voiceveil.models.speechbrain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.dsp.kaldi import Framing, MelBands, energy_vad, fbank, mfcc, sentence_cmn, sliding_cmn
from voiceveil.metrics import eer
from voiceveil.run.batches import MAX_BATCH_SECONDS, group_equal

if TYPE_CHECKING:
    from voiceveil.models.nets.speaker_heads import SpeakerHead

__all__ = [
    "FRAMES_PER_SECOND",
    "MODELS",
    "MODEL_KIND",
    "RATE",
    "FeatureName",
    "SpeakerModel",
    "embed",
    "features",
    "pair_scores",
    "repeat_frames",
    "speaker_model",
    "subtract_mean",
    "validation_eer",
]

RATE = 16000
#: Kind of file of a trained speaker encoder, see :mod:`voiceveil.models.checkpoint`.
MODEL_KIND = "speaker encoder"
FRAMES_PER_SECOND = 100
FeatureName = Literal["fbank80", "mfcc30", "fbank80-unit"]
Features = NDArray[np.float32]

_WIDTHS: dict[FeatureName, int] = {"fbank80": 80, "mfcc30": 30, "fbank80-unit": 80}


@dataclass(frozen=True)
class SpeakerModel:
    """A kind of encoder: network, features, and how its embeddings are compared."""

    name: str
    feature: FeatureName
    channels: int  # width of the network in the challenges; others give smaller or larger networks
    channel_step: int  # the width must be a multiple of this
    centered: bool  # whether the mean of a chunk is subtracted (features of the x-vector have a moving mean instead)
    cosine: bool  # whether embeddings are compared by their cosine, without a back-end
    tuned: bool = False  # whether training starts from a pretrained network

    @property
    def width(self) -> int:
        """Number of features of a frame."""
        return _WIDTHS[self.feature]

    def network(self, channels: int | None = None) -> Any:
        """Return the encoder, a torch module from (B, T, width) to (B, dimension), with random weights.

        It has the attributes ``dimension`` and ``minimum_frames``.
        """
        size = self.channels if channels is None else channels
        if size < 1 or size % self.channel_step:
            problem = f"{self.name} cannot have {size} channels"
            raise InputError(problem, fix=f"use a multiple of {self.channel_step}")
        if self.tuned:
            from voiceveil.models.nets.campplus import TunableCamPlusPlus

            if size != self.channels:
                problem = f"{self.name} cannot have {size} channels"
                raise InputError(problem, fix=f"leave --channels out: it always has {self.channels}")
            return TunableCamPlusPlus()
        if self.name == "ecapa":
            from voiceveil.models.nets.ecapa import EcapaTdnn

            return EcapaTdnn(self.width, channels=size, wide=3 * size)
        if self.name == "xvector":
            from voiceveil.models.nets.xvector import XVectorTdnn

            return XVectorTdnn(self.width, channels=size, wide=1500 * size // 512)
        from voiceveil.models.nets.resnet import ResNet34

        return ResNet34(self.width, channels=size)

    def initial_weights(self) -> dict[str, Any]:
        """Return the weights that training starts from, by name; empty for random weights.

        Raises
        ------
        InputError
            If the pretrained weights are missing.
        """
        if not self.tuned:
            return {}
        from voiceveil.models.speaker.campplus import load_network

        return dict(load_network().state_dict())

    def head(self, network: Any, speakers: int) -> SpeakerHead:
        """Return the classification layer and loss of training, for this number of speakers."""
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
    """Return the kind of encoder of a name in ``MODELS``; an ``InputError`` if it is unknown."""
    if name not in MODELS:
        raise InputError(f"unknown speaker encoder {name!r}", fix=did_you_mean(name, list(MODELS)))
    return MODELS[name]


def features(samples: NDArray[np.float32], name: FeatureName) -> Features:
    """Return the mean-normalized features of an utterance, shape (frames, 80 or 30).

    ``fbank80-unit`` are those of CAM++, of samples in [-1, 1], which makes the floor of the logarithm relatively
    higher. ``mfcc30`` are those of the challenges' Kaldi recipe: 25 ms, 20 to 7600 Hz, with the mean of 3 s around each
    frame subtracted and frames without speech removed, unless no frame would be left.

    Parameters
    ----------
    samples
        At 16 kHz, in [-1, 1].
    name
        The kind of features.
    """
    if name.startswith("fbank80"):
        return sentence_cmn(fbank(samples, Framing(scale=1.0) if name == "fbank80-unit" else Framing()))
    cepstra = mfcc(samples, Framing(snip_edges=False), MelBands(30, high=7600.0), ceps=30)
    voiced = energy_vad(cepstra[:, 0], threshold=5.5, mean_scale=0.5, proportion=0.12, context=2)
    normalized = sliding_cmn(cepstra, window=300, center=True)
    return normalized[voiced] if voiced.any() else normalized


def repeat_frames(frames: NDArray[Any], count: int) -> NDArray[Any]:
    """Return frames (n, width), repeated from the beginning until there are at least ``count``."""
    return frames if len(frames) >= count else frames[np.arange(count) % len(frames)]


def subtract_mean(frames: NDArray[np.floating], subtract: bool) -> NDArray[np.float32]:
    """Return features (frames, width) as float32, minus their mean over these frames if ``subtract``."""
    values = frames.astype(np.float32)
    return values - values.mean(axis=0) if subtract else values


def embed(
    network: Any, model: SpeakerModel, utterances: Sequence[NDArray[np.floating]], device: str
) -> list[NDArray[np.float32]]:
    """Return the embedding (dimension,) of each utterance; utterances of equal length are processed together.

    Parameters
    ----------
    network
        The encoder, in evaluation mode, on ``device``.
    model
        Its kind.
    utterances
        Features (frames, width) of each; short utterances are repeated.
    device
        A device of torch.
    """
    import torch

    values = [subtract_mean(repeat_frames(frames, network.minimum_frames), model.centered) for frames in utterances]
    embeddings = [np.zeros(0, dtype=np.float32)] * len(values)
    for group in group_equal(map(len, values), MAX_BATCH_SECONDS * FRAMES_PER_SECOND):
        with torch.inference_mode():
            rows = network(torch.from_numpy(np.stack([values[i] for i in group])).to(device)).cpu().numpy()
        for i, row in zip(group, rows, strict=True):
            embeddings[i] = np.asarray(row, dtype=np.float32)
    return embeddings


def pair_scores(
    embeddings: NDArray[np.float32], speakers: Sequence[str], *, center: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cosines of all pairs of utterances: of one speaker (targets), and of two (nontargets).

    Parameters
    ----------
    embeddings
        (N, dimension).
    speakers
        Of each utterance.
    center
        Whether the mean embedding is subtracted first, in place of a back-end, for encoders that are not trained for
        the cosine.
    """
    vectors = embeddings.astype(np.float64)
    if center:
        vectors = vectors - vectors.mean(axis=0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    first, second = np.triu_indices(len(vectors), k=1)
    scores = (vectors @ vectors.T)[first, second]
    names = np.asarray(speakers)
    same = names[first] == names[second]
    return scores[same], scores[~same]


def validation_eer(embeddings: NDArray[np.float32], speakers: Sequence[str], model: SpeakerModel) -> float:
    """Return the equal error rate over all pairs of utterances, as a fraction."""
    target, nontarget = pair_scores(embeddings, speakers, center=not model.cosine)
    return eer(target, nontarget)
