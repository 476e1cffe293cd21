"""Completion scripts, run by the shells that they are for."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from voiceveil.cli.main import VERBS, main


def script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


#: What is typed -> what it is completed to, in each shell.
COMPLETIONS = {
    "anon": ["anonymize"],
    "corpus ch": ["check"],
    "anonymize in out --lev": ["--level"],
    "anonymize in out --level s": ["speaker"],
    "anonymize --system vei": ["veil"],
    "systems b2-": ["b2-2020", "b2-2022"],
    "completion ": ["bash", "fish", "zsh"],
    "anonymize ": [],  # files, of which there are none
}


@pytest.mark.parametrize(("typed", "expected"), COMPLETIONS.items())
def test_bash(capsys: pytest.CaptureFixture[str], typed: str, expected: list[str]) -> None:
    words = ["voiceveil", *typed.split(" ")]
    listed = " ".join(f"'{word}'" for word in words)
    command = f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _voiceveil; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "-c", f"{script(capsys, 'bash')}\n{command}"], capture_output=True, text=True, check=True
    )
    assert sorted(done.stdout.split()) == expected
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("fish") is None, reason="the shell fish is not installed")
def test_fish(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    asked = "\n".join(f"complete -C 'voiceveil {typed}'; echo ." for typed in COMPLETIONS)
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        ["fish", "--no-config"],
        input=f"{script(capsys, 'fish')}\ncd {tmp_path}/empty\n{asked}\n",
        env=home, capture_output=True, text=True, check=True,
    )  # fmt: skip
    answers = done.stdout.split(".\n")[:-1]
    completed = [sorted(line.split("\t")[0] for line in answer.splitlines()) for answer in answers]
    assert dict(zip(COMPLETIONS, completed, strict=True)) == COMPLETIONS
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="the shell zsh is not installed")
def test_zsh(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Type into a terminal; ``voiceveil`` is a function there that writes down its arguments."""
    (tmp_path / "voiceveil.zsh").write_text(script(capsys, "zsh"))
    keyboard, terminal = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, cwd=tmp_path, start_new_session=True,
        env={**os.environ, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "dumb"},
    )  # fmt: skip
    unique = {typed: names[0] for typed, names in COMPLETIONS.items() if len(names) == 1}
    lines = ["source voiceveil.zsh", "voiceveil() { print -r -- $* >> completed }"]
    lines += [f"voiceveil {typed}\t" for typed in unique] + ["exit"]
    os.write(keyboard, "".join(f"{line}\n" for line in lines).encode())
    os.close(terminal)
    shell.wait(timeout=60)
    os.close(keyboard)
    expected = [" ".join([*typed.split(" ")[:-1], name]) for typed, name in unique.items()]
    assert (tmp_path / "completed").read_text().splitlines() == expected


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
