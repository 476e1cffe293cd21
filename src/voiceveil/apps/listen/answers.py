"""The answers of evaluators in the database: consent, answers, moves of excerpts, and finished items.

Conventions: an answer is identified by (evaluator, item, question), a move by (evaluator, item, number): sending one
again changes nothing, so that lost acknowledgements and replayed requests store nothing twice. A finished item is
closed: it takes no more answers. Times are seconds since 1970.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from voiceveil.apps.web.database import Database, Transaction
from voiceveil.core.errors import InputError

__all__ = ["Answers", "Closed", "Conflict", "Move"]

_TABLES = (
    "CREATE TABLE IF NOT EXISTS study (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS consents (evaluator TEXT PRIMARY KEY, background TEXT NOT NULL, "
    "given DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS answers (evaluator TEXT NOT NULL, item TEXT NOT NULL, question TEXT NOT NULL, "
    "value TEXT NOT NULL, changes INTEGER NOT NULL, given DOUBLE PRECISION NOT NULL, "
    "PRIMARY KEY (evaluator, item, question))",
    "CREATE TABLE IF NOT EXISTS moves (evaluator TEXT NOT NULL, item TEXT NOT NULL, number INTEGER NOT NULL, "
    "excerpt INTEGER NOT NULL, cluster INTEGER NOT NULL, made DOUBLE PRECISION NOT NULL, "
    "PRIMARY KEY (evaluator, item, number))",
    "CREATE TABLE IF NOT EXISTS finished (evaluator TEXT NOT NULL, item TEXT NOT NULL, plays INTEGER NOT NULL, "
    "seconds DOUBLE PRECISION NOT NULL, at DOUBLE PRECISION NOT NULL, PRIMARY KEY (evaluator, item))",
)
_OF_EVALUATOR = ("consents", "answers", "moves", "finished")


class Closed(Exception):
    """The item is finished, or the evaluator has not consented."""


class Conflict(Exception):
    """Another browser window has continued in the meantime."""


@dataclass(frozen=True)
class Move:
    """An excerpt (from 0) is put into a cluster (from 1)."""

    excerpt: int
    cluster: int


class Answers:
    """The answers of one study in one database."""

    def __init__(self, database: Database, fingerprint: str) -> None:
        self._database = database
        database.create(_TABLES)

        def claim(transaction: Transaction) -> str:
            transaction.run("INSERT INTO study VALUES (?, ?) ON CONFLICT DO NOTHING", "design", fingerprint)
            return str(transaction.run("SELECT value FROM study WHERE name = ?", "design")[0][0])

        if database.write(claim) != fingerprint:
            raise InputError("the database holds the answers of another design", fix="give each study its own")

    def consent(self, evaluator: str, background: Mapping[str, str]) -> None:
        """Store the consent of an evaluator and their background; later calls change neither."""
        values = (evaluator, json.dumps(background), time.time())
        self._database.write(lambda t: t.run("INSERT INTO consents VALUES (?, ?, ?) ON CONFLICT DO NOTHING", *values))

    def has_consented(self, evaluator: str) -> bool:
        """Return whether an evaluator takes part."""
        return bool(self._database.read("SELECT 1 FROM consents WHERE evaluator = ?", evaluator))

    def finished(self, evaluator: str) -> set[str]:
        """Return the items that an evaluator has finished."""
        return {row[0] for row in self._database.read("SELECT item FROM finished WHERE evaluator = ?", evaluator)}

    def given(self, evaluator: str, item: str) -> dict[str, str]:
        """Return question -> the current answer."""
        rows = self._database.read(
            "SELECT question, value FROM answers WHERE evaluator = ? AND item = ?", evaluator, item
        )
        return dict(rows)

    def moves(self, evaluator: str, item: str) -> list[Move]:
        """Return the moves in a panel so far, in their order."""
        rows = self._database.read(
            "SELECT excerpt, cluster FROM moves WHERE evaluator = ? AND item = ? ORDER BY number", evaluator, item
        )
        return [Move(*row) for row in rows]

    def answer(self, evaluator: str, item: str, answers: Mapping[str, str]) -> None:
        """Store answers to an item that is still open; a new answer takes the place of the old one."""
        self._database.write(lambda transaction: self._store(transaction, evaluator, item, answers))

    def finish(
        self, evaluator: str, item: str, answers: Mapping[str, str], *, plays: int = 0, seconds: float = 0.0
    ) -> None:
        """Store the last answers to an item and close it."""

        def work(transaction: Transaction) -> None:
            self._store(transaction, evaluator, item, answers)
            values = (evaluator, item, plays, seconds, time.time())
            transaction.run("INSERT INTO finished VALUES (?, ?, ?, ?, ?)", *values)

        self._database.write(work)

    def move(self, evaluator: str, item: str, number: int, move: Move) -> None:
        """Store move ``number`` (from 0) of a panel.

        Storing the same move again changes nothing; another move under a stored number raises ``Conflict``.
        """

        def work(transaction: Transaction) -> None:
            self._must_be_open(transaction, evaluator, item)
            rows = transaction.run(
                "SELECT excerpt, cluster FROM moves WHERE evaluator = ? AND item = ? ORDER BY number", evaluator, item
            )
            if number < len(rows):
                if Move(*rows[number]) != move:
                    raise Conflict
                return
            if number > len(rows):
                raise Conflict
            values = (evaluator, item, number, move.excerpt, move.cluster, time.time())
            transaction.run("INSERT INTO moves VALUES (?, ?, ?, ?, ?, ?)", *values)

        self._database.write(work)

    def withdraw(self, evaluator: str) -> None:
        """Delete all data of an evaluator, also from the free pages of SQLite files."""

        def work(transaction: Transaction) -> None:
            for table in _OF_EVALUATOR:
                transaction.run(f"DELETE FROM {table} WHERE evaluator = ?", evaluator)  # noqa: S608 -- our own names

        self._database.erase(work)

    def table(self, name: str) -> list[tuple[object, ...]]:
        """Return all rows of one of the tables, for the analysis."""
        if name not in _OF_EVALUATOR:
            raise KeyError(name)
        return self._database.read(f"SELECT * FROM {name}")  # noqa: S608 -- our own names

    def _store(self, transaction: Transaction, evaluator: str, item: str, answers: Mapping[str, str]) -> None:
        self._must_be_open(transaction, evaluator, item)
        for question, value in answers.items():
            transaction.run(
                "INSERT INTO answers VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT (evaluator, item, question) DO UPDATE SET "
                "changes = answers.changes + CASE WHEN answers.value = excluded.value THEN 0 ELSE 1 END, "
                "value = excluded.value, given = excluded.given",
                *(evaluator, item, question, value, time.time()),
            )

    def _must_be_open(self, transaction: Transaction, evaluator: str, item: str) -> None:
        if transaction.run("SELECT 1 FROM finished WHERE evaluator = ? AND item = ?", evaluator, item):
            raise Closed
        if not transaction.run("SELECT 1 FROM consents WHERE evaluator = ?", evaluator):
            raise Closed
