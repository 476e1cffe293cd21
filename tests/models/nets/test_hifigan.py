"""HiFi-GAN and its discriminators: published sizes, lengths, losses, training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.support.synthesis_inputs import voices  # noqa: E402
from voiceveil.models.nets import mel as spectral  # noqa: E402
from voiceveil.models.nets.hifigan import HifiGan, HifiGanSize  # noqa: E402
from voiceveil.models.nets.nsf import HnSincNsf, HnSincNsfSize  # noqa: E402
from voiceveil.training.discriminators import (  # noqa: E402
    DiscriminatorOutput,
    Discriminators,
    PeriodDiscriminator,
    ScaleDiscriminator,
    adversarial_loss,
    discriminator_loss,
    matching_loss,
)
from voiceveil.training.gan_task import GanTask  # noqa: E402

TINY = {"channels": 32, "block_kernels": (3,), "dilations": (1, 3)}


def count(inputs: int, rates: tuple[int, ...], kernels: tuple[int, ...]) -> int:
    """Weights and biases of a generator with 512 channels, blocks with kernels 3, 7, 11, and three dilations."""
    channels, total = 512, inputs * 512 * 7 + 512
    for kernel in kernels:
        total += channels * (channels // 2) * kernel + channels // 2
        channels //= 2
        total += 6 * (channels**2 * (3 + 7 + 11) + 3 * channels)
    return total + channels * 7 + 1


def test_number_of_parameters() -> None:
    assert round(count(80, (8, 8, 2, 2), (16, 16, 4, 4)) / 1e6, 2) == 13.93  # V1: 13.92 M (Kong et al., table 1)
    network = HifiGan(HifiGanSize()).fuse()
    assert sum(p.numel() for p in network.parameters()) == count(769, (8, 5, 2, 2), (16, 9, 4, 4))


def test_number_of_parameters_of_discriminators() -> None:
    def weights(member: Any) -> int:
        return sum(p.numel() for name, p in member.named_parameters() if p.dim() > 1 and p.numel() > p.shape[0])

    assert weights(PeriodDiscriminator(3)) == 8_215_712
    assert weights(ScaleDiscriminator(1)) == 9_866_112


@pytest.mark.parametrize("frames", [1, 2, 7])
def test_frame_is_160_samples(frames: int) -> None:
    network = HifiGan(HifiGanSize(5, 3, **TINY))  # type: ignore[arg-type]
    waveform = network(torch.randn(2, frames, 5), torch.full((2, frames), 100.0), torch.randn(2, 3))
    assert waveform.shape == (2, 160 * frames)
    assert float(waveform.detach().abs().max()) <= 1.0
    with pytest.raises(ValueError, match="must be 160"):
        HifiGan(HifiGanSize(rates=(8, 8, 2, 2), kernels=(16, 16, 4, 4)))


def test_fused_weights_give_the_same() -> None:
    torch.manual_seed(0)
    network = HifiGan(HifiGanSize(5, 3, **TINY))  # type: ignore[arg-type]
    given = torch.randn(1, 6, 5), torch.full((1, 6), 100.0), torch.randn(1, 3)
    before = network(*given)
    torch.testing.assert_close(network.fuse()(*given), before, rtol=1e-4, atol=1e-6)
    assert sum(p.numel() for p in HifiGan(HifiGanSize.small()).fuse().parameters()) < 700_000


def test_losses_equal_their_formulas() -> None:
    def verdict(parts: list[float], layer: list[float]) -> DiscriminatorOutput:
        return DiscriminatorOutput(torch.tensor([parts]), (torch.tensor([layer]),))

    natural, synthetic = [verdict([0.8, 0.6], [1.0, 2.0])], [verdict([0.1, 0.3], [0.0, 4.0])]
    assert float(discriminator_loss(natural, synthetic)) == pytest.approx((0.04 + 0.16) / 2 + (0.01 + 0.09) / 2)
    assert float(adversarial_loss(synthetic)) == pytest.approx((0.81 + 0.49) / 2)
    assert float(matching_loss(natural, synthetic)) == pytest.approx(2 * 1.5)


def test_stft_loss_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 1600))
    expected = []
    for points, window, hop in spectral.RESOLUTIONS:
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
        padded = [np.pad(x, window // 2) for x in (a, b)]
        squares = []
        for start in range(0, len(padded[0]) - window + 1, hop):
            power = [np.abs(np.fft.rfft(x[start : start + window] * hann, points)) ** 2 for x in padded]
            squares.append(np.square(np.log(power[0] + 1e-5) - np.log(power[1] + 1e-5)))
        expected.append(np.mean(squares))
    synthetic, natural = (torch.tensor(x).float()[None] for x in (a, b))
    assert float(spectral.stft_loss(synthetic, natural)) == pytest.approx(np.mean(expected), rel=1e-4)
    assert float(spectral.stft_loss(natural, natural)) == 0.0
    assert spectral.log_mel(synthetic).shape == (1, 10, 80)


def slow_log_mel(samples: np.ndarray) -> np.ndarray:
    """Return log mel spectra (T, 80), a frame and a band at a time: triangles between 82 points of the mel scale."""
    mel = np.linspace(1127 * np.log(1 + 20 / 700), 1127 * np.log(1 + 8000 / 700), 82)
    bins = 1127 * np.log(1 + np.arange(512) * 16000 / 1024 / 700)
    hann, padded = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400), np.pad(samples, 120)
    rows = []
    for start in range(0, len(samples), 160):
        magnitude = np.abs(np.fft.rfft(padded[start : start + 400] * hann, 1024))[:-1]
        row = []
        for left, middle, right in zip(mel, mel[1:], mel[2:], strict=False):
            weights = np.minimum((bins - left) / (middle - left), (right - bins) / (right - middle)).clip(min=0)
            row.append(np.log(max(float(weights @ magnitude), 1e-3)))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("published", ["nsf-hifigan", "hifigan"])
def test_generator_loss_is_that_of_hifigan(published: str) -> None:
    """Least squares, twice the differences of layers, 45 times those of mel spectra, written as loops."""
    torch.manual_seed(0)
    generator = HifiGan(HifiGanSize(12, 6, **TINY))  # type: ignore[arg-type]
    source_filter = HnSincNsf(HnSincNsfSize(12, 6, hidden=8, blocks=1, convolutions=2, recurrent=8))
    task = GanTask(source_filter if published == "nsf-hifigan" else generator, Discriminators(1 / 64))
    task.discriminators.eval()
    real, made = (0.1 * torch.randn(2, 3200) for _ in range(2))
    with torch.no_grad():
        loss = float(task.generator_loss(real, made))
        pairs = list(zip(task.discriminators(real), task.discriminators(made), strict=True))
    assert len(pairs) == 8
    expected = 0.0
    for a, b in pairs:
        scores = b.scores.numpy().ravel().tolist()
        expected += sum((1 - score) ** 2 for score in scores) / len(scores)
        for before, after in zip(a.layers, b.layers, strict=True):
            expected += 2 * float(np.mean(np.abs(before.numpy() - after.numpy())))
    mel = [
        np.abs(slow_log_mel(r.double().numpy()) - slow_log_mel(m.double().numpy())).mean()
        for r, m in zip(real, made, strict=True)
    ]
    assert np.mean(mel) > 0.1
    assert loss == pytest.approx(expected + 45 * float(np.mean(mel)), rel=1e-3)


def test_a_step_moves_both_sides() -> None:
    batch = voices(2, frames=16)
    torch.manual_seed(0)
    task = GanTask(HnSincNsf(HnSincNsfSize(12, 6, hidden=8, blocks=1, convolutions=3)), Discriminators(1 / 32))
    before = {name: value.clone() for name, value in task.modules.state_dict().items()}
    task.step(batch, np.random.default_rng(0))
    moved = {n.split(".")[0] for n, p in task.modules.named_parameters() if not torch.equal(p, before[n])}
    assert moved == {"generator", "discriminators"}
    assert all(p.requires_grad for p in task.discriminators.parameters())


def test_learns_a_few_voices() -> None:
    """After adversarial training, mel spectra of the synthesized waveforms are close to those of the recordings."""
    batch = voices(2, frames=10)
    torch.manual_seed(0)
    task = GanTask(HifiGan(HifiGanSize(12, 6, **TINY)), Discriminators(1 / 64))  # type: ignore[arg-type]
    start = task.validate(batch, np.random.default_rng(0))
    for group in task.optimizer.param_groups:
        group["lr"] = 3e-3
    for i in range(25):
        task.step(batch, np.random.default_rng(i))
    assert task.validate(batch, np.random.default_rng(0)) < 0.6 * start
