"""`voiceveil doctor` in a working and in a damaged installation."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from voiceveil.api import installation
from voiceveil.cli.main import main


def findings(capsys: pytest.CaptureFixture[str], code: int) -> dict[tuple[str, str], dict[str, str]]:
    assert main(["doctor", "--json"]) == code
    return {(row["group"], row["name"]): row for row in json.loads(capsys.readouterr().out)}


def test_a_working_installation(capsys: pytest.CaptureFixture[str]) -> None:
    rows = findings(capsys, 0)
    assert rows["versions", "voiceveil"]["text"].startswith("0.")
    assert rows["packages", "numpy"]["state"] == "ok"
    assert rows["formats", "PyAV"]["text"].startswith("M4A, AAC, AMR, WMA; video: MP4, MOV")
    assert rows["models", "veil"]["state"] == "ok"
    assert rows["write access", "temporary folder"]["state"] == "ok"
    assert rows["self-test", "b2"]["text"].startswith("3 s of speech in ")
    assert {row["state"] for row in rows.values()} <= {"ok", "missing"}


def test_a_damaged_installation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from voiceveil.models.weights import store

    (tmp_path / "cards").symlink_to(store.FOLDER / "cards")
    (tmp_path / "veil.safetensors").write_bytes(b"damaged")
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "missing"))
    monkeypatch.setattr(installation, "find_spec", lambda name: None if name == "ray" else object())
    monkeypatch.setattr(installation, "_self_test", lambda: iter(()))
    rows = findings(capsys, 1)
    assert "the weights were changed" in rows["models", "veil"]["text"]
    assert rows["models", "pool"]["state"] == rows["write access", "temporary folder"]["state"] == "FAILED"
    assert (rows["packages", "ray"]["state"], rows["packages", "ray"]["text"]) == (
        "missing",
        "pip install 'voiceveil[cluster]'",
    )


def test_findings_are_grouped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        installation, "check_installation", lambda: iter([installation.Finding("device", "cores", "ok", "2")])
    )
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out == "device\n  ok      cores               2\neverything works\n"
