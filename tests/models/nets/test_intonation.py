"""Intonation and voicing from content: contours against a plain implementation, the networks' inputs, training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch", reason="torch is not installed")

from voiceveil.models.nets.intonation import Intonation, Voicing  # noqa: E402
from voiceveil.training.intonation_task import IntonationTask, VoicingTask, contours  # noqa: E402
from voiceveil.training.synthesis_data import SynthesisBatch  # noqa: E402

SMALL = {"content": 6, "width": 16, "layers": 1, "codes": 8}


@given(arrays(np.float32, (2, 9), elements=st.one_of(st.just(0.0), st.floats(60, 600, width=32))))
def test_contours_are_standardized_logarithms(f0: np.ndarray) -> None:
    for row, contour in zip(f0, contours(f0), strict=True):
        voiced = [float(np.log(np.float64(value))) for value in row if value]
        mean = sum(voiced) / max(1, len(voiced))
        deviation = (sum((value - mean) ** 2 for value in voiced) / max(1, len(voiced))) ** 0.5
        for value, got in zip(row, contour, strict=True):
            wanted = (np.log(np.float64(value)) - mean) / max(0.05, deviation) if value else 0.0
            assert got == pytest.approx(np.clip(wanted, -3, 3), abs=1e-3)


def test_contour_is_invariant_to_mean_and_range() -> None:
    movement = np.random.default_rng(0).standard_normal((1, 300))
    low, other = (np.exp(mean + reach * movement).astype(np.float32) for mean, reach in ((4.7, 0.1), (5.4, 0.3)))
    np.testing.assert_allclose(contours(low), contours(other), atol=1e-3)


def network() -> Intonation:
    torch.manual_seed(0)
    intonation = Intonation(**SMALL)
    intonation.codes.codes.copy_(torch.randn(8, 6))
    return intonation.eval()


@pytest.mark.parametrize("frames", [1, 2, 7, 40])
def test_every_frame_has_a_contour_value(frames: int) -> None:
    rng = np.random.default_rng(0)
    content = torch.from_numpy(rng.standard_normal((3, frames, 6), dtype=np.float32))
    voiced = torch.from_numpy(rng.integers(0, 2, (3, frames)).astype(np.float32))
    with torch.inference_mode():
        contour = network()(content, voiced)
        alone = network()(content[1:2], voiced[1:2])
    assert contour.shape == (3, frames)
    torch.testing.assert_close(contour[1:2], alone)


def test_intonation_depends_on_codes_only() -> None:
    """Content with equal nearest codes has equal intonation; here the content is the codes themselves."""
    intonation = network()
    intonation.codes.nearest = 1
    content = intonation.codes.codes[torch.tensor([[3, 3, 0, 0, 5, 5, 1, 1]])]
    voiced = torch.ones(1, 8)
    with torch.inference_mode():
        torch.testing.assert_close(intonation(content + 1e-3, voiced), intonation(content, voiced))


def test_learns_the_intonation_of_sounds() -> None:
    """Two sounds, one with high and one with low F0, by speakers of any mean F0 and range."""
    rng = np.random.default_rng(0)

    def batch() -> SynthesisBatch:
        sounds = np.repeat(rng.integers(0, 2, (8, 10)), 8, axis=1)
        content = np.zeros((8, 80, 6), dtype=np.float32)
        content[..., 0], content[..., 1] = sounds, 1 - sounds
        height, reach = rng.uniform(4.6, 5.4, (8, 1)), rng.uniform(0.05, 0.3, (8, 1))
        f0 = np.exp(height + reach * (2 * sounds - 1)).astype(np.float32)
        f0[:, ::16] = 0
        return SynthesisBatch(np.zeros((8, 12800), dtype=np.float32), content, f0, np.zeros((8, 4), dtype=np.float32))

    learns(IntonationTask(network().train()), batch)


def learns(task: IntonationTask | VoicingTask, batch: Callable[[], SynthesisBatch]) -> None:
    class Data:
        def content_vectors(self, count: int) -> np.ndarray:
            return batch().content.reshape(-1, 6)[:200]

    rng = np.random.default_rng(1)
    task.prepare(Data())  # type: ignore[arg-type]
    for group in task.optimizer.param_groups:
        group["lr"] = 1e-2
    losses = [task.step(batch(), rng) for _ in range(60)]
    assert losses[-1] < 0.3 * losses[0]
    with torch.inference_mode():
        assert task.validate(batch(), rng) < 0.3 * losses[0]


def voicing() -> Voicing:
    torch.manual_seed(0)
    network = Voicing(**SMALL)
    network.codes.codes.copy_(torch.randn(8, 6))
    return network.eval()


@pytest.mark.parametrize("frames", [1, 2, 7, 40])
def test_every_frame_has_a_voicing_probability(frames: int) -> None:
    content = torch.from_numpy(np.random.default_rng(0).standard_normal((3, frames, 6), dtype=np.float32))
    with torch.inference_mode():
        together, alone = voicing()(content), voicing()(content[1:2])
    assert together.shape == (3, frames)
    torch.testing.assert_close(together[1:2], alone)


def test_voicing_depends_on_codes_only() -> None:
    network = voicing()
    network.codes.nearest = 1
    content = network.codes.codes[torch.tensor([[3, 3, 0, 0, 5, 5, 1, 1]])]
    with torch.inference_mode():
        torch.testing.assert_close(network(content + 1e-3), network(content))


def test_learns_voicing_of_sounds_and_not_of_speakers() -> None:
    """Two sounds, one of them voiced; half of the speakers leave a random tenth of it unvoiced."""
    rng = np.random.default_rng(0)

    def batch() -> SynthesisBatch:
        sounds = np.repeat(rng.integers(0, 2, (8, 10)), 8, axis=1)
        content = np.zeros((8, 80, 6), dtype=np.float32)
        content[..., 0], content[..., 1] = sounds, 1 - sounds
        creaky = (rng.random((8, 80)) < 0.1) & (np.arange(8) % 2 == 0)[:, None]
        f0 = np.where((sounds == 1) & ~creaky, 120.0, 0.0).astype(np.float32)
        return SynthesisBatch(np.zeros((8, 12800), dtype=np.float32), content, f0, np.zeros((8, 4), dtype=np.float32))

    task = VoicingTask(voicing().train())
    learns(task, batch)
    test = batch()
    with torch.inference_mode():
        voiced = task.network(torch.from_numpy(test.content)).numpy() > 0
    assert (voiced == (test.content[..., 0] > 0)).all()
