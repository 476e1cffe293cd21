"""``pytest --quick`` skips whatever imports a heavy package, and runs the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TESTS = """
import sys
import pytest

def test_plain():
    assert "torch" not in sys.modules

def test_that_needs_torch():
    try:
        import torch
    except Exception:
        raise AssertionError("code under test must not take it for a missing package") from None

def test_that_asks_whether_torch_is_installed():
    from importlib.util import find_spec
    assert find_spec("torch")

@pytest.mark.slow
def test_slow():
    raise AssertionError("not run")
"""


@pytest.mark.slow
def test_quick_runs_skip_heavy_imports_and_slow_tests(tmp_path: Path) -> None:
    (tmp_path / "test_module.py").write_text("import torch\n\ndef test_never_collected(): ...\n")
    (tmp_path / "test_single.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "--quick", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    options = ["--strict-markers", "-o", "markers=slow", "-W", "error", "--rootdir", str(tmp_path), str(tmp_path)]
    run = subprocess.run([*command, *options], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout
    assert "2 passed, 2 skipped, 1 deselected" in run.stdout
