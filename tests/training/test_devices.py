"""Every training runs on the device that is asked for: a step of each on a stand-in for a graphics card."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tests.models.test_devices import CHANNELS  # noqa: E402
from tests.support.installed import needs  # noqa: E402
from tests.support.stand_in_device import NAME, StandInTensor, stand_in  # noqa: E402
from tests.support.tiny_models import tiny_ctc, tiny_wav2vec2  # noqa: E402
from tests.support.tiny_tasks import KINDS, Crops, Utterances, task  # noqa: E402
from voiceveil.attack.backends import MarginSoftmax  # noqa: E402
from voiceveil.audio import save  # noqa: E402
from voiceveil.corpus import Corpus, Utterance  # noqa: E402
from voiceveil.models.nets.phone_encoder import PhoneEncoderSize  # noqa: E402
from voiceveil.testing import synthetic_voice  # noqa: E402
from voiceveil.training.asr import CtcRecipe, train_and_measure, trainable_recognizer  # noqa: E402
from voiceveil.training.asv import AsvSettings, train_asv  # noqa: E402
from voiceveil.training.autoencoder import AutoencoderSettings, fit_autoencoder  # noqa: E402
from voiceveil.training.network_recipes import NETWORK_RECIPES  # noqa: E402
from voiceveil.training.phone_data import PhoneBatch  # noqa: E402
from voiceveil.training.phone_task import PhoneTask  # noqa: E402
from voiceveil.training.ser import SerSettings, train_ser  # noqa: E402
from voiceveil.training.training_run import TrainingRun  # noqa: E402


def speech(folder: Path, *, speakers: int, utterances: int, first: int = 0) -> Iterator[Utterance]:
    """Yield utterances of 0.6 s with texts and emotions; each speaker is a fold."""
    for speaker in range(speakers):
        for number in range(utterances):
            path = folder / f"s{speaker}-{number}.wav"
            save(path, synthetic_voice(first + speaker, number, seconds=0.6))
            emotion = ("neu", "ang", "hap", "sad")[number % 4]
            yield Utterance(
                f"{first}{path.stem}", path, f"s{first + speaker}", "f", "A B", emotion=emotion, fold=str(speaker)
            )


@pytest.mark.parametrize("name", KINDS)
def test_networks_are_trained_on_the_device(name: str) -> None:
    data: Any = Utterances() if name in ("tdnnf", "ctc-attention-masked") else Crops()
    data.batch = cache(data.batch)  # made before the training is counted

    def step(device: str) -> tuple[float, Any]:
        training = task(name, device)
        training.prepare(data)
        torch.manual_seed(1)  # of dropout
        return training.step(data.batch(1, 16), np.random.default_rng(0)), training

    expected, _ = step("cpu")
    with stand_in(float64=False) as operations:
        loss, training = step(NAME)
        operations.check()
        assert all(isinstance(parameter.data, StandInTensor) for parameter in training.modules.parameters())
    assert loss == pytest.approx(expected, rel=1e-5)


def test_every_network_is_tested_here() -> None:
    """A source-filter decoder is trained like veil's, a recognizer like a masked one; phones have their own tests."""
    assert set(NETWORK_RECIPES) - set(KINDS) == {"source-filter", "ctc-attention", "phones", "durations"}


@needs("moonshine_voice", "onnxruntime")
def test_the_phone_encoder_is_trained_on_the_device() -> None:
    samples = np.stack([synthetic_voice(speaker, 0, seconds=0.3).samples for speaker in (0, 1)])

    def step(device: str) -> float:
        training = PhoneTask(PhoneEncoderSize(layers=1), device=device)
        with torch.no_grad():
            outputs = training.network(torch.from_numpy(samples).to(device)).shape[1]
        return training.step(PhoneBatch(samples, np.ones((2, outputs), np.int64)), np.random.default_rng(0))

    expected = step("cpu")
    with stand_in(float64=False) as operations:
        assert step(NAME) == pytest.approx(expected, rel=1e-5)
    operations.check()


@pytest.mark.parametrize(("model", "recipe"), [*((name, "fixed") for name in CHANNELS), ("ecapa", "official")])
def test_speaker_encoders_are_trained_on_the_device(model: str, recipe: str, tmp_path: Path) -> None:
    validated = 2 if model == "ecapa" and recipe == "fixed" else 0
    corpus = Corpus("speech", tuple(speech(tmp_path, speakers=2 + validated, utterances=2)))
    settings = AsvSettings(model, recipe, 1, 4, 0.5, CHANNELS[model], validated)
    expected = train_asv([corpus], tmp_path / "cpu", settings, TrainingRun("cpu"))
    with stand_in(float64=False) as operations:
        record = train_asv([corpus], tmp_path / "device", settings, TrainingRun(NAME))
    operations.check()
    assert record["device"] == NAME
    assert record["curve"][0]["loss"] == pytest.approx(expected["curve"][0]["loss"], rel=1e-4)


def test_emotion_models_are_trained_on_the_device(tmp_path: Path) -> None:
    corpora = [
        Corpus(name, tuple(speech(tmp_path / name, speakers=2, utterances=4, first=first)))
        for first, name in ((0, "dev"), (2, "test"))
    ]
    settings = SerSettings(str(tiny_wav2vec2(tmp_path / "wav2vec2")), epochs=1, batch_size=4)
    expected = train_ser(corpora, tmp_path / "cpu", settings, TrainingRun("cpu"))
    with stand_in(float64=False) as operations:
        record = train_ser(corpora, tmp_path / "device", settings, TrainingRun(NAME))
    operations.check()
    for fold, trained in record["folds"].items():
        assert trained["device"] == NAME
        assert trained["curve"][0]["loss"] == pytest.approx(expected["folds"][fold]["curve"][0]["loss"], rel=1e-4)


def test_the_autoencoder_is_trained_on_the_device() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((24, 12)).astype(np.float32)
    labels = {"speaker": np.repeat(np.arange(4), 6), "gender": np.tile([0, 1], 12)}
    settings = AutoencoderSettings(epochs=2, batch=8)
    _, expected = fit_autoencoder(vectors, labels, settings)
    with stand_in(float64=False) as operations:
        network, history = fit_autoencoder(vectors, labels, settings)
        operations.check()
        assert all(isinstance(parameter.data, StandInTensor) for parameter in network.parameters())
    assert history["reconstruction"] == pytest.approx(expected["reconstruction"], rel=1e-5)


def test_recognizers_are_trained_on_the_device(tmp_path: Path) -> None:
    corpus = Corpus("speech", tuple(speech(tmp_path, speakers=1, utterances=2)))
    recognizer = trainable_recognizer(str(tiny_ctc(tmp_path / "ctc")))
    recipe = CtcRecipe(epochs=1, batch_seconds=3.0)
    expected = train_and_measure(recognizer, corpus, tmp_path / "cpu", recipe, TrainingRun("cpu"))
    with stand_in(float64=False) as operations:
        training = train_and_measure(recognizer, corpus, tmp_path / "device", recipe, TrainingRun(NAME))
    operations.check()
    assert training.losses == pytest.approx(expected.losses, rel=1e-4)


def test_the_neural_back_end_learns_on_the_device() -> None:
    embeddings, speakers = np.random.default_rng(0).standard_normal((30, 8)), np.repeat(np.arange(6), 5)
    expected = MarginSoftmax(steps=5).fit(embeddings, speakers)
    with stand_in(float64=False) as operations:
        scorer = MarginSoftmax(steps=5).fit(embeddings, speakers)
    operations.check()
    assert scorer.matrix is not None
    assert expected.matrix is not None
    np.testing.assert_allclose(scorer.matrix, expected.matrix, rtol=1e-4, atol=1e-6)
