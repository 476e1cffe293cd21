"""The database layer: SQLite and PostgreSQL behave alike; tokens, limits, ranges."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.listen_client import Client
from tests.support.listen_world import make_study, served
from voiceveil.apps.listen.app import invitation
from voiceveil.apps.listen.design import StudyPlan
from voiceveil.apps.web.database import Database, Transaction, Unavailable, open_database
from voiceveil.apps.web.limits import RateLimit
from voiceveil.apps.web.pages import ranged
from voiceveil.apps.web.tokens import BadToken, ExpiredToken, Seal, new_key, read_key, write_key
from voiceveil.core.errors import InputError


def _initdb() -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) if Path("/usr/lib/postgresql").exists() else []
    return shutil.which("initdb") or (str(found[-1]) if found else None)


class Cluster:
    """A PostgreSQL server of our own, in a temporary folder."""

    def __init__(self, folder: Path, tools: Path, user: str | None) -> None:
        self.data, self.tools, self.user = folder / "data", tools, user
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = folder
        self._run("initdb", "-D", str(self.data), "-A", "trust", "-U", "listen", "--no-sync")

    def _run(self, tool: str, *arguments: str) -> None:
        quiet = subprocess.DEVNULL
        subprocess.run([str(self.tools / tool), *arguments], check=True, user=self.user, stdout=quiet, stderr=quiet)

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        self._run("pg_ctl", "-D", str(self.data), "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", "immediate", "stop")

    @property
    def address(self) -> str:
        return f"postgresql://listen@127.0.0.1:{self.port}/postgres"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("psycopg")
    initdb = _initdb()
    if initdb is None:
        pytest.skip("no PostgreSQL (Debian: apt-get install postgresql)")
    folder, user = Path(f"/tmp/voiceveil-pg-{os.getpid()}"), None
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        try:
            user = pwd.getpwnam("postgres").pw_name
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    folder.mkdir()
    if user is not None:
        shutil.chown(folder, user)
    try:
        one = Cluster(folder, Path(initdb).resolve().parent, user)
        one.start()
        yield one
        one.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    where = tmp_path / "x.sqlite" if request.param == "sqlite" else request.getfixturevalue("cluster").address
    one = open_database(where)
    one.write(lambda t: t.run("DROP TABLE IF EXISTS counts"))
    one.create(["CREATE TABLE counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL)"])
    yield one
    one.close()


def test_write_is_all_or_nothing(database: Database) -> None:
    def half(transaction: Transaction) -> None:
        transaction.run("INSERT INTO counts VALUES (?, ?)", "a", 1)
        raise KeyError("in the middle")

    with pytest.raises(KeyError):
        database.write(half)
    assert database.read("SELECT * FROM counts") == []
    evil = "'); DROP TABLE counts; --"
    database.write(lambda t: t.run("INSERT INTO counts VALUES (?, ?)", evil, 1))
    assert database.read("SELECT name FROM counts WHERE name = ?", evil) == [(evil,)]


def test_simultaneous_writers_lose_nothing(database: Database) -> None:
    """Read and write back: without serializable transactions some of the counts would be overwritten."""
    database.write(lambda t: t.run("INSERT INTO counts VALUES (?, ?)", "n", 0))

    def add(transaction: Transaction) -> None:
        value = transaction.run("SELECT value FROM counts WHERE name = ?", "n")[0][0]
        transaction.run("UPDATE counts SET value = ? WHERE name = ?", value + 1, "n")

    done = []

    def work() -> None:
        for _ in range(10):
            while True:
                try:
                    database.write(add)
                    break
                except Unavailable:  # too many conflicts in a row: the client tries again
                    continue
            done.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 60
    assert database.read("SELECT value FROM counts") == [(60,)]


def test_sqlite_is_in_wal_mode_and_synced(tmp_path: Path) -> None:
    database = open_database(tmp_path / "x.sqlite")
    assert database.read("PRAGMA journal_mode") == [("wal",)]
    assert database.read("PRAGMA synchronous") == [(2,)]  # FULL


def test_erased_rows_leave_the_files_when_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that reads keeps the old rows in the log; a later write removes them."""
    monkeypatch.setattr("voiceveil.apps.web.database._SCRUB_PAUSE", 0.0)
    database = open_database(tmp_path / "x.sqlite")
    database.create(["CREATE TABLE said (value TEXT)"])
    for number in range(200):  # several pages, some of which are split
        database.write(lambda t, n=number: t.run("INSERT INTO said VALUES (?)", f"secret {n} " + "x" * 300))  # type: ignore[misc]

    def is_there() -> bool:
        return any(b"secret" in path.read_bytes() for path in tmp_path.iterdir())

    with contextlib.closing(sqlite3.connect(tmp_path / "x.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM said").fetchall() == [(200,)]
        database.erase(lambda t: t.run("DELETE FROM said"))
        assert is_there()
    database.write(lambda t: t.run("INSERT INTO said VALUES (?)", "public"))
    assert not is_there()
    assert database.read("SELECT value FROM said") == [("public",)]


def test_writer_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that holds SQLite's lock makes a write unavailable, and reads go on meanwhile."""
    monkeypatch.setattr("voiceveil.apps.web.database._PATIENCE", 0.1)
    database = open_database(tmp_path / "x.sqlite")
    database.create(["CREATE TABLE counts (value INTEGER)"])
    with contextlib.closing(sqlite3.connect(tmp_path / "x.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(Unavailable):
            database.write(lambda t: t.run("INSERT INTO counts VALUES (1)"))
        assert time.monotonic() - began < 5.0
        assert database.read("SELECT * FROM counts") == []
        other.execute("ROLLBACK")
    database.write(lambda t: t.run("INSERT INTO counts VALUES (1)"))


def test_session_survives_a_restart_of_postgresql(cluster: Cluster, tmp_path: Path) -> None:
    study = make_study(tmp_path, StudyPlan(evaluators=1, raters=1, items=2, attention=0, headphones=0), speakers=6)
    seal = Seal(read_key(tmp_path / "study" / "key"))
    with served(tmp_path / "study", cluster.address) as address:
        client = Client(address)
        client.get(f"/i/{invitation(seal, 'e001', time.time() + 99)}")
        assert client.form("/consent", mark=client.mark(), agree="yes")[0] == 303
        assert client.form("/next", mark=client.mark(), item=client.item())[0] == 303
        item, mark = client.item(), client.mark()
        assert client.json("/answer", {"mark": mark, "item": item, "naturalness": "4"})[0] == 200
        cluster.stop()
        status, answer = client.json("/answer", {"mark": mark, "item": item, "similarity": "2"})
        assert (status, answer["saved"]) == (503, False)
        cluster.start()
        assert client.json("/answer", {"mark": mark, "item": item, "similarity": "2"})[0] == 200
    rows = open_database(cluster.address).read("SELECT item, question, value FROM answers ORDER BY question")
    assert rows == [(item, "naturalness", "4"), (item, "similarity", "2")]
    assert item in study.items


def test_slow_postgresql_statement_is_canceled(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is answered meanwhile."""
    monkeypatch.setattr("voiceveil.apps.web.database._LONGEST_STATEMENT", 0.2)
    database = open_database(cluster.address)
    failed = []

    def wait() -> None:
        try:
            database.read("SELECT pg_sleep(60)")
        except Unavailable as error:
            failed.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    assert database.read("SELECT 1") == [(1,)]
    thread.join(timeout=30)
    assert len(failed) == 1
    assert "statement timeout" in failed[0]
    database.close()


def test_missing_databases_are_rejected() -> None:
    with pytest.raises(InputError, match="no connection to PostgreSQL"):
        open_database("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(InputError, match="unknown kind of database 'redis'"):
        open_database("redis://x")


def test_tokens_are_signed_for_one_purpose_and_expire() -> None:
    seal = Seal(new_key())
    token = seal.token("invitation", {"evaluator": "e1"}, until=1000)
    assert seal.open("invitation", token, now=999.0)["evaluator"] == "e1"
    with pytest.raises(ExpiredToken):
        seal.open("invitation", token, now=1000.0)
    with pytest.raises(BadToken):
        seal.open("cookie", token, now=0.0)
    for place in range(len(token)):
        forged = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        try:
            assert seal.open("invitation", forged, now=0.0)["evaluator"] == "e1"  # base64 has spare bits at its end
            assert place == len(token) - 1
        except BadToken:
            pass
    assert seal.digest("a", "bc") != seal.digest("ab", "c") != seal.digest("a", "b", "c")
    with pytest.raises(InputError, match="a key of 5 bytes"):
        Seal(b"short")


def test_key_is_private_and_never_overwritten(tmp_path: Path) -> None:
    write_key(tmp_path / "key", new_key())
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    before = read_key(tmp_path / "key")
    with pytest.raises(FileExistsError):
        write_key(tmp_path / "key", new_key())
    assert read_key(tmp_path / "key") == before
    (tmp_path / "bad").write_text("not hex")
    with pytest.raises(InputError, match="not a key"):
        read_key(tmp_path / "bad")


def test_rate_limits_refill_and_forget() -> None:
    limit = RateLimit(rate=2.0, burst=3)
    assert [limit.wait("a", now=0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert limit.wait("b", now=0.0) == 0.0
    assert limit.wait("a", now=0.5) == 0.0
    assert limit.wait("a", now=0.5) > 0
    for number in range(30_000):
        limit.wait(str(number), now=float(number))
    assert len(limit._buckets) <= 20_001


@pytest.mark.parametrize(
    ("asked", "status", "body", "says"),
    [
        (None, 200, b"0123456789", None),
        ("bytes=0-", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=-0", 416, b"", "bytes */10"),
        ("bytes=4-2", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("items=0-1", 200, b"0123456789", None),
        ("bytes=a-b", 200, b"0123456789", None),
        ("bytes=" + "9" * 5000 + "-", 200, b"0123456789", None),
    ],
)
def test_byte_ranges_of_a_file(asked: str | None, status: int, body: bytes, says: str | None) -> None:
    answer = ranged(b"0123456789", asked, "audio/wav", "private")
    assert (answer.status_code, answer.body, answer.headers.get("content-range")) == (status, body, says)
    assert answer.headers["accept-ranges"] == "bytes"
