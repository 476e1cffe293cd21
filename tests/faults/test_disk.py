"""No space, and no permission to write: said in one line, nothing half-written stays, and it goes on when it can."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults import many
from tests.faults.runs import anonymizing, begun, evaluating, tree
from tests.faults.victims import Victims

COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {"anonymize": anonymizing, "evaluate": evaluating}
#: Bytes that the undisturbed output needs, roughly.
NEEDS = {"anonymize": 300_000, "evaluate": 900_000}


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Callable[[str], object]]:
    """A file system of so many bytes; call it with other options to mount it anew."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=False).returncode:
        pytest.skip("cannot mount a file system here")
    try:
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("verb", COMMANDS)
def test_full_disk_is_reported_and_resumable(victim: Victims, data: Path, tmp_path: Path, verb: str) -> None:
    command = COMMANDS[verb]
    begun(tmp_path / "undisturbed")
    assert victim.run(command(data, tmp_path / "undisturbed")) == 0
    sizes = random.Random(2)
    for _ in range(many(2, 40)):
        size = 4096 * sizes.randrange(2, NEEDS[verb] // 4096)
        with small_disk(tmp_path / "small", size) as remount:
            out = tmp_path / "small" / "out"
            if size > 8192:
                begun(out)
            code = victim.run(command(data, out))
            if code != 0:  # what fits, fits
                assert code == 1, victim.said
                assert f"voiceveil {verb}: " in victim.said
                assert "cannot write" in victim.said or "not usable as a cache" in victim.said
                assert "Traceback" not in victim.said
            assert not list(out.rglob(".voiceveil-part-*"))
            remount("size=20m")
            if not (out / ".started").exists():
                out.mkdir(exist_ok=True)
                (out / ".started").write_bytes((tmp_path / "undisturbed" / ".started").read_bytes())
            assert victim.run(command(data, out)) == 0, victim.said
            assert tree(out) == tree(tmp_path / "undisturbed")
        (tmp_path / "small").rmdir()


@pytest.mark.parametrize("verb", COMMANDS)
def test_read_only_disk_is_reported(victim: Victims, data: Path, tmp_path: Path, verb: str) -> None:
    with small_disk(tmp_path / "small", 20_000_000) as remount:
        for out in (tmp_path / "small" / "new", tmp_path / "small" / "old"):
            if out.name == "old":
                remount("rw")
                assert victim.run(COMMANDS[verb](data, out)) == 0, victim.said
                next(out.rglob("1-1.wav")).unlink()
            remount("ro")
            before = tree(out)
            assert victim.run(COMMANDS[verb](data, out)) == 1
            assert "cannot write: Read-only file system" in victim.said
            assert victim.said.startswith(f"voiceveil {verb}: {tmp_path / 'small'}")
            assert "Traceback" not in victim.said
            assert tree(out) == before
