"""The tutorial (docs/guide/tutorial.md), exactly as it stands, on a few synthetic voices; and other pages' examples."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from voiceveil.apps.demo.corpus import make_corpus
from voiceveil.apps.demo.espeak import INSTALL, is_installed
from voiceveil.evaluation.results import Results

DOCS = ROOT / "docs"
TEXT = (DOCS / "tutorial.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.S)


def test_tutorial_system_has_about_thirty_lines() -> None:
    (code,) = blocks("python")
    assert len(code.splitlines()) <= 32


def test_metrics_page_doctests_pass() -> None:
    done = doctest.testfile(str(DOCS / "metrics.md"), module_relative=False)
    assert done.attempted == 7
    assert not done.failed


@pytest.mark.slow
@pytest.mark.skipif(not is_installed(), reason=f"eSpeak NG is not installed: {INSTALL}")
def test_tutorial_runs_from_a_file_to_a_ranking(tmp_path: Path) -> None:
    make_corpus(tmp_path / "voiceveil-demo" / "data", attacked=2, others=8, utterances=(1, 2, 4))
    (code,) = blocks("python")
    (tmp_path / "formants.py").write_text(code)
    said = {}
    for line in "".join(blocks("sh")).splitlines():
        command = [sys.executable, "-m", "voiceveil.cli.main", *shlex.split(line)[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, line + "\n" + done.stdout + done.stderr
        said[line] = done.stdout
    check, plan, _, _, rank, report = said.values()
    assert "0 failed" in check
    assert re.search(r"^anonymize +76 +0 +76", plan, flags=re.M), plan
    assert "The voices are synthetic" in plan
    assert re.search(r"^formants .*campplus-adapted \(semi-informed\)$", rank, flags=re.M), rank
    assert "report.html" in report
    results = Results.load(tmp_path / "results" / "vpc2024" / "formants" / "results.json")
    assert results.system == "formants"
    assert any("synthetic" in note for note in results.info["notes"])
    page = (tmp_path / "results" / "vpc2024" / "formants" / "report.html").read_text()
    assert "synthetic" in page
