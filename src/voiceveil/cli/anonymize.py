"""Anonymize a file, a folder, a Kaldi directory, a manifest or a named corpus.

The output has the shape of the input. A run that was interrupted goes on where it stopped. Bad recordings are
reported, the rest is done, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from voiceveil.anonymization import Summary, anonymize
from voiceveil.anonymization.finding import default_system, find_system
from voiceveil.cli.executors import add_executor_arguments, chosen_jobs

EXAMPLES = """\
examples:
  voiceveil anonymize interview.wav hidden.wav
  voiceveil anonymize recordings/ hidden/ --jobs 4
  voiceveil anonymize recordings/ hidden/ --system b2 --set alpha=0.6,0.8 --level speaker --key-file secret.key
  voiceveil anonymize data/libri_dev_trials_f data --seed 1         writes data/libri_dev_trials_f_veil
  voiceveil anonymize data/libri_dev_trials_f data --system b2 --draws official --set edges=official
  voiceveil anonymize librispeech:/corpora/LibriSpeech/dev-clean out --system d1
  voiceveil anonymize recordings/ hidden/ --system b1b --weights exp/decoder --set gender=random
  voiceveil anonymize list.jsonl /shared/hidden --executor ray          on a Ray cluster, see docs/cluster.md
"""
AFTER_INTERRUPTION = "; the same command goes on where it stopped (at speaker level only with --seed or --key-file)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("input", metavar="IN", help="audio file, folder, Kaldi directory, .csv/.jsonl, or NAME:PATH")
    parser.add_argument("output", metavar="OUT", type=Path, help="a folder; for one file also a .wav or .flac name")
    parser.add_argument(
        "--system",
        metavar="NAME",
        help="see `voiceveil systems`, or MODULE:CLASS (default: veil; b2 where torch is not installed)",
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the system")
    parser.add_argument("--weights", metavar="DIR", help="trained weights of the system: short for --set weights=DIR")
    parser.add_argument(
        "--level",
        choices=["utterance", "speaker"],
        default="utterance",
        help="a pseudo-speaker for each utterance (default), or for each speaker and role",
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    add_executor_arguments(parser)
    key = parser.add_mutually_exclusive_group()
    key.add_argument("--seed", type=int, help="repeatable, but guessable: for experiments")
    key.add_argument("--key-file", type=Path, metavar="FILE", help="repeatable for who has the file: for protection")
    parser.add_argument(
        "--draws",
        choices=["keyed", "official"],
        default="keyed",
        help="official: the challenge's own random sequences",
    )
    parser.add_argument("--rate", type=int, metavar="HZ", help="sampling rate of the output (default: the system's)")
    parser.add_argument("--format", choices=["wav", "flac"], default=None, help="of the output (default: wav)")
    parser.add_argument("--encoding", choices=["int16", "int24"], default="int16", help="default: int16")
    parser.add_argument("--suffix", help="ends the name of an output Kaldi directory (default: _SYSTEM)")
    parser.add_argument("--overwrite", action="store_true", help="start again where another run left its results")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the batch; 1 if an utterance failed."""
    chosen = args.set if args.weights is None else [*args.set, f"weights={args.weights}"]
    if args.system is None:
        made, warning = default_system(chosen)
        if warning:
            print(f"voiceveil: {warning}", file=sys.stderr)
    else:
        made = find_system(args.system, chosen)
    named = args.output.suffix.lower().removeprefix(".")
    with chosen_jobs(args) as jobs:
        summary = anonymize(
            args.input,
            args.output,
            system=made,
            level=args.level,
            jobs=jobs,
            seed=args.seed,
            key_file=args.key_file,
            draws=args.draws,
            rate=args.rate,
            format=args.format or (named if named in ("wav", "flac") else "wav"),
            encoding=args.encoding,
            suffix=args.suffix,
            overwrite=args.overwrite,
            quiet=args.quiet,
        )
    _print(summary, as_json=args.json)
    return 1 if summary.failures else 0


def _print(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(summary), "output": str(summary.output)}))
        return
    if summary.left_over:
        count, first = len(summary.left_over), summary.left_over[0]
        print(f"{count} file(s) of an earlier run are in the output, but not in the input any more, e.g. {first}")
    if summary.mixed_down:
        print(f"{summary.mixed_down} recording(s) with several channels were mixed down to one")
    for failure in summary.failures:
        print(f"failed: {failure.id}: {failure.error}")
    speed = summary.audio_seconds / summary.seconds if summary.seconds else 0.0
    before = f", {summary.already_done} were there already" if summary.already_done else ""
    failed = f", {len(summary.failures)} FAILED" if summary.failures else ""
    print(
        f"{summary.done} anonymized{before}{failed}: {summary.audio_seconds / 3600:.2f} h of audio "
        f"in {summary.seconds:.1f} s ({speed:.0f}x real time)"
    )
    print(f"output: {summary.output}")
