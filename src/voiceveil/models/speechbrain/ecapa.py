"""SpeechBrain's ECAPA-TDNN: its weights in the network of this package, and back.

The network is the same as :class:`voiceveil.models.nets.ecapa.EcapaTdnn`; names differ, pointwise convolutions of
single vectors are linear layers there, and the first attention layer is in two parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from voiceveil.models.nets.ecapa import EcapaTdnn

__all__ = ["build", "from_speechbrain", "to_speechbrain"]

#: Names of SpeechBrain -> ours, tried in this order; the groups of a pattern are kept.
_NAMES = (
    (r"blocks\.0\.(conv|norm)\.\1", r"first.\1"),
    (r"blocks\.([123])\.tdnn1\.(conv|norm)\.\2", r"blocks.\1.before.\2"),
    (r"blocks\.([123])\.tdnn2\.(conv|norm)\.\2", r"blocks.\1.after.\2"),
    (r"blocks\.([123])\.res2net_block\.blocks\.(\d+)\.(conv|norm)\.\3", r"blocks.\1.res2.layers.\2.\3"),
    (r"blocks\.([123])\.se_block\.conv1\.conv", r"blocks.\1.se.squeeze"),
    (r"blocks\.([123])\.se_block\.conv2\.conv", r"blocks.\1.se.excite"),
    (r"mfa\.(conv|norm)\.\1", r"aggregate.\1"),
    (r"asp\.tdnn\.conv\.conv", r"pool.frame"),
    (r"asp\.tdnn\.norm\.norm", r"pool.norm"),
    (r"asp\.conv\.conv", r"pool.score"),
    (r"asp_bn\.norm", r"pool_norm"),
    (r"fc\.conv", r"embed"),
)
_PATTERNS = tuple((re.compile(theirs), ours) for theirs, ours in _NAMES)
_GROUPS = 7  # of channels that a Res2Net convolution convolves
_LINEAR = re.compile(r"(embed|blocks\.\d\.se\.(squeeze|excite))\.weight")  # (out, in) here, (out, in, 1) there


def from_speechbrain(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of ``embedding_model.ckpt`` under the names and in the shapes of ``EcapaTdnn``.

    Raises
    ------
    ValueError
        If a name is not one of an ECAPA-TDNN, or a weight has a shape that no such layer has.
    """
    weights: dict[str, Tensor] = {}
    for name, tensor in state.items():
        ours = _our_name(name)
        if _LINEAR.fullmatch(ours):
            tensor = _without_last(name, tensor)
        if ours == "pool.frame.weight":  # for the frame, then for mean and deviation of the utterance
            channels = tensor.shape[1] // 3
            weights["pool.context.weight"] = _without_last(name, tensor)[:, channels:].contiguous()
            tensor = tensor[:, :channels].contiguous()
        weights[ours] = tensor
    return weights


def to_speechbrain(network: EcapaTdnn) -> dict[str, Tensor]:
    """Return the weights of a network under SpeechBrain's names, in SpeechBrain's order: ``embedding_model.ckpt``."""
    weights = dict(network.state_dict())
    context = weights.pop("pool.context.weight").unsqueeze(2)
    weights["pool.frame.weight"] = torch.cat([weights["pool.frame.weight"], context], dim=1)
    state = {}
    for name in _their_names():
        tensor = weights.pop(_our_name(name))
        state[name] = tensor.unsqueeze(2) if _LINEAR.fullmatch(_our_name(name)) else tensor
    if weights:
        raise ValueError(f"a weight without a name of SpeechBrain: {next(iter(weights))}")
    return state


def build(state: Mapping[str, Tensor]) -> EcapaTdnn:
    """Return the network of ``embedding_model.ckpt``, of the size that its weights have, in evaluation mode.

    Raises
    ------
    ValueError, RuntimeError, KeyError
        If the weights do not fit together.
    """
    from voiceveil.models.checkpoint import limit_network_size, load_state

    weights = from_speechbrain(state)
    size: dict[str, Any] = {
        "features": weights["first.conv.weight"].shape[1],
        "channels": weights["first.conv.weight"].shape[0],
        "wide": weights["aggregate.conv.weight"].shape[0],
        "attention": weights["pool.score.weight"].shape[1],
        "dimension": weights["embed.weight"].shape[0],
    }
    with limit_network_size(weights, {}):
        network = EcapaTdnn(**size)
    load_state(network, weights)
    return network.eval()


def _our_name(name: str) -> str:
    layer, _, part = name.rpartition(".")
    for pattern, ours in _PATTERNS:
        if match := pattern.fullmatch(layer):
            renamed = match.expand(ours)
            if block := re.match(r"blocks\.(\d)", renamed):  # theirs count the first layer as block 0
                renamed = f"blocks.{int(block[1]) - 1}{renamed[block.end() :]}"
            return f"{renamed}.{part}"
    raise ValueError(f"{name[:100]} is no weight of an ECAPA-TDNN")


def _their_names() -> list[str]:
    """Return the names of all weights in the order of SpeechBrain's modules."""
    tdnn = ["conv.conv.weight", "conv.conv.bias"]
    norm = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    layer = [*tdnn, *(f"norm.norm.{part}" for part in norm)]
    affine = ["weight", "bias"]
    names = [f"blocks.0.{part}" for part in layer]
    for block in (1, 2, 3):
        inner = ["tdnn1", *(f"res2net_block.blocks.{group}" for group in range(_GROUPS)), "tdnn2"]
        names += [f"blocks.{block}.{name}.{part}" for name in inner for part in layer]
        names += [f"blocks.{block}.se_block.{conv}.conv.{part}" for conv in ("conv1", "conv2") for part in affine]
    names += [f"{name}.{part}" for name in ("mfa", "asp.tdnn") for part in layer]
    names += [f"asp.conv.conv.{part}" for part in affine]
    return [*names, *(f"asp_bn.norm.{part}" for part in norm), *(f"fc.conv.{part}" for part in affine)]


def _without_last(name: str, tensor: Tensor) -> Tensor:
    if tensor.dim() != 3 or tensor.shape[2] != 1:
        raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not (outputs, inputs, 1)")
    return tensor.squeeze(2)
