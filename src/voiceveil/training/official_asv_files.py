"""Folder of the official training of ASV_eval (see :mod:`voiceveil.training.speechbrain_folder`).

    CKPT+<epoch>/   embedding_model.ckpt  classifier.ckpt  counter.ckpt  CKPT.yaml  hyperparams.yaml
    label_encoder.txt  train.csv  dev.csv  train_log.txt

Two checkpoints are kept: that of the lowest error rate on the development data, and the last one, which is evaluated.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from voiceveil.models.nets.ecapa import EcapaTdnn
from voiceveil.models.speechbrain.ecapa import to_speechbrain
from voiceveil.models.speechbrain.files import checkpoints, error_rate
from voiceveil.training.speechbrain_folder import keep_checkpoints, write_checkpoint

__all__ = ["hyperparams_text", "remove_superseded", "write_encoder"]


def write_encoder(out: Path, epoch: int, network: EcapaTdnn, classifier: Tensor, errors: float) -> Path:
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
    tensors = {"embedding_model": to_speechbrain(network), "classifier": {"weight": classifier}}
    texts = {"hyperparams.yaml": hyperparams_text(network, len(classifier))}
    return write_checkpoint(out, epoch, tensors, texts, {"ErrorRate": errors})


def remove_superseded(out: Path) -> None:
    """Remove all checkpoints of a training but the last one and that of the lowest error rate."""
    numbered = checkpoints(out)
    rates = {path: rate for path in numbered if (rate := error_rate(path)) is not None}
    keep_checkpoints(
        out, [numbered[0], min(rates, key=rates.__getitem__, default=numbered[0])]
    )  # of equal ones the latest


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
