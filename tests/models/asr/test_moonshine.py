"""Moonshine on real speech: recordings inside its wheel, and LibriSpeech where it is available."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import voiceveil as vv
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import Waveform, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.asr import moonshine
from voiceveil.models.asr.moonshine import Moonshine, repetition
from voiceveil.models.asr.recognition import recognizer, transcribe, word_error_rate

SPEC = importlib.util.find_spec("moonshine_voice")
pytestmark = pytest.mark.skipif(
    SPEC is None or importlib.util.find_spec("onnxruntime") is None, reason="the extra asr is not installed"
)

TWO_CITIES = """
IT WAS THE BEST OF TIMES IT WAS THE WORST OF TIMES IT WAS THE AGE OF WISDOM IT WAS THE AGE OF FOOLISHNESS IT WAS THE
EPOCH OF BELIEF IT WAS THE EPOCH OF INCREDULITY IT WAS THE SEASON OF LIGHT IT WAS THE SEASON OF DARKNESS IT WAS THE
SPRING OF HOPE IT WAS THE WINTER OF DESPAIR WE HAD EVERYTHING BEFORE US WE HAD NOTHING BEFORE US WE WERE ALL GOING
DIRECT TO HEAVEN WE WERE ALL GOING DIRECT THE OTHER WAY IN SHORT THE PERIOD WAS SO FAR LIKE THE PRESENT PERIOD THAT SOME
OF ITS NOISIEST AUTHORITIES INSISTED ON ITS BEING RECEIVED FOR GOOD OR FOR EVIL IN THE SUPERLATIVE DEGREE OF COMPARISON
ONLY
"""
BECKETT = "EVER TRIED EVER FAILED NO MATTER TRY AGAIN FAIL AGAIN FAIL BETTER"


def asset(name: str) -> Path:
    assert SPEC is not None
    assert SPEC.origin is not None
    return Path(SPEC.origin).parent / "assets" / name


def wave(name: str) -> Waveform:
    return load(asset(name), rate=16000)


@pytest.mark.slow
def test_real_recordings_are_transcribed() -> None:
    corpus = [
        Utterance("dickens", asset("two_cities.wav"), speaker="a", text=TWO_CITIES),
        Utterance("beckett", asset("beckett.wav"), speaker="b", text=BECKETT),
    ]
    errors = word_error_rate(corpus, transcribe(corpus, Moonshine())).errors
    assert errors.words == 131
    assert errors.edits <= 3


@pytest.mark.slow
def test_cuts_at_pauses_lose_no_words() -> None:
    corpus = [Utterance("dickens", asset("two_cities.wav"), speaker="a", text=TWO_CITIES)]
    hyps = {"dickens": Moonshine(max_seconds=15.0)(wave("two_cities.wav"))}
    assert word_error_rate(corpus, hyps).errors.deletions <= 2


def test_decoder_cache_changes_nothing() -> None:
    """Compare with decoding all previous tokens again at every step, without cached keys and values."""
    samples = wave("beckett.wav").samples[: 5 * 16000]
    network = moonshine._network()
    mask = np.ones((1, len(samples)), dtype=np.int64)
    (hidden,) = network.encoder.run(None, {"input_values": samples[None], "attention_mask": mask})
    past = {
        f"past_key_values.{layer}.{side}.{kind}": np.zeros((1, 8, 0, 36), dtype=np.float32)
        for layer, side, kind in itertools.product(range(6), ("decoder", "encoder"), ("key", "value"))
    }
    tokens = [1]
    while tokens[-1] != 2:
        feed = {"input_ids": np.array([tokens]), "use_cache_branch": np.array([False]), "encoder_hidden_states": hidden}
        logits = network.decoder.run(["logits"], {**past, **feed, "encoder_attention_mask": mask})[0]
        tokens.append(int(logits[0, -1].argmax()))
    assert network.decode(samples, 100) == tokens[1:-1]
    assert len(tokens) > 8


def test_length_guard_stops_endless_output() -> None:
    samples = wave("beckett.wav").samples[: 5 * 16000]
    free = moonshine._network().decode(samples, 100)
    assert moonshine._network().decode(samples, 4) == free[:4]
    short = Moonshine(tokens_per_second=1.0)(Waveform(samples, 16000))
    assert short == moonshine._text(free[:5])


def slow_repetition(tokens: list[int]) -> int:
    for period in range(1, 17):
        times = 0
        phrase, rest = tokens[-period:], list(tokens)
        while len(rest) >= period and rest[-period:] == phrase:
            rest, times = rest[:-period], times + 1
        if times >= 4 and times * period >= 12:
            return period
    return 0


@given(
    st.lists(st.integers(0, 2), max_size=6), st.lists(st.integers(0, 2), min_size=1, max_size=18), st.integers(1, 14)
)
def test_repetition_equals_its_plain_twin(head: list[int], phrase: list[int], times: int) -> None:
    assert repetition(head + phrase * times) == slow_repetition(head + phrase * times)


def test_repetition_guard_stops_loops() -> None:
    assert repetition([5, 5, 5, 5]) == 0  # "no no no no"
    assert repetition([9, *[5] * 12]) == 1
    assert repetition([9, *[5, 6, 7] * 4]) == 3
    assert moonshine._without_loop([9, 8, *[5, 6, 7] * 4], 3) == [9, 8, 5, 6, 7]
    assert moonshine._without_loop([6, 7, *[5, 6, 7] * 4], 3) == [6, 7, 5]  # the loop began in the middle


def test_short_silent_and_invalid_audio() -> None:
    model = Moonshine()
    min_samples = round(model.minimum * 16000)
    noise = np.random.default_rng(0).normal(0.0, 0.1, min_samples).astype(np.float32)
    assert isinstance(model(Waveform(noise, 16000)), str)
    with pytest.raises(InputError, match=f"a frame needs {min_samples}"):
        model(Waveform(noise[1:], 16000))
    with pytest.raises(InputError, match="0 samples"):
        model(Waveform(noise[:0], 16000))
    assert model(Waveform(np.zeros(16000, dtype=np.float32), 16000)) == ""


def test_options_are_part_of_the_fingerprint() -> None:
    kinds = (Moonshine(), Moonshine(max_seconds=20.0), Moonshine(tokens_per_second=7.0))
    assert len({kind.fingerprint() for kind in kinds}) == 3


def test_another_size_is_read_from_a_folder(tmp_path: Path) -> None:
    for name in ("encoder_model", "decoder_model_merged"):  # onnxruntime tells the format by the content
        shutil.copy(moonshine.model_file(f"{name}.ort"), tmp_path / f"{name}.onnx")
    samples = Waveform(wave("beckett.wav").samples[: 5 * 16000], 16000)
    named = recognizer(f"moonshine:{tmp_path}")
    assert named(samples) == Moonshine()(samples) != ""
    assert named.fingerprint() != Moonshine().fingerprint()


def test_folder_without_a_recognizer_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such model") as missing:
        recognizer(f"moonshine:{tmp_path}")
    assert "encoder_model.onnx" in str(missing.value)
    for name in ("encoder_model.onnx", "decoder_model_merged.onnx"):
        (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises(InputError, match="onnxruntime cannot load the model"):
        recognizer(f"moonshine:{tmp_path}")
    for name in ("encoder_model.onnx", "decoder_model_merged.onnx"):
        shutil.copy(moonshine.model_file("encoder_model.ort"), tmp_path / name)
    with pytest.raises(InputError, match="no recognizer of the kind Moonshine"):
        recognizer(f"moonshine:{tmp_path}")


def test_changed_model_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "moonshine_voice"
    shutil.copytree(asset("tiny-en"), package / "assets" / "tiny-en")
    (package / "__init__.py").write_text("raise ImportError('found, never imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "moonshine_voice", raising=False)  # an import elsewhere would be found first
    assert moonshine.model_file("tokenizer.bin").parent.parent.parent == package
    with (package / "assets" / "tiny-en" / "tokenizer.bin").open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match=r"the file is missing, or differs from that of moonshine-voice 0\.1\.0"):
        moonshine.model_file("tokenizer.bin")


@pytest.mark.parametrize("package", ["moonshine_voice", "onnxruntime"])
def test_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else real(name))
    with pytest.raises(InputError, match=r"not installed \(pip install 'voiceveil\[asr\]'\)"):
        recognizer("moonshine")


@pytest.mark.slow
def test_wer_on_librispeech_is_about_seven_percent() -> None:
    """The trials of the demo corpus: 100 short utterances of 20 speakers, in Opus."""
    corpus = [u for g in "fm" for u in vv.open_corpus(SPEECH / f"demo_trials_{g}")]
    result = word_error_rate(corpus, transcribe(corpus, Moonshine()))
    assert result.errors.words > 1000
    assert 0.06 < result.wer.value < 0.08
