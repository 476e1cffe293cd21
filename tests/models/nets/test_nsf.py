"""hn-sinc-NSF: published size, source and filters against plain implementations, chunks, and training."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.support.synthesis_inputs import voices  # noqa: E402
from voiceveil.models.nets.mel import log_mel  # noqa: E402
from voiceveil.models.nets.nsf import FilterBlock, HnSincNsf, HnSincNsfSize, _upsample, sinc_filter, sinc_filters  # noqa: E402
from voiceveil.models.nets.nsf_source import FRAME, RATE, SeededExcitation, SineSource, draw_seed, frame_phases  # noqa: E402
from voiceveil.training.b1_tasks import VocoderTask  # noqa: E402

F0 = [0.0, 0.0, 123.4, 150.0, 151.0, 0.0, 90.0, 2500.0]


def tiny(content: int = 5, speaker: int = 3) -> HnSincNsf:
    torch.manual_seed(0)
    return HnSincNsf(HnSincNsfSize(content, speaker, hidden=8, blocks=2, convolutions=4, recurrent=8))


def inputs(frames: int, rows: int = 1) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    f0 = np.where(rng.random((rows, frames)) < 0.3, 0.0, rng.uniform(80, 300, (rows, frames)))
    content, speaker = rng.standard_normal((rows, frames, 5)), rng.standard_normal((rows, 3))
    return torch.tensor(content).float(), torch.tensor(f0).float(), torch.tensor(speaker).float()


def test_number_of_parameters() -> None:
    recurrent = 2 * (4 * 32 * (256 + 512 + 1 + 32) + 2 * 4 * 32)
    condition = 64 * 64 * 3 + 64
    block = [64 + n * 64 * 64 * 3 + 64 * 16 + 16 for n in (10, 5)]
    expected = recurrent + condition + (8 + 1) + 5 * block[0] + block[1]
    assert sum(p.numel() for p in HnSincNsf(HnSincNsfSize()).parameters()) == expected == 900_393


def test_sines_equal_a_sum_sample_by_sample() -> None:
    """The definition: the phase grows by k F0 / rate per sample from its initial value; 0 where unvoiced."""
    source, excitation = SineSource(harmonics=3), SeededExcitation(5)
    initial = excitation.phases(1, 4)
    f0 = torch.tensor([F0])
    sines = source.sines(f0, frame_phases(f0), initial)[0].numpy()
    for k in range(4):
        phase = float(initial[0, k])
        for n in range(len(F0) * FRAME):
            pitch = float(f0[0, n // FRAME]) * (k + 1)
            phase += pitch / RATE
            expected = np.sin(2 * np.pi * phase) if 0 < pitch < RATE / 2 else 0.0
            assert sines[k, n] == pytest.approx(expected, abs=2e-5)


def test_phase_does_not_drift_in_an_hour() -> None:
    f0 = torch.full((1, 360_000), 123.4567)
    exact = (round(float(f0[0, 0]) * 2**24) * FRAME * 359_999 % (RATE * 2**24)) / (RATE * 2**24)
    assert float(frame_phases(f0)[0, -1]) == pytest.approx(exact, abs=1e-5)


def test_levels_of_the_excitation() -> None:
    source = SineSource()
    with torch.no_grad():
        source.merge.weight.fill_(0.0)
        source.merge.weight[0, 0] = 1.0
        source.merge.bias.fill_(0.0)
    f0 = torch.tensor([[0.0] * 100 + [160.0] * 100])
    with torch.no_grad():
        harmonic, noise = source(f0, SeededExcitation(1))
    half = 100 * FRAME
    assert float(harmonic[0, 0, :half].std()) == pytest.approx(0.1 / 3, rel=0.05)
    rest = harmonic[0, 0, half:].atanh() - 0.1 * torch.sin(2 * np.pi * torch.arange(1, half + 1) / 100)
    assert float(rest.std()) == pytest.approx(0.003, rel=0.05)
    assert float(noise.std()) == pytest.approx(0.1 / 3, rel=0.05)


def test_noise_is_the_same_in_parts() -> None:
    excitation = SeededExcitation(7)
    whole = excitation.noise(0, 250, 2, 3)
    torch.testing.assert_close(excitation.noise(90, 120, 2, 3), whole[:, :, 90 * FRAME : 210 * FRAME], rtol=0, atol=0)
    assert not torch.equal(whole[:, :, : 100 * FRAME], whole[:, :, 100 * FRAME : 200 * FRAME])
    assert draw_seed(torch.Generator().manual_seed(3)) == draw_seed(torch.Generator().manual_seed(3))


def test_sinc_filters_equal_the_formula() -> None:
    cutoff = torch.tensor([[[0.12, 0.5, 0.83]]])
    low, high = (x[0].numpy() for x in sinc_filters(cutoff))
    n = np.arange(-15, 16)
    for i, c in enumerate(cutoff.flatten().tolist()):
        window = 0.54 + 0.46 * np.cos(2 * np.pi * n / 31)
        slow_low, slow_high = c * np.sinc(c * n) * window, (np.sinc(n) - c * np.sinc(c * n)) * window
        np.testing.assert_allclose(low[:, i], slow_low / slow_low.sum(), atol=1e-6)
        np.testing.assert_allclose(high[:, i], slow_high / (slow_high * (-1.0) ** n).sum(), atol=1e-6)


def test_sinc_filtering_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    signal, filters = rng.standard_normal(50), rng.standard_normal((31, 50))
    slow = [sum(signal[n - k] * filters[k, n] for k in range(31) if n >= k) for n in range(50)]
    filtered = sinc_filter(torch.tensor(signal)[None, None], torch.tensor(filters)[None])
    np.testing.assert_allclose(filtered[0, 0].numpy(), slow, atol=1e-12)


def test_receptive_field_is_as_stated() -> None:
    block = FilterBlock(channels=8, convolutions=4)
    assert block.context_samples == 2 * (2**4 - 1)
    assert FilterBlock().context_samples == 2046
    signal = torch.randn(1, 1, 100, requires_grad=True)
    block(signal, torch.zeros(1, 8, 100))[0, 0, 60].backward()
    assert signal.grad is not None
    seen = np.flatnonzero(signal.grad[0, 0].numpy())
    assert (seen.min(), seen.max()) == (60 - block.context_samples, 60)


@pytest.mark.parametrize("part", [17, 100, 1000])
def test_parts_equal_the_whole(part: int) -> None:
    network = tiny().eval()
    content, f0, speaker = inputs(230, rows=2)
    with torch.inference_mode():
        whole = network(content, f0, speaker, generator=torch.Generator().manual_seed(9))
    parts = network.synthesize(content, f0, speaker, generator=torch.Generator().manual_seed(9), chunk=part)
    assert whole.shape == parts.shape == (2, 230 * FRAME)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-5)
    other = network.synthesize(content, f0, speaker, generator=torch.Generator().manual_seed(8))
    assert not torch.allclose(other, whole, atol=1e-3)


def test_features_are_repeated_and_smoothed_twice() -> None:
    frames = np.random.default_rng(0).standard_normal(12)
    slow = np.repeat(np.pad(frames, 3, mode="edge"), FRAME)
    for _ in range(2):
        slow = np.array([slow[max(n - 80, 0) : n + 80].mean() for n in range(len(slow))])
    upsampled = _upsample(torch.tensor(frames).float()[None, None])[0, 0].numpy()
    np.testing.assert_allclose(upsampled, slow[3 * FRAME : -3 * FRAME], atol=1e-5)


def test_works_without_speaker_embedding() -> None:
    content, f0, _ = inputs(10)
    assert tiny(speaker=0)(content, f0).shape == (1, 1600)


def test_small_variant_is_small() -> None:
    assert sum(p.numel() for p in HnSincNsf(HnSincNsfSize.small()).parameters()) < 300_000
    assert HnSincNsfSize(**asdict(HnSincNsfSize.small())) == HnSincNsfSize.small()


def test_learns_a_few_voices() -> None:
    """After training, spectra of the synthesized waveforms are close to those of the recordings."""
    batch = voices(2, frames=32)
    torch.manual_seed(0)
    task = VocoderTask(HnSincNsf(HnSincNsfSize(80, 6, hidden=12, blocks=2, convolutions=5, harmonics=15, recurrent=16)))
    mel = log_mel(torch.from_numpy(batch.samples))
    task.network.content_scale.fit(mel)
    task.network.f0_scale.fit(torch.from_numpy(batch.f0).unsqueeze(2))
    for group in task.optimizer.param_groups:
        group["lr"] = 1e-2
    f0, speaker = torch.from_numpy(batch.f0), torch.from_numpy(batch.speaker)

    def error() -> float:
        waveform = task.network.synthesize(mel, f0, speaker, chunk=10, generator=torch.Generator().manual_seed(0))
        return float((log_mel(waveform) - mel).abs().mean())

    before = error()
    losses = [task.step(batch, np.random.default_rng(i)) for i in range(35)]
    assert task.validate(batch, np.random.default_rng(0)) < 0.35 * losses[0]
    assert error() < 0.75 * before
