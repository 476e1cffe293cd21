"""Teams and their submissions in the database.

Conventions: a submission takes its place when its judging begins, in one transaction with the count of the others, so
that two uploads at once cannot exceed a limit. A refused one gives its place back and stays in the history with the
reason. Times are seconds since 1970; a day is one of UTC.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from voiceveil.board.contest import Contest
from voiceveil.challenges.results import Figure
from voiceveil.web.database import Database, Row, Transaction

__all__ = ["Full", "Store", "Submission"]

_TABLES = (
    "CREATE TABLE IF NOT EXISTS teams (name TEXT PRIMARY KEY, made DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS submissions (id TEXT PRIMARY KEY, team TEXT NOT NULL, system TEXT NOT NULL, "
    "state TEXT NOT NULL, made DOUBLE PRECISION NOT NULL, sha256 TEXT NOT NULL, reason TEXT NOT NULL, "
    "figures TEXT NOT NULL)",
)
_COLUMNS = "id, team, system, state, made, sha256, reason, figures"
_DAY = 86400


class Full(Exception):
    """A team has used up its submissions; ``daily``: of today, else all."""

    def __init__(self, *, daily: bool) -> None:
        super().__init__("daily" if daily else "total")
        self.daily = daily


@dataclass(frozen=True)
class Submission:
    """One upload; ``state`` is "judging", "scored" or "refused"."""

    id: str
    team: str
    system: str
    state: str
    made: float
    sha256: str = ""
    reason: str = ""
    figures: tuple[Figure, ...] = ()


class Store:
    """The teams and submissions of one contest."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.create(_TABLES)

    def recover(self) -> None:
        """What was being judged when the server died takes no place and can be sent again."""
        reason = "the server stopped while it was judged: please send it again"
        sql = "UPDATE submissions SET state = ?, reason = ? WHERE state = ?"
        self._database.write(lambda t: t.run(sql, "refused", reason, "judging"))

    def add_team(self, name: str) -> bool:
        """Note a team; False if it is there already."""

        def work(transaction: Transaction) -> bool:
            known = bool(transaction.run("SELECT 1 FROM teams WHERE name = ?", name))
            transaction.run("INSERT INTO teams VALUES (?, ?) ON CONFLICT DO NOTHING", name, time.time())
            return not known

        return self._database.write(work)

    def has_team(self, name: str) -> bool:
        """Whether there is such a team."""
        return bool(self._database.read("SELECT 1 FROM teams WHERE name = ?", name))

    def begin(self, contest: Contest, team: str, system: str, now: float | None = None) -> str:
        """Take a place for a submission; ``Full`` if there is none."""
        moment = time.time() if now is None else now
        name = secrets.token_hex(8)

        def work(transaction: Transaction) -> None:
            sql = "SELECT made FROM submissions WHERE team = ? AND state <> ?"
            times = [row[0] for row in transaction.run(sql, team, "refused")]
            if len(times) >= contest.total:
                raise Full(daily=False)
            if sum(made // _DAY == moment // _DAY for made in times) >= contest.daily:
                raise Full(daily=True)
            values = (name, team, system, "judging", moment, "", "", "[]")
            transaction.run("INSERT INTO submissions VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", *values)

        self._database.write(work)
        return name

    def score(self, name: str, sha256: str, figures: Sequence[Figure]) -> None:
        """The submission is good: its figures."""
        data = json.dumps([asdict(figure) for figure in figures])
        sql = "UPDATE submissions SET state = ?, sha256 = ?, figures = ? WHERE id = ?"
        self._database.write(lambda t: t.run(sql, "scored", sha256, data, name))

    def refuse(self, name: str, reason: str) -> None:
        """The submission is not good, and gives its place back."""
        sql = "UPDATE submissions SET state = ?, reason = ? WHERE id = ?"
        self._database.write(lambda t: t.run(sql, "refused", reason, name))

    def left(self, contest: Contest, team: str, now: float | None = None) -> tuple[int, int]:
        """How many submissions a team may still make today, and in all."""
        moment = time.time() if now is None else now
        times = [one.made for one in self.of_team(team) if one.state != "refused"]
        today = sum(made // _DAY == moment // _DAY for made in times)
        total = max(0, contest.total - len(times))
        return min(total, max(0, contest.daily - today)), total

    def of_team(self, team: str) -> list[Submission]:
        """The history of a team, the newest first."""
        sql = f"SELECT {_COLUMNS} FROM submissions WHERE team = ? ORDER BY made DESC"  # noqa: S608 -- our own names
        return [_submission(row) for row in self._database.read(sql, team)]

    def scored(self) -> list[Submission]:
        """Everybody's scored submissions, the oldest first."""
        sql = f"SELECT {_COLUMNS} FROM submissions WHERE state = ? ORDER BY made"  # noqa: S608 -- our own names
        return [_submission(row) for row in self._database.read(sql, "scored")]


def _submission(row: Row) -> Submission:
    name, team, system, state, made, sha256, reason, figures = row
    found = tuple(Figure(**one) for one in json.loads(figures))
    return Submission(name, team, system, state, made, sha256, reason, found)
