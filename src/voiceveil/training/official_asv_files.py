"""Folder of the official training of ASV_eval, as SpeechBrain and the challenge's scripts write and read it.

    CKPT+<epoch>/   embedding_model.ckpt  classifier.ckpt  counter.ckpt  CKPT.yaml  hyperparams.yaml
    label_encoder.txt  train.csv  dev.csv  train_log.txt

Two checkpoints are kept: that of the lowest error rate on the development data, and the last one, which is evaluated.
The optimizer's state is not among them: ``checkpoint.safetensors`` has it, from which this program resumes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from voiceveil.core.atomic_files import atomic_path
from voiceveil.models.nets.ecapa import EcapaTdnn
from voiceveil.models.speechbrain.ecapa import to_speechbrain
from voiceveil.models.speechbrain.files import checkpoints, error_rate

__all__ = ["hyperparams_text", "remove_superseded", "write_checkpoint", "write_labels", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name, and rename it."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


def write_labels(path: Path, labels: Sequence[str]) -> None:
    """Write the numbers of labels in SpeechBrain's format."""
    lines = [f"{label!r} => {number}" for number, label in enumerate(labels)]
    write_text(path, "\n".join([*lines, "================", "'starting_index' => 0", ""]))


def write_checkpoint(out: Path, epoch: int, network: EcapaTdnn, classifier: Tensor, errors: float) -> Path:
    """Write ``CKPT+<epoch>`` into a training's folder and return it.

    Parameters
    ----------
    out : Path
        The folder.
    epoch : int
        From 1 on.
    network : EcapaTdnn
        The encoder.
    classifier : Tensor
        Weights of the speakers, shape (speakers, dimension).
    errors : float
        Error rate on the development data, a fraction.
    """
    folder = out / f"CKPT+{epoch}"
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in to_speechbrain(network).items()}
    for name, tensors in (("embedding_model", state), ("classifier", {"weight": classifier.detach().cpu()})):
        with atomic_path(folder / f"{name}.ckpt") as part:
            torch.save(tensors, part)
    write_text(folder / "counter.ckpt", str(epoch))
    write_text(folder / "hyperparams.yaml", hyperparams_text(network, len(classifier)))
    lines = ["# yamllint disable", f"ErrorRate: {errors}", "end-of-epoch: true", f"unixtime: {time.time()}", ""]
    write_text(folder / "CKPT.yaml", "\n".join(lines))
    return folder


def remove_superseded(out: Path) -> None:
    """Remove all checkpoints of a training but the last one and that of the lowest error rate."""
    numbered = checkpoints(out)
    rates = {path: rate for path in numbered if (rate := error_rate(path)) is not None}
    kept = {numbered[0], min(rates, key=rates.__getitem__, default=numbered[0])}  # of equal ones the latest
    for path in set(numbered) - kept:
        shutil.rmtree(path)


def hyperparams_text(network: EcapaTdnn, speakers: int) -> str:
    """Return the ``hyperparams.yaml`` by which SpeechBrain loads the encoder."""
    features = network.first.conv.in_channels
    channels = [network.first.conv.out_channels] * 4 + [network.aggregate.conv.out_channels]
    attention, dimension = network.pool.score.in_channels, network.dimension
    return f"""\
n_mels: {features}

compute_features: !new:speechbrain.lobes.features.Fbank
    n_mels: !ref <n_mels>

mean_var_norm: !new:speechbrain.processing.features.InputNormalization
    norm_type: sentence
    std_norm: False

embedding_model: !new:speechbrain.lobes.models.ECAPA_TDNN.ECAPA_TDNN
    input_size: !ref <n_mels>
    channels: {channels}
    kernel_sizes: [5, 3, 3, 3, 1]
    dilations: [1, 2, 3, 4, 1]
    attention_channels: {attention}
    lin_neurons: {dimension}

mean_var_norm_emb: !new:speechbrain.processing.features.InputNormalization
    norm_type: sentence
    std_norm: True

classifier: !new:speechbrain.lobes.models.ECAPA_TDNN.Classifier
    input_size: {dimension}
    out_neurons: {speakers}

modules:
    compute_features: !ref <compute_features>
    embedding_model: !ref <embedding_model>
    mean_var_norm: !ref <mean_var_norm>
    classifier: !ref <classifier>

pretrainer: !new:speechbrain.utils.parameter_transfer.Pretrainer
    loadables:
        embedding_model: !ref <embedding_model>
"""
