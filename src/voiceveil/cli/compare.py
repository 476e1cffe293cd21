"""Compare recordings with their anonymized versions: the voice, the words, and how natural it sounds.

Three sentences with figures beside what real recordings score. Two files, or two folders (or corpora) whose recordings
have the same names. A high similarity shows that a voice was not hidden; a low one does not prove that it was, as a
trained attacker may still recognize it: `voiceveil risk` measures that.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from voiceveil.cli.options import add_cache, add_executor, add_jobs, add_json, add_overwrite, add_progress, chosen_jobs
from voiceveil.core.terminal import print_lines

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
examples:
  voiceveil compare interview.wav interview.anonymized.wav
  voiceveil compare recordings/ hidden/ --jobs 4 --report comparison.html
  voiceveil compare recordings/ hidden/ --json --cache compare.sqlite
"""
AFTER_INTERRUPTION = "; results in the --cache are kept"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("original", metavar="ORIGINAL", help="the original recording, folder or corpus")
    parser.add_argument("anonymized", metavar="ANONYMIZED", help="its anonymized version")
    parser.add_argument(
        "--recognizer", default="moonshine", metavar="NAME", help="recognizer of the words (default: %(default)s)"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="HTML",
        help="write a page with players, spectrograms and changed words; it holds the recordings: personal data",
    )
    add_overwrite(parser, "replace the file of --report if there is one")
    add_cache(parser, "transcripts and embeddings")
    add_jobs(parser)
    add_executor(parser)
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compare, print, write the page."""
    from voiceveil.api.comparing import compare, refuse_report

    if args.report is not None:
        refuse_report(args.report, (), overwrite=args.overwrite)
    with chosen_jobs(args) as jobs:
        comparison = compare(
            args.original,
            args.anonymized,
            recognizer=args.recognizer,
            jobs=jobs,
            cache=args.cache,
            progress=not (args.quiet or args.json),
        )
    if args.report is not None:
        comparison.report(args.report, overwrite=args.overwrite)
    print(comparison.to_json() if args.json else comparison)
    if args.report is not None and not args.json:
        print_lines(f"report: {args.report}", "note: it holds the recordings, original ones among them: personal data")
    return 0
