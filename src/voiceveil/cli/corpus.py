"""Check, describe and convert corpora.

PATH is what `voiceveil anonymize` takes: an audio file, a folder of audio, a Kaldi directory, a .csv or .jsonl
manifest, a Lhotse manifest (.jsonl.gz), or NAME:PATH for a named corpus as it is distributed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from voiceveil.corpus.checking import audio_faults, read_tolerantly
from voiceveil.corpus.convert import FORMATS, write_corpus
from voiceveil.corpus.faults import Fault
from voiceveil.corpus.readers import corpora, open_corpus
from voiceveil.corpus.summary import Summary, summarize

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
examples:
  voiceveil corpus check data/libri_dev_trials_f --rate 16000 --enroll data/libri_dev_enrolls
  voiceveil corpus info librispeech:/data/LibriSpeech/dev-clean
  voiceveil corpus info data/libri_dev_trials_f --json
  voiceveil corpus convert vctk:/data/VCTK-Corpus-0.92 data/vctk --to kaldi
  voiceveil corpus convert recordings/ recordings.csv --to csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|info|convert")
    check = actions.add_parser("check", help="list every fault, with its file and line; exit code 1 if there is one")
    check.add_argument("path", metavar="PATH")
    check.add_argument("--rate", type=int, metavar="HZ", help="the sampling rate that every file should have")
    check.add_argument("--enroll", metavar="PATH", help="the corpus with the enrollment utterances of the trials")
    info = actions.add_parser("info", help="speakers, genders, utterances, hours, trials")
    info.add_argument("path", metavar="PATH", help=f"named corpora: {', '.join(corpora)}")
    for action in (check, info):
        action.add_argument("--no-audio", action="store_true", help="do not open the audio files")
        action.add_argument("--json", action="store_true", help="print JSON")
    convert = actions.add_parser("convert", help="write the metadata in another format; the audio stays where it is")
    convert.add_argument("path", metavar="IN")
    convert.add_argument("out", metavar="OUT", type=Path, help="a directory for kaldi and lhotse, else a file")
    convert.add_argument("--to", required=True, choices=FORMATS)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    actions: dict[str, Callable[[argparse.Namespace], int]] = {"check": _check, "info": _info, "convert": _convert}
    return actions[args.action](args)


def _check(args: argparse.Namespace) -> int:
    """Metadata first and at once, then the audio files as they are read."""
    found: list[Fault] = []

    def tell(fault: Fault) -> None:
        found.append(fault)
        if not args.json:
            print(f"{'note: ' if fault.note else ''}{fault}", flush=True)

    reading = read_tolerantly(args.path, enroll=args.enroll)
    for fault in reading.faults:
        tell(fault)
    if not args.no_audio:
        for fault in audio_faults(reading, args.rate, _progress(len(reading.corpus))):
            tell(fault)
    faults = sum(not fault.note for fault in found)
    if args.json:
        print(json.dumps({"path": args.path, "faults": [_row(fault) for fault in found]}, indent=2))
    else:
        notes = len(found) - faults
        print(f"{args.path}: {len(reading.corpus)} utterances, {faults} faults, {notes} notes")
    return 1 if faults else 0


def _row(fault: Fault) -> dict[str, Any]:
    return {**asdict(fault), "file": None if fault.file is None else str(fault.file)}


def _progress(total: int) -> Callable[[int], None] | None:
    """A line on a terminal that counts the files, from the third second on."""
    if not sys.stderr.isatty():
        return None
    begin = time.monotonic()

    def show(done: int) -> None:
        if time.monotonic() - begin > 2 and (done % 100 == 0 or done == total):
            print(f"\r{done} of {total} files", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show


def _info(args: argparse.Namespace) -> int:
    summary = summarize(open_corpus(args.path), audio=not args.no_audio)
    if args.json:
        print(json.dumps(asdict(summary), indent=2))
    else:
        print("\n".join(_lines(summary)))
    return 0


def _lines(summary: Summary) -> list[str]:
    """The summary as a person reads it."""
    named = {"f": "female", "m": "male", "?": "of unknown gender"}
    speakers = ", ".join(f"{count} {named[gender]}" for gender, count in summary.speakers.items())
    lines = [
        f"{summary.name} ({summary.kind})",
        f"  utterances  {summary.utterances}, {summary.texts} with text",
        f"  speakers    {summary.speaker_count}" + (f" ({speakers})" if speakers else ""),
        "  hours       " + ("unknown" if summary.hours is None else f"{summary.hours:.2f}"),
    ]
    for title, counts in (
        ("roles", summary.roles),
        ("emotions", summary.emotions),
        ("subsets", summary.subsets),
        ("folds", summary.folds),
    ):
        if counts:
            lines.append(f"  {title:<10}  " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    if summary.trials:
        lines.append("  trials      gender  enrolled  utterances    target  nontarget")
        lines.extend(
            f"              {row.gender or '?':<6}  {row.enroll_speakers:>8}  {row.utterances:>10}"
            f"  {row.target:>8}  {row.nontarget:>9}"
            for row in summary.trials
        )
    return lines


def _convert(args: argparse.Namespace) -> int:
    corpus = open_corpus(args.path)
    written = write_corpus(corpus, args.out, args.to)
    print(f"{len(corpus)} utterances -> {', '.join(map(str, written))}")
    return 0
