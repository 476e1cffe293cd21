"""The weights that ship: complete cards, hashes, total size, presence in the wheel."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripts import ship_weights

from tests.support.paths import ROOT
from tests.support.tiny_decoder import write_decoder
from voiceveil.core.errors import InputError
from voiceveil.models.checkpoint import load_tensors
from voiceveil.models.weights import store
from voiceveil.run.ledger import sha256_file
from voiceveil.systems import systems
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.systems.resynthesis.pool import load_pool, save_pool


@pytest.mark.parametrize("name", store.names())
def test_every_card_is_complete_and_its_hash_matches(name: str) -> None:
    card = store.card(name)
    assert card["name"] == name
    for key in ("kind", "data", "licence", "command", "sha256", "bytes", "figures"):
        assert card[key], f"{name}: {key}"
    assert {"architecture", "training_hours"} <= card.keys() or "speakers" in card
    path = store.path(name)
    assert (sha256_file(path), path.stat().st_size) == (card["sha256"], card["bytes"])


def test_all_weights_have_cards_and_a_limited_size() -> None:
    files = list(store.FOLDER.glob("*.safetensors"))
    assert sorted(file.stem for file in files) == store.names()
    assert sum(file.stat().st_size for file in files) < 45e6


def test_wheel_contains_the_weights() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["voiceveil"]
    packed = {path for pattern in patterns for path in (ROOT / "src" / "voiceveil").glob(pattern)}
    assert packed >= {*store.FOLDER.glob("*.safetensors"), *store.FOLDER.glob("cards/*.json")}


def test_notice_attributes_all_training_data() -> None:
    """The notice has author, source, license and changes for each file, and is in the wheel."""
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    licences = {store.card(name)["licence"].removeprefix("LibriSpeech, ") for name in store.names()}
    assert licences == {"CC BY 4.0"}, "a new licence has to be added to the notice"
    assert all("LibriSpeech" in store.card(name)["data"] for name in store.names())
    for words in ("Panayotov", "Chen", "Povey", "Khudanpur", "openslr.org/12", "creativecommons.org/licenses/by/4.0"):
        assert words in notice
    for name in store.names():
        assert f"{name}.safetensors" in notice
    assert "signal/voices.tsv" in notice
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["license-files"] == ["LICENSE", "NOTICE"]


def test_weights_named_by_systems_are_shipped() -> None:
    for name in systems:
        cls = systems[name]
        if issubclass(cls, Resynthesis) and cls.shipped:
            assert {"-".join(filter(None, (cls.shipped, stage))) for stage in cls.stages} <= set(store.names())
            for amount, name in (("predicted_f0_weight", "intonation"), ("voicing", "voicing")):
                assert not getattr(cls().prosody(), amount) or f"{cls.shipped}-{name}" in store.names()


def test_shipped_pool_is_valid() -> None:
    pool = load_pool(store.path("pool"))
    assert {gender: len(pool.of_gender(gender)) for gender in "fm"} == {"f": 130, "m": 131}
    assert pool.embeddings.dtype == np.float32
    assert np.mean([pool.gender_of(e) == g for e, g in zip(pool.embeddings, pool.genders, strict=True)]) > 0.95
    mean = {gender: np.exp(pool.log_f0[pool.of_gender(gender)].mean()) for gender in "fm"}
    assert 100 < mean["m"] < 140 < 170 < mean["f"] < 220


def test_shipped_voices_have_no_names_and_a_random_order() -> None:
    """Ids are numbers, the order of rows depends only on the voices, and there are no ids of utterances."""
    pool = load_pool(store.path("pool"))
    assert pool.ids == tuple(f"voice-{number:03d}" for number in range(1, len(pool) + 1))
    hashes = [hashlib.sha256(row.astype(np.float16).tobytes()).digest() for row in pool.embeddings]
    assert hashes == sorted(hashes)
    lines = (ROOT / "src" / "voiceveil" / "systems" / "signal" / "voices.tsv").read_text().splitlines()[1:]
    assert lines == sorted(lines)
    for file in store.FOLDER.rglob("*"):
        if file.is_file() and file.suffix != ".pyc":  # bytecode holds the path of its source and does not ship
            header = file.read_bytes()[: 1 << 14] if file.suffix == ".safetensors" else file.read_bytes()
            assert not re.search(rb"\d{2,4}-\d{4,6}-\d{4}|/(home|root|work|data)/|SPEAKERS", header), file.name


def test_pool_is_shipped_without_names(tmp_path: Path) -> None:
    named = replace(load_pool(store.path("pool")), ids=tuple(str(1000 + row) for row in range(261)))
    save_pool(tmp_path / "pool.safetensors", named)
    ship_weights.ship(tmp_path / "pool.safetensors", tmp_path / "shipped.safetensors")
    assert sha256_file(tmp_path / "shipped.safetensors") == store.card("pool")["sha256"], "whatever the names were"
    content = (tmp_path / "shipped.safetensors").read_bytes()
    assert not any(f'"{id}"'.encode() in content for id in named.ids)


def test_changed_missing_and_unknown_weights_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    (tmp_path / "cards").mkdir()
    file = tmp_path / "voice.safetensors"
    file.write_bytes(b"weights")
    (tmp_path / "cards" / "voice.json").write_text(json.dumps({"sha256": sha256_file(file)}))
    assert store.path("voice") == file
    file.write_bytes(b"otherwise")
    with pytest.raises(InputError) as caught:
        store.path("voice")
    assert str(caught.value) == (
        f"{file}: the weights were changed: their sha256 begins with {sha256_file(file)[:12]}, "
        f"it should begin with {store.card('voice')['sha256'][:12]} (install voiceveil again)"
    )
    file.unlink()
    with pytest.raises(InputError) as caught:
        store.path("voice")
    assert str(caught.value) == f"{file}: the weights are missing (install voiceveil again)"
    with pytest.raises(InputError, match=r"no weights named 'voise' ship with voiceveil \(did you mean voice\?\)"):
        store.path("voise")


def test_shipping_halves_the_size_reproducibly(tmp_path: Path) -> None:
    model = write_decoder(tmp_path) / "model.safetensors"
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    ship_weights.ship(model, first)
    ship_weights.ship(model, second)
    assert first.read_bytes() == second.read_bytes()
    full, record = load_tensors(model, "source-filter decoder")
    half, same = load_tensors(first, "source-filter decoder")
    assert record == same
    for name, tensor in full.items():
        assert half[name].element_size() == 2
        np.testing.assert_allclose(half[name].float(), tensor, rtol=1e-3, atol=1e-6)
