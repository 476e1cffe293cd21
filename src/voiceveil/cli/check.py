"""Run the conformance checks on a system: one that is built in by name, your own as MODULE:CLASS."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from voiceveil.audio import load
from voiceveil.cli.options import (
    add_json,
    add_system_parameters,
)
from voiceveil.systems.contract import find_system

EXAMPLES = """\
examples:
  voiceveil check b2
  voiceveil check b2 --speech recording.wav
  voiceveil check b2 --set alpha=0.6,0.8 --verbose
  voiceveil check my_package.my_system:MySystem       a class of yours, found from the working directory
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("system", metavar="SYSTEM", help="a name from `voiceveil systems`, or MODULE:CLASS")
    add_system_parameters(parser)
    parser.add_argument(
        "--speech",
        metavar="FILE",
        help="also check on this recording of a few seconds of real speech, and on a whispered version of it",
    )
    parser.add_argument("--verbose", action="store_true", help="also list the checks that passed")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the checks; 1 if one failed."""
    from voiceveil.testing import check_anonymizer

    speech = None if args.speech is None else load(args.speech)
    results = check_anonymizer(find_system(args.system, args.set), raise_on_failure=False, speech=speech)
    counts = {status: sum(r.status == status for r in results) for status in ("passed", "failed", "skipped")}
    if args.json:
        print(json.dumps({**counts, "checks": [asdict(result) for result in results]}, indent=2))
    else:
        for result in results:
            if args.verbose or result.status != "passed":
                print(f"{result.status:8}{result.name}{': ' if result.message else ''}{result.message}")
        print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if counts["failed"] else 0
