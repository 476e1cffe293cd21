"""Rank systems as the protocol of their results says: within each EER condition, by WER and, in 2024, by UAR.

RESULTS are results.json files of `voiceveil evaluate`, or official result files (2024: result_for_rank_*; 2022:
RESULTS_summary_* or results.anon_*), each of one system. NAME=PATH gives a system another name than its file does.
TEAM/SYSTEM names a system of a team: the systems of a team have one color in the figure, and where the protocol limits
the systems of a team, only its best ones are ranked.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from voiceveil.cli.options import (
    add_json,
    add_overwrite,
)
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.output_guard import refuse_files, refuse_same_files
from voiceveil.core.terminal import print_lines
from voiceveil.evaluation.averages import Average
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.ranking import Placing, Ranking, Standing, rank_systems, ranking_rules
from voiceveil.evaluation.results import Results
from voiceveil.metrics import metric_info
from voiceveil.official import read_results

HELP = "rank systems within each EER condition, with the privacy-utility figure"
EXAMPLES = """\
examples:
  voiceveil rank B2=result_for_rank_mcadams B3=result_for_rank_sttts mine/results.json
  voiceveil rank RESULTS_summary_* --split dev
  voiceveil rank a/results.json b/results.json --protocol mine.toml
  voiceveil rank */results.json --split dev --svg plane.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("results", nargs="+", metavar="RESULTS", help="results of one system each, or NAME=PATH")
    parser.add_argument(
        "--protocol", metavar="NAME|FILE.toml", help="the rules to rank by (default: the protocol of the results)"
    )
    parser.add_argument("--split", metavar="NAME", help="data to rank on, e.g. dev (default: test, or the last one)")
    parser.add_argument("--attacker", metavar="NAME", help="attacker whose EERs count (default: the semi-informed one)")
    parser.add_argument(
        "--membership",
        choices=("interval", "minimum"),
        help="a condition takes EERs up to the next one, or every EER above its minimum (default: as in the protocol)",
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the privacy-utility plot")
    add_overwrite(parser, "replace the FILE of --svg if there is one")
    parser.add_argument(
        "--baseline", action="append", metavar="NAME", help="systems to draw in gray (default: B1 to B6)"
    )
    add_json(parser, "the result, with rates as fractions,")


def run(args: argparse.Namespace) -> int:
    """Rank the systems, write the plot if asked for, and print the ranking."""
    if args.svg is not None:
        refuse_same_files([args.svg], lambda: map(_path, args.results))
        refuse_files([args.svg], overwrite=args.overwrite)
    results = [_read(spec) for spec in args.results]
    protocol = None if args.protocol is None else load_protocol(args.protocol)
    ranking = rank_systems(results, protocol, split=args.split, membership=args.membership, attacker=args.attacker)
    if args.svg is not None:
        from voiceveil.report.figures import privacy_utility_svg

        svg = privacy_utility_svg(ranking, baselines=args.baseline)
        with atomic_path(args.svg) as file:
            file.write_text(svg, encoding="utf-8")
    if args.json:
        print(json.dumps(_plain(ranking), indent=2))
    else:
        print_lines(*_lines(ranking))
    for line in _warnings(ranking):
        print_lines(line, file=sys.stderr)
    return 0


def _read(spec: str) -> Results:
    """Return the results that an argument names."""
    name, path = spec.partition("=")[0], _path(spec)
    return read_results(path) if str(path) == str(Path(spec)) else read_results(path, system=name)


def _path(spec: str) -> Path:
    """Return the path of PATH or NAME=PATH."""
    _, equals, path = spec.partition("=")
    return Path(path) if equals and not Path(spec).exists() else Path(spec)


def _lines(ranking: Ranking) -> list[str]:
    """Return the ranking as lines for a person."""
    names = [_marked(ranking, standing.system) for standing in ranking.standings]
    width = max(map(len, [*names, "original", "system"]))
    metrics = list(ranking.places)
    heading = f"{'system':<{width}}  {'EER %':<22}" + "".join(f"{_heading(metric):<22}" for metric in metrics)
    lines = [f"{ranking.protocol.title}, {ranking.split} data", "", f"{heading}attacker"]
    for standing in (*ranking.standings, *([ranking.original] if ranking.original else [])):
        cells = [_shown("eer", standing.eer), *(_shown(metric, standing.utility.get(metric)) for metric in metrics)]
        name = _marked(ranking, standing.system)
        lines.append(f"{name:<{width}}  " + "".join(f"{cell:<22}" for cell in cells) + standing.evaluator)
    minima = [*ranking.minimum_eer, 1.0]
    for minimum, following in pairwise(minima):
        above = ranking.membership == "minimum"
        lines += ["", f"EER above {100 * minimum:g}%" if above else f"EER {100 * minimum:g} to {100 * following:g}%"]
        for metric in metrics:
            placings = ranking.places[metric][minimum]
            lines += [f"  by {_title(metric)}: {_row(ranking, metric, placing, width)}" for placing in placings]
        if not any(ranking.places[metric][minimum] for metric in metrics):
            lines[-1] += ": none"
    warnings = _warnings(ranking)
    return [*lines, *_notes(ranking), *(["", *warnings] if warnings else [])]


def _marked(ranking: Ranking, system: str) -> str:
    """Return the name of a system, with a mark if a check of its results failed."""
    failed = any(standing.checks for standing in ranking.standings if standing.system == system)
    return f"{system} (!)" if failed else system


def _warnings(ranking: Ranking) -> list[str]:
    """Return a line for each check that the results of a system have failed."""
    marked = [standing for standing in ranking.standings if standing.checks]
    return [f"(!) {standing.system}: {check}" for standing in marked for check in standing.checks]


def _title(metric: str) -> str:
    return metric_info(metric).title


def _heading(metric: str) -> str:
    return f"{_title(metric)} {metric_info(metric).unit}".strip()


def _row(ranking: Ranking, metric: str, placing: Placing, width: int) -> str:
    ties = f"  tied with {', '.join(placing.tied_with)}" if placing.tied_with else ""
    return f"{placing.place:>3}  {_marked(ranking, placing.system):<{width}}  {_shown(metric, placing.average)}{ties}"


def _shown(metric: str, average: Average | None) -> str:
    """Return a value and its interval with two decimals, rates as percent; "-" if it was not measured."""
    if average is None:
        return "-"
    scale = 100 if metric_info(metric).unit == "%" else 1
    if average.low is None or average.high is None:
        return _rounded(scale * average.value)
    return f"{_rounded(scale * average.value)} [{_rounded(scale * average.low)}, {_rounded(scale * average.high)}]"


def _rounded(value: float) -> str:
    """Return two decimals, halves upward as in the organizers' tables: the mean of 28.426 and 22.044 is 25.24."""
    return str(Decimal(f"{value:.9f}").quantize(Decimal("0.01"), ROUND_HALF_UP))


def _notes(ranking: Ranking) -> list[str]:
    """Return the notes below the tables: systems without a place, other attackers, ties."""
    notes = []
    for standing in ranking.standings:
        notes += [f"{standing.system} is not ranked{why}" for why in [_left_out(ranking, standing)] if why]
        if standing.borderline:
            notes.append(f"{standing.system}: the interval of its EER reaches into another condition")
        if standing.knowledge != "semi-informed":
            whose = standing.evaluator or "an attacker without name"
            notes.append(
                f"{standing.system}: the EER is by {whose}, not by the semi-informed attacker of the challenge"
            )
    for minimum, systems in ranking.team_limit.items():
        limit = ranking_rules(ranking.protocol).systems_per_team
        metrics = " and by ".join(map(_title, ranking.places))
        rule = f"of more than {limit} systems of a team, only the best by {metrics} are ranked"
        notes.append(f"EER from {100 * minimum:g}%: {rule}, not {', '.join(systems)}")
    if len({standing.evaluator for standing in ranking.standings}) > 1:
        notes.append("the systems were attacked by different attackers: their EERs do not compare")
    if any(placing.tied_with for table in ranking.places.values() for rows in table.values() for placing in rows):
        notes.append("tied: the 95% intervals overlap")
    return ["", *(f"note: {note}" for note in notes)] if notes else []


def _left_out(ranking: Ranking, standing: Standing) -> str:
    """Return why a system is in none of the lists, or by which metrics it is not; empty if it is in all of them."""
    if standing.fault:
        return f": {standing.fault}"
    if standing.condition is None:
        return f": its EER is below {100 * ranking.minimum_eer[0]:g}%"
    missing = [_title(metric) for metric in ranking.places if metric not in standing.utility]
    return f" by {' or '.join(missing)}: no such figure" if missing else ""


def _plain(ranking: Ranking) -> dict[str, Any]:
    """Return the ranking as plain values for JSON."""
    return {
        "protocol": ranking.protocol.name,
        "split": ranking.split,
        "membership": ranking.membership,
        "systems": [asdict(standing) for standing in ranking.standings],
        "team_limit": [
            {"minimum_eer": minimum, "systems": list(systems)} for minimum, systems in ranking.team_limit.items()
        ],
        "original": asdict(ranking.original) if ranking.original else None,
        "ranking": {
            by: [
                {"minimum_eer": minimum, "places": [asdict(placing) for placing in placings]}
                for minimum, placings in table.items()
            ]
            for by, table in ranking.places.items()
        },
    }
