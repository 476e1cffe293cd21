"""The demo's corpus of synthetic voices, and what the demo does without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from voiceveil.apps.demo.corpus import make_corpus
from voiceveil.apps.demo.espeak import INSTALL, is_installed, speak
from voiceveil.audio import load
from voiceveil.cli import demo
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus

needs_espeak = pytest.mark.skipif(not is_installed(), reason=f"eSpeak NG is not installed: {INSTALL}")


@needs_espeak
def test_corpus_can_be_evaluated(tmp_path: Path) -> None:
    make_corpus(tmp_path, attacked=2, others=1, utterances=(1, 2, 1))
    enroll, women, men, train = (
        open_corpus(tmp_path / name)
        for name in ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m", "libri_train")
    )
    assert [len(corpus) for corpus in (enroll, women, men, train)] == [4, 4, 4, 2]
    assert not set(enroll.speakers()) & set(train.speakers())
    assert set(women.speakers()) | set(men.speakers()) == set(enroll.speakers())
    assert women.trials is not None
    assert women.trials.target.tolist() == [True, True, False, False, False, False, True, True]
    for utterance in women:
        wave = load(utterance.path)
        assert wave.rate == 16000
        assert 1.0 < wave.duration < 10.0
        assert np.abs(wave.samples).max() > 0.05
        assert utterance.text == (utterance.text or "").upper()
    assert "synthetic" in (tmp_path / "NOTE.txt").read_text()
    main(["corpus", "check", str(tmp_path / "libri_dev_trials_f")])


@needs_espeak
def test_corpus_is_reproducible_and_speakers_differ(tmp_path: Path) -> None:
    for name in "ab":
        make_corpus(tmp_path / name, attacked=1, others=0, utterances=(1, 1, 0))
    first, second = (open_corpus(tmp_path / name / "libri_dev_enrolls") for name in "ab")
    assert [(u.id, u.text) for u in first] == [(u.id, u.text) for u in second]
    for one, other in zip(first, second, strict=True):
        assert load(one.path).duration == pytest.approx(load(other.path).duration, rel=0.05)
    assert len({path.read_bytes() for path in (tmp_path / "a" / "audio").iterdir()}) == 4


@needs_espeak
def test_unknown_voice_is_rejected() -> None:
    with pytest.raises(InputError, match=r"no voice 'en-us\+nobody'"):
        speak("hello", "en-us+nobody")


def test_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "is_installed", lambda: False)
    assert main(["demo", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Listen to the two versions" in out
    assert out.endswith("This was half of the demo. To evaluate as well: pip install 'voiceveil[demo,eval]'\n")
