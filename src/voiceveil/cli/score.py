"""Compute verification metrics, each with its interval, from score files.

A score file holds `<speaker> <utterance> <score>` lines, with a trial list (--trials) of `<speaker> <utterance>
target|nontarget` lines; or `<score> target|nontarget` lines, without a list. Scores are those of the attacker: a
higher one says that both recordings are of one speaker. Intervals come from a bootstrap over speakers.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from voiceveil.api.scoring import ScoreSettings, score_files
from voiceveil.cli.options import (
    add_json,
    add_seed,
)
from voiceveil.cli.sanity import print_checks
from voiceveil.core.checks import Check
from voiceveil.core.terminal import print_lines
from voiceveil.metrics import Zebra

if TYPE_CHECKING:
    from voiceveil.stats import Estimate

HELP = "compute EER, Cllr, D_sys, ZEBRA ... from score files"
EXAMPLES = """\
examples:
  voiceveil score scores --trials test_trials_f/trials --utt2spk test_trials_f/utt2spk
  voiceveil score scores.txt --metrics eer,min_dcf          # lines of `<score> target|nontarget`
  voiceveil score b2.scores b5.scores --trials trials       # and how they differ, with p-values
  voiceveil score scores --trials trials --method official  # as the challenges' own scripts compute them
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="score files; the others are compared with the first")
    parser.add_argument("--trials", metavar="FILE", help="trial list: `<speaker> <utterance> target|nontarget`")
    parser.add_argument("--utt2spk", metavar="FILE", help="speakers of the trial utterances: `<utterance> <speaker>`")
    parser.add_argument("--metrics", metavar="LIST", help="e.g. eer,min_dcf (default: all)")
    parser.add_argument(
        "--method",
        choices=("exact", "official"),
        default="exact",
        help="official: as the scripts of the challenges compute it (default: exact)",
    )
    parser.add_argument(
        "--p-target",
        type=float,
        default=0.01,
        metavar="P",
        help="prior of target trials in the DCFs (default: %(default)s)",
    )
    parser.add_argument("--c-miss", type=float, default=10.0, metavar="C", help="cost of a miss (default: %(default)s)")
    parser.add_argument(
        "--c-fa", type=float, default=1.0, metavar="C", help="cost of a false alarm (default: %(default)s)"
    )
    parser.add_argument(
        "--resamples", type=int, metavar="N", help="bootstrap resamples (default: 1000, fewer for huge files)"
    )
    add_seed(parser, "the bootstrap")
    add_json(parser, "the result, with rates as fractions,")


def run(args: argparse.Namespace) -> int:
    """Compute the metrics and print them with their intervals."""
    metrics = None if args.metrics is None else [name.strip() for name in args.metrics.split(",") if name.strip()]
    settings = ScoreSettings(
        files=args.files,
        trials=args.trials,
        utt2spk=args.utt2spk,
        metrics=metrics,
        method=args.method,
        p_target=args.p_target,
        c_miss=args.c_miss,
        c_fa=args.c_fa,
        resamples=args.resamples,
        seed=args.seed,
    )
    scores = score_files(settings)
    if args.json:
        print(json.dumps({"files": scores.files, "differences": scores.differences}, indent=1, default=_plain))
    else:
        _print(scores.files, scores.differences, args, scores.resamples)
    print_checks(scores.checks)
    return 0


def _plain(value: Estimate | Zebra) -> dict[str, Any]:
    """Return an estimate as plain values for JSON."""
    if isinstance(value, Zebra):
        return {"value": value.individual, "tag": value.tag, "unit": "log10"}
    return value.as_dict()


def _print(results: list[dict[str, Any]], differences: list[dict[str, Any]], args: argparse.Namespace, n: int) -> None:
    for result in results:
        units = f"{result['units']['count']} {'target ' * bool(args.trials)}{result['units']['of']}"
        print_lines(
            f"{result['file']}: {result['target_trials']} target, {result['nontarget_trials']} nontarget, {units}"
        )
        rows = [(name, _show(entry["result"]), entry["method"]) for name, entry in result["metrics"].items()]
        _table(rows)
        for note in result["notes"]:
            print_lines(f"  note: {note}")
        for check in result["checks"]:
            print_lines(f"  {Check(**check)}")
        print()
    for difference in differences:
        print_lines(f"{difference['file']} minus {difference['minus']}:")
        rows = []
        for name, entry in difference["metrics"].items():
            scale, unit = (100.0, "%") if entry["result"].unit == "%" else (1.0, "")
            least = entry["detectable"]
            power = "" if least is None else f"detectable with 80% power: {least * scale:.2g}{unit}"
            rows.append((name, str(entry["result"]), power))
        _table(rows)
        print()
    if any(set(result["metrics"]) - {"zebra_individual"} for result in results):
        of = results[0]["units"]["of"]
        print_lines(f"[low, high]: 95% intervals, {n} resamples of {of}, seed {args.seed}. Method: {args.method}.")


def _show(result: Estimate | Zebra) -> str:
    return f"{result.individual:.3f} ({result.tag})" if isinstance(result, Zebra) else str(result)


def _table(rows: list[tuple[str, str, str]]) -> None:
    widths = [max(len(row[k]) for row in rows) for k in (0, 1)] if rows else [0, 0]
    for name, value, remark in rows:
        print_lines(f"  {name:<{widths[0]}}  {value:<{widths[1]}}  {remark}")
