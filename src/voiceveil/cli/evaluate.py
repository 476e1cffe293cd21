"""Run the protocol of a challenge: anonymize, attack, recognise words and emotions, measure.

Works with whatever part of the data is there, and says what is missing. A second run does only what is new; a killed
one goes on where it stopped. OUT holds the anonymized sets, the score files, results.json, and the cache of the
evaluators, in which there are embeddings of the speakers: biometric data.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from voiceveil.anonymization import system, systems
from voiceveil.anonymization.parameters import parse_settings
from voiceveil.challenges.evaluation import Evaluation, evaluate, prepare
from voiceveil.challenges.results import Figure, Results

EXAMPLES = """\
examples:
  voiceveil evaluate --protocol vpc2024 --data data --system b2 --out results/b2 --jobs 2
  voiceveil evaluate --protocol vpc2024 --data data --anon _mine --out results/mine
  voiceveil evaluate --protocol vpc2022 --data data --system b2-2022 --out results/b2-2022 --plan
  voiceveil evaluate --protocol vpc2024 --data data --system b2 --out results/b2 --train my_train --emotion my_emotions
"""
AFTER_INTERRUPTION = "; the same command goes on where it stopped"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--protocol", default="vpc2024", help="vpc2020, vpc2022, vpc2024 or a .toml file")
    parser.add_argument("--data", type=Path, required=True, help="a folder of Kaldi directories, named as in the plans")
    parser.add_argument("--out", type=Path, required=True, help="a folder for all results")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--system", metavar="NAME", help="anonymize with this system; see `voiceveil systems`")
    what.add_argument("--anon", metavar="SUFFIX", help="the sets in DATA with this suffix were anonymized already")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the system")
    parser.add_argument("--train", nargs="+", default=[], metavar="SET", help="sets the attacker trains on instead")
    parser.add_argument("--emotion", nargs="+", default=[], metavar="SET", help="sets with emotions to use instead")
    parser.add_argument(
        "--attackers", default="campplus,campplus-adapted,free", metavar="LIST", help="see `voiceveil attack --help`"
    )
    parser.add_argument(
        "--recogniser", default="moonshine", help="of words: moonshine, or a model (default: moonshine)"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    key = parser.add_mutually_exclusive_group()
    key.add_argument("--seed", type=int, help="makes the anonymization repeatable")
    key.add_argument("--key-file", type=Path, metavar="FILE", help="the same, for who has the file")
    parser.add_argument("--plan", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def run(args: argparse.Namespace) -> int:
    """Plan, or evaluate and print a table."""
    made = None
    if args.system:
        made = system(args.system, **parse_settings(systems[args.system], args.system, args.set))
    evaluation = prepare(
        args.data,
        args.out,
        protocol=args.protocol,
        system=made,
        anon=args.anon,
        train=args.train,
        emotion=args.emotion,
    )
    if args.plan:
        print_plan(evaluation)
        return 0
    results = evaluate(
        evaluation,
        attackers=[name.strip() for name in args.attackers.split(",") if name.strip()],
        recogniser=args.recogniser,
        jobs=args.jobs,
        seed=args.seed,
        key_file=args.key_file,
        quiet=args.quiet,
        say=lambda line: None if args.quiet else print(line, file=sys.stderr),
    )
    if args.json:
        print((args.out / "results.json").read_text(), end="")
    else:
        print_results(results, args.out)
    return 0


def print_plan(evaluation: Evaluation) -> None:
    """What is there, what is missing, what would be done."""
    inventory = evaluation.inventory
    print(f"{inventory.protocol.title}, {'system ' + evaluation.system.name if evaluation.system else 'given data'}")
    for name, corpus in inventory.corpora.items():
        role, level = inventory.roles[name], inventory.level(name)
        target = evaluation.anon_data / f"{name}{evaluation.suffix}"
        state = "there" if (target / "wav.scp").exists() else f"to anonymize ({level} level)"
        print(f"  {name}: {role}, {len(corpus)} utterances, {len(corpus.speakers())} speakers; {target.name}: {state}")
    for name in inventory.missing:
        print(f"  {name}: MISSING")
    for difference in inventory.differences:
        print(f"  not as in the plan: {difference}")
    print(f"metrics: {', '.join(inventory.protocol.metrics)}; conditions: {', '.join(inventory.protocol.conditions)}")


def print_results(results: Results, out: Path) -> None:
    """A table of all figures, then what to know about them."""
    rows = [_row(figure) for figure in results.figures]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for health in results.info.get("health", []):
        for warning in health["warnings"]:
            print(f"warning: {health['attacker']}: {warning}")
    for note in results.info["notes"]:
        print(f"note: {note}")
    strongest = results.info.get("strongest")
    if strongest:
        value = json.loads(json.dumps(strongest["eer"]))
        print(
            f"strongest attacker: {strongest['attacker']} ({strongest['condition']}), EER "
            f"{100 * value['value']:.1f} % [{100 * value['low']:.1f}, {100 * value['high']:.1f}], mean over the sets"
        )
    print(f"results: {out / 'results.json'}")


def _row(figure: Figure) -> tuple[str, ...]:
    scale, unit = (100.0, " %") if figure.metric in ("eer", "wer", "uar", "deid") else (1.0, "")
    interval = (
        "" if figure.low is None or figure.high is None else f"[{scale * figure.low:.1f}, {scale * figure.high:.1f}]"
    )
    if scale == 1.0 and interval:
        interval = f"[{figure.low:.3f}, {figure.high:.3f}]"
    value = f"{scale * figure.value:.1f}{unit}" if unit else f"{figure.value:.3f}"
    where = " ".join(filter(None, [figure.dataset, figure.subset, figure.gender]))
    return figure.metric, where, figure.conditions, value, interval, figure.model
