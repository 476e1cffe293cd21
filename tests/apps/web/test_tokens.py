"""The key file of a server: read whole, and only if it is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from voiceveil.apps.web.tokens import new_key, read_key, write_key
from voiceveil.core.errors import InputError


def test_key_round_trips(tmp_path: Path) -> None:
    key = new_key()
    write_key(tmp_path / "key", key)
    assert read_key(tmp_path / "key") == key


@pytest.mark.parametrize("text", ["", "00" * 32, "ab" * 32, "0123456789abcdef", "no key", "f" * 5000])
def test_invalid_key_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(InputError, match=r"key.*restore it: links and codes depend on it"):
        read_key(tmp_path / "key")


def test_named_pipe_is_rejected_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key")
    with pytest.raises(InputError, match="cannot read the key: a named pipe, not a regular file"):
        read_key(tmp_path / "key")
