"""`voiceveil corpus prepare`: the data of a VoicePrivacy Challenge from the corpora as they are distributed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from voiceveil.cli.options import add_out, add_overwrite
from voiceveil.core.terminal import print_lines
from voiceveil.corpus.challenge_data import prepare_challenge
from voiceveil.corpus.challenge_sets import EDITIONS, Sources
from voiceveil.corpus.summary import set_sizes
from voiceveil.evaluation.plan_counts import count_differences, word_differences
from voiceveil.evaluation.protocol import known_protocols, load_protocol

__all__ = ["HELP", "add_arguments", "run"]

HELP = "build the data of a VoicePrivacy Challenge from LibriSpeech, VCTK and IEMOCAP"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("edition", choices=EDITIONS, help="the challenge")
    parser.add_argument(
        "--librispeech",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of LibriSpeech, with SPEAKERS.TXT, dev-clean, test-clean and train-clean-360",
    )
    parser.add_argument(
        "--vctk", type=Path, metavar="DIR", help="folder of VCTK 0.92, with speaker-info.txt (2020 and 2022)"
    )
    parser.add_argument(
        "--vctk-lists",
        type=Path,
        metavar="DIR",
        help="folder of the organizers' lists: vctk_dev/enrolls_mic2, vctk_dev/trials_f_mic2, ... (2020 and 2022)",
    )
    parser.add_argument(
        "--iemocap", type=Path, metavar="DIR", help="folder of IEMOCAP, with Session1 to Session5 (2024 and 2026)"
    )
    add_out(parser, "folder for the Kaldi directories", required=True)
    parser.add_argument(
        "--partial", action="store_true", help="write the complete sets if a corpus is incomplete, instead of none"
    )
    add_overwrite(parser)


def run(args: argparse.Namespace) -> int:
    """Prepare the data; exit code 1 if nothing was written, because corpora are incomplete."""
    protocols = [load_protocol(name) for name in known_protocols() if name.partition("-")[0] == args.edition]
    prepared = prepare_challenge(
        args.edition,
        Sources(args.librispeech, args.vctk, args.vctk_lists, args.iemocap),
        args.out,
        compare=lambda sets: [difference for plan in protocols for difference in count_differences(plan, sets)],
        partial=args.partial,
        overwrite=args.overwrite,
    )
    if prepared.written:
        print_lines(*(f"{args.out / name}: {set_sizes(corpus)}" for name, corpus in prepared.sets.items()))
        notes = [f"note: {text}" for plan in protocols[:1] for text in word_differences(plan, prepared.sets)]
        notes += [f"note: {name} is not there: {why}" for name, why in prepared.not_requested.items()]
        for note in notes:
            print_lines(note, file=sys.stderr)
    if not prepared.missing:
        return 0
    print_lines(*(f"missing: {name}: {why}" for name, why in prepared.missing.items()), file=sys.stderr)
    if not prepared.written:
        advice = "" if args.partial else " Complete the corpora, or write the other sets with --partial."
        print_lines(f"voiceveil: nothing was written.{advice}", file=sys.stderr)
    return 0 if prepared.written else 1
