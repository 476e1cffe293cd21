"""Write the report of an evaluation: one self-contained HTML file, for experts and decision makers.

RESULTS is the folder that `voiceveil evaluate` has written, its results.json, or an official result file (which has
figures only). It takes seconds, as nothing is measured again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from voiceveil.cli.options import (
    add_out,
    add_overwrite,
)
from voiceveil.core.terminal import print_lines

EXAMPLES = """\
examples:
  voiceveil report results/b2
  voiceveil report results/b2 --compare results/mine B3=result_for_rank_sttts --out b2.html
  voiceveil report results/b2 --audio 3 --title "B2, for the data-protection officer"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("results", type=Path, metavar="RESULTS", help="the folder of an evaluation, or a results file")
    add_out(parser, "the page to write (default: report.html beside RESULTS)", metavar="FILE")
    add_overwrite(parser)
    parser.add_argument("--title", default="", help="title of the page")
    parser.add_argument(
        "--compare", nargs="+", default=[], metavar="OTHER", help="results to compare with, or NAME=PATH"
    )
    parser.add_argument(
        "--audio",
        type=int,
        default=0,
        metavar="N",
        help="put recordings of the N worst protected speakers into the page, original and anonymized: personal data "
        "(default: none)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    from voiceveil.report.page import Options, write_report

    options = Options(title=args.title, compare=args.compare, audio=args.audio, overwrite=args.overwrite)
    path = write_report(args.results, args.out, options)
    print_lines(f"report: {path} ({path.stat().st_size / 1e6:.1f} MB)")
    if args.audio:
        print("note: it holds recordings of speakers, original ones among them: personal data")
    return 0
