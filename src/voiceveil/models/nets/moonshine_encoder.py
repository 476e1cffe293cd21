"""The encoder of Moonshine tiny in torch, through which a loss can be sent back: what a recognizer hears.

Jeffries et al. 2024: three convolutions on the samples and six Transformer layers with rotary positions. The weights
are those of the wheel (see :mod:`voiceveil.models.asr.moonshine`), which keeps most matrices in eight bits; here they
are made floating-point again, and what comes out is that of the wheel's own but for its rounding.

Conventions: samples (B, N) at 16 kHz to features (B, T, 288), a vector every 384 samples.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.asr import moonshine

__all__ = ["MoonshineEncoder", "moonshine_encoder"]

WIDTH, HEADS, LAYERS = 288, 8, 6
#: Channels of a head, of 36, that turn with the position.
_TURNING = 32


class MoonshineEncoder(nn.Module):
    """The layers up to ``last``, which counts from 1."""

    def __init__(self, last: int = LAYERS) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(1, WIDTH, 127, stride=64, bias=False)
        self.groupnorm = nn.GroupNorm(1, WIDTH)
        self.conv2 = nn.Conv1d(WIDTH, 2 * WIDTH, 7, stride=3)
        self.conv3 = nn.Conv1d(2 * WIDTH, WIDTH, 3, stride=2)
        self.layers = nn.ModuleList(_Layer() for _ in range(last))

    def forward(self, samples: Tensor) -> list[Tensor]:
        """Return the output of every layer, each (B, T, 288)."""
        hidden = self.groupnorm(torch.tanh(self.conv1(samples.unsqueeze(1))))
        hidden = functional.gelu(self.conv2(hidden))
        hidden = functional.gelu(self.conv3(hidden)).transpose(1, 2)
        turns = _turns(hidden.shape[1]).to(hidden.device)
        outputs = []
        for layer in self.layers:
            hidden = layer(hidden, turns)
            outputs.append(hidden)
        return outputs


class _Layer(nn.Module):
    """Attention and two dense layers, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(WIDTH, bias=False)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.post_attention_layernorm = nn.LayerNorm(WIDTH, bias=False)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor, turns: Tensor) -> Tensor:
        inner = self.input_layernorm(hidden)
        query, key, value = (
            part(inner).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        heard = functional.scaled_dot_product_attention(_turned(query, turns), _turned(key, turns), value)
        hidden = hidden + self.o_proj(heard.transpose(1, 2).flatten(2))
        inner = self.post_attention_layernorm(hidden)
        result: Tensor = hidden + self.fc2(functional.gelu(self.fc1(inner)))
        return result


def _turns(frames: int) -> Tensor:
    """(2, frames, 16): cosine and sine of the angle of each pair of channels at each position."""
    speeds = 10000.0 ** (-torch.arange(0, _TURNING, 2) / _TURNING)
    angles = torch.arange(frames).unsqueeze(1) * speeds
    return torch.stack([angles.cos(), angles.sin()])


def _turned(heads: Tensor, turns: Tensor) -> Tensor:
    """Pairs of channels of (B, heads, T, 36) turned by their angles; the last four stay."""
    cosine, sine = turns
    even, odd = heads[..., :_TURNING:2], heads[..., 1:_TURNING:2]
    pairs = torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], dim=-1).flatten(-2)
    return torch.cat([pairs, heads[..., _TURNING:]], dim=-1)


@lru_cache(maxsize=1)
def moonshine_encoder(last: int = LAYERS) -> MoonshineEncoder:
    """Return the encoder with the wheel's weights, which do not learn."""
    found = _wheel_weights()
    with torch.inference_mode(False):  # it is kept, and a loss is sent through it later
        network = MoonshineEncoder(last)
        network.load_state_dict({name: torch.from_numpy(found[name]) for name in network.state_dict()})
    return network.requires_grad_(False).eval()


def _wheel_weights() -> dict[str, NDArray[np.float32]]:
    """Name as in :class:`MoonshineEncoder` -> weights.

    A graph of operations is all that the file holds. Convolutions and norms keep the names of their weights; the
    matrices are named after the operation that they go into.
    """
    from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.InferenceSession import InferenceSession

    data = bytearray(moonshine.model_file("encoder_model.ort").read_bytes())
    graph = InferenceSession.GetRootAs(data, 0).Model().Graph()
    tensors = {}
    for i in range(graph.InitializersLength()):
        one = graph.Initializers(i)
        tensors[one.Name().decode()] = _array(one)
    weights = {f"groupnorm.{name}": tensors[f"onnx::{stored}"].ravel() for name, stored in _GROUPNORM.items()}
    for name, values in tensors.items():
        weights[name.removesuffix("_add_tensor").replace(".mlp.", ".")] = values
    for i in range(graph.NodesLength()):
        node = graph.Nodes(i)
        name = node.Name().decode()  # /layers.0/self_attn/q_proj/MatMul_quant
        if name.endswith("/MatMul_quant"):
            _, layer, _, part, _ = name.split("/")
            stored = next(one for k in range(node.InputsLength()) if (one := node.Inputs(k).decode()) in tensors)
            stem = stored.removesuffix("_quantized")
            levels = tensors[stored].astype(np.float32) - tensors[f"{stem}_zero_point"]
            weights[f"{layer}.{part}.weight"] = (levels * tensors[f"{stem}_scale"]).T
    return {name: np.array(values, dtype=np.float32, order="C") for name, values in weights.items()}


_GROUPNORM = {"weight": "Mul_2080", "bias": "Add_2081"}
_TYPES = {1: np.float32, 2: np.uint8, 7: np.int64}


def _array(tensor: Any) -> NDArray[Any]:
    shape = [tensor.Dims(k) for k in range(tensor.DimsLength())]
    return np.frombuffer(tensor.RawDataAsNumpy().tobytes(), _TYPES[tensor.DataType()]).reshape(shape)
