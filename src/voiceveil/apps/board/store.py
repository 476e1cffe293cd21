"""Teams and their submissions in the database.

Conventions: a submission counts for the limits from the start of its scoring, in one transaction with the count of the
others, so that two uploads at once cannot exceed a limit. A refused one no longer counts and stays in the history with
the reason; one that the organizer removes still counts. Times are seconds since 1970; days are those of UTC.

A disqualified team or submission stays on the board, without a place and with the reason. A description belongs to a
system of a team, and the last one counts. Baselines are the organizer's; they take no place.

A verification is a row of its own: "waiting", "verifying" with its progress, and at its end "verified", "differs",
"rejected" (for its audio) or "failed" (for a fault on this machine). A submission without such a row is not verified.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from voiceveil.apps.board.contest import Contest
from voiceveil.apps.web.database import Database, Row, Transaction
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Figure, upgraded_figure

__all__ = ["Baseline", "LimitReached", "Store", "Submission", "SubmissionVerification"]

_TABLES = (
    "CREATE TABLE IF NOT EXISTS teams (name TEXT PRIMARY KEY, made DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS submissions (id TEXT PRIMARY KEY, team TEXT NOT NULL, system TEXT NOT NULL, "
    "state TEXT NOT NULL, made DOUBLE PRECISION NOT NULL, sha256 TEXT NOT NULL, reason TEXT NOT NULL, "
    "figures TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS verifications (submission TEXT PRIMARY KEY, state TEXT NOT NULL, "
    "progress DOUBLE PRECISION NOT NULL, attempts INTEGER NOT NULL, reason TEXT NOT NULL, figures TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS disqualifications (kind TEXT NOT NULL, name TEXT NOT NULL, reason TEXT NOT NULL, "
    "PRIMARY KEY (kind, name))",
    "CREATE TABLE IF NOT EXISTS descriptions (team TEXT NOT NULL, system TEXT NOT NULL, text TEXT NOT NULL, "
    "PRIMARY KEY (team, system))",
    "CREATE TABLE IF NOT EXISTS baselines (name TEXT PRIMARY KEY, source TEXT NOT NULL, figures TEXT NOT NULL)",
)
_COLUMNS = "id, team, system, state, made, sha256, reason, figures"
_DAY = 86400


class LimitReached(Exception):
    """A team has used up its submissions: those of today if ``daily``, else all."""

    def __init__(self, *, daily: bool) -> None:
        super().__init__("daily" if daily else "total")
        self.daily = daily


@dataclass(frozen=True)
class Submission:
    """One upload; ``state`` is "judging", "scored", "refused" or "removed"."""

    id: str
    team: str
    system: str
    state: str
    submitted: float
    sha256: str = ""
    reason: str = ""
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class SubmissionVerification:
    """The verification of a submission: ``progress`` from 0 to 1, ``figures`` as recomputed."""

    submission: str
    state: str
    progress: float = 0.0
    attempts: int = 0
    reason: str = ""
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """A system of the organizer's to compare with; ``source`` says who measured it."""

    name: str
    source: str
    figures: tuple[Figure, ...]


class Store:
    """The teams and submissions of one contest."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.create(_TABLES)

    def recover(self) -> None:
        """Refuse the submissions that were being scored when the server died: teams can send them again."""
        reason = "the server stopped while it was scored: please send it again"
        sql = "UPDATE submissions SET state = ?, reason = ? WHERE state = ?"
        self._database.write(lambda t: t.run(sql, "refused", reason, "judging"))

    def add_team(self, name: str) -> bool:
        """Add a team; return False if it exists already."""

        def work(transaction: Transaction) -> bool:
            known = bool(transaction.run("SELECT 1 FROM teams WHERE name = ?", name))
            transaction.run("INSERT INTO teams VALUES (?, ?) ON CONFLICT DO NOTHING", name, time.time())
            return not known

        return self._database.write(work)

    def has_team(self, name: str) -> bool:
        """Return whether there is such a team."""
        return bool(self._database.read("SELECT 1 FROM teams WHERE name = ?", name))

    def begin(self, contest: Contest, team: str, system: str, now: float | None = None) -> str:
        """Count a new submission and return its id; ``LimitReached`` if the team has none left."""
        moment = time.time() if now is None else now
        name = secrets.token_hex(8)

        def work(transaction: Transaction) -> None:
            sql = "SELECT made FROM submissions WHERE team = ? AND state <> ?"
            times = [row[0] for row in transaction.run(sql, team, "refused")]
            if contest.total and len(times) >= contest.total:
                raise LimitReached(daily=False)
            if contest.daily and sum(time_ // _DAY == moment // _DAY for time_ in times) >= contest.daily:
                raise LimitReached(daily=True)
            values = (name, team, system, "judging", moment, "", "", "[]")
            transaction.run("INSERT INTO submissions VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", *values)

        self._database.write(work)
        return name

    def score(self, name: str, sha256: str, figures: Sequence[Figure], *, verify: bool = False) -> None:
        """Accept a submission with its figures; ``verify`` puts it into the queue of the verification as well."""

        def work(transaction: Transaction) -> None:
            sql = "UPDATE submissions SET state = ?, sha256 = ?, figures = ? WHERE id = ?"
            transaction.run(sql, "scored", sha256, _encoded(figures), name)
            if verify:
                sql = "INSERT INTO verifications VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
                transaction.run(sql, name, "waiting", 0.0, 0, "", "[]")

        self._database.write(work)

    def remove(self, name: str, reason: str) -> bool:
        """Take a scored submission off the board, and return whether there was one; it still counts for the limits."""

        def work(transaction: Transaction) -> bool:
            known = transaction.run("SELECT 1 FROM submissions WHERE id = ? AND state = ?", name, "scored")
            sql = "UPDATE submissions SET state = ?, reason = ? WHERE id = ? AND state = ?"
            transaction.run(sql, "removed", reason, name, "scored")
            transaction.run("DELETE FROM verifications WHERE submission = ? AND state = ?", name, "waiting")
            return bool(known)

        return self._database.write(work)

    def verifications(self) -> dict[str, SubmissionVerification]:
        """Return submission -> its verification, of all that have one."""
        sql = "SELECT submission, state, progress, attempts, reason, figures FROM verifications"
        return {row[0]: _verification(row) for row in self._database.read(sql)}

    def next_verification(self) -> Submission | None:
        """Take the oldest submission that waits, which is "verifying" from now on; None if none waits."""

        def work(transaction: Transaction) -> Submission | None:
            columns = ", ".join(f"s.{column}" for column in _COLUMNS.split(", "))
            sql = f"SELECT {columns} FROM submissions s JOIN verifications v ON v.submission = s.id "  # noqa: S608
            rows = transaction.run(
                f"{sql} WHERE v.state = ? AND s.state = ? ORDER BY s.made LIMIT 1", "waiting", "scored"
            )
            if not rows:
                return None
            taken = _submission(rows[0])
            sql = "UPDATE verifications SET state = ?, attempts = attempts + 1 WHERE submission = ?"
            transaction.run(sql, "verifying", taken.id)
            return taken

        return self._database.write(work)

    def note_progress(self, name: str, progress: float) -> None:
        """Record how far a verification is, 0 to 1; one that gets further than before has all its attempts again."""
        sql = "UPDATE verifications SET progress = ?, attempts = 0 WHERE submission = ? AND progress < ?"
        self._database.write(lambda t: t.run(sql, progress, name, progress))

    def end_verification(self, name: str, state: str, reason: str, figures: Sequence[Figure] = ()) -> None:
        """Record the outcome of a verification."""
        sql = "UPDATE verifications SET state = ?, progress = ?, reason = ?, figures = ? WHERE submission = ?"
        self._database.write(lambda t: t.run(sql, state, 1.0, reason, _encoded(figures), name))

    def retry_verifications(self) -> int:
        """Let verifications that have failed wait again, and return how many."""

        def work(transaction: Transaction) -> int:
            count = transaction.run("SELECT COUNT(*) FROM verifications WHERE state = ?", "failed")[0][0]
            sql = "UPDATE verifications SET state = ?, attempts = 0, reason = ? WHERE state = ?"
            transaction.run(sql, "waiting", "", "failed")
            return int(count)

        return self._database.write(work)

    def requeue_verifications(self, most_attempts: int) -> None:
        """Queue verifications again whose process died; after ``most_attempts`` attempts they have failed."""

        def work(transaction: Transaction) -> None:
            sql = "UPDATE verifications SET state = ?, reason = ? WHERE state = ? AND attempts >= ?"
            transaction.run(
                sql, "failed", f"the verification was broken off {most_attempts} times", "verifying", most_attempts
            )
            transaction.run("UPDATE verifications SET state = ? WHERE state = ?", "waiting", "verifying")

        self._database.write(work)

    def refuse(self, name: str, reason: str) -> None:
        """Refuse a submission, which then does not count for the limits."""
        sql = "UPDATE submissions SET state = ?, reason = ? WHERE id = ?"
        self._database.write(lambda t: t.run(sql, "refused", reason, name))

    def left(self, contest: Contest, team: str, now: float | None = None) -> tuple[int | None, int | None]:
        """Return the number of submissions that a team may still make today, and in all; None is any number."""
        moment = time.time() if now is None else now
        times = [submission.submitted for submission in self.of_team(team) if submission.state != "refused"]
        today = sum(time_ // _DAY == moment // _DAY for time_ in times)
        total = max(0, contest.total - len(times)) if contest.total else None
        if not contest.daily:
            return total, total
        left = max(0, contest.daily - today)
        return left if total is None else min(total, left), total

    def of_team(self, team: str) -> list[Submission]:
        """Return the submissions of a team, the newest first."""
        sql = f"SELECT {_COLUMNS} FROM submissions WHERE team = ? ORDER BY made DESC"  # noqa: S608 -- our own names
        return [_submission(row) for row in self._database.read(sql, team)]

    def scored(self) -> list[Submission]:
        """Return the scored submissions of all teams, the oldest first."""
        return [submission for submission in self.all() if submission.state == "scored"]

    def all(self) -> list[Submission]:
        """Return all submissions, the oldest first."""
        sql = f"SELECT {_COLUMNS} FROM submissions ORDER BY made"  # noqa: S608 -- our own names
        return [_submission(row) for row in self._database.read(sql)]

    def teams(self) -> list[str]:
        """Return the names of all teams, sorted."""
        return [row[0] for row in self._database.read("SELECT name FROM teams ORDER BY name")]

    def disqualify(self, kind: str, name: str, reason: str) -> None:
        """Disqualify a team (``kind`` "team") or the submission of an id ("submission")."""
        sql = "INSERT INTO disqualifications VALUES (?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET reason = ?"
        self._database.write(lambda t: t.run(sql, kind, name, reason, reason))

    def requalify(self, kind: str, name: str) -> None:
        """Take a disqualification back."""
        self._database.write(lambda t: t.run("DELETE FROM disqualifications WHERE kind = ? AND name = ?", kind, name))

    def disqualified(self) -> dict[tuple[str, str], str]:
        """Return ("team", name) or ("submission", id) -> reason."""
        rows = self._database.read("SELECT kind, name, reason FROM disqualifications")
        return {(kind, name): reason for kind, name, reason in rows}

    def describe(self, team: str, system: str, text: str) -> None:
        """Store the description of a system; an empty one deletes it."""

        def work(transaction: Transaction) -> None:
            transaction.run("DELETE FROM descriptions WHERE team = ? AND system = ?", team, system)
            if text:
                sql = "INSERT INTO descriptions VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
                transaction.run(sql, team, system, text)

        self._database.write(work)

    def descriptions(self) -> dict[tuple[str, str], str]:
        """Return (team, system) -> the description of the system."""
        rows = self._database.read("SELECT team, system, text FROM descriptions")
        return {(team, system): text for team, system, text in rows}

    def set_baseline(self, name: str, source: str, figures: Sequence[Figure]) -> None:
        """Store a baseline, in place of one of the same name."""
        sql = "INSERT INTO baselines VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET source = ?, figures = ?"
        text = _encoded(figures)
        self._database.write(lambda t: t.run(sql, name, source, text, source, text))

    def remove_baseline(self, name: str) -> bool:
        """Delete a baseline, and return whether there was one."""

        def work(transaction: Transaction) -> bool:
            known = transaction.run("SELECT 1 FROM baselines WHERE name = ?", name)
            transaction.run("DELETE FROM baselines WHERE name = ?", name)
            return bool(known)

        return self._database.write(work)

    def baselines(self) -> dict[str, Baseline]:
        """Return name -> baseline, sorted by name."""
        rows = self._database.read("SELECT name, source, figures FROM baselines ORDER BY name")
        return {name: Baseline(name, source, _figures(figures)) for name, source, figures in rows}


def _encoded(figures: Sequence[Figure]) -> str:
    return json.dumps([asdict(figure) for figure in figures])


def _figures(text: str) -> tuple[Figure, ...]:
    try:
        return tuple(Figure(**upgraded_figure(row)) for row in parse_json(text, nan=True))
    except (TypeError, ValueError) as error:
        raise InputError(f"figures in the database are not of the right form: {error}") from error


def _verification(row: Row) -> SubmissionVerification:
    submission, state, progress, attempts, reason, figures = row
    return SubmissionVerification(submission, state, progress, attempts, reason, _figures(figures))


def _submission(row: Row) -> Submission:
    name, team, system, state, submitted, sha256, reason, figures = row
    return Submission(name, team, system, state, submitted, sha256, reason, _figures(figures))
