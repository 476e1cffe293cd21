"""`voiceveil anonymize` on files: beside the input, several at once, through pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import voiceveil as vv
from tests.support.audio_files import tone
from tests.support.media_files import make_media, packets
from voiceveil.audio import info
from voiceveil.cli.main import main

B2 = ["--system", "b2", "--seed", "1", "--quiet"]
VOICEVEIL = [sys.executable, "-m", "voiceveil"]


def test_one_file_is_written_beside_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_media(tmp_path / "interview.mp4")
    assert main(["anonymize", str(source), *B2]) == 0
    output = tmp_path / "interview.anonymized.mp4"
    assert [data for data, _ in packets(output)] == [data for data, _ in packets(source)]
    assert "the picture is copied as it is" in capsys.readouterr().out
    before = output.read_bytes()
    assert main(["anonymize", str(source), *B2]) == 1
    assert "interview.anonymized.mp4: this file exists" in capsys.readouterr().err
    assert output.read_bytes() == before


def test_several_files_are_written_beside_each_and_one_failure_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [make_media(tmp_path / "a.m4a"), make_media(tmp_path / "b.amr")]
    bad = tmp_path / "bad.m4a"
    bad.write_bytes(good[0].read_bytes()[:500])
    result = tmp_path / "old.anonymized.m4a"
    result.write_bytes(b"")
    assert main(["anonymize", str(bad), *map(str, good), str(result), *B2]) == 1
    err = capsys.readouterr().err
    assert f"failed: {bad}: not readable as audio" in err
    assert "passed over, as it is a result" in err
    assert (tmp_path / "a.anonymized.m4a").is_file()
    assert (tmp_path / "b.anonymized.amr").is_file()


def test_second_of_two_files_is_not_taken_for_an_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [make_media(tmp_path / f"{name}.m4a") for name in "ab"]
    assert main(["anonymize", *map(str, paths), *B2]) == 1
    assert "to anonymize both, give -o FOLDER" in capsys.readouterr().err
    assert main(["anonymize", *map(str, paths), "-o", str(tmp_path / "out"), *B2]) == 0
    assert {path.name for path in (tmp_path / "out").glob("*.m4a")} == {"a.m4a", "b.m4a"}


def test_folder_without_output_and_missing_file_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["anonymize", str(tmp_path), *B2]) == 2
    assert "no output is given (add -o OUT)" in capsys.readouterr().err
    assert main(["anonymize", str(tmp_path / "intervew.mp4"), *B2]) == 1
    assert "no such" in capsys.readouterr().err
    make_media(tmp_path / "a.m4a")
    assert main(["anonymize", str(tmp_path / "a.m4a"), "--format", "mp33", *B2]) == 1
    assert "unknown format 'mp33' (did you mean" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.m4a", "a.webm", "a.flac", "a.mp4"])
def test_recordings_go_through_pipes(name: str, tmp_path: Path) -> None:
    source = tmp_path / name
    if name == "a.flac":
        vv.save(source, tone(300))
    else:
        make_media(source)
    command = [*VOICEVEIL, "anonymize", "-", "-", *B2]
    done = subprocess.run(command, input=source.read_bytes(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    output = tmp_path / f"out{source.suffix}"
    output.write_bytes(done.stdout)
    assert info(output).container == info(source).container
    assert info(output).has_picture == info(source).has_picture


@pytest.mark.slow
def test_pipes_can_be_one_sided_and_take_recordings_only(tmp_path: Path) -> None:
    source = make_media(tmp_path / "a.m4a")
    command = [*VOICEVEIL, "anonymize", "-", str(tmp_path / "b.wav"), *B2, "--json"]
    done = subprocess.run(command, input=source.read_bytes(), capture_output=True, timeout=60, check=False)
    assert json.loads(done.stdout)["done"] == 1
    command = [*VOICEVEIL, "anonymize", str(source), "-", "--format", "wav", *B2]
    assert subprocess.run(command, capture_output=True, timeout=60, check=True).stdout.startswith(b"RIFF")
    done = subprocess.run([*VOICEVEIL, "anonymize", "-"], input=b"text", capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"standard input: not readable as audio" in done.stderr
