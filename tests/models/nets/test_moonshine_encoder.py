"""Moonshine's encoder in torch: it hears what the wheel's own hears, and tells a decoder what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
from voiceveil.models.asr import moonshine
from voiceveil.models.content.features import MoonshineContent

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from voiceveil.models.nets.moonshine_encoder import moonshine_encoder  # noqa: E402
from voiceveil.models.nets.source_filter import SourceFilterSize  # noqa: E402
from voiceveil.training.source_filter_task import SourceFilterTask  # noqa: E402
from voiceveil.training.synthesis_data import Batch  # noqa: E402


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Three seconds of real speech that come with the model."""
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    return vv.load(folder / "two_cities.wav", rate=16000).samples[16000 : 4 * 16000].astype(np.float32)


@pytest.mark.parametrize("layer", [1, 3, 5])
def test_layers_equal_those_of_the_onnx_model(speech: np.ndarray, layer: int) -> None:
    """But for eight-bit rounding, of which the wheel's own has one more, that of what goes into each matrix."""
    wheel = MoonshineContent(layer)(vv.Waveform(speech, 16000)).astype(np.float64)
    with torch.inference_mode():
        ours = moonshine_encoder()(torch.from_numpy(speech)[None])[layer - 1][0].numpy()
    assert ours.shape == wheel.shape
    assert np.corrcoef(ours.ravel(), wheel.ravel())[0, 1] > 0.998
    assert np.abs(ours - wheel).mean() < 0.08 * np.abs(wheel).mean()


def test_loss_has_a_gradient_towards_the_source(speech: np.ndarray) -> None:
    """Along the gradient of the distance, noisy speech comes nearer to clean speech."""
    encoder = moonshine_encoder()
    clean = torch.from_numpy(speech)[None]
    noisy = (clean + 0.02 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))).requires_grad_()

    def distance(samples: Any) -> Any:
        return sum((a - b).abs().mean() for a, b in zip(encoder(samples), encoder(clean), strict=True))

    far = distance(noisy)
    (slope,) = torch.autograd.grad(far, noisy)
    nearer = distance(noisy.detach() - 0.02 * slope / slope.abs().max())
    assert float(distance(clean).detach()) == 0
    assert float(nearer.detach()) < 0.97 * float(far.detach())


def test_content_loss_is_part_of_the_loss(speech: np.ndarray) -> None:
    """A decoder that learns by listening is heard better after a few steps; its weights are all that moves."""
    rng = np.random.default_rng(0)
    frames = 100
    samples = np.stack([speech[: 160 * frames], speech[160 * frames : 320 * frames]])
    content = rng.standard_normal((2, frames, 16)).astype(np.float32)
    f0 = np.full((2, frames), 120, dtype=np.float32)
    batch = Batch(samples, content, f0, rng.standard_normal((2, 8)).astype(np.float32))
    size = SourceFilterSize(content=16, speaker=8, width=32, blocks=1, fine_blocks=1)
    plain, listening = (SourceFilterTask(size, seed=0) for _ in range(2))
    listening.listening = 1.0

    def heard() -> float:
        plain.network.load_state_dict(listening.network.state_dict())
        with torch.no_grad():
            return listening.validate(batch, np.random.default_rng(1)) - plain.validate(batch, np.random.default_rng(1))

    first = heard()
    weights = [p.clone() for p in moonshine_encoder().parameters()]
    for step in range(8):
        listening.step(batch, np.random.default_rng(step))
    assert heard() < 0.98 * first
    assert all(torch.equal(a, b) for a, b in zip(weights, moonshine_encoder().parameters(), strict=True))
