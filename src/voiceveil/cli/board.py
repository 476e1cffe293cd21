"""Run the leaderboard of a challenge: teams upload submissions, which are scored again and ranked.

DATA is read only: the Kaldi directories of a VoicePrivacy Challenge with their trials and texts, or the folder of a
TdSV challenge with its keys. No number that a team submits is trusted: EERs come from scores, WERs from transcripts.
Scores and transcripts can be invented: with --require-audio the board attacks and transcribes the audio again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from voiceveil.cli.options import add_former_name
from voiceveil.cli.serving import add_serving_arguments, bound_socket, serve_app
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines

if TYPE_CHECKING:
    from voiceveil.apps.board.store import Store

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
examples:
  voiceveil board create contest --protocol vpc2024 --data data --title "Our challenge"
  voiceveil board create contest --protocol vpc2024 --data data --require-audio --verify 200
  voiceveil board create contest --protocol tdsv2024 --data tdsv --daily 2 --total 10
  voiceveil board team contest "Team A" --url https://board.example.org --days 60
  voiceveil board revoke contest --team "Team A"
  voiceveil board serve contest --port 8080 --allow-host board.example.org --proxies 127.0.0.1
  voiceveil board submissions contest
  voiceveil board remove contest 0123456789abcdef --reason "the audio is not that of the team"
  curl --data-binary @submission_b2.tar.gz -H "Authorization: Bearer TOKEN" "https://board.example.org/submit?system=b2"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions and their options."""
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="create|team|revoke|serve|verify|submissions|remove"
    )
    create = actions.add_parser("create", help="make the folder of a contest")
    create.add_argument("contest", type=Path, metavar="CONTEST", help="a new folder")
    create.add_argument(
        "--protocol",
        required=True,
        metavar="NAME|FILE.toml",
        help="vpc2022, vpc2024, tdsv2024, or a protocol of your own that ranks by WER",
    )
    create.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="DATA",
        help="original data: sets, trial lists and texts to score with",
    )
    create.add_argument(
        "--split", metavar="NAME", help="test, dev or eval (default: test or eval if DATA holds it, else dev)"
    )
    create.add_argument("--title", default="Leaderboard", help="title of the pages")
    create.add_argument(
        "--daily", type=int, default=2, metavar="N", help="submissions of a team per day (default: %(default)s)"
    )
    create.add_argument(
        "--total", type=int, default=10, metavar="N", help="submissions of a team in total (default: %(default)s)"
    )
    create.add_argument("--require-audio", action="store_true", help="refuse submissions without the anonymized audio")
    create.add_argument(
        "--verify",
        metavar="none|all|N",
        help="attack and transcribe submitted audio again: all of it, or a secret random sample of N utterances of "
        "each trial list (default: all with --require-audio, else none)",
    )
    create.add_argument(
        "--attackers",
        default="campplus",
        metavar="LIST",
        help="to verify with, A,B: the strongest counts (%(default)s)",
    )
    create.add_argument(
        "--recognizer",
        default="moonshine",
        metavar="NAME",
        help="speech recognizer of the verification (default: moonshine)",
    )
    add_former_name(create, "--recogniser", "--recognizer")
    create.add_argument(
        "--rank",
        choices=["verified-only", "verified-first"],
        help="systems that are not verified get no place, or one behind all that are (default: verified-only with "
        "--verify)",
    )
    team = actions.add_parser("team", help="add a team, and print its link and token")
    team.add_argument("contest", type=Path, metavar="CONTEST")
    team.add_argument("name", metavar="NAME")
    team.add_argument(
        "--url", default="http://127.0.0.1:8000", metavar="URL", help="address where the board will be served"
    )
    team.add_argument(
        "--days", type=float, default=90.0, metavar="N", help="days that the token is valid (default: %(default)g)"
    )
    revoke = actions.add_parser("revoke", help="make the tokens of a team, or a single token, invalid at once")
    revoke.add_argument("contest", type=Path, metavar="CONTEST")
    whose = revoke.add_mutually_exclusive_group(required=True)
    whose.add_argument("--team", metavar="NAME", help="all tokens of this team so far; its figures stay on the board")
    whose.add_argument("--token", metavar="TOKEN", help="this token, or the token of this link")
    serve = actions.add_parser("serve", help="serve a board until Ctrl-C")
    serve.add_argument("contest", type=Path, metavar="CONTEST")
    add_serving_arguments(serve)
    serve.add_argument(
        "--no-worker", action="store_true", help="verify nothing in this process: `voiceveil board verify` does it"
    )
    verify = actions.add_parser("verify", help="verify all submissions that wait, then end; `serve` does it as well")
    verify.add_argument("contest", type=Path, metavar="CONTEST")
    verify.add_argument("--retry", action="store_true", help="also verify submissions whose verification failed before")
    submissions = actions.add_parser("submissions", help="list all scored submissions with their ids")
    submissions.add_argument("contest", type=Path, metavar="CONTEST")
    remove = actions.add_parser("remove", help="take a submission off the board; the team sees the reason")
    remove.add_argument("contest", type=Path, metavar="CONTEST")
    remove.add_argument("id", metavar="ID", help="see `voiceveil board submissions`")
    remove.add_argument("--reason", required=True, help="what the team reads in its history")
    for action in (team, revoke, serve, verify, submissions, remove):
        action.add_argument(
            "--database", metavar="PATH|URL", help="SQLite file or postgresql://... (default: CONTEST/board.sqlite)"
        )


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    from voiceveil.apps.web.server import need_web

    need_web()
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "create": _create,
        "team": _team,
        "revoke": _revoke,
        "serve": _serve,
        "verify": _verify,
        "submissions": _submissions,
        "remove": _remove,
    }
    return actions[args.action](args)


def _create(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.contest import Contest, create_contest
    from voiceveil.apps.board.lists import check_data, find_split
    from voiceveil.core.output_guard import refuse_overlap

    split = args.split or find_split(args.protocol, args.data)
    verify = _number_or_word(args.verify or ("all" if args.require_audio else "none"))
    attackers = tuple(name.strip() for name in args.attackers.split(",") if name.strip())
    contest = Contest(
        args.protocol, args.data, split, args.title, args.daily, args.total,
        require_audio=args.require_audio, verify=verify, attackers=attackers, recognizer=args.recognizer,
        rank=args.rank or ("verified-first" if verify == "none" else "verified-only"),
    )  # fmt: skip
    check_data(contest)
    refuse_overlap(args.contest, [path for path in args.data.iterdir() if path.is_dir()])
    if contest.is_verified:
        from voiceveil.apps.board.verification import check_models

        check_models(contest)
    create_contest(args.contest, contest)
    print_lines(f"the contest ranks on the {split} data of {args.protocol}")
    print_lines(f"{args.contest / 'contest.toml'}: the rules, to be edited before the board is served")
    return 0


def _number_or_word(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _team(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.app import NAME, team_token
    from voiceveil.apps.web.tokens import Seal, read_key

    store = _store(args)
    if not NAME.fullmatch(args.name):
        raise InputError(f"a team {args.name!r}", fix="letters, digits, blanks and . _ + -, at most 40")
    if not 0 < args.days <= 36500:
        raise InputError(f"--days {args.days:g}", fix="give a positive number, at most 36500")
    new = store.add_team(args.name)
    token = team_token(Seal(read_key(args.contest / "key")), args.name, time.time() + 86400 * args.days)
    print_lines(f"{args.name}{'' if new else ' (known already; this is another token)'}")
    print_lines(f"link: {args.url.rstrip('/')}/team/{token}", f"token: {token}")
    return 0


def _revoke(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.contest import Contest
    from voiceveil.apps.board.store import Store
    from voiceveil.apps.web.database import open_database
    from voiceveil.apps.web.tokens import Revocations, Seal, open_own_token, read_key

    Contest.load(args.contest)
    database = open_database(args.database or args.contest / "board.sqlite")
    if args.token is not None:
        said = open_own_token(Seal(read_key(args.contest / "key")), "team", args.token)
        Revocations(database).revoke_token(said)
        print_lines(f"revoked: one token of {said['team']}")
    elif not Store(database).has_team(args.team):
        raise InputError(f"unknown team {args.team!r}", fix="give the name that `voiceveil board team` was given")
    else:
        Revocations(database).revoke_holder(args.team)
        print_lines(f"revoked: all tokens of {args.team} so far; `voiceveil board team` makes a new one")
    return 0


def _serve(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.app import open_board
    from voiceveil.apps.board.contest import Contest
    from voiceveil.apps.board.worker import background_worker
    from voiceveil.core.locking import exclusive_lock

    contest = Contest.load(args.contest)  # before the lock, which makes the folder
    verified = contest.is_verified and not args.no_worker
    worker = background_worker(args.contest, args.database) if verified else nullcontext()
    # The port first: an address in use must not end in the folder of uploads being emptied.
    with exclusive_lock(args.contest, "another server"), bound_socket(args) as bound, worker:
        serve_app(args, open_board(args.contest, args.database), bound, f"serving {args.contest} on")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.worker import run_worker

    count = run_worker(args.contest, args.database, retry=args.retry)
    print_lines(f"{count} submission(s) verified")
    return 0


def _store(args: argparse.Namespace) -> Store:
    from voiceveil.apps.board.contest import Contest
    from voiceveil.apps.board.store import Store
    from voiceveil.apps.web.database import open_database

    Contest.load(args.contest)  # an error if there is none
    return Store(open_database(args.database or args.contest / "board.sqlite"))


def _submissions(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.leaderboard import Entry

    store = _store(args)
    verifications = store.verifications()
    for one in store.scored():
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one.made))
        status = Entry(one, verifications.get(one.id)).status()
        print_lines(f"{one.id}  {when} UTC  {one.team}/{one.system}  {status}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.worker import take_from_queue

    if not _store(args).remove(args.id, args.reason):
        raise InputError(f"no scored submission {args.id!r}", fix="see `voiceveil board submissions CONTEST`")
    take_from_queue(args.contest, args.id)
    print_lines(f"{args.id} is removed from the board; it still counts as one of the team's submissions")
    return 0
