"""Moonshine's encoder in torch: equal to that of the wheel, and usable as a loss."""

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

from voiceveil.models.nets.moonshine_encoder import MoonshineEncoder, moonshine_encoder  # noqa: E402
from voiceveil.models.nets.source_filter import SourceFilterSize  # noqa: E402
from voiceveil.training.network_settings import PerceptualLoss  # noqa: E402
from voiceveil.training.source_filter_task import SourceFilterTask  # noqa: E402
from voiceveil.training.synthesis_data import SynthesisBatch  # noqa: E402


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Three seconds of real speech that come with the model."""
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    return vv.load(folder / "two_cities.wav", rate=16000).samples[16000 : 4 * 16000].astype(np.float32)


@pytest.mark.parametrize("layer", [1, 3, 5])
def test_layers_equal_those_of_the_onnx_model(speech: np.ndarray, layer: int) -> None:
    """Up to rounding to eight bits, which the wheel's model also applies to the input of each matrix."""
    wheel = MoonshineContent(layer)(vv.Waveform(speech, 16000)).astype(np.float64)
    with torch.inference_mode():
        output = moonshine_encoder()(torch.from_numpy(speech)[None])[layer - 1][0].numpy()
    assert output.shape == wheel.shape
    assert np.corrcoef(output.ravel(), wheel.ravel())[0, 1] > 0.998
    assert np.abs(output - wheel).mean() < 0.08 * np.abs(wheel).mean()


def test_loss_has_a_gradient_towards_the_source(speech: np.ndarray) -> None:
    """A step along the gradient of the distance moves noisy speech towards clean speech."""
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
    """A few steps lower the content loss and leave the weights of the recognizer unchanged."""
    rng = np.random.default_rng(0)
    frames = 100
    samples = np.stack([speech[: 160 * frames], speech[160 * frames : 320 * frames]])
    content = rng.standard_normal((2, frames, 16)).astype(np.float32)
    f0 = np.full((2, frames), 120, dtype=np.float32)
    batch = SynthesisBatch(samples, content, f0, rng.standard_normal((2, 8)).astype(np.float32))
    size = SourceFilterSize(content=16, speaker=8, width=32, blocks=1, fine_blocks=1)
    plain, task = (SourceFilterTask(size, seed=0) for _ in range(2))
    task.perceptual = PerceptualLoss(content=1.0)

    def content_loss() -> float:
        plain.network.load_state_dict(task.network.state_dict())
        with torch.no_grad():
            return task.validate(batch, np.random.default_rng(1)) - plain.validate(batch, np.random.default_rng(1))

    first = content_loss()
    weights = [p.clone() for p in moonshine_encoder().parameters()]
    for step in range(8):
        task.step(batch, np.random.default_rng(step))
    assert content_loss() < 0.98 * first
    assert all(torch.equal(a, b) for a, b in zip(weights, moonshine_encoder().parameters(), strict=True))


def test_look_ahead_bounds_what_an_output_depends_on() -> None:
    """With one vector a layer, two layers see two vectors (768 samples) ahead; all of the past counts."""
    torch.manual_seed(0)
    network = MoonshineEncoder(2).eval()
    samples = torch.randn(1, 384 * 12 + 895)
    changed = samples.clone()
    changed[:, 384 * 8 + 895 :] = changed[:, 384 * 8 + 895 :].flip(-1)  # from vector 9 on; the same statistics
    with torch.inference_mode():
        network.groupnorm = torch.nn.Identity()  # it normalizes over the whole recording
        for look_ahead, same in ((None, 0), (1, 7), (0, 9)):
            before, after = (network(x, look_ahead)[-1][0] for x in (samples, changed))
            assert torch.allclose(before[:same], after[:same], atol=1e-5)
            assert not torch.allclose(before[same], after[same], atol=1e-4)
