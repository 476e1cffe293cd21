"""Administration of a contest: set it up, add and revoke teams, remove submissions.

``folder`` is that of the contest; ``database`` a SQLite file or a PostgreSQL address (default: ``board.sqlite`` in the
folder).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from voiceveil.apps.board.app import NAME, open_board, team_token
from voiceveil.apps.board.contest import Contest, create_contest
from voiceveil.apps.board.leaderboard import BoardEntry
from voiceveil.apps.board.lists import check_data, find_split
from voiceveil.apps.board.store import Store
from voiceveil.apps.board.verification import check_models
from voiceveil.apps.board.worker import background_worker, take_from_queue
from voiceveil.apps.web.database import Database, open_database
from voiceveil.apps.web.tokens import Revocations, Seal, check_link, open_own_token, read_key
from voiceveil.core.errors import InputError
from voiceveil.core.locking import exclusive_lock
from voiceveil.core.output_guard import refuse_overlap

__all__ = [
    "TeamToken", "add_team", "new_contest", "remove_submission", "revoke_team", "revoke_team_token", "running_board",
    "set_up_contest", "submission_entries",
]  # fmt: skip


def new_contest(
    protocol: str,
    data: Path,
    *,
    split: str | None = None,
    require_audio: bool = False,
    verify: str | int | None = None,
    rank: str | None = None,
    **rules: Any,
) -> Contest:
    """Return the rules of a contest, with defaults that depend on one another.

    Parameters
    ----------
    protocol
        Name of a protocol, ``tdsv2024``, or a TOML file.
    data
        Folder of the organizer's data.
    split
        Split to rank on (default: test or eval if the data hold it, else dev).
    require_audio
        Refuse submissions without audio.
    verify
        ``none``, ``all``, or trial utterances of each list (default: ``all`` with ``require_audio``, else ``none``).
    rank
        ``verified-only`` or ``verified-first`` (default: ``verified-only`` if submissions are verified).
    rules
        Other fields of :class:`~voiceveil.apps.board.contest.Contest`.

    Raises
    ------
    InputError
        If rules are not usable or contradict each other.
    """
    if verify is None:
        verify = "all" if require_audio else "none"
    return Contest(
        protocol,
        data,
        split or find_split(protocol, data),
        require_audio=require_audio,
        verify=verify,
        rank=rank or ("verified-first" if verify == "none" else "verified-only"),
        **rules,
    )


def set_up_contest(folder: Path, contest: Contest) -> None:
    """Create the folder of a contest, after a check of its data and of the models that verify submissions.

    Raises
    ------
    InputError
        If data or models are missing, or the folder exists or lies in the data.
    """
    check_data(contest)
    refuse_overlap(folder, [path for path in contest.data.iterdir() if path.is_dir()])
    if contest.is_verified:
        check_models(contest)
    create_contest(folder, contest)


@dataclass(frozen=True)
class TeamToken:
    """A token of a team and the link that holds it; ``is_new`` is False if the team was known before."""

    token: str
    link: str
    is_new: bool


def add_team(folder: Path, name: str, *, url: str, days: float, database: str | None = None) -> TeamToken:
    """Add a team if it is new, and return a token with which it signs in and uploads.

    Parameters
    ----------
    folder
        Folder of the contest.
    name
        Name of the team.
    url
        Address where the board is served.
    days
        Days that the token is valid.
    database
        Database of the board.

    Raises
    ------
    InputError
        If the name, the address or the number of days cannot be used.
    """
    if not NAME.fullmatch(name):
        fix = "use letters, digits, blanks and . _ + -, at most 40, beginning with a letter or digit"
        raise InputError(f"{name!r} cannot be the name of a team", fix=fix)
    check_link(url, days)
    is_new = Store(_open_database(folder, database)).add_team(name)
    token = team_token(_seal(folder), name, time.time() + 86400 * days)
    return TeamToken(token, f"{url.rstrip('/')}/team/{token}", is_new)


def revoke_team(folder: Path, name: str, database: str | None = None) -> None:
    """Make all tokens of a team so far invalid; ``InputError`` if the team is unknown."""
    opened = _open_database(folder, database)
    if not Store(opened).has_team(name):
        raise InputError(f"unknown team {name!r}", fix="give the name that `voiceveil board team` was given")
    Revocations(opened).revoke_holder(name)


def revoke_team_token(folder: Path, token: str, database: str | None = None) -> str:
    """Make a token, or the token of a link, invalid; return the name of its team."""
    opened = _open_database(folder, database)
    content = open_own_token(_seal(folder), "team", token)
    Revocations(opened).revoke_token(content)
    return str(content["team"])


def submission_entries(folder: Path, database: str | None = None) -> list[BoardEntry]:
    """Return all scored submissions with their verifications."""
    store = Store(_open_database(folder, database))
    verifications = store.verifications()
    return [BoardEntry(submission, verifications.get(submission.id)) for submission in store.scored()]


def remove_submission(folder: Path, id: str, reason: str, database: str | None = None) -> None:
    """Take a submission off the board; the team sees the reason. ``InputError`` if there is no such submission."""
    if not Store(_open_database(folder, database)).remove(id, reason):
        raise InputError(f"no scored submission {id!r}", fix="see `voiceveil board submissions CONTEST`")
    take_from_queue(folder, id)


@contextmanager
def running_board(folder: Path, database: str | None = None, *, verify: bool = True) -> Iterator[Starlette]:
    """Yield the web application of a contest, while no other server has it and submissions are verified.

    Bind the port before: an address in use must not lead to the folder of uploads being emptied.

    Parameters
    ----------
    folder, database
        Folder and database of the contest.
    verify
        Verify submissions in the background, if the contest asks for it.
    """
    contest = Contest.load(folder)  # before the lock, which would create the folder
    worker = background_worker(folder, database) if verify and contest.is_verified else nullcontext()
    with exclusive_lock(folder, "another server"), worker:
        yield open_board(folder, database)


def _open_database(folder: Path, database: str | None) -> Database:
    Contest.load(folder)  # an error if there is none
    return open_database(database or folder / "board.sqlite")


def _seal(folder: Path) -> Seal:
    return Seal(read_key(folder / "key"))
