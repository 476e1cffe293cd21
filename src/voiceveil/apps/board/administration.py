"""Administration of a contest: set it up, manage teams and submissions, show baselines, export figures.

``folder`` is that of the contest; ``database`` a SQLite file or a PostgreSQL address (default: ``board.sqlite`` in the
folder).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from voiceveil.apps.board.app import NAME, open_board, team_token
from voiceveil.apps.board.contest import TDSV, Contest, create_contest, limits_of
from voiceveil.apps.board.entries import BoardEntry, all_entries
from voiceveil.apps.board.export import write_export
from voiceveil.apps.board.lists import check_data, find_split
from voiceveil.apps.board.rules import RulesSection, rules_of
from voiceveil.apps.board.store import Baseline, Store
from voiceveil.apps.board.verification import check_models
from voiceveil.apps.board.worker import background_worker, take_from_queue
from voiceveil.apps.web.database import Database, open_database
from voiceveil.apps.web.tokens import Revocations, Seal, check_link, open_own_token, read_key
from voiceveil.core.errors import InputError
from voiceveil.core.locking import exclusive_lock
from voiceveil.core.output_guard import refuse_overlap
from voiceveil.core.registry import did_you_mean
from voiceveil.evaluation.averages import counting_figures
from voiceveil.evaluation.ranking import rank_systems
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official import read_results
from voiceveil.report.published import published as published_results

__all__ = [
    "BoardListing", "TeamToken", "add_baselines", "add_team", "contest_rules", "disqualify", "export_board",
    "list_board", "new_contest", "remove_baseline", "remove_submission", "requalify", "revoke_team",
    "revoke_team_token", "running_board", "set_up_contest",
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
        Other fields of :class:`~voiceveil.apps.board.contest.Contest`; ``daily``, ``total`` and ``largest`` are those
        of the challenge's plan by default.

    Raises
    ------
    InputError
        If rules are not usable or contradict each other.
    """
    if verify is None:
        verify = "all" if require_audio else "none"
    limits = limits_of(protocol)
    for name in ("daily", "total", "largest"):
        if rules.get(name) is None:
            rules[name] = getattr(limits, name)
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


@dataclass(frozen=True)
class BoardListing:
    """The content of a board: submissions in any state, teams without a submission, and baselines."""

    entries: tuple[BoardEntry, ...]
    teams: tuple[str, ...]  # all teams
    disqualified: Mapping[str, str]  # team -> reason
    baselines: tuple[Baseline, ...]


def list_board(folder: Path, database: str | None = None) -> BoardListing:
    """Return all submissions, teams and baselines of a contest."""
    store = Store(_open_database(folder, database))
    entries = all_entries(Contest.load(folder), store, store.all())
    out = {name: reason for (kind, name), reason in store.disqualified().items() if kind == "team"}
    return BoardListing(tuple(entries), tuple(store.teams()), out, tuple(store.baselines().values()))


def contest_rules(folder: Path) -> list[RulesSection]:
    """Return the rules of a contest in words."""
    return rules_of(Contest.load(folder), folder)


def disqualify(
    folder: Path, reason: str, *, team: str | None = None, submission: str | None = None, database: str | None = None
) -> None:
    """Disqualify a team or a submission: it stays on the board, without a place and with the reason.

    A disqualified team cannot upload any more.

    Raises
    ------
    InputError
        If there is no such team or scored submission.
    """
    store = Store(_open_database(folder, database))
    kind, name = _disqualifiable(store, team, submission)
    store.disqualify(kind, name, reason)


def requalify(
    folder: Path, *, team: str | None = None, submission: str | None = None, database: str | None = None
) -> None:
    """Take the disqualification of a team or a submission back."""
    store = Store(_open_database(folder, database))
    kind, name = _disqualifiable(store, team, submission)
    if (kind, name) not in store.disqualified():
        raise InputError(f"{name!r} is not disqualified", fix="see `voiceveil board list CONTEST`")
    store.requalify(kind, name)


def _disqualifiable(store: Store, team: str | None, submission: str | None) -> tuple[str, str]:
    if team is not None:
        if not store.has_team(team):
            raise InputError(f"unknown team {team!r}", fix=did_you_mean(team, store.teams()))
        return "team", team
    if submission not in {scored.id for scored in store.scored()}:
        raise InputError(f"no scored submission {submission!r}", fix="see `voiceveil board list CONTEST`")
    return "submission", str(submission)


def add_baselines(
    folder: Path, results: Mapping[str, Path], *, published: bool = False, database: str | None = None
) -> list[str]:
    """Show systems of the organizer's on the board, without places, and return their names.

    Parameters
    ----------
    folder, database
        Folder and database of the contest.
    results
        Name -> results of ``voiceveil evaluate``, or an official result file.
    published
        Show the published baselines of the challenge as well.

    Raises
    ------
    InputError
        If results are of another protocol, or have no figures of the contest's split.
    """
    contest = Contest.load(folder)
    if contest.protocol == TDSV:
        raise InputError("baselines of tdsv2024 are not read", fix="add a team for the organizers, and submit them")
    named = [(name, read_results(path, system=name), path.name) for name, path in results.items()]
    if published:
        reference = published_results(contest.rules.name)
        if not reference:
            raise InputError(f"no published baselines of {contest.rules.name}", fix="name results of your own")
        named += [(row.system, row, "published by the challenge") for row in reference]
    checked = [(name, source, _baseline_figures(contest, own)) for name, own, source in named]
    store = Store(_open_database(folder, database))
    for name, source, figures in checked:
        store.set_baseline(name, source, figures)
    return [name for name, _, _ in checked]


def _baseline_figures(contest: Contest, results: Results) -> tuple[Figure, ...]:
    """Return the figures of a baseline that the board shows: of its split, and of the attacker that counts."""
    if not NAME.fullmatch(results.system):
        raise InputError(f"{results.system!r} cannot be the name of a baseline", fix="name it: NAME=RESULTS")
    standing = rank_systems([results], contest.rules, split=contest.split).standings[0]
    utility = [
        figure
        for metric in contest.ranking.by
        for figure in counting_figures(results, metric, contest.rules, split=contest.split)
        if figure.condition != "o"
    ]
    pitch = () if "pitch_correlation" in contest.ranking.by else results.find("pitch_correlation", split=contest.split)
    eers = (f for f in results.find("eer", condition="aa", split=contest.split) if f.attacker == standing.attacker)
    return tuple(replace(figure, detail={}) for figure in (*eers, *utility, *pitch))


def remove_baseline(folder: Path, name: str, database: str | None = None) -> None:
    """Take a baseline off the board; ``InputError`` if there is none of this name."""
    store = Store(_open_database(folder, database))
    if not store.remove_baseline(name):
        raise InputError(f"no baseline {name!r}", fix=did_you_mean(name, list(store.baselines())))


def export_board(folder: Path, out: Path, database: str | None = None) -> list[Path]:
    """Write all that the board knows into a new folder, and return the files.

    ``submissions.csv`` has one line for each submission, ``figures.csv`` one for each of their figures;
    ``results/TEAM/SYSTEM/results.json`` holds the figures of an entry that counts, for `voiceveil rank` and `report`;
    disqualified ones are left out.
    Hidden figures are in these files: they are for the organizer.

    Raises
    ------
    InputError
        If ``out`` exists.
    """
    if os.path.lexists(out):
        raise InputError("this folder exists already", where=out, fix="name a new folder")
    contest = Contest.load(folder)
    store = Store(_open_database(folder, database))
    return write_export(contest, store, out)


def remove_submission(folder: Path, id: str, reason: str, database: str | None = None) -> None:
    """Take a submission off the board; the team sees the reason. ``InputError`` if there is no such submission."""
    if not Store(_open_database(folder, database)).remove(id, reason):
        raise InputError(f"no scored submission {id!r}", fix="see `voiceveil board list CONTEST`")
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
