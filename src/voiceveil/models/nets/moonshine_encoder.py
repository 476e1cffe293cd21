"""The encoder of Moonshine tiny as a torch module, for losses on its features: gradients pass through it.

Jeffries et al. 2024: three convolutions on the samples and six Transformer layers with rotary position embeddings. The
weights are those of the wheel (see :mod:`voiceveil.models.asr.moonshine`), where most matrices are quantized to eight
bits; here they are converted to floating point, and up to rounding the output is that of the wheel's model.

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
#: Channels of a head, of 36, with rotary position embedding.
_ROTARY = 32


class MoonshineEncoder(nn.Module):
    """The encoder up to layer ``last``, counted from 1."""

    def __init__(self, last: int = LAYERS) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(1, WIDTH, 127, stride=64, bias=False)
        self.groupnorm = nn.GroupNorm(1, WIDTH)
        self.conv2 = nn.Conv1d(WIDTH, 2 * WIDTH, 7, stride=3)
        self.conv3 = nn.Conv1d(2 * WIDTH, WIDTH, 3, stride=2)
        self.layers = nn.ModuleList(_Layer() for _ in range(last))

    def forward(self, samples: Tensor, look_ahead: int | None = None) -> list[Tensor]:
        """Return the output of every layer, each (B, T, 288).

        Parameters
        ----------
        samples
            (B, N) at 16 kHz.
        look_ahead
            Number of later vectors that a layer attends to; None: all of them.
        """
        hidden = self.groupnorm(torch.tanh(self.conv1(samples.unsqueeze(1))))
        hidden = functional.gelu(self.conv2(hidden))
        hidden = functional.gelu(self.conv3(hidden)).transpose(1, 2)
        frames = hidden.shape[1]
        rotations = _rotations(frames).to(hidden.device)
        mask = None
        if look_ahead is not None:
            mask = torch.ones(frames, frames, dtype=torch.bool, device=hidden.device).tril(look_ahead)
        outputs = []
        for layer in self.layers:
            hidden = layer(hidden, rotations, mask)
            outputs.append(hidden)
        return outputs


class _Layer(nn.Module):
    """A Transformer layer: attention and two dense layers, each after a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(WIDTH, bias=False)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.post_attention_layernorm = nn.LayerNorm(WIDTH, bias=False)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor, rotations: Tensor, mask: Tensor | None = None) -> Tensor:
        inner = self.input_layernorm(hidden)
        query, key, value = (
            part(inner).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = functional.scaled_dot_product_attention(
            _rotate(query, rotations), _rotate(key, rotations), value, attn_mask=mask
        )
        hidden = hidden + self.o_proj(attended.transpose(1, 2).flatten(2))
        inner = self.post_attention_layernorm(hidden)
        result: Tensor = hidden + self.fc2(functional.gelu(self.fc1(inner)))
        return result


def _rotations(frames: int) -> Tensor:
    """Return cosine and sine (2, frames, 16) of the rotary angle of each pair of channels at each position."""
    frequencies = 10000.0 ** (-torch.arange(0, _ROTARY, 2) / _ROTARY)
    angles = torch.arange(frames).unsqueeze(1) * frequencies
    return torch.stack([angles.cos(), angles.sin()])


def _rotate(heads: Tensor, rotations: Tensor) -> Tensor:
    """Return (B, heads, T, 36) with pairs of channels rotated by their angles; the last four channels stay."""
    cosine, sine = rotations
    even, odd = heads[..., :_ROTARY:2], heads[..., 1:_ROTARY:2]
    pairs = torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], dim=-1).flatten(-2)
    return torch.cat([pairs, heads[..., _ROTARY:]], dim=-1)


@lru_cache(maxsize=1)
def moonshine_encoder(last: int = LAYERS) -> MoonshineEncoder:
    """Return the encoder with the weights of the wheel, which are not trained."""
    weights = _wheel_weights()
    with torch.inference_mode(False):  # cached, and used for gradients later
        network = MoonshineEncoder(last)
        network.load_state_dict({name: torch.from_numpy(weights[name]) for name in network.state_dict()})
    return network.requires_grad_(False).eval()


def _wheel_weights() -> dict[str, NDArray[np.float32]]:
    """Return the weights by their names in :class:`MoonshineEncoder`.

    The file holds a graph of operations. Weights of convolutions and norms have their original names; quantized
    matrices are identified by the operation that uses them.
    """
    from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.InferenceSession import InferenceSession

    data = bytearray(moonshine.model_file("encoder_model.ort").read_bytes())
    graph = InferenceSession.GetRootAs(data, 0).Model().Graph()
    tensors = {}
    for i in range(graph.InitializersLength()):
        initializer = graph.Initializers(i)
        tensors[initializer.Name().decode()] = _array(initializer)
    weights = {f"groupnorm.{name}": tensors[f"onnx::{stored}"].ravel() for name, stored in _GROUPNORM.items()}
    for name, values in tensors.items():
        weights[name.removesuffix("_add_tensor").replace(".mlp.", ".")] = values
    for i in range(graph.NodesLength()):
        node = graph.Nodes(i)
        name = node.Name().decode()  # /layers.0/self_attn/q_proj/MatMul_quant
        if name.endswith("/MatMul_quant"):
            _, layer, _, part, _ = name.split("/")
            inputs = [node.Inputs(k).decode() for k in range(node.InputsLength())]
            stored = next(name for name in inputs if name in tensors)
            stem = stored.removesuffix("_quantized")
            levels = tensors[stored].astype(np.float32) - tensors[f"{stem}_zero_point"]
            weights[f"{layer}.{part}.weight"] = (levels * tensors[f"{stem}_scale"]).T
    return {name: np.array(values, dtype=np.float32, order="C") for name, values in weights.items()}


_GROUPNORM = {"weight": "Mul_2080", "bias": "Add_2081"}  # names in the graph
_TYPES = {1: np.float32, 2: np.uint8, 7: np.int64}  # by ONNX number


def _array(tensor: Any) -> NDArray[Any]:
    shape = [tensor.Dims(k) for k in range(tensor.DimsLength())]
    return np.frombuffer(tensor.RawDataAsNumpy().tobytes(), _TYPES[tensor.DataType()]).reshape(shape)
