"""ResNet34: published size, its block against a plain implementation, shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from voiceveil.models.nets.resnet import BasicBlock, ResNet34

Array = NDArray[np.float64]


def test_number_of_parameters() -> None:
    def block(inputs: int, outputs: int) -> int:
        shortcut = inputs * outputs + 2 * outputs if inputs != outputs else 0
        return 9 * inputs * outputs + 9 * outputs * outputs + 4 * outputs + shortcut

    expected = 9 * 32 + 2 * 32
    inputs = 32
    for outputs, depth in ((32, 3), (64, 4), (128, 6), (256, 3)):
        expected += block(inputs, outputs) + (depth - 1) * block(outputs, outputs)
        inputs = outputs
    expected += 2 * 256 * 10 * 256 + 256
    count = sum(p.numel() for p in ResNet34().parameters())
    assert count == expected
    assert round(count / 1e6, 2) == 6.63  # as published for ResNet34 with 80 features and 256 dimensions


def slow_conv(x: Array, weight: Array, stride: int, margin: int) -> Array:
    outputs, _, size, _ = weight.shape
    x = np.pad(x, ((0, 0), (margin, margin), (margin, margin)))
    rows, columns = (x.shape[1] - size) // stride + 1, (x.shape[2] - size) // stride + 1
    out = np.empty((outputs, rows, columns))
    for o in range(outputs):
        for r in range(rows):
            for c in range(columns):
                patch = x[:, r * stride : r * stride + size, c * stride : c * stride + size]
                out[o, r, c] = (patch * weight[o]).sum()
    return np.asarray(out / np.sqrt(1 + 1e-5))  # batch normalization as it is at first


@pytest.mark.parametrize(("outputs", "stride"), [(2, 1), (3, 2)])
def test_block_equals_its_twin(outputs: int, stride: int) -> None:
    block = BasicBlock(2, outputs, stride).eval()
    x = torch.randn(1, 2, 6, 5, generator=torch.Generator().manual_seed(0))
    values = x[0].numpy().astype(np.float64)
    inner = np.maximum(slow_conv(values, block.conv1.weight.detach().numpy(), stride, 1), 0)
    outer = slow_conv(inner, block.conv2.weight.detach().numpy(), 1, 1)
    around = values
    if isinstance(block.shortcut, torch.nn.Sequential):
        around = slow_conv(values, block.shortcut[0].weight.detach().numpy(), stride, 0)  # type: ignore[operator]
    np.testing.assert_allclose(block(x)[0].detach().numpy(), np.maximum(outer + around, 0), atol=1e-5)


def test_shapes() -> None:
    network = ResNet34(channels=2).eval()
    for frames in (ResNet34.minimum_frames, 61):
        assert network(torch.zeros(2, frames, 80)).shape == (2, 256)
    assert ResNet34(features=30, channels=2).eval()(torch.zeros(1, 20, 30)).shape == (1, 256)
