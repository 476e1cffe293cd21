"""The cache lets go of a file that it cannot use."""

from __future__ import annotations

from pathlib import Path

import pytest

from voiceveil.errors import OutputError
from voiceveil.run.cache import Cache


@pytest.mark.parametrize("readonly", [False, True])
def test_a_file_that_is_no_cache_is_let_go(tmp_path: Path, readonly: bool) -> None:
    """Or it may stay locked as long as anybody holds the exception, and who opens it next waits for a minute."""
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"no database at all" * 300)
    with pytest.raises(OutputError, match="not usable as a cache") as caught:
        Cache(path, readonly=readonly)
    assert str(caught.value.where) == str(path)
    opened = (entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
    assert not [entry for entry in opened if str(entry.readlink()).startswith(str(path))]


def test_an_empty_file_is_an_empty_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.touch()
    cache = Cache(path)
    assert cache.empty()
    cache.close()
