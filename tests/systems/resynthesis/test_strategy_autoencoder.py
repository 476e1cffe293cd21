"""S1 and S2 of VoicePrivacy 2020: pseudo-speakers by an autoencoder of embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.pool import make_pool
from voiceveil.core.errors import InputError
from voiceveil.models.checkpoint import save_tensors
from voiceveil.models.nets.autoencoder import KIND, AdversarialAutoencoder
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.weights import store
from voiceveil.systems import system
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.systems.resynthesis.strategies import PoolFarthest
from voiceveil.systems.resynthesis.strategy_autoencoder import Autoencoded, AutoencodedFarthest, reconstruct


def test_numpy_network_equals_torch_network(tmp_path: Path) -> None:
    network = AdversarialAutoencoder(6, hidden=8, code=5, branches={"speaker": 3}).eval()
    network.scale.fit(torch.randn(50, 6) * 3 + 1)
    file = tmp_path / "model.safetensors"
    save_tensors(
        file, network.inference_state(), {"kind": KIND, "size": network.size, "parts": {"speaker": "encoder 1"}}
    )
    source = np.arange(6, dtype=np.float32) - 2
    with torch.inference_mode():
        expected = l2_normalized(network(torch.from_numpy(l2_normalized(source))[None])[0].numpy())
    np.testing.assert_allclose(reconstruct(file, source), expected, atol=1e-5)
    pool = make_pool()
    Autoencoded(str(tmp_path)).check(pool)
    drawn = Autoencoded(str(tmp_path)).draw(source, "f", pool, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.embedding, expected, atol=1e-5)
    # S1: behind B1's average, with the same draw.
    average = PoolFarthest("cosine", "same", 6, 3).draw(source, "f", pool, np.random.default_rng(4))
    behind = AutoencodedFarthest("cosine", "same", 6, 3, str(tmp_path)).draw(
        source, "f", pool, np.random.default_rng(4)
    )
    np.testing.assert_allclose(behind.embedding, reconstruct(file, average.embedding), atol=1e-6)
    assert behind.log_f0 == average.log_f0


def test_network_of_other_embeddings_is_rejected(tmp_path: Path) -> None:
    network = AdversarialAutoencoder(6, hidden=8, code=5)
    record = {"kind": KIND, "size": network.size, "parts": {"speaker": "encoder 7"}}
    save_tensors(tmp_path / "model.safetensors", network.inference_state(), record)
    with pytest.raises(InputError, match="for another speaker encoder: 'encoder 7', not 'encoder 1'"):
        Autoencoded(str(tmp_path)).check(make_pool())
    with pytest.raises(InputError, match="no autoencoder here"):
        Autoencoded(str(tmp_path / "nothing")).check(make_pool())


@pytest.mark.parametrize("name", ["s1", "s2"])
def test_shipped_networks_are_small_and_have_cards(name: str) -> None:
    card = store.card(name)
    assert card["kind"] == KIND
    assert card["bytes"] < 2_000_000
    assert set(card["architecture"]["branches"]) == {"speaker", "gender"}
    assert card["training_data"]["speakers"] == 228  # 33 more have one piece each
    for probe in ("speaker probe", "gender probe"):  # a logistic regression and a perceptron
        figures, plain = card["figures"][probe], card["figures"][f"{probe}, plain autoencoder"]
        assert all(figure < before - 0.05 for figure, before in zip(figures, plain, strict=True))


@pytest.mark.parametrize("name", ["s1", "s1c1", "s2", "s2c1"])
def test_systems_use_their_networks(name: str) -> None:
    anonymizer = system(name)
    assert isinstance(anonymizer, Resynthesis)
    strategy = anonymizer.chosen_strategy()
    assert isinstance(strategy, Autoencoded | AutoencodedFarthest)
    assert strategy.files() == {"autoencoder": store.path(name[:2])}
