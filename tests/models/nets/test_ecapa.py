"""ECAPA-TDNN: published size, layers against plain implementations, shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from voiceveil.models.nets.ecapa import AttentiveStatistics, EcapaTdnn, Res2Conv, SqueezeExcitation, TdnnLayer

Array = NDArray[np.float64]


def array(tensor: torch.Tensor) -> Array:
    return tensor.detach().numpy().astype(np.float64)


def signal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def randomized(module: torch.nn.Module) -> torch.nn.Module:
    """Set statistics and scales of batch normalizations to other values than 0 and 1, so that they have an effect."""
    generator = torch.Generator().manual_seed(7)
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm1d):
            assert part.running_mean is not None
            assert part.running_var is not None
            part.running_mean.copy_(torch.randn(part.num_features, generator=generator))
            part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
            with torch.no_grad():
                part.weight.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
                part.bias.copy_(torch.randn(part.num_features, generator=generator))
    return module.eval()


def slow_norm(x: Array, norm: torch.nn.BatchNorm1d) -> Array:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    weight, bias, mean, variance = map(array, (norm.weight, norm.bias, norm.running_mean, norm.running_var))
    out = np.empty_like(x)
    for c in range(len(x)):
        out[c] = (x[c] - mean[c]) / math.sqrt(variance[c] + norm.eps) * weight[c] + bias[c]
    return out


def slow_layer(x: Array, layer: TdnnLayer) -> Array:
    """Convolution with mirrored edges, ReLU, batch normalization, of one utterance (C, T)."""
    weight, bias = array(layer.conv.weight), array(layer.conv.bias) if layer.conv.bias is not None else np.zeros(1)
    outputs, inputs, kernel = weight.shape
    dilation, count = int(layer.conv.dilation[0]), x.shape[1]
    out = np.zeros((outputs, count))
    for o in range(outputs):
        for t in range(count):
            total = bias[o]
            for k in range(kernel):
                place = abs(t + (k - kernel // 2) * dilation)  # mirrored at the first frame,
                place = 2 * (count - 1) - place if place > count - 1 else place  # and at the last
                total += sum(weight[o, i, k] * x[i, place] for i in range(inputs))
            out[o, t] = max(total, 0.0)
    return slow_norm(out, layer.norm)


def test_number_of_parameters() -> None:
    def layer(inputs: int, outputs: int, kernel: int = 1) -> int:
        return inputs * outputs * kernel + outputs + 2 * outputs

    block = 2 * layer(512, 512) + 7 * layer(64, 64, 3) + (512 * 128 + 128) + (128 * 512 + 512)
    pooling = layer(3 * 1536, 128) + 128 * 1536 + 1536
    expected = layer(80, 512, 5) + 3 * block + layer(1536, 1536) + pooling + 2 * 3072 + 3072 * 192 + 192
    count = sum(parameter.numel() for parameter in EcapaTdnn().parameters())
    assert count == expected == 6_194_048
    # The paper (table 1) says 6.2 and 14.7 million, for 512 and for 1024 channels.
    assert round(count / 1e6, 1) == 6.2
    assert round(sum(p.numel() for p in EcapaTdnn(channels=1024).parameters()) / 1e6, 1) == 14.7


def test_kernels_and_dilations() -> None:
    network = EcapaTdnn()
    assert (network.first.conv.kernel_size, network.first.conv.dilation) == ((5,), (1,))
    sizes = [[(c.conv.kernel_size, c.conv.dilation) for c in block.res2.layers] for block in network.blocks]  # type: ignore[union-attr]
    assert sizes == [[((3,), (d,))] * 7 for d in (2, 3, 4)]
    assert network.aggregate.conv.kernel_size == (1,)
    assert network.embed.out_features == 192


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (5, 1), (3, 4)])
def test_layer_equals_its_twin(kernel: int, dilation: int) -> None:
    layer = randomized(TdnnLayer(3, 4, kernel, dilation))
    x = signal(2, 3, 9)
    expected = [slow_layer(array(utterance), layer) for utterance in x]  # type: ignore[arg-type]
    np.testing.assert_allclose(array(layer(x)), expected, atol=1e-5)


def test_res2_equals_its_twin() -> None:
    module = randomized(Res2Conv(12, kernel=3, dilation=2, scale=4))
    x = signal(1, 12, 8)
    groups = np.split(array(x[0]), 4)
    results = [groups[0], slow_layer(groups[1], module.layers[0])]  # type: ignore[arg-type, index]
    for index in (2, 3):
        results.append(slow_layer(groups[index] + results[-1], module.layers[index - 1]))  # type: ignore[arg-type, index]
    np.testing.assert_allclose(array(module(x)[0]), np.concatenate(results), atol=1e-5)


def test_squeeze_excitation_equals_its_twin() -> None:
    module = SqueezeExcitation(5, 3)
    x = signal(2, 5, 7)
    down, up = array(module.squeeze.weight), array(module.excite.weight)
    down_bias, up_bias = array(module.squeeze.bias), array(module.excite.bias)
    for values, result in zip(array(x), array(module(x)), strict=True):
        mean = [sum(row) / len(row) for row in values]
        hidden = [
            max(0.0, b + sum(w * m for w, m in zip(row, mean, strict=True)))
            for row, b in zip(down, down_bias, strict=True)
        ]
        for c in range(5):
            score = up_bias[c] + sum(w * h for w, h in zip(up[c], hidden, strict=True))
            np.testing.assert_allclose(result[c], values[c] / (1 + math.exp(-score)), atol=1e-6)


def test_attentive_statistics_equal_their_twin() -> None:
    channels, frames = 4, 6
    module = randomized(AttentiveStatistics(channels, attention=3))
    x = signal(1, channels, frames)
    values = array(x[0])
    mean = [sum(row) / frames for row in values]
    deviation = [math.sqrt(sum((v - m) ** 2 for v in row) / frames) for row, m in zip(values, mean, strict=True)]
    # One dense layer on (frame, mean, deviation): equation 4 with the context of section 3.2.
    frame_weight, bias = array(module.frame.weight)[:, :, 0], array(module.frame.bias)  # type: ignore[union-attr, arg-type]
    weight = np.concatenate([frame_weight, array(module.context.weight)], axis=1)  # type: ignore[union-attr, arg-type]
    hidden = np.empty((3, frames))
    for t in range(frames):
        column = np.array([*values[:, t], *mean, *deviation])
        hidden[:, t] = np.maximum(weight @ column + bias, 0.0)
    hidden = np.tanh(slow_norm(hidden, module.norm))  # type: ignore[arg-type]
    score = array(module.score.weight)[:, :, 0] @ hidden  # type: ignore[union-attr, arg-type]
    score += array(module.score.bias)[:, None]  # type: ignore[union-attr, arg-type]
    result = array(module(x)[0])
    for c in range(channels):
        total = sum(math.exp(s) for s in score[c])
        alpha = [math.exp(s) / total for s in score[c]]
        expected = sum(a * v for a, v in zip(alpha, values[c], strict=True))
        spread = sum(a * v * v for a, v in zip(alpha, values[c], strict=True)) - expected**2
        assert result[c] == pytest.approx(expected, abs=1e-5)
        assert result[channels + c] == pytest.approx(math.sqrt(spread), abs=1e-5)


def test_shapes_and_shortest_input() -> None:
    network = EcapaTdnn(channels=16, wide=48).eval()
    for frames in (EcapaTdnn.minimum_frames, 40):
        assert network(signal(3, frames, 80)).shape == (3, 192)
    with pytest.raises(RuntimeError):
        network(signal(1, EcapaTdnn.minimum_frames - 1, 80))


def test_embedding_does_not_depend_on_the_batch() -> None:
    network = EcapaTdnn(channels=16, wide=48).eval()
    x = signal(3, 30, 80)
    together = network(x)
    for index in range(3):
        torch.testing.assert_close(network(x[index : index + 1])[0], together[index], atol=1e-5, rtol=1e-4)


def test_gradients_of_a_constant_signal_are_finite() -> None:
    network = EcapaTdnn(channels=16, wide=48)
    network(torch.ones(2, 20, 80)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)
