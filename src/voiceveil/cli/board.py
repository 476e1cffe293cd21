"""Run the leaderboard of a challenge: teams upload submissions, which are scored again and ranked.

DATA is read only: the Kaldi directories of a VoicePrivacy Challenge with their trials and texts, or the folder of a
TdSV challenge with its keys. No number that a team submits is trusted: EERs come from scores, WERs from transcripts.
Scores and transcripts can be invented: with --require-audio the board attacks and transcribes the audio again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from voiceveil.cli.options import add_former_name, add_out
from voiceveil.cli.serving import add_serving_arguments, bound_socket, serve_app
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
examples:
  voiceveil board create contest --protocol vpc2024 --data data --title "Our challenge"
  voiceveil board create contest --protocol vpc2024 --data data --require-audio --verify 200
  voiceveil board create contest --protocol tdsv2024 --data tdsv --daily 2 --total 10
  voiceveil board team contest "Team A" --url https://board.example.org --days 60
  voiceveil board revoke contest --team "Team A"
  voiceveil board serve contest --port 8080 --allow-host board.example.org --proxies 127.0.0.1
  voiceveil board rules contest
  voiceveil board baselines contest --published --add b2=results/b2
  voiceveil board list contest
  voiceveil board disqualify contest --team "Team A" --reason "trained on the test data"
  voiceveil board export contest --out board-export
  voiceveil board remove contest 0123456789abcdef --reason "the audio is not that of the team"
  curl --data-binary @submission_b2.tar.gz -H "Authorization: Bearer TOKEN" "https://board.example.org/submit?system=b2"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(
        dest="action",
        required=True,
        metavar="create|team|revoke|serve|verify|list|rules|baselines|disqualify|remove|export",
    )
    _add_create(actions.add_parser("create", help="make the folder of a contest"))
    _add_teams(actions)
    serve = actions.add_parser("serve", help="serve a board until Ctrl-C")
    _add_contest(serve)
    add_serving_arguments(serve)
    serve.add_argument(
        "--no-worker", action="store_true", help="verify nothing in this process: `voiceveil board verify` does it"
    )
    verify = actions.add_parser("verify", help="verify all submissions that wait, then end; `serve` does it as well")
    _add_contest(verify)
    verify.add_argument("--retry", action="store_true", help="also verify submissions whose verification failed before")
    _add_administration(actions)


def _add_administration(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the actions that list, judge and export submissions."""
    _add_contest(actions.add_parser("list", help="list all teams, submissions with their ids, and baselines"))
    _add_contest(actions.add_parser("rules", help="print the rules, as the board's page shows them"))
    baselines = actions.add_parser("baselines", help="show systems of your own on the board, without places")
    _add_contest(baselines)
    baselines.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="NAME=RESULTS",
        help="show these results of `voiceveil evaluate`, or of the challenge's scripts; may be repeated",
    )
    baselines.add_argument("--published", action="store_true", help="show the published baselines of the challenge")
    baselines.add_argument("--remove", metavar="NAME", help="take this baseline off the board")
    disqualify = actions.add_parser("disqualify", help="take the place of a team or submission away, and say why")
    _add_contest(disqualify)
    whose = disqualify.add_mutually_exclusive_group(required=True)
    whose.add_argument("--team", metavar="NAME", help="all submissions of this team; it cannot upload any more")
    whose.add_argument("--submission", metavar="ID", help="this submission, see `voiceveil board list`")
    reason = disqualify.add_mutually_exclusive_group(required=True)
    reason.add_argument("--reason", metavar="TEXT", help="what everybody reads on the board")
    reason.add_argument("--undo", action="store_true", help="take the disqualification back")
    remove = actions.add_parser("remove", help="take a submission off the board; the team sees the reason")
    _add_contest(remove)
    remove.add_argument("id", metavar="ID", help="see `voiceveil board list`")
    remove.add_argument("--reason", required=True, help="what the team reads in its history")
    export = actions.add_parser("export", help="write all submissions and figures as CSV and results.json")
    _add_contest(export)
    add_out(export, "a new folder", metavar="DIR", required=True)


def _add_contest(parser: argparse.ArgumentParser) -> None:
    """Declare the contest and its database."""
    parser.add_argument("contest", type=Path, metavar="CONTEST", help="folder of the contest")
    parser.add_argument(
        "--database", metavar="PATH|URL", help="SQLite file or postgresql://... (default: CONTEST/board.sqlite)"
    )


def _add_create(create: argparse.ArgumentParser) -> None:
    """Declare the options of `board create`."""
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
    limit = "0: any number (default: that of the challenge's plan)"
    create.add_argument("--daily", type=int, metavar="N", help=f"submissions of a team per day, {limit}")
    create.add_argument("--total", type=int, metavar="N", help=f"submissions of a team in total, {limit}")
    create.add_argument("--deadline", metavar="TIME", help="e.g. 2026-06-08T12:00Z: later submissions are marked late")
    create.add_argument(
        "--late",
        choices=["marked", "unranked", "refused"],
        default="marked",
        help="late submissions are ranked with a mark, get no place, or are refused (default: %(default)s)",
    )
    create.add_argument("--require-description", action="store_true", help="systems without a description get no place")
    _add_verification(create)


def _add_verification(create: argparse.ArgumentParser) -> None:
    """Declare how `board create` has submissions verified and ranked."""
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
        "--emotion-model",
        default="functionals",
        metavar="NAME",
        help="emotion recognizer of the verification, where systems are ranked by UAR (default: functionals)",
    )
    create.add_argument(
        "--rank",
        choices=["verified-only", "verified-first"],
        help="systems that are not verified get no place, or one behind all that are (default: verified-only with "
        "--verify)",
    )


def _add_teams(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `board team` and `board revoke`."""
    team = actions.add_parser("team", help="add a team, and print its link and token")
    _add_contest(team)
    team.add_argument("name", metavar="NAME", help="name of the team")
    team.add_argument(
        "--url", default="http://127.0.0.1:8000", metavar="URL", help="address where the board will be served"
    )
    team.add_argument(
        "--days", type=float, default=90.0, metavar="N", help="days that the token is valid (default: %(default)g)"
    )
    revoke = actions.add_parser("revoke", help="make the tokens of a team, or a single token, invalid at once")
    _add_contest(revoke)
    whose = revoke.add_mutually_exclusive_group(required=True)
    whose.add_argument("--team", metavar="NAME", help="all tokens of this team so far; its figures stay on the board")
    whose.add_argument("--token", metavar="TOKEN", help="this token, or the token of this link")


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
        "list": _list,
        "rules": _rules,
        "baselines": _baselines,
        "disqualify": _disqualify,
        "remove": _remove,
        "export": _export,
    }
    return actions[args.action](args)


def _create(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import new_contest, set_up_contest
    from voiceveil.apps.board.contest import parse_time

    contest = new_contest(
        args.protocol,
        args.data,
        split=args.split,
        require_audio=args.require_audio,
        verify=int(args.verify) if args.verify and args.verify.isdecimal() else args.verify,
        rank=args.rank,
        title=args.title,
        daily=args.daily,
        total=args.total,
        deadline=None if args.deadline is None else parse_time(args.deadline),
        late=args.late,
        require_description=args.require_description,
        emotion_model=args.emotion_model,
        attackers=tuple(name.strip() for name in args.attackers.split(",") if name.strip()),
        recognizer=args.recognizer,
    )
    set_up_contest(args.contest, contest)
    print_lines(f"the contest ranks on the {contest.split} data of {args.protocol}")
    print_lines(f"{args.contest / 'contest.toml'}: the rules, to be edited before the board is served")
    return 0


def _team(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import add_team

    team = add_team(args.contest, args.name, url=args.url, days=args.days, database=args.database)
    print_lines(f"{args.name}{'' if team.is_new else ' (known already; this is another token)'}")
    print_lines(f"link: {team.link}", f"token: {team.token}")
    return 0


def _revoke(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import revoke_team, revoke_team_token

    if args.token is not None:
        team = revoke_team_token(args.contest, args.token, args.database)
        print_lines(f"revoked: one token of {team}")
    else:
        revoke_team(args.contest, args.team, args.database)
        print_lines(f"revoked: all tokens of {args.team} so far; `voiceveil board team` makes a new one")
    return 0


def _serve(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import running_board

    with (
        bound_socket(args) as bound,
        running_board(args.contest, args.database, verify=not args.no_worker) as app,
    ):
        serve_app(args, app, bound, f"serving {args.contest} on")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.worker import run_worker

    count = run_worker(args.contest, args.database, retry=args.retry)
    print_lines(f"{count} submission(s) verified")
    return 0


def _list(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import list_board

    listing = list_board(args.contest, args.database)
    for entry in listing.entries:
        own = entry.submission
        date = time.strftime("%Y-%m-%d %H:%M", time.gmtime(own.submitted))
        status = entry.status() if own.state == "scored" else " ".join(filter(None, [own.state, own.reason]))
        print_lines(f"{own.id}  {date} UTC  {own.team}/{own.system}  {status}")
    if not listing.entries:
        print_lines("no submissions", file=sys.stderr)
    idle = [name for name in listing.teams if name not in {entry.submission.team for entry in listing.entries}]
    lines = [f"{name}: no submission" for name in idle]
    lines += [f"{name}: disqualified: {reason}" for name, reason in listing.disqualified.items()]
    for line in [*lines, *(f"baseline {baseline.name}: {baseline.source}" for baseline in listing.baselines)]:
        print_lines(line)
    return 0


def _rules(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import contest_rules

    for section in contest_rules(args.contest):
        print_lines(section.heading, *(f"  {paragraph}" for paragraph in section.paragraphs))
    return 0


def _baselines(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import add_baselines, remove_baseline

    if args.remove is not None:
        remove_baseline(args.contest, args.remove, args.database)
        print_lines(f"removed: the baseline {args.remove}")
        return 0
    if not args.add and not args.published:
        raise InputError("no baselines are named", fix="give --add NAME=RESULTS, --published or --remove NAME")
    named = [text.partition("=") for text in args.add]
    wrong = ["".join(parts) for parts in named if not (parts[0] and parts[2])]
    if wrong:
        raise InputError(f"{wrong[0]!r} is not NAME=RESULTS", fix="e.g. b2=results/b2")
    results = {name: Path(path) for name, _, path in named}
    names = add_baselines(args.contest, results, published=args.published, database=args.database)
    print_lines(f"on the board: {', '.join(names)}")
    return 0


def _disqualify(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import disqualify, requalify

    whose = {"team": args.team, "submission": args.submission, "database": args.database}
    if args.undo:
        requalify(args.contest, **whose)
        print_lines(f"{args.team or args.submission} is qualified again")
    else:
        disqualify(args.contest, args.reason, **whose)
        print_lines(f"{args.team or args.submission} is disqualified; everybody can read the reason")
    return 0


def _export(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import export_board

    files = export_board(args.contest, args.out, args.database)
    print_lines(f"{args.out}: {len(files)} files")
    return 0


def _remove(args: argparse.Namespace) -> int:
    from voiceveil.apps.board.administration import remove_submission

    remove_submission(args.contest, args.id, args.reason, args.database)
    print_lines(f"{args.id} is removed from the board; it still counts as one of the team's submissions")
    return 0
