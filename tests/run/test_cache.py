"""The cache lets go of a file that it cannot use."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from voiceveil.core.errors import OutputError
from voiceveil.run.cache import Cache


@pytest.mark.parametrize("readonly", [False, True])
def test_file_that_is_no_cache_is_closed(tmp_path: Path, readonly: bool) -> None:
    """Or it may stay locked as long as anybody holds the exception, and who opens it next waits for a minute."""
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"no database at all" * 300)
    with pytest.raises(OutputError, match="not usable as a cache") as caught:
        Cache(path, readonly=readonly)
    assert str(caught.value.where) == str(path)
    opened = (entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
    assert not [entry for entry in opened if str(entry.readlink()).startswith(str(path))]


def test_file_of_the_same_size_and_time_is_hashed_again(tmp_path: Path) -> None:
    """`cp -p`, `rsync -t` and `tar` put other content in place of a file and keep the time of its modification."""
    cache, file = Cache(tmp_path / "cache.sqlite"), tmp_path / "a.wav"
    file.write_bytes(b"one")
    before, digest = file.stat(), cache.digest(file)
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cache.digest(file) != digest
    digest = cache.digest(file)
    (tmp_path / "b.wav").write_bytes(b"six")
    os.utime(tmp_path / "b.wav", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "b.wav").replace(file)
    assert cache.digest(file) != digest
    cache.close()


@pytest.mark.parametrize("readonly", [False, True])
def test_cache_of_an_older_version_is_read(tmp_path: Path, readonly: bool) -> None:
    """Its results are kept; the digests of files, which it knew by size and time alone, are computed again."""
    path, file = tmp_path / "cache.sqlite", tmp_path / "a.wav"
    file.write_bytes(b"one")
    old = sqlite3.connect(path)
    old.executescript(
        "CREATE TABLE results (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER, changed INTEGER, sha256 TEXT) WITHOUT ROWID;"
    )
    old.execute("INSERT INTO results VALUES (x'00', ?)", (b"J[1]",))
    old.execute("INSERT INTO files VALUES (?, 3, ?, 'wrong')", (str(file), file.stat().st_mtime_ns))
    old.commit()
    old.close()
    cache = Cache(path, readonly=readonly)
    assert cache.get(b"\0") == [1]
    assert cache.digest(file).startswith("7692c3ad")  # sha256 of "one"
    cache.close()


def test_empty_file_is_an_empty_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.touch()
    cache = Cache(path)
    assert cache.empty()
    cache.close()
