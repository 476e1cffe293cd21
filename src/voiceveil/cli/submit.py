"""Pack a submission to the VoicePrivacy 2024 Challenge, or check one without trusting it.

RESULTS is the folder that `voiceveil evaluate --out` has made. The archive holds the result files in the layout of the
challenge and the anonymized speech; the same results give the same bytes. `--check` goes through an archive, anybody's,
as a stream: every utterance of the original sets in DATA must be there, in the right form; every EER and WER is
computed again from the scores and transcripts. Exit code 1 if something is wrong with it.
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
  voiceveil submit results/b2 --out b2-dev.tar.gz --partial
  voiceveil submit --check results/b2/submission_b2.tar.gz --data data
  voiceveil submit --check results/b2/submission_b2.tar.gz --data data --json
"""
_SHOWN = 50  # faults that a person reads


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("results", nargs="?", type=Path, metavar="RESULTS", help="a folder of `voiceveil evaluate`")
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
    if (args.results is None) == (args.check is None):
        raise InputError("one of a folder of results and --check ARCHIVE is needed")
    if args.check is None:
        packed = pack(args.results, args.out, partial=args.partial, overwrite=args.overwrite, quiet=args.quiet)
        print(json.dumps(packed.as_dict(), indent=2) if args.json else _packed_text(packed))
        return 0
    if args.data is None:
        raise InputError("an archive is checked against the original sets", fix="give their folder: --data DATA")
    verdict = check(
        args.check,
        args.data,
        protocol=args.protocol,
        partial=args.partial,
        tolerance=args.tolerance,
        quiet=args.quiet,
    )
    print(json.dumps(verdict.as_dict(), indent=2) if args.json else _verdict_text(verdict))
    return 0 if verdict.is_good else 1


def _packed_text(packed: Packed) -> str:
    lines = [f"{name}: {count} utterances" for name, count in packed.sets.items()]
    lines += [f"{name}: MISSING" for name in packed.missing]
    lines.append(f"{packed.archive}: {packed.bytes} bytes, sha256 {packed.sha256}")
    return "\n".join(map(escaped, lines))


def _verdict_text(verdict: SubmissionReport) -> str:
    lines = [f"{name}: {there} of {wanted} utterances" for name, (there, wanted) in verdict.sets.items()]
    lines.append(f"{verdict.hours:.2f} hours of speech; {verdict.recomputed} stated numbers compared")
    lines += [f"note: {note}" for note in verdict.notes]
    lines += [f"WRONG: {fault}" for fault in verdict.faults[:_SHOWN]]
    if len(verdict.faults) > _SHOWN:
        lines.append(f"... and {len(verdict.faults) - _SHOWN} more; --json lists all")
    lines.append(f"{verdict.archive}: {'good' if verdict.is_good else f'{len(verdict.faults)} fault(s)'}")
    return "\n".join(map(escaped, lines))
