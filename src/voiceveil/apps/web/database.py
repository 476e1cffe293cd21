"""The database of a web application: SQLite in one file, or PostgreSQL.

Conventions: SQL has ``?`` for values, never values themselves, and keeps to what both databases understand. A write is
a function of a :class:`Transaction`; when :meth:`Database.write` returns, it is on disk (SQLite: write-ahead log,
synced at each commit). It may be run again after a conflict or a lost connection, hence its statements must be
idempotent (``ON CONFLICT``). Transactions are serializable: a write sees no other write in the middle. Every call
blocks: call it from a worker thread (:mod:`voiceveil.apps.web.limits`), never from the event loop.

Rows that :meth:`Database.erase` deletes are also removed from SQLite's files: deleted bytes are overwritten
(``secure_delete``), the file is rebuilt (``VACUUM``) and the write-ahead log is emptied. PostgreSQL keeps deleted rows
in its files until it vacuums.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from voiceveil.core.errors import InputError

__all__ = ["Database", "Transaction", "Unavailable", "open_database"]

T = TypeVar("T")
Row = tuple[Any, ...]

_CONNECTIONS = 16  # of a process
_ATTEMPTS = 5
_PATIENCE = 5.0  # seconds that a statement waits for another process, and a writer for its turn
_SCRUB_PAUSE = 30.0  # seconds between attempts to remove erased rows while another process reads them
_LONGEST_STATEMENT = 10  # seconds; PostgreSQL ends a statement that takes longer
#: "VVDB" in the header of a SQLite file: it is a database of these applications.
_APPLICATION = 0x56564442


class Unavailable(Exception):
    """The database does not answer; the client should try again."""


class _Cursor(Protocol):
    description: Any

    def fetchall(self) -> list[Any]:
        """Return all rows."""


class _Connection(Protocol):
    def execute(self, sql: Any, values: Any = ..., /) -> Any:
        """Run a statement."""

    def close(self) -> None:
        """Close the connection."""


class Transaction:
    """Statements that take effect together or not at all."""

    def __init__(self, connection: _Connection, mark: str) -> None:
        self._connection = connection
        self._mark = mark

    def run(self, sql: str, *values: object) -> list[Row]:
        """Run one statement and return its rows."""
        cursor: _Cursor = self._connection.execute(sql.replace("?", self._mark), values)
        return cursor.fetchall() if cursor.description is not None else []


@dataclass(frozen=True)
class Driver:
    """The differences between kinds of databases.

    Parameters
    ----------
    connect
        Opens a connection.
    begin
        Statement that opens a writing transaction.
    mark
        Placeholder of a value in SQL.
    one_writer
        Only one thread of the process may write at a time.
    is_transient, is_broken
        Whether after an error the work can be repeated, and whether the connection is lost.
    scrub
        Removes deleted rows from the files; returns whether it could.
    """

    connect: Callable[[], _Connection]
    begin: str
    mark: str
    one_writer: bool
    is_transient: Callable[[BaseException], bool]
    is_broken: Callable[[BaseException], bool] = lambda error: False
    scrub: Callable[[_Connection], bool] = lambda connection: True


class Database:
    """A pool of connections."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        # SQLite lets one write at a time, and makes the others poll: it is better that they wait in line.
        self._turn = threading.Lock() if driver.one_writer else None
        self._scrub_after: float | None = None  # time of the monotonic clock; None: nothing was erased
        self._idle: queue.LifoQueue[_Connection] = queue.LifoQueue()
        self._free = threading.BoundedSemaphore(_CONNECTIONS)

    def read(self, sql: str, *values: object) -> list[Row]:
        """Return the rows of one query."""
        return self._repeatedly(lambda connection: Transaction(connection, self._driver.mark).run(sql, *values))

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a transaction; when this returns, its effects are on disk."""

        def attempt(connection: _Connection) -> T:
            connection.execute(self._driver.begin)
            try:
                result = work(Transaction(connection, self._driver.mark))
                connection.execute("COMMIT")
            except BaseException as error:
                if not self._driver.is_broken(error):
                    connection.execute("ROLLBACK")
                raise
            if self._scrub_after is not None and time.monotonic() >= self._scrub_after:
                # If another process is reading at that moment, a later write tries again.
                self._scrub_after = None if self._driver.scrub(connection) else time.monotonic() + _SCRUB_PAUSE
            return result

        if self._turn is None:
            return self._repeatedly(attempt)
        if not self._turn.acquire(timeout=_PATIENCE):
            raise Unavailable("other writes take too long")
        try:
            return self._repeatedly(attempt)
        finally:
            self._turn.release()

    def erase(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work``, which deletes rows, in a transaction and remove these rows from the files as well."""
        self._scrub_after = time.monotonic()
        return self.write(work)

    def create(self, statements: Sequence[str]) -> None:
        """Create missing tables; ``statements`` begin with ``CREATE TABLE IF NOT EXISTS``."""

        def make(transaction: Transaction) -> None:
            for statement in statements:
                transaction.run(statement)

        self.write(make)

    def close(self) -> None:
        """Close all idle connections."""
        while not self._idle.empty():
            self._idle.get().close()

    def _repeatedly(self, work: Callable[[_Connection], T]) -> T:
        last: BaseException | None = None
        deadline = time.monotonic() + 2 * _PATIENCE
        for attempt in range(_ATTEMPTS):
            if attempt and time.monotonic() > deadline:
                break
            try:
                with self._connection() as connection:
                    return work(connection)
            except Exception as error:
                if not (self._driver.is_transient(error) or self._driver.is_broken(error)):
                    raise
                last = error
        raise Unavailable(str(last)) from last

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        with self._free:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                connection = self._driver.connect()
            try:
                yield connection
            except Exception as error:
                if self._driver.is_broken(error):
                    connection.close()
                    while not self._idle.empty():  # the others have lost their server as well
                        self._idle.get().close()
                else:
                    self._idle.put(connection)
                raise
            self._idle.put(connection)


def open_database(where: str | Path) -> Database:
    """Open a database by its path (SQLite, created if missing) or address (``postgresql://user@host/name``)."""
    address = str(where)
    if address.startswith(("postgresql://", "postgres://")):
        return _postgresql(address)
    if "://" in address:
        raise InputError(f"unknown kind of database {address.partition(':')[0]!r}", fix="a path, or postgresql://...")
    return _sqlite(Path(where))


def _sqlite(path: Path) -> Database:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # an acknowledged answer outlives a power cut
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")  # VACUUM puts no copy of the answers into a public folder
        return connection

    def scrub(connection: _Connection) -> bool:
        try:
            connection.execute("PRAGMA busy_timeout = 1000")
            connection.execute("VACUUM")  # a page that was split may hold old copies which secure_delete passes over
            busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.OperationalError:  # another process reads or writes
            return False
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(1000 * _PATIENCE)}")
        return not busy

    def is_transient(error: BaseException) -> bool:
        return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)

    try:
        _claim(path)
        first = connect()
        first.execute("PRAGMA busy_timeout = 0")
        first.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # rows that a killed server erased are still in its log
        first.close()
    except sqlite3.Error as error:
        raise InputError(f"not usable as a database: {error}", where=path, fix="give another path") from error
    return Database(Driver(connect, "BEGIN IMMEDIATE", "?", one_writer=True, is_transient=is_transient, scrub=scrub))


def _claim(path: Path) -> None:
    """Mark a new file as a database of these applications; raise ``InputError`` for one of another program."""
    with closing(sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)) as connection:
        if connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION:
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise InputError("this is the database of another program", where=path, fix="give another --database")
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")


def _postgresql(address: str) -> Database:
    try:
        import psycopg
    except ImportError as error:
        raise InputError("PostgreSQL needs another package", fix="pip install 'voiceveil[postgres]'") from error

    def connect() -> psycopg.Connection[Row]:
        connection = psycopg.connect(address, autocommit=True, connect_timeout=5)
        connection.execute(f"SET statement_timeout = '{_LONGEST_STATEMENT}s'")
        return connection

    def is_transient(error: BaseException) -> bool:
        return isinstance(error, psycopg.errors.SerializationFailure | psycopg.errors.DeadlockDetected)

    def is_broken(error: BaseException) -> bool:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return lost and not is_transient(error)

    try:
        connect().close()
    except psycopg.Error as error:
        raise InputError(f"no connection to PostgreSQL: {str(error).strip()}", fix="is it running?") from error
    begin = "BEGIN ISOLATION LEVEL SERIALIZABLE"
    return Database(Driver(connect, begin, "%s", one_writer=False, is_transient=is_transient, is_broken=is_broken))
