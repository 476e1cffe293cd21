"""Check, describe and convert corpora, design enrollment and trial lists for them, and prepare the challenges' data.

PATH is what `voiceveil anonymize` takes: an audio file, a folder of audio, a Kaldi directory, a .csv or .jsonl
manifest, a Lhotse manifest (.jsonl.gz), or NAME:PATH for a named corpus as it is distributed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from voiceveil.cli import corpus_prepare
from voiceveil.cli.options import (
    add_json,
    add_overwrite,
    add_seed,
)
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines
from voiceveil.corpus.checking import audio_faults, read_tolerantly
from voiceveil.corpus.convert import FORMATS, write_corpus
from voiceveil.corpus.faults import Fault
from voiceveil.corpus.legal_sets import design_legal_sets
from voiceveil.corpus.model import Corpus
from voiceveil.corpus.readers import corpora, find_reader, open_corpus
from voiceveil.corpus.summary import CorpusSummary, set_sizes, summarize
from voiceveil.corpus.trial_design import RECORD, Design, TrialPlan, design_trials, write_design
from voiceveil.evaluation.protocol_writer import protocol_of_design, protocol_of_legal_sets, protocol_text
from voiceveil.run.outputs import refuse_corpora
from voiceveil.run.progress import Progress

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
examples:
  voiceveil corpus check data/libri_dev_trials_f --rate 16000 --enroll data/libri_dev_enrolls
  voiceveil corpus info librispeech:/data/LibriSpeech/dev-clean
  voiceveil corpus info data/libri_dev_trials_f --json
  voiceveil corpus convert vctk:/data/VCTK-Corpus-0.92 data/vctk --to kaldi
  voiceveil corpus convert recordings/ recordings.csv --to csv
  voiceveil corpus protocol librispeech:/data/LibriSpeech/dev-clean data --name mine_dev --enroll 12 --seed 1
  voiceveil corpus protocol commonvoice:/data/cv-corpus/en data --legal --a-minutes 2 --b-minutes 3
  voiceveil corpus prepare vpc2024 --librispeech /data/LibriSpeech --iemocap /data/IEMOCAP_full_release --out data
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|info|convert|protocol|prepare")
    check = actions.add_parser("check", help="list every fault, with its file and line; exit code 1 if there is one")
    check.add_argument("path", metavar="PATH", help="the corpus to check")
    check.add_argument("--rate", type=int, metavar="HZ", help="sampling rate that every file should have")
    check.add_argument("--enroll", metavar="PATH", help="corpus with the enrollment utterances of the trials")
    info = actions.add_parser("info", help="print speakers, genders, utterances, duration and trials")
    info.add_argument("path", metavar="PATH", help=f"named corpora: {', '.join(corpora)}")
    for action in (check, info):
        action.add_argument("--no-audio", action="store_true", help="do not open the audio files")
        add_json(action)
    convert = actions.add_parser("convert", help="write the metadata in another format; the audio stays where it is")
    convert.add_argument("path", metavar="IN", help="the corpus to convert")
    convert.add_argument(
        "out", metavar="OUT", type=Path, help="a directory for kaldi and lhotse, a file for csv and jsonl"
    )
    convert.add_argument("--to", required=True, choices=FORMATS, help="format to write")
    add_overwrite(convert)
    _add_protocol(actions.add_parser("protocol", help="design enrollment and trial lists, or legal sets A and B"))
    corpus_prepare.add_arguments(actions.add_parser("prepare", help=corpus_prepare.HELP))


def _add_protocol(protocol: argparse.ArgumentParser) -> None:
    """Declare the options of `corpus protocol`."""
    protocol.add_argument("path", metavar="CORPUS", help="corpus with speakers")
    protocol.add_argument("out", metavar="OUT", type=Path, help="folder for the Kaldi directories and protocol.toml")
    protocol.add_argument("--name", help="first part of the names of the sets (default: the name of the corpus)")
    add_seed(protocol, "all draws")
    add_overwrite(protocol)
    lists = protocol.add_argument_group("enrollment and trial lists")
    lists.add_argument(
        "--enroll",
        type=int,
        default=10,
        metavar="N",
        help="enrollment utterances of each speaker (default: %(default)s)",
    )
    lists.add_argument(
        "--trials", type=int, metavar="N", help="largest number of trial utterances of each speaker (default: all)"
    )
    lists.add_argument(
        "--impostors",
        type=int,
        default=0,
        metavar="N",
        help="speakers of each gender that are used in trials only (default: 0)",
    )
    lists.add_argument("--pooled", action="store_true", help="ignore gender: one set of trials for all")
    lists.add_argument(
        "--session",
        default="auto",
        metavar="auto|none|REGEX",
        help="regular expression whose first group is the session in an id: enrollment and trials share no session "
        "(default: auto, known corpora)",
    )
    legal = protocol.add_argument_group("legal sets")
    legal.add_argument(
        "--legal",
        action="store_true",
        help="write the sets A and B: every speaker of B is also in A, with other utterances",
    )
    for name, minutes in (("a", 2.0), ("b", 3.0)):
        legal.add_argument(
            f"--{name}-minutes",
            type=float,
            metavar="MIN",
            help=f"least speech of each speaker in {name.upper()}, in minutes (default: {minutes:g})",
        )
        legal.add_argument(
            f"--{name}-utterances",
            type=int,
            metavar="N",
            help=f"least utterances of each speaker in {name.upper()}, instead of minutes",
        )


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "check": _check,
        "info": _info,
        "convert": _convert,
        "protocol": _protocol,
        "prepare": corpus_prepare.run,
    }
    return actions[args.action](args)


def _check(args: argparse.Namespace) -> int:
    """Print the faults of the metadata at once, then those of the audio files as they are read."""
    reported: list[Fault] = []

    def report(fault: Fault) -> None:
        reported.append(fault)
        if not args.json:
            print_lines(f"{'note: ' if fault.note else ''}{fault}")

    reading = read_tolerantly(args.path, enroll=args.enroll)
    for fault in reading.faults:
        report(fault)
    if not args.no_audio:
        with Progress("checking", len(reading.corpus)) as progress:
            for fault in audio_faults(reading, args.rate, lambda done: progress.advance()):
                progress.clear()
                report(fault)
    faults = sum(not fault.note for fault in reported)
    if args.json:
        print(json.dumps({"path": args.path, "faults": [_row(fault) for fault in reported]}, indent=2))
    else:
        notes = len(reported) - faults
        print_lines(f"{args.path}: {len(reading.corpus)} utterances, {faults} faults, {notes} notes")
    return 1 if faults else 0


def _row(fault: Fault) -> dict[str, Any]:
    return {**asdict(fault), "file": None if fault.file is None else str(fault.file)}


def _info(args: argparse.Namespace) -> int:
    summary = summarize(open_corpus(args.path), audio=not args.no_audio)
    if args.json:
        print(json.dumps(asdict(summary), indent=2))
    else:
        print_lines(*_lines(summary))
    return 0


def _lines(summary: CorpusSummary) -> list[str]:
    """Return the summary as lines for a person."""
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
    refuse_corpora(args.out, [corpus], [find_reader(args.path)[1]])
    written = write_corpus(corpus, args.out, args.to, overwrite=args.overwrite)
    print_lines(f"{len(corpus)} utterances -> {', '.join(map(str, written))}")
    return 0


def _protocol(args: argparse.Namespace) -> int:
    corpus = open_corpus(args.path)
    if args.legal:
        design = _legal_design(corpus, args)
        protocol = protocol_of_legal_sets(design)
    else:
        plan = TrialPlan(args.enroll, args.trials, args.impostors, args.session, args.pooled)
        design = design_trials(corpus, plan, name=args.name, seed=args.seed)
        protocol = protocol_of_design(design)
    design = replace(design, files={"protocol.toml": protocol_text(protocol)})
    for name in (*design.sets, *design.files, RECORD):
        refuse_corpora(args.out / name, [corpus], [find_reader(args.path)[1]])
    for path in write_design(design, args.out, overwrite=args.overwrite):
        corpus_set = design.sets.get(path.name)
        print_lines(f"{path}" + ("" if corpus_set is None else f": {set_sizes(corpus_set)}"))
    if without := design.record["without_gender"]:
        fate = "in the sets too" if args.legal else "left out (--pooled includes them)"
        print_lines(f"note: {len(without)} speaker(s) of unknown gender are {fate}, e.g. {without[0]}", file=sys.stderr)
    for speaker, reason in list(design.record.get("not_enrolled", {}).items())[:1]:
        count = len(design.record["not_enrolled"])
        print_lines(f"note: {count} speaker(s) are in trials only, e.g. {speaker}: {reason}", file=sys.stderr)
    return 0


def _legal_design(corpus: Corpus, args: argparse.Namespace) -> Design:
    """Return the sets A and B, sized by minutes, or by utterances if one of these options is given."""
    minutes, counts = (args.a_minutes, args.b_minutes), (args.a_utterances, args.b_utterances)
    if counts == (None, None):
        a, b = (default if amount is None else amount for amount, default in zip(minutes, (2.0, 3.0), strict=True))
        return design_legal_sets(corpus, name=args.name, a=a, b=b, seed=args.seed)
    if None in counts or minutes != (None, None):
        raise InputError(
            "amounts of A and B of different kinds", fix="give --a-utterances and --b-utterances, or minutes for both"
        )
    return design_legal_sets(corpus, name=args.name, a=counts[0], b=counts[1], unit="utterances", seed=args.seed)
