"""The worked examples of CONTRIBUTING.md: the text is that of the files, and the files work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from voiceveil.audio import save
from voiceveil.testing import synthetic_voice

EXAMPLES = ROOT / "examples"


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.parametrize("name", ["tilt", "auc", "digits"])
def test_text_equals_the_example_files(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.S)
    assert (EXAMPLES / f"{name}.py").read_text() in blocks


def test_example_system_passes_the_checks() -> None:
    done = run(sys.executable, "-m", "voiceveil.cli.main", "check", "tilt:Tilt", cwd=EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the examples are a package with entry points, as CONTRIBUTING tells to declare them."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    points = re.findall(r'\[project\.entry-points\."(.+?)"\]\n(\w+) = "my_package\.(.+?)"', text)
    assert len(points) == 3
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("".join(f"[{g}]\n{n} = {target}\n" for g, n, target in points))
    return {**os.environ, "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{tmp_path}"}


def voiceveil(installed: dict[str, str], *arguments: str | Path) -> str:
    command = [sys.executable, "-m", "voiceveil.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=installed)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_example_system_and_corpus_are_found_by_entry_point(installed: dict[str, str], tmp_path: Path) -> None:
    assert "tilt: A first-order filter" in voiceveil(installed, "systems")
    for digit in (3, 7):
        save(tmp_path / "data" / "S01" / f"{digit}_00.wav", synthetic_voice(1, digit, seconds=0.3))
    out = tmp_path / "out"
    voiceveil(
        installed, "anonymize", f"digits:{tmp_path / 'data'}", out, "--system", "tilt", "--set", "coefficient=0.5"
    )
    assert (out / "digits_tilt" / "text").read_text() == "S01-3_00 THREE\nS01-7_00 SEVEN\n"


def test_example_metric_is_found_by_entry_point(installed: dict[str, str], tmp_path: Path) -> None:
    scores = tmp_path / "scores"
    scores.write_text("".join(f"{i / 10} {'target' if i > 4 else 'nontarget'}\n" for i in range(10)))
    table = voiceveil(installed, "score", scores, "--metrics", "auc")
    assert re.search(r"auc\s+100", table), table
