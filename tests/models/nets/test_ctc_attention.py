"""The recognizer of M1 and M1c1: it learns, by heart and from a teacher, its lengths hold, its adversary is misled, and
it is a system's content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from tests.support.tiny_decoder import write_decoder  # noqa: E402
from voiceveil.audio import Waveform, save  # noqa: E402
from voiceveil.core.errors import InputError  # noqa: E402
from voiceveil.corpus import Utterance  # noqa: E402
from voiceveil.dsp.kaldi import hires_mfcc  # noqa: E402
from voiceveil.models.checkpoint import save_tensors  # noqa: E402
from voiceveil.models.content.features import content_features, normalized  # noqa: E402
from voiceveil.models.nets.ctc_attention import CtcAttention  # noqa: E402
from voiceveil.run.cache import Cache  # noqa: E402
from voiceveil.systems import system  # noqa: E402
from voiceveil.testing import synthetic_voice  # noqa: E402
from voiceveil.training.ctc_attention_task import CtcAttentionTask, _normalized  # noqa: E402
from voiceveil.training.recognition_data import RecognitionData, SpeechBatch  # noqa: E402
from voiceveil.training.synthesis_modules import Dimensions, module  # noqa: E402

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


def test_overfits_a_few_utterances() -> None:
    batch = speech(2)
    task = CtcAttentionTask(network())
    task.network.feature_scale.fit(torch.from_numpy(batch.features))
    for group in task.optimizer.param_groups:
        group["lr"] = 1e-2
    losses = [task.step(batch, np.random.default_rng(i)) for i in range(100)]
    assert losses[0] > 1.0
    assert min(losses[-10:]) < 0.1 * losses[0]


def test_padding_has_no_effect() -> None:
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


def test_masking_hides_the_speaker_from_the_adversary() -> None:
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
            inside = task._inside(content, batch)
            told[masking] = float(task._told(_normalized(content, inside), inside, task._truth(batch)))
    assert told[1e-6] > 0.9
    assert told[3.0] < 0.7 * told[1e-6]


def test_adversary_input_equals_the_synthesizer_input() -> None:
    """Content without mean and scale, and nothing of what is behind the end of an utterance."""
    content = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 13, 24), dtype=np.float32)) * 3 + 2
    task = CtcAttentionTask(network())
    inside = task._inside(content, speech())
    assert inside.sum(dim=1).flatten().tolist() == [13, 11, 13]
    np.testing.assert_allclose(_normalized(content, inside)[1, :11], normalized(content[1, :11].numpy()), atol=1e-4)
    np.testing.assert_array_equal(_normalized(content, inside)[1, 11:], 0)


# --- A teacher ----------------------------------------------------------------------------------------------------


def test_learns_the_features_of_its_teacher() -> None:
    rng = np.random.default_rng(0)
    taught = tuple(rng.standard_normal((rows, 24), dtype=np.float32) for rows in (13, 11, 13))
    batch = speech()._replace(taught=taught)
    correlation = {}
    for weight in (0.0, 5.0):
        task = CtcAttentionTask(network(hidden=48))
        task.imitation = weight
        task.network.feature_scale.fit(torch.from_numpy(batch.features))
        for group in task.optimizer.param_groups:
            group["lr"] = 1e-2
        for i in range(60):
            task.step(batch, np.random.default_rng(i))
        with torch.inference_mode():
            content = task._loss(batch)[0]
            correlation[weight] = 1 - float(task._otherwise(content, batch))
            own = [np.corrcoef(content[1, :11, d], taught[1][:, d])[0, 1] for d in range(24)]
            alone = CtcAttentionTask(task.network)
            one = batch._replace(frames=batch.frames[1:2], taught=taught[1:2])
            assert 1 - float(alone._otherwise(content[1:2, :11], one)) == pytest.approx(float(np.mean(own)), abs=1e-3)
    assert abs(correlation[0.0]) < 0.3
    assert correlation[5.0] > 0.6


class Ramp:
    """Content that tells where it was heard: the sample at which a vector is centered, in thousands."""

    rate, minimum, dimension = 16000, 0.05, 2

    def __init__(self, hop: float, offset: float) -> None:
        self.hop, self.offset = hop, offset

    def fingerprint(self) -> str:
        return f"ramp {self.hop} {self.offset}"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        at = np.arange(self.offset, len(wave.samples) - self.offset, self.hop) / 1000
        return np.stack([at, at**2], axis=1).astype(np.float16)


@pytest.mark.parametrize("heard", [None, Ramp(500.0, 300.0)], ids=["MFCC", "another network"])
def test_teacher_features_are_aligned_with_content_frames(heard: Ramp | None, tmp_path: Path) -> None:
    save(tmp_path / "u.wav", synthetic_voice(seconds=1.6))
    spoken = Utterance("u", tmp_path / "u.wav", speaker="s", text="OH")
    teacher = Ramp(384.0, 400.0)
    data = RecognitionData([spoken], None, Cache(None), seed=0, heard=heard, teacher=teacher)
    batch = data.batch(0, 4)
    hop, offset = (640.0, 320.0) if heard is None else (heard.hop, heard.offset)
    (made,) = batch.taught
    features = 40 if heard is None else 2
    assert batch.features.shape == (1, batch.frames[0], features)
    assert len(made) == (40 if heard is None else batch.frames[0])
    assert batch.samples.size == pytest.approx(1.6 * 16000, abs=2 * hop)
    theirs = teacher(synthetic_voice(seconds=1.6)).astype(np.float32)
    at = np.clip(offset + hop * np.arange(len(made)), 400, 400 + 384 * (len(theirs) - 1)) / 1000
    np.testing.assert_allclose(made[:, 0], (at - theirs[:, 0].mean()) / theirs[:, 0].std(), atol=5e-3)
    assert batch.utterance.shape == (1, 0)


def test_without_convolutions_frames_correspond_one_to_one() -> None:
    made = CtcAttention.on(29, 12, 288).eval()
    assert CtcAttention(**made.size).size == made.size
    frames = torch.tensor([9, 7])
    with torch.no_grad():
        content = made.content(torch.randn(2, 9, 12), frames)
    assert content.shape == (2, 9, 288)
    assert made.rows_of(frames).tolist() == [9, 7]


def test_published_and_small_sizes() -> None:
    sizes = {}
    for name in ("ctc-attention", "ctc-attention-masked"):
        task = module(name).task(Dimensions(29, 192), "small", 0, "cpu")
        assert task.record()["width"] == 128
        sizes[name] = sum(p.numel() for p in task.modules.parameters())
    assert sizes["ctc-attention"] < 1.5e6 < sizes["ctc-attention-masked"] * 2
    taught = module("ctc-attention").task(Dimensions(29, 0, heard=288, taught=300), "small", 0, "cpu").record()
    assert (taught["features"], taught["width"], taught["channels"]) == (288, 300, 0)
    with torch.device("meta"):
        published = CtcAttention(29)
    assert published.size["layers"] == 5
    assert sum(p.numel() for p in published.parameters()) > 80e6


# --- As content ---------------------------------------------------------------------------------------------------


def write_recognizer(folder: Path, made: CtcAttention, **parts: str) -> Path:
    folder.mkdir()
    record = {"kind": "CTC/attention recogniser", "size": made.size, "parts": parts}
    save_tensors(folder / "model.safetensors", made.state_dict(), record)
    return folder


def test_encoder_is_the_content_of_m1(tmp_path: Path) -> None:
    folder = write_recognizer(tmp_path / "recognizer", network(29))
    part = content_features(f"ctc-attention:{folder}")
    wave = synthetic_voice(seconds=0.6)
    found = part(wave)
    assert found.shape == (15, 24)
    assert (part.dimension, part.hop, part.offset) == (24, 640.0, 320.0)
    with pytest.raises(InputError, match="nowhere: no trained recognizer here"):
        content_features("ctc-attention:nowhere")
    made_for_another = write_decoder(tmp_path / "decoder")
    with pytest.raises(InputError, match="these weights were trained with another content: 'content moonshine"):
        system("m1", content=f"ctc-attention:{folder}", weights=str(made_for_another)).models()


def test_decoder_of_the_teacher_accepts_its_content(tmp_path: Path) -> None:
    """And no other decoder does; what it stands on has to be what it stood on in the training."""
    ours, theirs = (content_features(name).fingerprint() for name in ("moonshine:2", "moonshine"))
    made = CtcAttention(29, 288, channels=0, hidden=8, layers=1, width=288)
    folder = write_recognizer(tmp_path / "a", made, hears="moonshine:2", heard=ours, teacher=theirs)
    part, wave = content_features(f"ctc-attention:{folder}"), synthetic_voice(seconds=0.6)
    below = content_features("moonshine:2")
    assert (part.hop, part.offset, part.minimum) == (below.hop, below.offset, below.minimum)
    assert part(wave).shape == below(wave).shape
    decoder = write_decoder(tmp_path / "decoder")
    fits = system("m1", content=f"ctc-attention:{folder}", weights=str(decoder))
    assert fits.models()["content"] == part.fingerprint()
    assert len(fits.convert(wave, np.random.default_rng(0))) == len(wave)
    other = write_decoder(tmp_path / "other", content="content of somebody")
    with pytest.raises(InputError, match="these weights were trained with another content: 'content of somebody'"):
        system("m1", content=f"ctc-attention:{folder}", weights=str(other)).models()
    changed = write_recognizer(tmp_path / "b", made, hears="moonshine:3", heard=ours, teacher=theirs)
    with pytest.raises(InputError, match="trained on other content features: 'content moonshine"):
        content_features(f"ctc-attention:{changed}")


def test_shipped_networks_are_of_two_kinds() -> None:
    plain, masked = (content_features(name) for name in ("ctc-attention", "ctc-attention-masked"))
    assert plain.dimension == masked.dimension == 288
    assert plain.fingerprint() != masked.fingerprint()
    assert system("m1").models()["content"] == plain.fingerprint()
    assert system("m1c1").models()["content"] == masked.fingerprint()
