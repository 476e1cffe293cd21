"""The demo corpus that ships, and `voiceveil demo` on a part of it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.demo_world import make_small_demo
from tests.support.paths import ROOT
from voiceveil.apps.demo import corpus as demo_corpus
from voiceveil.apps.demo.corpus import SPEECH, copy_corpus, corpus_files
from voiceveil.audio import load
from voiceveil.cli import demo
from voiceveil.cli.main import main
from voiceveil.corpus import open_corpus
from voiceveil.evaluation.inventory import take_inventory
from voiceveil.evaluation.protocol import load_protocol

SETS = ("demo_enrolls", "demo_trials_f", "demo_trials_m", "demo_train")


def chapters(name: str) -> set[str]:
    """Return speaker and chapter of all utterances, by their LibriSpeech ids."""
    return {u.id.rpartition("-")[0] for u in open_corpus(SPEECH / name)}


def test_speakers_and_chapters_of_the_roles_are_disjoint() -> None:
    enroll, women, men, train = (open_corpus(SPEECH / name) for name in SETS)
    assert [len(corpus) for corpus in (enroll, women, men, train)] == [60, 50, 50, 120]
    assert [len(corpus.speakers()) for corpus in (enroll, women, men, train)] == [20, 10, 10, 20]
    assert set(women.speakers()) | set(men.speakers()) == set(enroll.speakers())
    assert not set(enroll.speakers()) & set(train.speakers())
    assert not chapters("demo_enrolls") & (chapters("demo_trials_f") | chapters("demo_trials_m"))
    assert all(u.role == "enroll" for u in enroll)
    for corpus, gender in ((women, "f"), (men, "m")):
        assert {u.gender for u in corpus} == {gender}
        assert corpus.trials is not None
        assert (len(corpus.trials), int(corpus.trials.target.sum())) == (500, 50)


@pytest.mark.slow
def test_the_audio_is_real_small_and_as_long_as_stated() -> None:
    size = 0
    for name in SETS:
        for utterance in open_corpus(SPEECH / name):
            size += utterance.path.stat().st_size
            wave = load(utterance.path)
            assert wave.rate == 16000
            assert 3.0 <= wave.duration <= 7.0
            assert wave.duration == pytest.approx(utterance.seconds, abs=0.002)
            assert np.sqrt(np.mean(np.square(wave.samples))) > 0.005
            assert re.fullmatch(r"[A-Z' ]+", utterance.text or "")
    assert size < 4_000_000


def test_the_protocol_describes_the_corpus() -> None:
    inventory = take_inventory(load_protocol(SPEECH / "demo.toml"), SPEECH)
    assert (inventory.missing, inventory.differences) == ((), ())
    assert any("intervals are wide" in remark for remark in inventory.remarks)
    assert main(["corpus", "check", str(SPEECH / "demo_trials_f")]) == 0


def test_readme_samples_are_short_recordings() -> None:
    links = re.findall(r"\((docs/samples/[^)]*)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) == 12
    assert {ROOT / link for link in links} == set((ROOT / "docs" / "samples").iterdir())
    for link in links:
        assert 3.0 < load(ROOT / link).duration < 7.0


def test_copies_only_what_is_not_there(tmp_path: Path) -> None:
    copy_corpus(tmp_path)
    files = corpus_files(tmp_path)
    assert len(files) > 280
    assert all(copy.read_bytes() == original.read_bytes() for copy, original in files.items())
    (tmp_path / "NOTE.txt").write_text("mine")
    copy_corpus(tmp_path)
    assert (tmp_path / "NOTE.txt").read_text() == "mine"
    copy_corpus(tmp_path, overwrite=True)
    assert (tmp_path / "NOTE.txt").read_text() != "mine"


def test_without_the_extra_it_anonymizes_recordings_and_says_how_to_get_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "_PACKAGES", ("no_such_package",))
    assert main(["demo", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Listen to the versions" in out
    assert out.endswith("To hear and to measure veil as well: pip install 'voiceveil[demo]'\n")
    assert len(list((tmp_path / "b2").glob("*.wav"))) == len(list((tmp_path / "original").glob("*.opus"))) == 4
    assert not (tmp_path / "veil").exists()


@pytest.mark.slow
def test_the_demo_ends_in_a_report_to_listen_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in demo._PACKAGES:
        pytest.importorskip(package)
    monkeypatch.setattr(demo_corpus, "SPEECH", make_small_demo(tmp_path / "small"))
    assert main(["demo", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"(?m)^original +\S+% \[.*\n^b2 +\S+.*\n^veil +\S+", out.replace("\N{NO-BREAK SPACE}", "")), out
    report = tmp_path / "out" / "results" / "veil" / "report.html"
    assert out.endswith(f"open {report} in a browser.\n")
    page = report.read_text()
    assert re.findall(r"<label>([^<]*)<audio", page) == ["original", "veil", "b2"] * 4
    assert "intervals are wide" in page
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.wav")}
    assert main(["demo", str(tmp_path / "out")]) == 0  # goes on: nothing is anonymized again
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.wav")} == done
