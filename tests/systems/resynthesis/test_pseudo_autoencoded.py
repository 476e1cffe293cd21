"""S1 and S2 of VoicePrivacy 2020: adversarial branches take speaker and gender out of embeddings, and are trained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.support.pool import make_pool
from voiceveil.audio import save
from voiceveil.cli.main import main
from voiceveil.cli.train_autoencoder import labels_of
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.checkpoint import save_tensors
from voiceveil.models.nets.autoencoder import KIND, AdversarialAutoencoder, AutoencoderPlan, train_autoencoder
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.weights import store
from voiceveil.systems import system
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.systems.resynthesis.pool import Pool, load_pool
from voiceveil.systems.resynthesis.pseudo import PoolFarthest
from voiceveil.systems.resynthesis.pseudo_autoencoded import Autoencoded, AutoencodedFarthest, reconstructed
from voiceveil.testing import synthetic_voice

Array = NDArray[np.float32]


@pytest.fixture(scope="module")
def pool() -> Pool:
    return load_pool(store.path("pool"))


def utterances_of(pool: Pool, rows: NDArray[np.int64], each: int, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Embeddings about real speakers, at a cosine of about 0.64 to them, and the rows of their speakers."""
    rng, dimension = np.random.default_rng(seed), pool.embeddings.shape[1]
    speaker = np.repeat(rows, each)
    noise = 1.2 * rng.standard_normal((len(speaker), dimension)) / np.sqrt(dimension)
    made = np.array([l2_normalized(pool.embeddings[row]) for row in speaker]) + noise
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32), speaker


def speaker_probe(made: Array, speaker: NDArray[np.int64]) -> float:
    """How often the nearest mean of the first half of each speaker's utterances is the right one for the others."""
    names = np.unique(speaker)
    centered = made - made.mean(axis=0)
    half = np.concatenate([np.flatnonzero(speaker == name)[::2] for name in names])
    rest = np.setdiff1d(np.arange(len(made)), half)
    means = np.array([l2_normalized(centered[half][speaker[half] == name].mean(axis=0)) for name in names])
    return float(np.mean(names[np.argmax(centered[rest] @ means.T, axis=1)] == speaker[rest]))


def gender_probe(train: Array, train_male: NDArray[np.bool_], test: Array, test_male: NDArray[np.bool_]) -> float:
    """A linear classifier (ridge) that learned from other speakers."""
    inputs = np.c_[train, np.ones(len(train))].astype(np.float64)
    squares = inputs.T @ inputs + 1e-5 * len(inputs) * np.eye(inputs.shape[1])
    weights = np.linalg.solve(squares, inputs.T @ np.where(train_male, 1.0, -1.0))
    return float(np.mean((np.c_[test, np.ones(len(test))] @ weights > 0) == test_male))


def test_adversarial_branches_lower_a_speaker_and_a_gender_probe(pool: Pool) -> None:
    """On speakers that were not trained on, against the autoencoder without branches."""
    order = np.random.default_rng(0).permutation(len(pool))
    x, speaker = utterances_of(pool, order[:80], 6, 1)
    test, test_speaker = utterances_of(pool, order[80:160], 6, 2)
    male, test_male = pool.genders[speaker] == "m", pool.genders[test_speaker] == "m"
    labels = {"speaker": np.unique(speaker, return_inverse=True)[1].astype(np.int64), "gender": male.astype(np.int64)}
    found = {}
    for name, weight in (("plain", 0.0), ("adversarial", 2.0)):
        network, history = train_autoencoder(
            x, labels, {"speaker": weight, "gender": weight}, AutoencoderPlan(epochs=30)
        )
        with torch.inference_mode():
            seen, made = (network(torch.from_numpy(part)).numpy() for part in (x, test))
        seen, made = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (seen, made))
        found[name] = speaker_probe(made, test_speaker), gender_probe(seen, male, made, test_male)
        assert history["reconstruction"][-1] < history["reconstruction"][0]
    assert found["plain"][0] > 0.8  # 0.88 and 0.77 when this was written; 0.58 and 0.67 with the branches
    assert found["plain"][1] > 0.72
    assert found["adversarial"][0] < found["plain"][0] - 0.15
    assert found["adversarial"][1] < found["plain"][1] - 0.05


def test_numpy_network_equals_torch_network(tmp_path: Path) -> None:
    network = AdversarialAutoencoder(6, hidden=8, code=5, branches={"speaker": 3}).eval()
    network.scale.fit(torch.randn(50, 6) * 3 + 1)
    file = tmp_path / "model.safetensors"
    save_tensors(file, network.shipped_state(), {"kind": KIND, "size": network.size, "parts": {"speaker": "encoder 1"}})
    source = np.arange(6, dtype=np.float32) - 2
    with torch.inference_mode():
        expected = l2_normalized(network(torch.from_numpy(l2_normalized(source))[None])[0].numpy())
    np.testing.assert_allclose(reconstructed(file, source), expected, atol=1e-5)
    made = make_pool()
    Autoencoded(str(tmp_path)).check(made)
    drawn = Autoencoded(str(tmp_path)).draw(source, "f", made, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.embedding, expected, atol=1e-5)
    # S1: behind B1's average, with the same draw.
    average = PoolFarthest("cosine", "same", 6, 3).draw(source, "f", made, np.random.default_rng(4))
    behind = AutoencodedFarthest("cosine", "same", 6, 3, str(tmp_path)).draw(
        source, "f", made, np.random.default_rng(4)
    )
    np.testing.assert_allclose(behind.embedding, reconstructed(file, average.embedding), atol=1e-6)
    assert behind.log_f0 == average.log_f0


def test_network_of_other_embeddings_is_rejected(tmp_path: Path) -> None:
    network = AdversarialAutoencoder(6, hidden=8, code=5)
    record = {"kind": KIND, "size": network.size, "parts": {"speaker": "encoder 7"}}
    save_tensors(tmp_path / "model.safetensors", network.shipped_state(), record)
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
    assert card["figures"]["speaker probe"] < card["figures"]["speaker probe, plain autoencoder"]
    assert card["figures"]["gender probe"] < card["figures"]["gender probe, plain autoencoder"]


@pytest.mark.parametrize("name", ["s1", "s1c1", "s2", "s2c1"])
def test_systems_use_their_networks(name: str) -> None:
    made = system(name)
    assert isinstance(made, Resynthesis)
    strategy = made.chosen_strategy()
    assert isinstance(strategy, Autoencoded | AutoencodedFarthest)
    assert strategy.files() == {"autoencoder": store.path(name[:2])}


def test_missing_labels_are_minus_one_and_empty_branches_are_omitted() -> None:
    spoken = [
        Utterance(f"u{i}", Path("x.wav"), speaker, gender)
        for i, (speaker, gender) in enumerate([("a", "f"), ("a", "f"), ("b", None), ("b", None), ("c", "m")])
    ]
    labels = labels_of(spoken, {})
    assert {name: values.tolist() for name, values in labels.items()} == {
        "speaker": [0, 0, 1, 1, -1],
        "gender": [0, 0, -1, -1, 1],
    }
    assert labels_of(spoken, {"a": "Scottish", "c": "Irish"})["accent"].tolist() == [1, 1, -1, -1, 0]


def test_train_command_writes_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for speaker in range(2):
        for number in range(2):
            save(tmp_path / "data" / f"s{speaker}" / f"u{number}.wav", synthetic_voice(speaker, number, seconds=0.6))
    command = ["train", "autoencoder", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out"), "--quiet"]
    assert main([*command, "--epochs", "2"]) == 0
    said = capsys.readouterr().out
    assert "no labels of gender: that branch is left out" in said
    assert "no labels of accent: that branch is left out" in said
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["left_out"] == ["gender", "accent"]
    accents = tmp_path / "accents"
    accents.write_text("s0 Irish\ns1\n")
    assert main([*command, "--accents", str(accents)]) == 1
    assert "accents:2: no accent (write `<speaker> <accent>`)" in capsys.readouterr().err
    assert main([*command, "--branches", "1,2"]) == 1
    assert "--branches 1,2: three weights of 0 or more are needed" in capsys.readouterr().err
