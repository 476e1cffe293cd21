"""Losses against their definitions written with angles and sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from voiceveil.models.nets.speaker_heads import AamSoftmax, Softmax


def slow_cross_entropy(logits: list[float], true: int) -> float:
    return -math.log(math.exp(logits[true]) / sum(math.exp(logit) for logit in logits))


def slow_aam(embedding: np.ndarray, weights: np.ndarray, true: int, margin: float, scale: float) -> float:
    """Return the loss of ArcFace (equation 3), computed from the angles; linear beyond pi."""
    logits = []
    for speaker, weight in enumerate(weights):
        cosine = float(embedding @ weight / np.linalg.norm(embedding) / np.linalg.norm(weight))
        angle = math.acos(cosine)
        if speaker == true:
            cosine = math.cos(angle + margin) if angle + margin < math.pi else cosine - margin * math.sin(margin)
        logits.append(scale * cosine)
    return slow_cross_entropy(logits, true)


@pytest.mark.parametrize(("margin", "scale"), [(0.2, 30.0), (0.5, 4.0), (0.0, 10.0)])
def test_aam_equals_its_twin(margin: float, scale: float) -> None:
    torch.manual_seed(0)
    head = AamSoftmax(5, 4, margin, scale).double()
    embeddings = torch.randn(30, 5, dtype=torch.float64) * 3
    embeddings[0] = -2 * head.weight[1].detach()  # the true speaker is opposite: beyond pi with the margin
    speakers = torch.arange(30) % 4
    speakers[0] = 1
    loss, logits = head(embeddings, speakers)
    weights = head.weight.detach().numpy()
    expected = [slow_aam(e.numpy(), weights, int(s), margin, scale) for e, s in zip(embeddings, speakers, strict=True)]
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-9)
    plain = scale * torch.nn.functional.cosine_similarity(embeddings[:, None], head.weight[None], dim=2)
    torch.testing.assert_close(logits, plain)


def test_margin_increases_the_loss() -> None:
    torch.manual_seed(0)
    head, plain = AamSoftmax(8, 3, margin=0.2), AamSoftmax(8, 3, margin=0.0)
    plain.load_state_dict(head.state_dict())
    embeddings, speakers = torch.randn(20, 8), torch.arange(20) % 3
    assert head(embeddings, speakers)[0].item() > plain(embeddings, speakers)[0].item()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_aam_has_finite_gradients_at_the_poles(sign: float) -> None:
    head = AamSoftmax(4, 2)
    embeddings = (sign * head.weight.detach()).requires_grad_()
    head(embeddings, torch.tensor([0, 1]))[0].backward()
    assert embeddings.grad is not None
    assert torch.isfinite(embeddings.grad).all()


def test_softmax_equals_its_twin() -> None:
    torch.manual_seed(0)
    head = Softmax(3, 4, before=torch.nn.ReLU()).double()
    embeddings, speakers = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 0, 1])
    weight, bias = head.output.weight.detach().numpy(), head.output.bias.detach().numpy()
    expected = []
    for vector, speaker in zip(embeddings.numpy(), speakers, strict=True):
        expected.append(slow_cross_entropy((weight @ np.maximum(vector, 0) + bias).tolist(), int(speaker)))
    assert head(embeddings, speakers)[0].item() == pytest.approx(np.mean(expected), rel=1e-9)
