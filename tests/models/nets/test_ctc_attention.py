"""The recognizer of M1 and M1c1: training on tokens and on a teacher, lengths, speaker masking, use as content."""

from __future__ import annotations

from dataclasses import asdict
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
from voiceveil.models.content.features import content_encoder, normalize_content  # noqa: E402
from voiceveil.models.nets.ctc_attention import CtcAttention, CtcAttentionSize  # noqa: E402
from voiceveil.run.context import RunContext  # noqa: E402
from voiceveil.systems import system  # noqa: E402
from voiceveil.testing import synthetic_voice  # noqa: E402
from voiceveil.training.ctc_attention_task import CtcAttentionTask, standardized_content  # noqa: E402
from voiceveil.training.network_recipes import Dimensions, network_recipe  # noqa: E402
from voiceveil.training.recognition_data import RecognitionData, SpeechBatch  # noqa: E402

TINY = {"channels": 4, "hidden": 24, "layers": 1, "width": 24}


def network(outputs: int = 6, **size: int) -> CtcAttention:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return CtcAttention(CtcAttentionSize(outputs, **{**TINY, **size}))


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
    batch, recognizer = speech(), network().eval()
    frames = torch.from_numpy(batch.frames)
    other = batch.features.copy()
    other[1, 43:] += 5
    recognizer.requires_grad_(False)
    with torch.no_grad():
        first, second = (recognizer.content(torch.from_numpy(f), frames) for f in (batch.features, other))
    rows = recognizer.output_lengths(frames)
    assert rows.tolist() == [13, 11, 13]
    assert first.shape == (3, 13, 24)
    np.testing.assert_allclose(first[1, :11], second[1, :11], atol=1e-6)
    tokens = [torch.from_numpy(t) for t in batch.tokens]
    together = recognizer.losses(first, frames, tokens)
    alone = [recognizer.losses(first[i : i + 1, : rows[i]], frames[i : i + 1], tokens[i : i + 1]) for i in range(3)]
    counts = [len(t) for t in tokens]
    ctc = sum(float(a[0]) * n for a, n in zip(alone, counts, strict=True)) / sum(counts)
    spelling = sum(float(a[1]) * (n + 1) for a, n in zip(alone, counts, strict=True)) / (sum(counts) + 3)
    assert float(together[0]) == pytest.approx(ctc, rel=1e-4)
    assert float(together[1]) == pytest.approx(spelling, rel=1e-4)


def test_masking_hides_the_speaker_from_the_adversary() -> None:
    """After the same steps, the adversary predicts less of the speakers (mean square of cosines)."""
    batch, leakage = speech(), {}
    for weight in (1e-6, 3.0):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            task = CtcAttentionTask(network(), adversary_loss=weight, speaker=8)
        for group in task.optimizer.param_groups:
            group["lr"] = 5e-3
        for i in range(40):
            task.step(batch, np.random.default_rng(i))
        with torch.inference_mode():
            content, _ = task.content_and_loss(batch)
            leakage[weight] = float(task.speaker_leakage(content, batch))
    assert leakage[1e-6] > 0.9
    assert leakage[3.0] < 0.7 * leakage[1e-6]


def test_adversary_input_equals_the_synthesizer_input() -> None:
    """Content is standardized over each utterance, and padding is 0."""
    content = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 13, 24), dtype=np.float32)) * 3 + 2
    task = CtcAttentionTask(network())
    mask = task.mask(content, speech())
    assert mask.sum(dim=1).flatten().tolist() == [13, 11, 13]
    np.testing.assert_allclose(
        standardized_content(content, mask)[1, :11], normalize_content(content[1, :11].numpy()), atol=1e-4
    )
    np.testing.assert_array_equal(standardized_content(content, mask)[1, 11:], 0)


# --- A teacher ----------------------------------------------------------------------------------------------------


def test_learns_the_features_of_its_teacher() -> None:
    rng = np.random.default_rng(0)
    teacher_content = tuple(rng.standard_normal((rows, 24), dtype=np.float32) for rows in (13, 11, 13))
    batch = speech()._replace(teacher_content=teacher_content)
    correlation = {}
    for weight in (0.0, 5.0):
        task = CtcAttentionTask(network(hidden=48))
        task.teacher_loss = weight
        task.network.feature_scale.fit(torch.from_numpy(batch.features))
        for group in task.optimizer.param_groups:
            group["lr"] = 1e-2
        for i in range(60):
            task.step(batch, np.random.default_rng(i))
        with torch.inference_mode():
            content = task.content_and_loss(batch)[0]
            correlation[weight] = 1 - float(task.teacher_distance(content, batch))
            expected = [np.corrcoef(content[1, :11, d], teacher_content[1][:, d])[0, 1] for d in range(24)]
            alone = CtcAttentionTask(task.network)
            second = batch._replace(frames=batch.frames[1:2], teacher_content=teacher_content[1:2])
            assert 1 - float(alone.teacher_distance(content[1:2, :11], second)) == pytest.approx(
                float(np.mean(expected)), abs=1e-3
            )
    assert abs(correlation[0.0]) < 0.3
    assert correlation[5.0] > 0.6


def test_utterances_without_text_train_imitation_alone() -> None:
    rng = np.random.default_rng(0)
    teacher = tuple(rng.standard_normal((rows, 24), dtype=np.float32) for rows in (13, 11, 13))
    batch = speech()._replace(teacher_content=teacher)
    silent = batch._replace(tokens=(batch.tokens[0], np.zeros(0, np.int64), batch.tokens[2]))
    task = CtcAttentionTask(network())
    task.teacher_loss = 3.0
    with torch.inference_mode():
        content, loss = task.content_and_loss(silent)
        rows = [0, 2]
        tokens = [torch.from_numpy(batch.tokens[row]) for row in rows]
        recognition = task.network.losses(content[rows], torch.from_numpy(batch.frames[rows]), tokens)
        distance = task.teacher_distance(content, batch)
        assert float(loss) == pytest.approx(float(sum(recognition) / 2 + 3 * distance), rel=1e-5)
        empty = batch._replace(tokens=(np.zeros(0, np.int64),) * 3)
        assert float(task.content_and_loss(empty)[1]) == pytest.approx(float(3 * distance), rel=1e-5)


class Ramp:
    """Content features whose values are their position: the sample at the center of a vector, in thousands."""

    rate, minimum, dimension = 16000, 0.05, 2

    def __init__(self, hop: float, offset: float) -> None:
        self.hop, self.offset = hop, offset

    def fingerprint(self) -> str:
        return f"ramp {self.hop} {self.offset}"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        at = np.arange(self.offset, len(wave.samples) - self.offset, self.hop) / 1000
        return np.stack([at, at**2], axis=1).astype(np.float16)


@pytest.mark.parametrize("input_features", [None, Ramp(500.0, 300.0)], ids=["MFCC", "another network"])
def test_teacher_features_are_aligned_with_content_frames(input_features: Ramp | None, tmp_path: Path) -> None:
    save(tmp_path / "u.wav", synthetic_voice(seconds=1.6))
    utterance = Utterance("u", tmp_path / "u.wav", speaker="s", text="OH")
    teacher = Ramp(384.0, 400.0)
    data = RecognitionData([utterance], RunContext(), seed=0, input_features=input_features, teacher=teacher)
    batch = data.batch(0, 4)
    hop, offset = (640.0, 320.0) if input_features is None else (input_features.hop, input_features.offset)
    (aligned,) = batch.teacher_content
    features = 40 if input_features is None else 2
    assert batch.features.shape == (1, batch.frames[0], features)
    assert len(aligned) == (40 if input_features is None else batch.frames[0])
    assert batch.samples.size == pytest.approx(1.6 * 16000, abs=2 * hop)
    expected = teacher(synthetic_voice(seconds=1.6)).astype(np.float32)
    times = np.clip(offset + hop * np.arange(len(aligned)), 400, 400 + 384 * (len(expected) - 1)) / 1000
    np.testing.assert_allclose(aligned[:, 0], (times - expected[:, 0].mean()) / expected[:, 0].std(), atol=5e-3)
    assert batch.utterance.shape == (1, 0)


class Voice:
    """A speaker encoder that returns the same embedding for every recording."""

    rate, minimum = 16000, 0.05

    def fingerprint(self) -> str:
        return "voice 1"

    def __call__(self, wave: Waveform) -> NDArray[np.float32]:
        return np.array([3.0, 4.0], dtype=np.float32)


def test_utterances_without_text_need_a_teacher_and_embeddings(tmp_path: Path) -> None:
    save(tmp_path / "u.wav", synthetic_voice(seconds=1.6))
    texts = ["OH", None, ""]
    utterances = [Utterance(f"u{i}", tmp_path / "u.wav", speaker="s", text=text) for i, text in enumerate(texts)]
    teacher, features = Ramp(384.0, 400.0), Ramp(500.0, 300.0)
    data = RecognitionData(utterances, RunContext(), seed=0, speaker=Voice(), input_features=features, teacher=teacher)
    assert len(data.training) + len(data.validation) == 3
    assert sorted(len(t) for batch in (data.batch(0, 2), *data.validation_batches(1)) for t in batch.tokens) == [
        0,
        0,
        2,
    ]
    for given in ({"speaker": Voice()}, {"teacher": teacher}):
        alone = RecognitionData(utterances, RunContext(), seed=0, **given)
        assert [u.id for u in alone.training] == ["u0"]
    with pytest.raises(InputError, match="no utterance has text"):
        RecognitionData(utterances[1:], RunContext(), seed=0, speaker=Voice(), teacher=teacher)


def test_without_convolutions_frames_correspond_one_to_one() -> None:
    recognizer = CtcAttention(CtcAttentionSize.on_features(29, 12, 288)).eval()
    assert CtcAttentionSize(**asdict(recognizer.size)) == recognizer.size
    frames = torch.tensor([9, 7])
    with torch.no_grad():
        content = recognizer.content(torch.randn(2, 9, 12), frames)
    assert content.shape == (2, 9, 288)
    assert recognizer.output_lengths(frames).tolist() == [9, 7]


def test_published_and_small_sizes() -> None:
    sizes = {}
    for name in ("ctc-attention", "ctc-attention-masked"):
        task = network_recipe(name).task(Dimensions(29, 192), "small", 0, "cpu")
        assert task.record()["width"] == 128
        sizes[name] = sum(p.numel() for p in task.modules.parameters())
    assert sizes["ctc-attention"] < 1.5e6 < sizes["ctc-attention-masked"] * 2
    dimensions = Dimensions(29, 0, input_features=288, teacher=300)
    size = network_recipe("ctc-attention").task(dimensions, "small", 0, "cpu").record()
    assert (size["features"], size["width"], size["channels"]) == (288, 300, 0)
    with torch.device("meta"):
        published = CtcAttention(CtcAttentionSize(29))
    assert published.size.layers == 5
    assert sum(p.numel() for p in published.parameters()) > 80e6


# --- As content ---------------------------------------------------------------------------------------------------


def write_recognizer(folder: Path, recognizer: CtcAttention, **parts: str) -> Path:
    folder.mkdir()
    record = {"kind": "CTC/attention recogniser", "size": asdict(recognizer.size), "parts": parts}
    save_tensors(folder / "model.safetensors", recognizer.state_dict(), record)
    return folder


def test_encoder_is_the_content_of_m1(tmp_path: Path) -> None:
    folder = write_recognizer(tmp_path / "recognizer", network(29))
    part = content_encoder(f"ctc-attention:{folder}")
    wave = synthetic_voice(seconds=0.6)
    content = part(wave)
    assert content.shape == (15, 24)
    assert (part.dimension, part.hop, part.offset) == (24, 640.0, 320.0)
    with pytest.raises(InputError, match="nowhere: there is no trained recognizer here"):
        content_encoder("ctc-attention:nowhere")
    made_for_another = write_decoder(tmp_path / "decoder")
    with pytest.raises(InputError, match="these weights were trained with another content: 'content moonshine"):
        system("m1", content=f"ctc-attention:{folder}", weights=str(made_for_another)).models()


def test_decoder_of_the_teacher_accepts_its_content(tmp_path: Path) -> None:
    """Other decoders do not accept it, and its input features must be those of its training."""
    input_features, imitated = (content_encoder(name).fingerprint() for name in ("moonshine:2", "moonshine"))
    recognizer = CtcAttention(CtcAttentionSize(29, 288, channels=0, hidden=8, layers=1, width=288))
    folder = write_recognizer(tmp_path / "a", recognizer, hears="moonshine:2", heard=input_features, teacher=imitated)
    part, wave = content_encoder(f"ctc-attention:{folder}"), synthetic_voice(seconds=0.6)
    below = content_encoder("moonshine:2")
    assert (part.hop, part.offset, part.minimum) == (below.hop, below.offset, below.minimum)
    assert part(wave).shape == below(wave).shape
    decoder = write_decoder(tmp_path / "decoder")
    converter = system("m1", content=f"ctc-attention:{folder}", weights=str(decoder))
    assert converter.models()["content"] == part.fingerprint()
    assert len(converter.convert(wave, np.random.default_rng(0))) == len(wave)
    other = write_decoder(tmp_path / "other", content="content of somebody")
    with pytest.raises(InputError, match="these weights were trained with another content: 'content of somebody'"):
        system("m1", content=f"ctc-attention:{folder}", weights=str(other)).models()
    changed = write_recognizer(tmp_path / "b", recognizer, hears="moonshine:3", heard=input_features, teacher=imitated)
    with pytest.raises(InputError, match="trained on other content features: 'content moonshine"):
        content_encoder(f"ctc-attention:{changed}")


def test_shipped_networks_are_of_two_kinds() -> None:
    plain, masked = (content_encoder(name) for name in ("ctc-attention", "ctc-attention-masked"))
    assert plain.dimension == masked.dimension == 288
    assert plain.fingerprint() != masked.fingerprint()
    assert system("m1").models()["content"] == plain.fingerprint()
    assert system("m1c1").models()["content"] == masked.fingerprint()
