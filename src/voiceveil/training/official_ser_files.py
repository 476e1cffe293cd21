"""Folder of the official training of SER_eval (see :mod:`voiceveil.training.speechbrain_folder`).

    fold_<fold>/CKPT+<epoch>/   wav2vec2.ckpt  model.ckpt  label_encoder.txt  label_encoder.ckpt
                                hyperparams.yaml  counter.ckpt  CKPT.yaml
                                wav2vec2/config.json  wav2vec2/preprocessor_config.json
    fold_<fold>/train_log.txt

One checkpoint is kept, that of the lowest error rate on the validation speaker: SpeechBrain's recipe evaluates it, and
the challenge's script, which takes the highest number, finds no other. That script also needs SpeechBrain's
``custom_interface.py`` beside the weights, which is code and is not written here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from voiceveil.core.errors import InputError
from voiceveil.models.pretrained import digest, find_model, load_weights, preprocessing, read_config
from voiceveil.models.speechbrain.wav2vec2 import CONFIGURATION
from voiceveil.training.speechbrain_folder import labels_text, write_checkpoint, write_text

if TYPE_CHECKING:
    from voiceveil.training.official_ser import Model

__all__ = ["SourceModel", "hyperparams_text", "official_weights", "write_emotion_model"]


@dataclass(frozen=True)
class SourceModel:
    """The wav2vec 2.0 that a training begins with: a folder, or a hub id that is on this machine.

    Raises
    ------
    InputError
        If there is no such model, or it is of another kind.
    """

    name: str

    def __post_init__(self) -> None:
        kind = self.config.get("model_type")
        if kind != "wav2vec2":
            fix = "give facebook/wav2vec2-base, as the challenge does, or another wav2vec2"
            raise InputError(f"a model of kind {kind}, not wav2vec2", where=self.folder, fix=fix)

    @cached_property
    def folder(self) -> Path:
        """Where the model lies; an ``InputError`` if it is not on this machine."""
        try:
            return find_model(self.name)
        except InputError as error:
            fix = "give the folder of facebook/wav2vec2-base, with config.json and weights; nothing is downloaded here"
            raise InputError(error.what, where=error.where, fix=fix) from error

    @cached_property
    def config(self) -> dict[str, Any]:
        """Content of ``config.json``."""
        return read_config(self.folder)

    @property
    def normalizes(self) -> bool:
        """Return whether waveforms are normalized."""
        return bool(preprocessing(self.folder).get("do_normalize", True))

    def digest(self) -> str:
        """Return a hash of the files."""
        return digest(self.folder)

    def load(self, device: str) -> Any:
        """Return the network."""
        return load_weights(self.folder, "Wav2Vec2Model", device)


def write_emotion_model(
    out: Path, epoch: int, model: Model, labels: Sequence[str], origin: tuple[SourceModel, Mapping[str, float]]
) -> Path:
    """Write ``CKPT+<epoch>`` into the folder of a fold and return it.

    Parameters
    ----------
    out : Path
        The folder, e.g. ``exp/ser/fold_1``.
    epoch : int
        From 1 on.
    model : Model
        The network and its output layer.
    labels : sequence of str
        Emotions in the order of the outputs.
    origin : tuple
        The model that the training began with, and figures of the validation for ``CKPT.yaml``.
    """
    source, figures = origin
    output: Tensor = model.output.weight
    texts = {
        "label_encoder.txt": labels_text(labels),  # as the recipe calls it
        "label_encoder.ckpt": labels_text(labels),  # as SpeechBrain's loader looks for it
        "hyperparams.yaml": hyperparams_text(source.name, int(output.shape[1]), len(labels)),
    }
    tensors = {"wav2vec2": official_weights(model.wav2vec2), "model": {"0.w.weight": output}}
    folder = write_checkpoint(out, epoch, tensors, texts, figures)
    (folder / CONFIGURATION).mkdir(exist_ok=True)
    write_text(folder / CONFIGURATION / "config.json", json.dumps(source.config, indent=1) + "\n")
    settings = {"do_normalize": source.normalizes, "sampling_rate": 16000}
    write_text(folder / CONFIGURATION / "preprocessor_config.json", json.dumps(settings, indent=1) + "\n")
    return folder


def official_weights(network: nn.Module) -> dict[str, Tensor]:
    """Return the weights of wav2vec 2.0 with the names of the challenge's files.

    The weight norm of the position convolution has the names from before torch 2.1, which all versions read.
    """
    former = {"original0": "weight_g", "original1": "weight_v"}
    weights = {}
    for name, tensor in network.state_dict().items():
        head, parametrized, last = name.partition("parametrizations.weight.")
        weights[f"model.{head}{former[last]}" if parametrized else f"model.{name}"] = tensor
    return weights


def hyperparams_text(source: str, dimension: int, emotions: int) -> str:
    """Return the ``hyperparams.yaml`` by which SpeechBrain loads the model of a fold."""
    return f"""\
HPARAMS_NEEDED: ["encoder_dim", "out_n_neurons", "label_encoder", "softmax"]
MODULES_NEEDED: ["wav2vec2", "avg_pool", "output_mlp"]
wav2vec2_hub: {json.dumps(source)}
encoder_dim: {dimension}
out_n_neurons: {emotions}

wav2vec2: !new:speechbrain.lobes.models.huggingface_wav2vec.HuggingFaceWav2Vec2
    source: !ref <wav2vec2_hub>
    output_norm: True
    freeze: True
    save_path: wav2vec2_checkpoints

avg_pool: !new:speechbrain.nnet.pooling.StatisticsPooling
    return_std: False

output_mlp: !new:speechbrain.nnet.linear.Linear
    input_size: !ref <encoder_dim>
    n_neurons: !ref <out_n_neurons>
    bias: False

model: !new:torch.nn.ModuleList
    - [!ref <output_mlp>]

modules:
    wav2vec2: !ref <wav2vec2>
    output_mlp: !ref <output_mlp>
    avg_pool: !ref <avg_pool>

softmax: !new:speechbrain.nnet.activations.Softmax

label_encoder: !new:speechbrain.dataio.encoder.CategoricalEncoder

pretrainer: !new:speechbrain.utils.parameter_transfer.Pretrainer
    loadables:
        wav2vec2: !ref <wav2vec2>
        model: !ref <model>
        label_encoder: !ref <label_encoder>
"""
