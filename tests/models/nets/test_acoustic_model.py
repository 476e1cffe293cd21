"""The acoustic model of B1.a: published size, synthesis against teacher forcing, training."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.support.synthesis_inputs import voices  # noqa: E402
from voiceveil.models.nets.acoustic_model import AcousticModel, AcousticModelSize  # noqa: E402
from voiceveil.models.nets.mel import log_mel  # noqa: E402
from voiceveil.training.b1_tasks import AcousticModelTask  # noqa: E402


def tiny(postnet: str = "highway", dropout: float = 0.0) -> AcousticModel:
    torch.manual_seed(0)
    return AcousticModel(AcousticModelSize(12, 6, hidden=48, base=32, recurrent=48, postnet=postnet, dropout=dropout))  # type: ignore[arg-type]


def test_number_of_parameters() -> None:
    forward = 769 * 512 + 512 + 512 * 512 + 512
    base = 2 * (4 * 128 * (512 + 128) + 2 * 4 * 128)
    feedback = 2 * (80 * 80 + 80)
    recurrent = 4 * 512 * (256 + 80 + 512) + 8 * 512 + 4 * 512 * (512 + 512) + 8 * 512
    output, postnet, gate = 512 * 80 + 80, 5 * (80 * 80 * 5 + 80), 80 * 80 + 80
    expected = forward + base + feedback + recurrent + output + postnet
    assert sum(p.numel() for p in AcousticModel(AcousticModelSize(postnet="residual")).parameters()) == expected
    assert sum(p.numel() for p in AcousticModel(AcousticModelSize()).parameters()) == expected + gate == 5_377_232


@pytest.mark.parametrize("postnet", ["highway", "residual"])
def test_synthesis_equals_training_with_its_own_frames_as_feedback(postnet: str) -> None:
    network = tiny(postnet).eval()
    batch = voices(2, frames=30)
    content, f0, speaker = (torch.from_numpy(x) for x in batch[1:])
    network.mel_scale.fit(log_mel(torch.from_numpy(batch.samples)))
    with torch.inference_mode():
        own = network._free_running(content, f0, speaker)
        before, after = network._teacher_forced(content, f0, speaker, own)
        torch.testing.assert_close(before, own, rtol=0, atol=1e-5)
        mel = network(content, f0, speaker)
        torch.testing.assert_close(network.mel_scale(mel), after, rtol=0, atol=1e-4)
        assert mel.shape == (2, 30, 80)
        torch.testing.assert_close(network.generate(content, f0, speaker), mel, rtol=0, atol=0)  # no chance in it


def test_frame_does_not_see_its_own_or_later_targets() -> None:
    network = tiny().eval()
    batch = voices(1, frames=20)
    content, f0, speaker = (torch.from_numpy(x) for x in batch[1:])
    mel = torch.randn(1, 20, 80)
    changed = mel.clone()
    changed[:, 10:] += 1.0
    first, second = network(content, f0, speaker, mel), network(content, f0, speaker, changed)
    torch.testing.assert_close(first[:, :11], second[:, :11], rtol=0, atol=0)
    assert not torch.allclose(first[:, 11:], second[:, 11:])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_learns_a_few_voices(dropout: float) -> None:
    """The error is small with the true frames as feedback and with its own."""
    batch = voices(2, frames=40)
    task = AcousticModelTask(tiny(dropout=dropout))
    content, f0, speaker = (torch.from_numpy(x) for x in batch[1:])
    mel = log_mel(torch.from_numpy(batch.samples))
    network = task.network
    for scale, values in ((network.content_scale, content), (network.mel_scale, mel)):
        scale.fit(values)
    network.f0_scale.fit(f0.unsqueeze(2))
    for group in task.optimizer.param_groups:
        group["lr"] = 5e-3
    losses = [task.step(batch, np.random.default_rng(i)) for i in range(90)]
    network.eval()
    assert task.validate(batch, np.random.default_rng(0)) < 0.35 * losses[0]
    error = (network.generate(content, f0, speaker) - mel).square().mean()
    assert float(error) < 0.35 * float((mel - mel.mean(dim=(0, 1))).square().mean())


def test_the_same_seed_gives_the_same_step() -> None:
    batch = voices(2, frames=20)
    losses = {AcousticModelTask(tiny(dropout=0.5)).step(batch, np.random.default_rng(3)) for _ in range(2)}
    assert len(losses) == 1
