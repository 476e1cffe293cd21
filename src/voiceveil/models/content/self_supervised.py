"""Content features of a self-supervised network: the last layer of wav2vec 2.0, HuBERT, WavLM and the like.

``ssl:MODEL`` names a folder in the format of ``transformers`` or a hub id that is in the user's cache; nothing ships.
The 2022 challenge took a wav2vec 2.0 Base that was fine-tuned to recognize LibriSpeech train-clean-100 (section 6.4.3).
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
from voiceveil.models.content.features import Content, contents
from voiceveil.models.pretrained import digest, find_model, load_weights, preprocessing, read_config

__all__ = ["SslContent"]


@dataclass(frozen=True)
class SslContent:
    """The last hidden layer of the network in ``folder``; long recordings are heard in overlapping windows."""

    folder: Path
    window: float = 30.0  # seconds
    overlap: float = 2.0  # of them for context, on each side

    rate: ClassVar[int] = 16000

    def __post_init__(self) -> None:
        if int(preprocessing(self.folder).get("sampling_rate", self.rate)) != self.rate:
            raise InputError(f"a network for another rate than {self.rate} Hz", where=self.folder)
        _ = self.dimension, self.front

    @property
    def front(self) -> Convolutions:
        """The network's convolutions."""
        config = read_config(self.folder)
        kernels, strides = config.get("conv_kernel"), config.get("conv_stride")
        if not (isinstance(kernels, list) and isinstance(strides, list)):
            what = f"a network of type {config.get('model_type')} does not read waveforms row by row"
            raise InputError(what, where=self.folder, fix="give a model such as wav2vec2, hubert, wavlm")
        return Convolutions(tuple(kernels), tuple(strides))

    @property
    def dimension(self) -> int:
        """The network's width."""
        return int(read_config(self.folder)["hidden_size"])

    @property
    def hop(self) -> float:
        """20 ms as a rule."""
        return float(self.front.stride)

    @property
    def offset(self) -> float:
        """Half of what a vector of the convolutions hears."""
        return (self.front.fewest - 1) / 2

    @property
    def minimum(self) -> float:
        """25 ms as a rule."""
        return self.front.fewest / self.rate

    def fingerprint(self) -> str:
        """Return the model's files and what is heard at once."""
        return f"content ssl {digest(self.folder)} 1 {self.window} {self.overlap}"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the layer (frames, dimension)."""
        front = self.front
        check_audio(wave, self.rate, front.fewest)
        samples = self._normalized(wave.samples)
        rows = np.zeros((front.rows(len(samples)), self.dimension), dtype=np.float16)
        for window in windows(len(samples), front, round(self.window * self.rate), round(self.overlap * self.rate)):
            first = window.start // front.stride
            heard = _heard(self.folder, samples[window.start : window.stop])
            rows[window.first : window.last] = heard[window.first - first : window.last - first]
        return rows

    def _normalized(self, samples: Samples) -> Samples:
        """Zero mean and unit variance, if the network was trained so."""
        if not preprocessing(self.folder).get("do_normalize", True):
            return samples
        return np.asarray((samples - samples.mean()) / np.sqrt(samples.var() + 1e-7), dtype=np.float32)


def _heard(folder: Path, samples: Samples) -> NDArray[np.float32]:
    import torch

    with torch.inference_mode():
        hidden = _network(folder)(torch.from_numpy(samples[None])).last_hidden_state[0]
    return np.asarray(hidden.numpy(), dtype=np.float32)


@lru_cache(maxsize=1)
def _network(folder: Path) -> Any:
    return load_weights(folder, "AutoModel", "cpu")


@contents.register("ssl")
def _ssl(model: str) -> Content:
    if not model:
        raise InputError("content features ssl have no default model", fix="write ssl:FOLDER or ssl:HUB_ID")
    return SslContent(find_model(model))
