"""The x-vector network: published size, context, comparison with an implementation frame by frame."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from voiceveil.models.nets.xvector import StatisticsPooling, XVectorTdnn, segment_layers


def test_number_of_parameters() -> None:
    layers = [(150, 512), (1536, 512), (1536, 512), (512, 512), (512, 1500), (3000, 512)]
    expected = sum(inputs * outputs + outputs for inputs, outputs in layers)
    assert sum(p.numel() for p in XVectorTdnn().parameters()) == expected == 4_219_868
    assert sum(p.numel() for p in segment_layers().parameters()) == 512 * 512 + 512
    # Snyder et al. (table 1) count 4.2 million weights, without biases, with 24 features a frame.
    weights = sum(p.numel() for name, p in XVectorTdnn(features=24).named_parameters() if name.endswith("weight"))
    assert weights == 4_200_448


def test_equals_its_twin() -> None:
    """Splice frames at -2..2, {-2, 0, 2} and {-3, 0, 3}, multiply, cut at zero, normalize; mean and deviation."""
    network = XVectorTdnn(features=3, channels=4, wide=5, dimension=6)
    generator = torch.Generator().manual_seed(1)
    for part in network.modules():
        if isinstance(part, torch.nn.BatchNorm1d):
            assert part.running_mean is not None
            assert part.running_var is not None
            part.running_mean.copy_(torch.randn(part.num_features, generator=generator))
            part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
    network.eval()
    x = torch.randn(1, 20, 3, generator=generator)
    frames = x[0].numpy().astype(np.float64)
    for layer, offsets in zip(network.frames, ([-2, -1, 0, 1, 2], [-2, 0, 2], [-3, 0, 3], [0], [0]), strict=True):
        weight = layer.affine.weight.detach().numpy()  # type: ignore[union-attr, operator]
        bias = layer.affine.bias.detach().numpy()  # type: ignore[union-attr, operator]
        mean, variance = layer.norm.running_mean.numpy(), layer.norm.running_var.numpy()  # type: ignore[union-attr, operator]
        rows = []
        for t in range(-offsets[0], len(frames) - offsets[-1]):
            affine = bias + sum(weight[:, :, k] @ frames[t + offset] for k, offset in enumerate(offsets))
            rows.append((np.maximum(affine, 0) - mean) / np.sqrt(variance + 1e-3))
        frames = np.array(rows)
    assert len(frames) == 20 - 14
    pooled = np.concatenate([frames.mean(axis=0), frames.std(axis=0)])
    expected = network.tdnn6_affine.weight.detach().numpy() @ pooled + network.tdnn6_affine.bias.detach().numpy()
    np.testing.assert_allclose(network(x)[0].detach().numpy(), expected, atol=1e-5)


def test_shortest_input() -> None:
    network = XVectorTdnn(channels=8, wide=8).eval()
    assert network(torch.zeros(1, XVectorTdnn.minimum_frames, 30)).shape == (1, 512)
    with pytest.raises(RuntimeError):
        network(torch.zeros(1, XVectorTdnn.minimum_frames - 1, 30))


def test_pooling_of_constants_has_finite_gradients() -> None:
    x = torch.ones(2, 3, 5, requires_grad=True)
    StatisticsPooling()(x).sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
