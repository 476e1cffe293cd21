"""Pack a submission to the VoicePrivacy Challenge 2022, 2024 or 2026, or check one without trusting it.

RESULTS is the folder that `voiceveil evaluate --out` has made. The archive holds the result files in the layout of the
challenge and the anonymized speech; the same results give the same bytes. `--check` reads an archive without unpacking
it: every utterance of the original sets in DATA must be in it, in the right format, and every EER and WER is computed
again from the scores and transcripts. Exit code 1 if the archive has a fault.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from voiceveil.cli.options import (
    add_former_name,
    add_json,
    add_out,
    add_overwrite,
    add_progress,
)
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import escaped
from voiceveil.official.submission.checking import SubmissionReport, check
from voiceveil.official.submission.packing import Packed, pack

EXAMPLES = """\
examples:
  voiceveil submit results/b2
  voiceveil submit results/en results/de results/es results/fr
  voiceveil submit results/b2 --out b2-dev.tar.gz --partial --unofficial
  voiceveil submit --check results/b2/submission_b2.tar.gz --data data
  voiceveil submit --check results/b2/submission_b2.tar.gz --data data --json
"""
_SHOWN = 50  # faults that a person reads


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "results",
        nargs="*",
        type=Path,
        metavar="RESULTS",
        help="a folder of `voiceveil evaluate`; for track 2 of 2026 one for each language",
    )
    add_out(parser, "the archive to write (default: submission<suffix>.tar.gz in RESULTS)", metavar="FILE")
    add_former_name(parser, "--to", "--out")
    add_overwrite(parser, "replace the archive if there is one")
    parser.add_argument("--check", type=Path, metavar="ARCHIVE", help="check this .tar.gz, .tar or .zip instead")
    parser.add_argument("--data", type=Path, metavar="DATA", help="with --check: the folder of the original sets")
    parser.add_argument(
        "--protocol",
        default="vpc2024",
        metavar="NAME|FILE.toml",
        help="with --check: the protocol whose sets and figures must be there (%(default)s)",
    )
    parser.add_argument(
        "--partial", action="store_true", help="accept that whole sets, and the figures that need them, are missing"
    )
    parser.add_argument(
        "--unofficial",
        action="store_true",
        help="pack figures that are not by the challenge's own evaluators; every name in the archive says so",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.25,
        metavar="SHARE",
        help="largest relative difference of lengths (default: %(default)s)",
    )
    add_progress(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Pack or check."""
    if bool(args.results) == (args.check is not None):
        raise InputError("give either a folder of results or --check ARCHIVE")
    if args.check is None:
        packed = pack(
            args.results,
            args.out,
            partial=args.partial,
            unofficial=args.unofficial,
            overwrite=args.overwrite,
            quiet=args.quiet,
        )
        print(json.dumps(packed.as_dict(), indent=2) if args.json else _packed_text(packed))
        return 0
    if args.data is None:
        raise InputError("an archive is checked against the original sets", fix="give their folder: --data DATA")
    report = check(
        args.check,
        args.data,
        protocol=args.protocol,
        partial=args.partial,
        tolerance=args.tolerance,
        quiet=args.quiet,
    )
    print(json.dumps(report.as_dict(), indent=2) if args.json else _report_text(report))
    return 0 if report.is_good else 1


def _packed_text(packed: Packed) -> str:
    lines = [f"{name}: {count} utterances" for name, count in packed.sets.items()]
    lines += [f"{name}: MISSING" for name in packed.missing]
    lines.append(f"{packed.archive}: {packed.bytes} bytes, sha256 {packed.sha256}")
    return "\n".join(map(escaped, lines))


def _report_text(report: SubmissionReport) -> str:
    lines = [f"{name}: {present} of {expected} utterances" for name, (present, expected) in report.sets.items()]
    lines.append(f"{report.hours:.2f} hours of speech; {report.recomputed} stated numbers compared")
    lines += [f"note: {note}" for note in report.notes]
    lines += [f"WRONG: {fault}" for fault in report.faults[:_SHOWN]]
    if len(report.faults) > _SHOWN:
        lines.append(f"... and {len(report.faults) - _SHOWN} more; --json lists all")
    lines.append(f"{report.archive}: {'good' if report.is_good else f'{len(report.faults)} fault(s)'}")
    return "\n".join(map(escaped, lines))
