"""Content features from self-supervised networks: the last layer of wav2vec 2.0, HuBERT, WavLM and similar models.

``ssl:MODEL`` names a folder in the format of ``transformers``, or a hub id that is on this machine; no weights ship.
The 2022 challenge used a wav2vec 2.0 Base that was fine-tuned to recognize LibriSpeech train-clean-100 (section 6.4.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.ctc import Convolutions, windows
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.content.features import ContentEncoder, content_encoders
from voiceveil.models.pretrained import digest, find_model, load_weights, normalize_samples, preprocessing, read_config
from voiceveil.run.device import current_device

__all__ = ["SslContent"]


@dataclass(frozen=True)
class SslContent:
    """The last hidden layer of the network in ``folder``; long recordings are processed in overlapping windows."""

    folder: Path
    window: float = 30.0  # seconds
    overlap: float = 2.0  # seconds on each side of a window that serve as context only

    rate: ClassVar[int] = 16000

    def __post_init__(self) -> None:
        if int(preprocessing(self.folder).get("sampling_rate", self.rate)) != self.rate:
            problem = f"the network takes another sampling rate than {self.rate} Hz"
            raise InputError(problem, where=self.folder, fix=f"give a model for {self.rate} Hz")
        _ = self.dimension, self.convolutions  # raises if the settings lack them

    @property
    def convolutions(self) -> Convolutions:
        """The input layers of the network."""
        config = read_config(self.folder)
        kernels, strides = config.get("conv_kernel"), config.get("conv_stride")
        if not (isinstance(kernels, list) and isinstance(strides, list)):
            problem = f"a network of type {config.get('model_type')} does not take waveforms"
            raise InputError(problem, where=self.folder, fix="give a model such as wav2vec2, hubert, wavlm")
        return Convolutions(tuple(kernels), tuple(strides))

    @property
    def dimension(self) -> int:
        """Length of a vector: the width of the network."""
        return int(read_config(self.folder)["hidden_size"])

    @property
    def hop(self) -> float:
        """Samples between two vectors, usually 320."""
        return float(self.convolutions.stride)

    @property
    def offset(self) -> float:
        """Sample at the center of the first vector."""
        return (self.convolutions.min_samples - 1) / 2

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds, usually 0.025."""
        return self.convolutions.min_samples / self.rate

    def fingerprint(self) -> str:
        """Return the hash of the model and the windows."""
        return f"content ssl {digest(self.folder)} 1 {self.window} {self.overlap}"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the features of an utterance (frames, dimension)."""
        convolutions = self.convolutions
        check_audio(wave, self.rate, convolutions.min_samples)
        samples = normalize_samples(self.folder, wave.samples)
        features = np.zeros((convolutions.rows(len(samples)), self.dimension), dtype=np.float16)
        sizes = round(self.window * self.rate), round(self.overlap * self.rate)
        for window in windows(len(samples), convolutions, *sizes):
            first = window.start // convolutions.stride
            output = _last_hidden_layer(self.folder, samples[window.start : window.stop])
            features[window.first : window.last] = output[window.first - first : window.last - first]
        return features


def _last_hidden_layer(folder: Path, samples: Samples) -> NDArray[np.float32]:
    import torch

    device = current_device()
    with torch.inference_mode():
        hidden = _network(folder, device)(torch.from_numpy(samples[None]).to(device)).last_hidden_state[0]
    return np.asarray(hidden.cpu().numpy(), dtype=np.float32)


@lru_cache(maxsize=1)
def _network(folder: Path, device: str) -> Any:
    return load_weights(folder, "AutoModel", device)


@content_encoders.register("ssl")
def _ssl(model: str) -> ContentEncoder:
    if not model:
        raise InputError("content encoder ssl has no default model", fix="write ssl:FOLDER or ssl:HUB_ID")
    return SslContent(find_model(model))
