"""The recogniser of M1 and M1c1: it learns, its lengths hold, its adversary is misled, and it is a system's content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.tiny_decoder import write_decoder  # noqa: E402
from voiceveil.anonymization import system  # noqa: E402
from voiceveil.anonymization.xvector.content import content_features  # noqa: E402
from voiceveil.errors import InputError  # noqa: E402
from voiceveil.nn.checkpoint import save_tensors  # noqa: E402
from voiceveil.nn.ctc_attention import CtcAttention  # noqa: E402
from voiceveil.nn.ctc_attention_task import CtcAttentionTask  # noqa: E402
from voiceveil.nn.recognition_data import SpeechBatch, hires_mfcc  # noqa: E402
from voiceveil.nn.synthesis_modules import Dimensions, module  # noqa: E402
from voiceveil.testing import synthetic_voice  # noqa: E402

TINY = {"channels": 4, "hidden": 24, "layers": 1, "width": 24}


def network(outputs: int = 6, **size: int) -> CtcAttention:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return CtcAttention(outputs, **{**TINY, **size})


def speech(count: int = 3) -> SpeechBatch:
    waves = [synthetic_voice(i, i, seconds=0.5).samples for i in range(count)]
    features = np.stack([hires_mfcc(w) for w in waves])
    tokens = (np.array([1, 2, 3]), np.array([4, 4, 5]), np.array([2, 5]))[:count]
    voices = np.eye(count, 8, dtype=np.float32)
    return SpeechBatch(np.concatenate(waves), features, voices, np.array([50, 43, 50])[:count], tokens)


def test_it_learns_a_few_utterances_by_heart() -> None:
    batch = speech(2)
    task = CtcAttentionTask(network())
    task.network.feature_scale.fit(torch.from_numpy(batch.features))
    for group in task.optimizer.param_groups:
        group["lr"] = 1e-2
    losses = [task.step(batch, np.random.default_rng(i)) for i in range(100)]
    assert losses[0] > 1.0
    assert min(losses[-10:]) < 0.1 * losses[0]


def test_what_is_behind_the_end_of_an_utterance_has_no_effect() -> None:
    batch, made = speech(), network().eval()
    frames = torch.from_numpy(batch.frames)
    other = batch.features.copy()
    other[1, 43:] += 5
    made.requires_grad_(False)
    with torch.no_grad():
        first, second = (made.content(torch.from_numpy(f), frames) for f in (batch.features, other))
    rows = made.rows_of(frames)
    assert rows.tolist() == [13, 11, 13]
    assert first.shape == (3, 13, 24)
    np.testing.assert_allclose(first[1, :11], second[1, :11], atol=1e-6)
    tokens = [torch.from_numpy(t) for t in batch.tokens]
    together = made.losses(first, frames, tokens)
    alone = [made.losses(first[i : i + 1, : rows[i]], frames[i : i + 1], tokens[i : i + 1]) for i in range(3)]
    counts = [len(t) for t in tokens]
    ctc = sum(float(a[0]) * n for a, n in zip(alone, counts, strict=True)) / sum(counts)
    spelling = sum(float(a[1]) * (n + 1) for a, n in zip(alone, counts, strict=True)) / (sum(counts) + 3)
    assert float(together[0]) == pytest.approx(ctc, rel=1e-4)
    assert float(together[1]) == pytest.approx(spelling, rel=1e-4)


def test_masking_keeps_the_adversary_from_the_speaker() -> None:
    """After the same steps, what the adversary tells of the speakers (mean square of cosines) is less."""
    batch, told = speech(), {}
    for masking in (1e-6, 3.0):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            task = CtcAttentionTask(network(), masking=masking, speaker=8)
        for group in task.optimizer.param_groups:
            group["lr"] = 5e-3
        for i in range(40):
            task.step(batch, np.random.default_rng(i))
        with torch.inference_mode():
            content, _ = task._loss(batch)
            told[masking] = float(task._told(*task._pooled(content, batch)))
    assert told[1e-6] > 0.9
    assert told[3.0] < 0.7 * told[1e-6]


def test_published_and_small_sizes() -> None:
    sizes = {}
    for name in ("ctc-attention", "ctc-attention-masked"):
        task = module(name).task(Dimensions(29, 192), "small", 0, "cpu")
        assert task.record()["width"] == 128
        sizes[name] = sum(p.numel() for p in task.modules.parameters())
    assert sizes["ctc-attention"] < 1.5e6 < sizes["ctc-attention-masked"] * 2
    with torch.device("meta"):
        published = CtcAttention(29)
    assert published.size["layers"] == 5
    assert sum(p.numel() for p in published.parameters()) > 80e6


def test_its_encoder_is_the_content_of_m1(tmp_path: Path) -> None:
    made = network(29)
    folder = tmp_path / "recogniser"
    folder.mkdir()
    record = {"kind": "CTC/attention recogniser", "size": made.size, "parts": {}}
    save_tensors(folder / "model.safetensors", made.state_dict(), record)
    part = content_features(f"ctc-attention:{folder}")
    wave = synthetic_voice(seconds=0.6)
    found = part(wave)
    assert found.shape == (15, 24)
    assert (part.dimension, part.hop, part.offset) == (24, 640.0, 320.0)
    with pytest.raises(InputError, match="content features ctc-attention have no default weights"):
        content_features("ctc-attention")
    for name in ("m1", "m1c1"):
        with pytest.raises(InputError, match=f"no weights of {name} ship with voiceveil"):
            system(name).models()
    made_for_another = write_decoder(tmp_path / "decoder")
    with pytest.raises(InputError, match="these weights were trained with another content: 'content moonshine"):
        system("m1", content=f"ctc-attention:{folder}", weights=str(made_for_another)).models()
