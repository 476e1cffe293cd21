"""Run listening tests in a browser: design a study, serve it to evaluators, analyze their answers.

A study is a folder. `design` makes it from the original and the anonymized corpora, `invite` writes a link for each
evaluator, `serve` shows it in the browser and stores every answer at once, `analyze` writes a report, CSV and JSON.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path

from voiceveil.cli.options import (
    add_out,
    add_overwrite,
    add_seed,
)
from voiceveil.cli.serving import add_serving_arguments, bound_socket, serve_app
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
examples:
  voiceveil listen design study --original data/libri_dev_trials_f data/libri_dev_trials_m \\
      --enroll data/libri_dev_enrolls --system B2=anon/b2_f B2=anon/b2_m D1=anon/d1_f D1=anon/d1_m --evaluators 30
  voiceveil listen design study --original wavs --system mine=anonymized --tasks preference clustering
  voiceveil listen design study --original wavs --system mine=anonymized --texts 2022
  voiceveil listen invite study --url https://listen.example.org --days 14 > links.csv
  voiceveil listen revoke study --evaluators e007
  voiceveil listen serve study --port 8080
  voiceveil listen serve study --allow-host listen.example.org --proxies 127.0.0.1
  voiceveil listen serve study --database postgresql://listen@localhost/listen
  voiceveil listen analyze study --results B2=results/b2/results.json D1=results/d1/results.json
"""
AFTER_INTERRUPTION = "; every answer that was acknowledged is stored"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="design|invite|revoke|serve|analyze")
    _add_design(actions.add_parser("design", help="make a balanced study from corpora"))
    _add_invitations(actions)
    serve = actions.add_parser("serve", help="serve a study until Ctrl-C")
    _add_study(serve)
    _add_database(serve)
    add_serving_arguments(serve)
    _add_analyze(actions.add_parser("analyze", help="write report.html, analysis.json and CSV tables"))


def _add_study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, metavar="STUDY", help="folder of the study")


def _add_invitations(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `listen invite` and `listen revoke`."""
    invite = actions.add_parser("invite", help="write a signed link for each evaluator, as CSV")
    _add_study(invite)
    invite.add_argument("--url", required=True, metavar="URL", help="address where the study will be served")
    invite.add_argument(
        "--days", type=float, default=30.0, metavar="N", help="days that a link is valid (default: %(default)g)"
    )
    invite.add_argument("--evaluators", nargs="+", metavar="NAME", help="only these (default: all)")
    revoke = actions.add_parser("revoke", help="make links invalid at once; answers stay")
    _add_study(revoke)
    whose = revoke.add_mutually_exclusive_group(required=True)
    whose.add_argument("--evaluators", nargs="+", metavar="NAME", help="all links of these evaluators so far")
    whose.add_argument("--links", nargs="+", metavar="LINK", help="only these links")
    _add_database(revoke)


def _add_analyze(analyze: argparse.ArgumentParser) -> None:
    """Declare the options of `listen analyze`."""
    _add_study(analyze)
    _add_database(analyze)
    add_out(analyze, "folder for the analysis (default: STUDY/analysis)")
    analyze.add_argument(
        "--results", nargs="+", default=[], metavar="NAME=FILE", help="objective results of the systems (results.json)"
    )
    add_overwrite(analyze)
    analyze.add_argument("--keep-all", action="store_true", help="include evaluators who failed the attention checks")
    analyze.add_argument(
        "--need-headphones", action="store_true", help="leave out evaluators who failed the headphone check"
    )


def _add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database", metavar="PATH|URL", help="SQLite file or postgresql://... (default: STUDY/answers.sqlite)"
    )


def _add_design(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `listen design`."""
    from voiceveil.apps.listen.study import RATINGS, TASKS
    from voiceveil.apps.listen.texts import TEXTS

    parser.add_argument("study", type=Path, metavar="STUDY", help="a new folder")
    parser.add_argument("--original", nargs="+", required=True, metavar="CORPUS", help="original recordings")
    parser.add_argument(
        "--system", nargs="+", action="extend", required=True, metavar="NAME=CORPUS",
        help="the same utterances, anonymized; a name given twice joins its corpora",
    )  # fmt: skip
    parser.add_argument(
        "--enroll",
        nargs="+",
        metavar="CORPUS",
        help="recordings to compare with in the similarity task (default: --original)",
    )
    parser.add_argument(
        "--tasks",
        nargs="+",
        default=list(RATINGS),
        metavar="TASK",
        help=f"tasks of the study, of {', '.join(TASKS)} (default: {' '.join(RATINGS)})",
    )
    parser.add_argument(
        "--evaluators", type=int, default=12, metavar="N", help="number of evaluators (default: %(default)s)"
    )
    parser.add_argument(
        "--raters", type=int, default=3, metavar="N", help="evaluators of each item (default: %(default)s)"
    )
    parser.add_argument(
        "--sessions",
        type=int,
        default=1,
        metavar="N",
        help="sessions of each task for each evaluator (default: %(default)s)",
    )
    parser.add_argument("--items", type=int, default=36, metavar="N", help="items of a session (default: %(default)s)")
    parser.add_argument(
        "--panels", type=int, default=3, metavar="N", help="panels of a clustering session (default: %(default)s)"
    )
    parser.add_argument(
        "--attention", type=int, default=2, metavar="N", help="attention checks in a session (default: %(default)s)"
    )
    parser.add_argument("--no-headphones", action="store_true", help="no headphone check at the start")
    parser.add_argument(
        "--level", default="-26", metavar="DB|keep", help="loudness of all recordings in dB (default: %(default)s)"
    )
    parser.add_argument(
        "--texts",
        choices=sorted(TEXTS),
        default="default",
        help="words of the pages: our own, or the questions and scales of the 2022 challenge (default: %(default)s)",
    )
    add_seed(parser, "all draws")


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    from voiceveil.apps.web.server import need_web

    need_web()
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "design": _design,
        "invite": _invite,
        "revoke": _revoke,
        "serve": _serve,
        "analyze": _analyze,
    }
    return actions[args.action](args)


def _design(args: argparse.Namespace) -> int:
    from voiceveil.apps.listen.design import StudyPlan, design_from_specs

    plan = StudyPlan(
        evaluators=args.evaluators,
        raters=args.raters,
        sessions=args.sessions,
        items=args.items,
        panels=args.panels,
        tasks=tuple(args.tasks),
        attention=args.attention,
        headphones=0 if args.no_headphones else 6,
        level=_level(args.level),
        seed=args.seed,
        name=args.study.resolve().name,
        texts=args.texts,
    )
    study = design_from_specs(args.study, args.original, _systems(args.system), plan, enroll=args.enroll or [])
    kinds = [item.kind for item in study.items.values()]
    counts = ", ".join(f"{kinds.count(k)} {k} items" for k in ("rating", "preference", "panel") if k in kinds)
    print_lines(
        f"{args.study}: {len(study.evaluators)} evaluators, {counts}, {len(study.recordings)} recordings",
        f"words of the pages: {args.study / 'texts.toml'} (edit them, above all the purpose and the contact)",
        f"next: voiceveil listen invite {args.study} --url URL; voiceveil listen serve {args.study}",
    )
    return 0


def _systems(specs: list[str]) -> dict[str, list[str]]:
    """Return name -> corpora from NAME=CORPUS."""
    systems: dict[str, list[str]] = {}
    for spec in specs:
        name, _, corpus = spec.partition("=")
        if not name or not corpus:
            raise InputError(f"--system {spec} names no system", fix="write --system NAME=CORPUS")
        systems.setdefault(name, []).append(corpus)
    return systems


def _level(text: str) -> float | None:
    try:
        return None if text == "keep" else float(text)
    except ValueError:
        raise InputError(f"--level {text} is not a number", fix="give dB of full scale, or keep") from None


def _invite(args: argparse.Namespace) -> int:
    from voiceveil.apps.listen.invitations import invite_evaluators

    invitations = invite_evaluators(args.study, args.url, args.days, args.evaluators)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["evaluator", "link", "expires"])
    for invitation in invitations:
        expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(invitation.expires))
        writer.writerow([invitation.evaluator, invitation.link, expires])
    return 0


def _revoke(args: argparse.Namespace) -> int:
    from voiceveil.apps.listen.invitations import revoke_evaluators, revoke_links

    if args.links:
        for evaluator in revoke_links(args.study, args.links, args.database):
            print_lines(f"revoked: one link of {evaluator}")
        return 0
    revoke_evaluators(args.study, args.evaluators, args.database)
    for name in args.evaluators:
        print_lines(f"revoked: all links of {name} so far; `voiceveil listen invite` makes new ones")
    return 0


def _serve(args: argparse.Namespace) -> int:
    from voiceveil.apps.listen.app import open_app

    app = open_app(args.study, args.database)
    with bound_socket(args) as bound:
        serve_app(args, app, bound, f"serving {args.study} on")
    return 0


def _analyze(args: argparse.Namespace) -> int:
    from voiceveil.apps.listen.analysis import Rules
    from voiceveil.apps.listen.page import write_analysis

    rules = Rules(keep_all=args.keep_all, need_headphones=args.need_headphones)
    out = args.out or args.study / "analysis"
    analysis = write_analysis(args.study, args.database, out, rules, args.results, overwrite=args.overwrite)
    print_lines(*analysis.lines())
    print_lines(f"report: {out / 'report.html'}")
    return 0
