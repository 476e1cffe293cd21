"""Every network runs on the device that is asked for, and batches do not change results.

There is no graphics card here: a stand-in shows that nothing is pinned to the processor
(:mod:`tests.support.stand_in_device`). It computes with the same kernels, so that results are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tests.models.content.test_bottleneck import write_tdnnf  # noqa: E402
from tests.support import tiny_decoder  # noqa: E402
from tests.support.official_models import CHECKOUT  # noqa: E402
from tests.support.stand_in_device import stand_in  # noqa: E402
from tests.support.tiny_models import tiny_ctc, tiny_emotion, tiny_features, tiny_whisper  # noqa: E402
from voiceveil.audio import Waveform  # noqa: E402
from voiceveil.models.asr.recognition import recognizer, recognizers  # noqa: E402
from voiceveil.models.checkpoint import save_tensors  # noqa: E402
from voiceveil.models.content.features import content_encoder, content_encoders  # noqa: E402
from voiceveil.models.emotion.neural import EmotionModel, emotion_models  # noqa: E402
from voiceveil.models.nets.phone_encoder import PhoneEncoder, PhoneEncoderSize  # noqa: E402
from voiceveil.models.speaker.encoders import encoder, encoders  # noqa: E402
from voiceveil.models.speaker.networks import MODEL_KIND, MODELS, speaker_model  # noqa: E402
from voiceveil.models.speechbrain.emotion import SpeechBrainEmotionModel  # noqa: E402
from voiceveil.run.extract import BatchEvaluator, Evaluator  # noqa: E402
from voiceveil.systems.resynthesis.synthesis import load_stage, stages  # noqa: E402
from voiceveil.testing import synthetic_voice  # noqa: E402

#: Registered models that are no networks of torch: they run by ONNX Runtime, or in C, on the processor.
NO_TORCH = {"moonshine", "pocketsphinx"}
#: Width of the smallest network of each kind.
CHANNELS = {"ecapa": 16, "xvector": 16, "resnet34": 2, "campplus-tuned": 32}


def trained(folder: Path, kind: str) -> Path:
    """Write an encoder with random weights, as `voiceveil train asv` does."""
    torch.manual_seed(0)
    network = speaker_model(kind).network(CHANNELS[kind])
    record = {"kind": MODEL_KIND, "model": kind, "channels": CHANNELS[kind]}
    folder.mkdir(parents=True)
    save_tensors(folder / "model.safetensors", network.state_dict(), record)
    return folder


def phones(folder: Path) -> Path:
    """Write a phone encoder of one layer with random weights, as `voiceveil train phones` does."""
    torch.manual_seed(0)
    size = PhoneEncoderSize(layers=1)
    record = {"kind": "phone encoder", "size": asdict(size), "parts": {}}
    save_tensors(folder / "model.safetensors", PhoneEncoder(size).state_dict(), record)
    return folder


SPEAKER_MODELS: dict[str, Callable[[Path], Evaluator[Any]]] = {
    "campplus": lambda _: encoder("campplus"),
    "campplus-trunk": lambda _: encoder("campplus-trunk"),
    "words": lambda out: encoder(f"words:ctc:{tiny_ctc(out / 'ctc')}"),
    "concat": lambda _: encoder("concat:campplus+campplus-trunk"),
    "trained": lambda out: encoder(f"trained:{trained(out / 'ecapa', 'ecapa')}"),
    **{kind: lambda out, kind=kind: encoder(f"{kind}:{trained(out / kind, kind)}") for kind in MODELS},  # type: ignore[misc]
    "speechbrain": lambda _: encoder(f"speechbrain:{CHECKOUT / 'exp' / 'asv_anon_x'}"),
    "speechbrain-correct": lambda _: encoder(f"speechbrain-correct:{CHECKOUT / 'exp' / 'asv_anon_x' / 'CKPT+10'}"),
}
RECOGNIZERS: dict[str, Callable[[Path], Evaluator[Any]]] = {
    "ctc": lambda out: recognizer(f"ctc:{tiny_ctc(out / 'ctc')}"),
    "ctc, group norm": lambda out: recognizer(f"ctc:{tiny_ctc(out / 'ctc', norm='group')}"),
    "ctc, spectrogram": lambda out: recognizer(f"ctc:{tiny_features(out / 'ctc')}"),
    "vpc2024": lambda out: recognizer(f"vpc2024:{tiny_ctc(out / 'vpc2024')}"),
    "whisper": lambda out: recognizer(f"whisper:{tiny_whisper(out / 'whisper')}"),
    "speechbrain": lambda _: recognizer(f"speechbrain:{CHECKOUT / 'exp' / 'asr'}"),
    "speechbrain-correct": lambda _: recognizer(f"speechbrain-correct:{CHECKOUT / 'exp' / 'asr'}"),
}
EMOTION_MODELS: dict[str, Callable[[Path], Evaluator[Any]]] = {
    "a folder": lambda out: EmotionModel(tiny_emotion(out / "emotion")),
    "speechbrain": lambda _: SpeechBrainEmotionModel(CHECKOUT / "exp" / "ser" / "fold_1"),
    "speechbrain-correct": lambda _: SpeechBrainEmotionModel(CHECKOUT / "exp" / "ser" / "fold_1", "correct"),
}
CONTENT_ENCODERS: dict[str, Callable[[Path], Any]] = {
    "ssl": lambda out: content_encoder(f"ssl:{tiny_ctc(out / 'ssl')}"),
    "bottleneck": lambda out: content_encoder(
        f"bottleneck:{write_tdnnf(out / 'tdnnf', encoder('campplus').fingerprint())}"
    ),
    "phones": lambda out: content_encoder(f"phones:{phones(out)}"),
    "ctc-attention": lambda _: content_encoder("ctc-attention"),
    "ctc-attention-masked": lambda _: content_encoder("ctc-attention-masked"),
}
STAGES: dict[str, Callable[[Path], Path]] = {
    "source-filter decoder": tiny_decoder.write_decoder,
    "source-filter vocoder": tiny_decoder.write_vocoder,
    "intonation of words": lambda out: tiny_decoder.write_of_words(out, "intonation"),
    "voicing of words": lambda out: tiny_decoder.write_of_words(out, "voicing"),
    "durations of phones": tiny_decoder.write_durations,
    "acoustic model": lambda out: tiny_decoder.write_two_stages(out) / "am",
    "mel vocoder": lambda out: tiny_decoder.write_two_stages(out) / "nsf",
    "HiFi-GAN generator": lambda out: tiny_decoder.write_generator(out, "HiFi-GAN generator"),
    "hn-sinc-NSF generator": lambda out: tiny_decoder.write_generator(out, "hn-sinc-NSF generator"),
}
EVALUATORS = {
    f"{family}: {name}": make
    for family, models in {
        "encoder": SPEAKER_MODELS,
        "recognizer": RECOGNIZERS,
        "emotion": EMOTION_MODELS,
        "content": CONTENT_ENCODERS,
    }.items()
    for name, make in models.items()
}
#: Content features are extracted one by one; words and concatenations are made of the results of other models.
BATCHED = [name for name in EVALUATORS if not name.startswith("content") and name[9:] not in ("words", "concat")]


def test_every_registered_network_is_tested_here() -> None:
    for registry, tested in (
        (encoders, SPEAKER_MODELS),
        (recognizers, RECOGNIZERS),
        (emotion_models, EMOTION_MODELS),
        (content_encoders, CONTENT_ENCODERS),
        (stages, STAGES),
    ):
        shipped = {name for name in registry if registry[name].__module__.startswith("voiceveil.")}  # not of tests
        assert shipped - NO_TORCH <= set(tested)


@pytest.mark.parametrize("name", EVALUATORS)
def test_models_run_on_the_device(name: str, tmp_path: Path) -> None:
    """The device has no double precision, like Apple's."""
    model, wave = EVALUATORS[name](tmp_path), synthetic_voice(seconds=1.2)
    expected = model(wave)
    with stand_in(float64=False) as operations:
        result = model(wave)
    operations.check()
    assert_close(result, expected, 0.0)


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize("float64", [True, False])
def test_stages_of_synthesis_run_on_the_device(kind: str, float64: bool, tmp_path: Path) -> None:
    file, rng = STAGES[kind](tmp_path / "stage") / "model.safetensors", np.random.default_rng(0)
    content = rng.standard_normal((30, 80 if "vocoder" in kind else 288), dtype=np.float32)
    if kind == "durations of phones":
        content = rng.integers(40, size=30).astype(np.float32)
    f0 = np.where(np.arange(30) % 15 < 10, 120, 0).astype(np.float32)
    speaker = rng.standard_normal(192, dtype=np.float32)
    expected = load_stage(file, (kind,)).run(content, f0, speaker, np.random.default_rng(1))
    with stand_in(float64=float64) as operations:
        result = load_stage(file, (kind,)).run(content, f0, speaker, np.random.default_rng(1))
    operations.check()
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", BATCHED)
def test_batches_do_not_change_results(name: str, tmp_path: Path) -> None:
    """Transcripts are equal, embeddings and probabilities to 1e-4 of the largest value."""
    model = EVALUATORS[name](tmp_path)
    assert isinstance(model, BatchEvaluator)
    lengths = (1.0, 0.7, 1.0, 1.3, 1.0, 0.7)
    waves = [synthetic_voice(number, number, seconds=seconds) for number, seconds in enumerate(lengths)]
    waves[3] = Waveform(waves[3].samples[:-7], 16000)  # a length that is no multiple of anything
    expected = [model(wave) for wave in waves]
    for together, alone in zip(model.batch(waves), expected, strict=True):
        assert_close(together, alone, 1e-4)
    assert not list(model.batch([]))


def assert_close(result: Any, expected: Any, tolerance: float) -> None:
    """Compare embeddings, probabilities or transcripts; the tolerance is relative to the largest value."""
    if isinstance(expected, str):
        assert result == expected
        assert expected, "a transcript of nothing shows nothing"
        return
    if isinstance(expected, dict):
        assert list(result) == list(expected)
        result, expected = (np.array(list(values.values())) for values in (result, expected))
    assert type(result) is np.ndarray
    difference = np.abs(result.astype(np.float64) - expected).max()
    assert difference <= tolerance * np.abs(expected).max()
