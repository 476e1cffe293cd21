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

from voiceveil.cli.executors import add_executor_arguments, chosen_jobs
from voiceveil.cli.keys import add_key_arguments
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines
from voiceveil.systems import Anonymizer, Summary, anonymize
from voiceveil.systems.release import FIELDS, Release
from voiceveil.systems.resolve import default_system, find_system

EXAMPLES = """\
examples:
  voiceveil anonymize interview.wav hidden.wav
  voiceveil anonymize recordings/ hidden/ --jobs 4
  voiceveil anonymize recordings/ hidden/ --system b2 --set alpha=0.6,0.8 --level speaker --key-file secret.key
  voiceveil anonymize data/libri_dev_trials_f data --seed 1         writes data/libri_dev_trials_f_veil
  voiceveil anonymize data/libri_dev_trials_f data --system b2 --draws official --set edges=official
  voiceveil anonymize librispeech:/corpora/LibriSpeech/dev-clean out --system d1
  voiceveil anonymize recordings/ hidden/ --system b1b --weights exp/decoder --set gender=random
  voiceveil anonymize recordings/ hidden/ --publish release       see docs/guide/anonymize.md, "Before you publish"
  voiceveil anonymize list.jsonl /shared/hidden --executor ray          on a Ray cluster, see docs/how-to/cluster.md
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
    add_key_arguments(parser, corpus="the name of IN without its folder")
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
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="start again where another run left its results, and replace files that are in the way (never the input)",
    )
    parser.add_argument(
        "--publish",
        type=Path,
        metavar="DIR",
        help="also write a release folder: neutral names in shuffled order, fixed times, no record of the run",
    )
    parser.add_argument(
        "--publish-map",
        type=Path,
        metavar="FILE",
        help="private map from new names to original ids (default: DIR.private-map.csv beside DIR)",
    )
    parser.add_argument(
        "--publish-fields",
        metavar="LIST",
        help=f"metadata in the release, of {','.join(FIELDS)}; '' for none (default: text; at speaker level also "
        "speaker, as a pseudonym)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the batch; 1 if an utterance failed."""
    chosen = args.set if args.weights is None else [*args.set, f"weights={args.weights}"]
    if args.system is None:
        made, warning = default_system(chosen)
        if warning:
            print_lines(f"voiceveil: {warning}", file=sys.stderr)
    else:
        made = find_system(args.system, chosen)
    publish = _release(args)
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
            key_namespace=args.key_namespace,
            draws=args.draws,
            rate=args.rate,
            format=args.format or (named if named in ("wav", "flac") else "wav"),
            encoding=args.encoding,
            suffix=args.suffix,
            overwrite=args.overwrite,
            publish=publish,
            quiet=args.quiet,
        )
    seeded = args.seed is not None or args.draws == "official"
    advice = _advice(summary, made, key_file=args.key_file, seeded=seeded, asked=publish is not None)
    if args.json:
        print(json.dumps({**asdict(summary), "before_publishing": advice}, default=str))
    else:
        _print(summary)
        print_lines(*advice)
    return 1 if summary.failures else 0


def _release(args: argparse.Namespace) -> Release | None:
    """Return the release that the arguments ask for."""
    if args.publish is None:
        if args.publish_map is not None or args.publish_fields is not None:
            raise InputError("--publish-map and --publish-fields describe a release", fix="give --publish DIR as well")
        return None
    fields = (
        None if args.publish_fields is None else tuple(filter(None, map(str.strip, args.publish_fields.split(","))))
    )
    return Release(args.publish, args.publish_map, fields)


def _advice(summary: Summary, system: Anonymizer, *, key_file: Path | None, seeded: bool, asked: bool) -> list[str]:
    """Return what a user has to know before publishing, a line each; ``asked``: for a release."""
    release = summary.published
    private = [f"  keep {key_file} secret: whoever has the key can repeat the draws"] if key_file else []
    if seeded:
        private.append("  these draws can be guessed by anybody: leave out --seed and --draws official for publication")
    if release is None:
        if summary.output.is_dir():
            private.insert(0, f"  remove {summary.output / '.voiceveil'}: the record of the run, with ids and digests")
        if summary.left_over:
            private.append(f"  remove the {len(summary.left_over)} file(s) whose recordings the input has no more")
        none = ["nothing was published: no recording could be anonymized"] if asked else []
        return [
            *none,
            f"before you publish {summary.output}:",
            *private,
            "  names and order of recordings and speakers are still those of the input, and so are texts and labels",
            "  or give --publish DIR: it writes a release folder without all that, see docs/guide/anonymize.md",
        ]
    if "text" in release.fields:
        private.append("  read the texts: the words can tell who speaks (--publish-fields '' leaves them out)")
    if system.keeps_length:
        private.append(
            f"  {system.name} keeps the length of each recording: a list of the original lengths tells which"
        )
    held = f" and their {', '.join(release.fields)}" if release.fields else ""
    return [
        f"release: {release.folder}: {release.recordings} recording(s){held}",
        f"private map: {release.map_file}: tells which recording is which; keep it apart from the release or delete it",
        "before you publish the release:",
        *private,
        "  listen to it: a voice is hidden, not what is said",
    ]


def _print(summary: Summary) -> None:
    if summary.left_over:
        count, first = len(summary.left_over), summary.left_over[0]
        print_lines(f"{count} file(s) of an earlier run are in the output, but not in the input any more, e.g. {first}")
    if summary.mixed_down:
        print(f"{summary.mixed_down} recording(s) with several channels were mixed down to one")
    for failure in summary.failures:
        print_lines(f"failed: {failure.id}: {failure.error}")
    speed = summary.audio_seconds / summary.seconds if summary.seconds else 0.0
    before = f", {summary.already_done} were there already" if summary.already_done else ""
    failed = f", {len(summary.failures)} FAILED" if summary.failures else ""
    print(
        f"{summary.done} anonymized{before}{failed}: {summary.audio_seconds / 3600:.2f} h of audio "
        f"in {summary.seconds:.1f} s ({speed:.0f}x real time)"
    )
    print_lines(f"output: {summary.output}")
