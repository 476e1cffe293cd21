"""The system that is used where none is named: one default and one warning, in Python and on the command line."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path

import pytest

import voiceveil as vv
from voiceveil.audio import save
from voiceveil.cli import anonymize as anonymize_command
from voiceveil.cli.main import main
from voiceveil.testing import synthetic_voice


@pytest.fixture
def source(tmp_path: Path) -> Path:
    save(tmp_path / "in" / "a.wav", synthetic_voice(0, 1, seconds=0.5))
    return tmp_path / "in"


def test_python_and_the_command_line_have_the_same_default(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    vv.anonymize(source, tmp_path / "python", seed=1)
    assert main(["anonymize", str(source), str(tmp_path / "command"), "--seed", "1", "--quiet"]) == 0
    assert main(["anonymize", str(source), str(tmp_path / "named"), "--seed", "1", "--quiet", "--system", "veil"]) == 0
    written = [(tmp_path / name / "a.wav").read_bytes() for name in ("python", "command", "named")]
    assert written[0] == written[1] == written[2]


def test_fallback_to_b2_gives_a_warning(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("voiceveil.systems.resynthesis.loader.find_spec", lambda name: None)
    with pytest.warns(UserWarning, match="using b2, which protects little, because veil cannot be used: .*pip install"):
        vv.anonymize(source, tmp_path / "python", seed=1)
    assert main(["anonymize", str(source), str(tmp_path / "command"), "--seed", "1", "--quiet"]) == 0
    assert "using b2, which protects little, because veil cannot be used" in capsys.readouterr().err
    vv.anonymize(source, tmp_path / "named", seed=1, system="b2")
    written = [(tmp_path / name / "a.wav").read_bytes() for name in ("python", "command", "named")]
    assert written[0] == written[1] == written[2]


def test_parsers_name_no_default_system() -> None:
    assert inspect.signature(vv.anonymize).parameters["system"].default is None
    parser = argparse.ArgumentParser()
    anonymize_command.add_arguments(parser)
    assert parser.get_default("system") is None
