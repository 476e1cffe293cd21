"""What to expect on other languages, music and noise: the line of each system, and warnings from the recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import voiceveil as vv
from tests.support.paths import ROOT, SHARED
from voiceveil.api.expectations import expectation, speech_kinds, warnings_for
from voiceveil.cli.main import main
from voiceveil.models.asr.speech_check import ENTROPY, FEW_TOKENS, SpeechCheck, kind_of, loudest
from voiceveil.systems import systems
from voiceveil.systems.contract import find_system
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.testing import synthetic_voice

ENGLISH = ROOT / "docs" / "samples" / "woman-1-original.mp3"


def test_every_system_says_what_to_expect() -> None:
    for name in systems:
        made_from = systems[name].language
        assert made_from == ("English" if issubclass(systems[name], Resynthesis) else ""), name
    assert "b2 has no model of a language" in expectation(find_system("b2"))


def test_kinds_follow_the_thresholds() -> None:
    def kind(entropy: float, tokens: float = 4.0, repeated: float = 0.0) -> str:
        return kind_of({"entropy": entropy, "tokens_per_second": tokens, "repeated": repeated})

    assert kind(ENTROPY) == "english"
    assert kind(ENTROPY + 0.1) == "not english"
    assert kind(ENTROPY + 0.1, FEW_TOKENS - 0.1) == "hardly speech"
    assert kind(ENTROPY + 0.1, repeated=1.0) == "hardly speech"


def test_loudest_part_is_found() -> None:
    samples = np.zeros(10 * 16000, dtype=np.float32)
    samples[6 * 16000 : 8 * 16000] = 0.5
    assert (loudest(samples, 2 * 16000) == 0.5).all()
    assert loudest(samples[:100], 200).shape == (100,)


def test_speech_noise_and_short_recordings(tmp_path: Path) -> None:
    pytest.importorskip("moonshine_voice")
    rng = np.random.default_rng(1)
    vv.save(tmp_path / "noise" / "a.wav", vv.Waveform((0.1 * rng.standard_normal(4 * 16000)).astype(np.float32), 16000))
    vv.save(tmp_path / "short" / "a.wav", synthetic_voice(1, 1, seconds=0.5))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.wav").write_bytes(b"RIFF")
    assert speech_kinds(ENGLISH) == ["english"]
    assert speech_kinds(tmp_path / "noise") != ["english"]
    assert speech_kinds(tmp_path / "short") == []
    assert speech_kinds(tmp_path / "broken") == []

    class English(type(find_system("b2"))):  # type: ignore[misc]
        language = "English"

    assert warnings_for(tmp_path / "noise", English())
    assert warnings_for(ENGLISH, English()) == []
    assert warnings_for(tmp_path / "noise", find_system("b2")) == []
    with pytest.raises(vv.InputError, match=r"0\.50 s of audio at 16000 Hz cannot be checked"):
        SpeechCheck()(synthetic_voice(1, 1, seconds=0.5))


def test_german_is_not_english() -> None:
    pytest.importorskip("moonshine_voice")
    files = sorted((SHARED / "speech" / "emodb" / "audio").glob("*a05N*.opus"))[:3]
    if not files:
        pytest.skip("EmoDB is not here")
    check = SpeechCheck()
    kinds = [kind_of(check(vv.load(file).resampled(16000))) for file in files]
    assert kinds == ["not english"] * len(files)


def test_summary_says_what_to_expect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vv.save(tmp_path / "a.wav", synthetic_voice(1, 1, seconds=1.0))
    assert main(["anonymize", str(tmp_path / "a.wav"), "--system", "b2", "--quiet"]) == 0
    assert "expect: b2 has no model of a language" in capsys.readouterr().out
