"""Machines that lack something: places to write, memory, shared memory, standard streams."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import voiceveil


@pytest.fixture(scope="module")
def read_only_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package that can hold no compiled code: its __pycache__ folders are files."""
    root = tmp_path_factory.mktemp("site")
    original = Path(voiceveil.__file__).parent
    for source in original.rglob("*"):
        target = root / "voiceveil" / source.relative_to(original)
        if source.is_file() and "__pycache__" not in source.parts:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source) if source.suffix == ".safetensors" else target.write_bytes(source.read_bytes())
            (target.parent / "__pycache__").touch()
    return root


def bare_environment(**changed: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    return {**kept, **changed}


@pytest.mark.parametrize("temporary", [True, False])
def test_compiled_code_needs_no_place_of_its_own(read_only_package: Path, tmp_path: Path, temporary: bool) -> None:
    """A read-only installation and no home: a temporary folder serves, and none at all does too."""
    code = (
        "import voiceveil, os, tempfile\n"
        "if not TEMPORARY:\n"
        "    tempfile.tempdir = '/dev/null/nowhere'\n"
        "from voiceveil.utility.logistic import __name__ as name\n"
        "import voiceveil.dsp.pitch, voiceveil.stats.trials\n"
        "print(voiceveil.__file__, os.environ.get('NUMBA_CACHE_DIR', ''))\n"
    )
    environment = bare_environment(HOME="/dev/null/home", PYTHONPATH=str(read_only_package), TMPDIR=str(tmp_path))
    command = [sys.executable, "-c", code.replace("TEMPORARY", str(temporary))]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    package, cache = done.stdout.rstrip("\n").split(" ")
    assert Path(package).is_relative_to(read_only_package)
    assert cache.startswith(str(tmp_path)) if temporary else cache == ""
    assert list(tmp_path.iterdir()) == [], "the temporary folder is removed"
