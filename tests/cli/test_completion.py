"""Completion scripts: what bash completes, and that the others name every command and option."""

from __future__ import annotations

import subprocess

import pytest

from voiceveil.cli.main import VERBS, main


def script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("anon", ["anonymize"]),
        ("corpus ch", ["check"]),
        ("anonymize in out --lev", ["--level"]),
        ("anonymize in out --level s", ["speaker"]),
        ("anonymize --system vei", ["veil"]),
        ("systems b2-", ["b2-2020", "b2-2022"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("anonymize ", []),  # files
    ],
)
def test_bash(capsys: pytest.CaptureFixture[str], typed: str, expected: list[str]) -> None:
    words = ["voiceveil", *typed.split(" ")]
    listed = " ".join(f"'{word}'" for word in words)
    command = f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _voiceveil; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "-c", f"{script(capsys, 'bash')}\n{command}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == expected
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_name_every_command(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    text = script(capsys, shell)
    assert all(verb in text for verb in VERBS)
    assert "json-progress" in text
    assert "protocol" in text


def test_fish_escapes_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    for line in script(capsys, "fish").splitlines():
        assert line.startswith("complete -c voiceveil -n '")
        assert line.replace("\\'", "").count("'") % 2 == 0
