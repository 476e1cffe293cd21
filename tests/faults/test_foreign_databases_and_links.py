"""Files of the user's behind links inside an output folder, and databases of the user's named as a cache."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import tracemalloc
from pathlib import Path

import pytest

from tests.faults.runs import tree
from voiceveil.apps.web.database import open_database
from voiceveil.audio import save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, write_kaldi, write_manifest
from voiceveil.run.cache import Cache, put_in_inbox
from voiceveil.systems import anonymize
from voiceveil.testing import synthetic_voice


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """A FLAC recording, so that the output beside it would have another name."""
    save(tmp_path / "recordings" / "s" / "a.flac", synthetic_voice(1, 1, seconds=0.3))
    return tmp_path / "recordings"


# --- Databases ----------------------------------------------------------------------------------------------------

FOREIGN = {
    "tables of our names": "CREATE TABLE results (id INTEGER, name TEXT); CREATE TABLE files (name TEXT);"
    "INSERT INTO files VALUES ('precious');",
    "our table and another": "CREATE TABLE results (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE files (name TEXT); INSERT INTO files VALUES ('precious');",
    "a view": "CREATE VIEW mine AS SELECT 1;",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_cache_does_not_change_other_databases(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine.sqlite"
    database = sqlite3.connect(path)
    database.executescript(content)
    database.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="not usable as a cache: a database of something else"):
        Cache(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("table", ["answers", "teams", "letters"])
def test_server_does_not_change_other_databases(tmp_path: Path, table: str) -> None:
    path = tmp_path / "mine.sqlite"
    mine = sqlite3.connect(path)
    mine.executescript(f"CREATE TABLE {table} (a TEXT); INSERT INTO {table} VALUES ('mine');")
    mine.close()
    before = path.read_bytes()
    with pytest.raises(
        InputError, match=r"mine\.sqlite: this is the database of another program \(give another --database\)"
    ):
        open_database(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["mine.sqlite"]


@pytest.mark.parametrize("name", ["new.sqlite", "wav/new.sqlite"])
def test_cache_inside_the_data_is_rejected(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data" / "trials"
    (data / "wav").mkdir(parents=True)
    (data / "wav.scp").write_text("a wav/a.wav\n")
    with pytest.raises(InputError, match=r"a cache would lie inside the data directory .*trials"):
        Cache(data / name)
    assert sorted(path.name for path in data.rglob("*")) == ["wav", "wav.scp"]
    Cache(data.parent / "new.sqlite").close()


def test_only_results_are_read_from_the_inbox(tmp_path: Path) -> None:
    """``--cache mail`` beside a folder ``mail.inbox`` of letters."""
    cache = Cache(tmp_path / "mail")
    assert cache.inbox is not None
    cache.inbox.mkdir()
    (cache.inbox / "deadbeef").write_text("a letter")
    (cache.inbox / "a letter.txt").write_text("another")
    put_in_inbox([1], cache.inbox, b"k" * 32)
    before = {path.name for path in cache.inbox.iterdir()}
    cache.collect()
    assert cache.get(b"k" * 32) == [1]
    assert {path.name for path in cache.inbox.iterdir()} == before - {(b"k" * 32).hex()}
    cache.close()


# --- Links in an output folder ------------------------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
def test_linked_record_folder_is_rejected(recordings: Path, tmp_path: Path, overwrite: bool) -> None:
    mine, out = tmp_path / "mine", tmp_path / "out"
    mine.mkdir()
    (mine / "ledger.jsonl").write_text('{"paid": 1}\n')
    out.mkdir()
    (out / ".voiceveil").symlink_to(mine)
    before = tree(tmp_path)
    with pytest.raises(InputError, match="link"):
        anonymize(recordings, out, system="b2", seed=1, overwrite=overwrite)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", ["folder", "kaldi", "manifest"])
def test_output_subfolder_linked_into_the_data_is_rejected(
    recordings: Path, tmp_path: Path, kind: str, overwrite: bool
) -> None:
    corpus = Corpus("set", (Utterance("a", recordings / "s" / "a.flac", speaker="s", gender="f"),))
    source, link = {
        "folder": (recordings, tmp_path / "out" / "s"),
        "kaldi": (tmp_path / "set", tmp_path / "out" / "set_b2" / "wav"),
        "manifest": (tmp_path / "set.csv", tmp_path / "out" / "audio"),
    }[kind]
    write_kaldi(corpus, tmp_path / "set")
    write_manifest(corpus, tmp_path / "set.csv")
    link.parent.mkdir(parents=True)
    link.symlink_to(recordings / "s")
    before = tree(tmp_path)
    with pytest.raises(InputError, match="leads into the input"):
        anonymize(source, tmp_path / "out", system="b2", seed=1, overwrite=overwrite)
    assert tree(tmp_path) == before


def test_output_subfolder_may_be_on_another_disk(recordings: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "s").symlink_to(tmp_path / "disk")
    assert anonymize(recordings, tmp_path / "out", system="b2", seed=1).done == 1
    assert (tmp_path / "disk" / "a.flac").is_file()


# --- The key ------------------------------------------------------------------------------------------------------


def test_key_file_is_not_replaced_by_an_output(recordings: Path, tmp_path: Path) -> None:
    key = tmp_path / "out" / "s" / "a.flac"
    key.parent.mkdir(parents=True)
    key.write_bytes(secrets.token_bytes(32))
    key.chmod(0o600)
    (tmp_path / "one.flac").hardlink_to(key)
    before = tree(tmp_path)
    for source, out in ((recordings, tmp_path / "out"), (recordings / "s" / "a.flac", tmp_path / "one.flac")):
        with pytest.raises(InputError, match="would replace the input"):
            anonymize(source, out, system="b2", key_file=key, overwrite=True)
    assert tree(tmp_path) == before


# --- Ledgers ------------------------------------------------------------------------------------------------------


def test_hard_linked_copy_of_an_output_is_unchanged(recordings: Path, tmp_path: Path) -> None:
    out, copy = tmp_path / "out", tmp_path / "copy"
    anonymize(recordings, out, system="b2", seed=1)
    shutil.copytree(out, copy, copy_function=os.link)  # as `cp -al` does
    before = tree(copy)
    anonymize(recordings, out, system="b2", seed=2, overwrite=True)
    assert tree(copy) == before
    assert tree(out) != before
    assert anonymize(recordings, copy, system="b2", seed=1).already_done == 1


def test_ledger_with_an_endless_line_is_rejected(recordings: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "out" / ".voiceveil" / "ledger.jsonl"
    anonymize(recordings, tmp_path / "out", system="b2", seed=1)
    with ledger.open("ab") as file:
        file.truncate(1 << 30)  # zeros, which take no space on the disk
    tracemalloc.start()
    with pytest.raises(InputError, match="a line of more than 1 MiB"):
        anonymize(recordings, tmp_path / "out", system="b2", seed=1)
    assert tracemalloc.get_traced_memory()[1] < 50 << 20
    tracemalloc.stop()
